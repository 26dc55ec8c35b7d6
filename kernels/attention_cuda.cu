// Attention in one pass over the keys: one warp per query, keys and values in shared memory, a running softmax.

#include <cuda_fp16.h>

constexpr int kWarps = 4;  // queries of a block
constexpr int kKeys = 32;  // keys of a tile: one per lane
constexpr unsigned kAll = 0xffffffff;

// The largest value of the 32 lanes of a warp, or their sum; in all of them.
__device__ float warp_max(float value) {
  for (int offset = 16; offset > 0; offset /= 2) value = fmaxf(value, __shfl_xor_sync(kAll, value, offset));
  return value;
}
__device__ float warp_sum(float value) {
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(kAll, value, offset);
  return value;
}

// out = softmax(scale * q @ k.T) @ v for q, k, v, out: [batches, n, D], contiguous, D at most 32. Computes in float.
// Block [32, kWarps], grid [ceil(n / kWarps), batches].
template <class T, int D>
__global__ void attention(const T* q, const T* k, const T* v, float scale, T* out, int n) {
  __shared__ float key[kKeys][D + 1];  // padded by one, so that lanes that read a column use different banks
  __shared__ float value[kKeys][D];
  __shared__ float query[kWarps][D];
  const int lane = threadIdx.x;
  const int row = blockIdx.x * kWarps + threadIdx.y;
  const size_t batch = static_cast<size_t>(blockIdx.y) * n;
  if (row < n && lane < D) query[threadIdx.y][lane] = float(q[(batch + row) * D + lane]) * scale;

  float highest = -INFINITY;
  float total = 0.0f;
  float sum = 0.0f;  // of element `lane` of the result
  for (int start = 0; start < n; start += kKeys) {
    const int keys = min(kKeys, n - start);
    for (int i = threadIdx.y * 32 + lane; i < keys * D; i += 32 * kWarps) {
      key[i / D][i % D] = float(k[(batch + start) * D + i]);
      value[i / D][i % D] = float(v[(batch + start) * D + i]);
    }
    __syncthreads();
    if (row < n) {
      float score = -INFINITY;
      if (lane < keys) {
        score = 0.0f;
        for (int d = 0; d < D; ++d) score += query[threadIdx.y][d] * key[lane][d];
      }
      const float above = fmaxf(highest, warp_max(score));
      const float rescale = expf(highest - above);  // the sums so far are relative to the old maximum
      const float weight = expf(score - above);
      highest = above;
      total = total * rescale + warp_sum(weight);
      sum *= rescale;
      for (int j = 0; j < keys; ++j) {
        const float w = __shfl_sync(kAll, weight, j);
        if (lane < D) sum += w * value[j][lane];
      }
    }
    __syncthreads();  // the tiles are read before the next ones are loaded
  }
  if (row < n && lane < D) out[(batch + row) * D + lane] = T(sum / total);
}
