// One step of a radix sort: keys and values sorted by four bits of the keys; the sort is stable.

constexpr int kDigits = 16;
constexpr int kWarps = 4;
constexpr int kThreads = 32 * kWarps;  // of the block, and elements of a tile

// Sorts keys and values, [n], by the bits shift to shift + 3 of the keys. One block of kThreads threads.
extern "C" __global__ void radix_step(const unsigned* keys, const unsigned* values, unsigned* sorted_keys,
                                      unsigned* sorted_values, int n, int shift) {
  __shared__ int start[kDigits];          // where the next element of each digit goes
  __shared__ int found[kWarps][kDigits];  // in the tile, by warp
  const int t = threadIdx.x;
  const int warp = t / 32;

  if (t < kDigits) start[t] = 0;
  __syncthreads();
  for (int i = t; i < n; i += kThreads) atomicAdd(&start[keys[i] >> shift & (kDigits - 1)], 1);
  __syncthreads();
  if (t == 0) {
    int sum = 0;
    for (int d = 0; d < kDigits; ++d) {
      const int count = start[d];
      start[d] = sum;
      sum += count;
    }
  }
  __syncthreads();

  for (int tile = 0; tile < n; tile += kThreads) {
    const int i = tile + t;
    const bool inside = i < n;
    const unsigned key = inside ? keys[i] : 0;
    const int digit = key >> shift & (kDigits - 1);
    unsigned peers = 0;  // lanes of the warp with the same digit
    for (int d = 0; d < kDigits; ++d) {
      const unsigned lanes = __ballot_sync(0xffffffff, inside && digit == d);
      if (digit == d) peers = lanes;
      if (t % 32 == 0) found[warp][d] = __popc(lanes);
    }
    __syncthreads();
    if (inside) {
      int place = start[digit] + __popc(peers & ((1u << t % 32) - 1));
      for (int w = 0; w < warp; ++w) place += found[w][digit];
      sorted_keys[place] = key;
      sorted_values[place] = values[i];
    }
    __syncthreads();  // all places of the tile are taken
    if (t < kDigits) {
      for (int w = 0; w < kWarps; ++w) start[t] += found[w][t];
    }
    __syncthreads();
  }
}
