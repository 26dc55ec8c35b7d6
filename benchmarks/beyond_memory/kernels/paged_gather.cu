
// k_cache: [pages, 16, heads, dim]
extern "C" __global__ void paged_gather(const float* cache, const int* table, float* out, int blocks_per_seq, int heads, int dim) {
  int seq = blockIdx.x, pos = blockIdx.y;
  int page = table[seq * blocks_per_seq + pos / 16];
  long long base = ((long long)page * 16 + pos % 16) * heads * dim;
  for (int j = threadIdx.x; j < heads * dim; j += blockDim.x)
    out[((long long)seq * gridDim.y + pos) * heads * dim + j] = cache[base + j];
}