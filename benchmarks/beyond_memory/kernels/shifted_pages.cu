
extern "C" __global__ void shifted_pages(const float* x, const int* page, float* y) {
  long long at = ((long long)page[blockIdx.x] << 12) + threadIdx.x;
  y[blockIdx.x * blockDim.x + threadIdx.x] = x[at];
}