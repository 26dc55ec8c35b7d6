
extern "C" __global__ void scale_rows(const float* x, const float* s, float* y, int rows, int cols) {
  int row = blockIdx.x;
  if (row >= rows) return;
  for (int j = threadIdx.x; j < cols; j += blockDim.x) y[(long long)row * cols + j] = s[row] * x[(long long)row * cols + j];
}