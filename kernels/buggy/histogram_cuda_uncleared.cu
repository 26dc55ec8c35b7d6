// Histogram of bytes with a planted bug: only as many counters are cleared as the block has threads.

constexpr int kBins = 256;

// counts[b] += how many elements of x[0:n] are b. counts: [kBins], cleared before. Any grid and block of one axis.
extern "C" __global__ void histogram(const unsigned char* x, unsigned int* counts, int n) {
  __shared__ unsigned int mine[kBins];
  mine[threadIdx.x] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&mine[x[i]], 1u);
  __syncthreads();
  for (int b = threadIdx.x; b < kBins; b += blockDim.x) {
    if (mine[b] > 0) atomicAdd(&counts[b], mine[b]);
  }
}

// counts[:] = 0. One thread per bin.
extern "C" __global__ void clear(unsigned int* counts) { counts[blockIdx.x * blockDim.x + threadIdx.x] = 0; }
