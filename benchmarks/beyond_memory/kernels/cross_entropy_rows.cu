
#include <math_constants.h>
extern "C" __global__ void cross_entropy_rows(const float* logits, const int* target, float* loss, int V) {
  __shared__ float best[128];
  const float* row = logits + (long long)blockIdx.x * V;
  float m = -CUDART_INF_F;
  for (int j = threadIdx.x; j < V; j += 128) m = fmaxf(m, row[j]);
  best[threadIdx.x] = m; __syncthreads();
  for (int k = 64; k; k >>= 1) { if (threadIdx.x < k) best[threadIdx.x] = fmaxf(best[threadIdx.x], best[threadIdx.x + k]); __syncthreads(); }
  m = best[0]; __syncthreads();
  float s = 0;
  for (int j = threadIdx.x; j < V; j += 128) s += expf(row[j] - m);
  best[threadIdx.x] = s; __syncthreads();
  for (int k = 64; k; k >>= 1) { if (threadIdx.x < k) best[threadIdx.x] += best[threadIdx.x + k]; __syncthreads(); }
  if (threadIdx.x == 0) loss[blockIdx.x] = logf(best[0]) + m - row[target[blockIdx.x]];
}