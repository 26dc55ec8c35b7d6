
extern "C" __global__ void count_positive(const signed char* x, unsigned long long* total, long long n) {
  long long i = (long long)blockIdx.x * blockDim.x * 4 + threadIdx.x;
  unsigned c = 0;
  for (int k = 0; k < 4; k++, i += blockDim.x) if (i < n) c += x[i] > 0;
  if (c) atomicAdd(total, (unsigned long long)c);
}