// Sum of a vector by one launch with a planted bug: lanes of a warp exchange their sums through volatile shared
// memory, without a barrier of the warp.

#include <cuda_fp16.h>

constexpr int kWarps = 4;  // of a block; the launch must use 32 * kWarps threads

// The sum of a value over the 32 lanes of a warp, in all of them.
__device__ float warp_sum(float value) {
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffffffff, value, offset);
  return value;
}

// total[0] = 0: the blocks of the sum add to it.
extern "C" __global__ void clear(float* total) { total[0] = 0.0f; }

// total[0] += the sum of x[0:n]. Any grid of one axis: a thread takes every grid-th element.
template <class T>
__global__ void reduce_sum(const T* x, float* total, int n) {
  __shared__ float partial[kWarps];
  float sum = 0.0f;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += float(x[i]);

  sum = warp_sum(sum);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x < 32) {
    volatile float* lanes = partial;
    if (threadIdx.x < 2) lanes[threadIdx.x] += lanes[threadIdx.x + 2];
    if (threadIdx.x == 0) atomicAdd(total, lanes[0] + lanes[1]);
  }
}
