// Histogram of bytes: each block counts in shared memory, then adds its counts to the result.

constexpr int kBins = 256;

// counts[b] += how many elements of x[0:n] are b. counts: [kBins], cleared before. Any grid and block of one axis.
extern "C" __global__ void histogram(const unsigned char* x, unsigned int* counts, int n) {
  __shared__ unsigned int mine[kBins];
  for (int b = threadIdx.x; b < kBins; b += blockDim.x) mine[b] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&mine[x[i]], 1u);
  __syncthreads();
  for (int b = threadIdx.x; b < kBins; b += blockDim.x) {
    if (mine[b] > 0) atomicAdd(&counts[b], mine[b]);
  }
}

// counts[:] = 0. One thread per bin.
extern "C" __global__ void clear(unsigned int* counts) { counts[blockIdx.x * blockDim.x + threadIdx.x] = 0; }
