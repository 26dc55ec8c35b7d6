
extern "C" __global__ void strided_copy(const float* x, float* y, int rows, int cols, int ld) {
  int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y;
  if (j < cols) y[i * cols + j] = x[(long long)i * ld + j];
}