
// y[t, o] = sum_k x[t, k] * w[expert[t], o, k]
extern "C" __global__ void moe_weights(const float* x, const float* w, const int* expert, float* y, int K, int O) {
  int t = blockIdx.y, o = blockIdx.x * blockDim.x + threadIdx.x;
  if (o >= O) return;
  const float* row = w + (long long)expert[t] * O * K + o * K;
  float acc = 0;
  for (int k = 0; k < K; k++) acc += x[t * K + k] * row[k];
  y[t * O + o] = acc;
}