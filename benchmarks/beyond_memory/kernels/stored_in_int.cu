
extern "C" __global__ void stored_in_int(const float* x, float* y, long long rows, long long cols) {
  for (long long j = threadIdx.x; j < cols && j < 512; j += blockDim.x) {
    long long at = blockIdx.x * cols + j;
    y[at] = fabsf(x[at]);
  }
}