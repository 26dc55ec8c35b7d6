// LayerNorm with a planted bug: the variance is the mean of squares minus the square of the mean.

#include <cuda_fp16.h>

constexpr int kThreads = 128;  // of a block; the launch must use the same

// The sum of a value over the block, in all threads. scratch: kThreads / 32 floats of shared memory.
__device__ float block_sum(float value, float* scratch) {
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_down_sync(0xffffffff, value, offset);
  __syncthreads();  // all threads have read the sum before this one
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = value;
  __syncthreads();
  float sum = 0.0f;
  for (int warp = 0; warp < kThreads / 32; ++warp) sum += scratch[warp];
  return sum;
}

// y = (x - mean) / sqrt(var + eps) * weight + bias by rows: x, y: [grid, n]; weight, bias: [n]. Computes in float.
template <class T>
__global__ void layernorm(const T* x, const T* weight, const T* bias, float eps, T* y, int n) {
  __shared__ float scratch[kThreads / 32];
  x += static_cast<size_t>(blockIdx.x) * n;
  y += static_cast<size_t>(blockIdx.x) * n;

  float sum = 0.0f;
  for (int i = threadIdx.x; i < n; i += kThreads) sum += float(x[i]);
  const float mean = block_sum(sum, scratch) / n;

  float squares = 0.0f;
  for (int i = threadIdx.x; i < n; i += kThreads) {
    const float value = float(x[i]);
    squares += value * value;
  }
  const float scale = rsqrtf(block_sum(squares, scratch) / n - mean * mean + eps);

  for (int i = threadIdx.x; i < n; i += kThreads) {
    y[i] = T((float(x[i]) - mean) * scale * float(weight[i]) + float(bias[i]));
  }
}
