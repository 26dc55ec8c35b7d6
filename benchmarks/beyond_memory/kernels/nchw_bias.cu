
extern "C" __global__ void nchw_bias(const float* x, const float* b, float* y, int C, int HW) {
  int n = blockIdx.z, c = blockIdx.y, p = blockIdx.x * blockDim.x + threadIdx.x;
  if (p >= HW) return;
  long long at = ((long long)n * C + c) * HW + p;
  y[at] = x[at] + b[c];
}