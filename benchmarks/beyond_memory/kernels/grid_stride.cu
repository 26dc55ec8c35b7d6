
extern "C" __global__ void grid_stride(const float* x, float* y, long long n) {
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (long long)gridDim.x * blockDim.x)
    y[i] = x[i] > 0 ? x[i] : 0.01f * x[i];
}