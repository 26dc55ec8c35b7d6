// One step of the heat equation, read through a texture, with a planted bug: rows
// and columns are swapped in the texture.

// v = u + rate * (the sum of the four neighbors - 4 * u). u: a texture of [height, width] with border addressing; v: [height,
// width]. One thread per element; grid and block of two axes.
extern "C" __global__ void stencil(cudaTextureObject_t u, float rate, float* v, int height, int width) {
  const int column = blockIdx.x * blockDim.x + threadIdx.x;
  const int row = blockIdx.y * blockDim.y + threadIdx.y;
  if (row >= height || column >= width) return;
  // Sample at the center of an element: between two of them, a linear filter would mix both.
  const float x = column + 0.5f;
  const float y = row + 0.5f;
  const float center = tex2D<float>(u, y, x);
  const float sides = tex2D<float>(u, y - 1, x) + tex2D<float>(u, y + 1, x);
  const float ends = tex2D<float>(u, y, x - 1) + tex2D<float>(u, y, x + 1);
  v[row * width + column] = center + rate * (sides + ends - 4 * center);
}
