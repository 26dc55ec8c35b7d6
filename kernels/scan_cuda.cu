// Running sums of rows by CUB: one block per row, which scans one tile after another with a carry.

#include <cub/block/block_scan.cuh>

constexpr int kThreads = 64;  // of a block, and elements of a tile; the launch must use the same

// y[i, j] = the sum of x[i, 0 : j + 1]. x, y: [grid, n], contiguous.
extern "C" __global__ void scan(const float* x, float* y, int n) {
  using Scan = cub::BlockScan<float, kThreads, cub::BLOCK_SCAN_WARP_SCANS>;
  __shared__ typename Scan::TempStorage storage;
  x += static_cast<size_t>(blockIdx.x) * n;
  y += static_cast<size_t>(blockIdx.x) * n;

  float carry = 0.0f;  // the sum of the tiles before
  for (int start = 0; start < n; start += kThreads) {
    const int i = start + threadIdx.x;
    const float value = i < n ? x[i] : 0.0f;
    float running;
    float total;
    Scan(storage).InclusiveSum(value, running, total);
    if (i < n) y[i] = carry + running;
    carry += total;
    __syncthreads();  // the storage is used again for the next tile
  }
}
