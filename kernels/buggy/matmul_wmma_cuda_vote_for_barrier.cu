// Matrix product of 16-bit floats through wmma with a planted bug: a vote stands where the lanes have to wait for
// each other's part of the tiles.

#include <cuda_fp16.h>
#include <mma.h>

constexpr int kTile = 16;

// c = a @ b for a: [m, k], b: [k, n] of __half, c: [m, n] of float, contiguous.
// Block [32], grid [ceil(n / kTile), ceil(m / kTile)].
extern "C" __global__ void matmul(const __half* a, const __half* b, float* c, int m, int n, int k) {
  using namespace nvcuda;
  __shared__ __half a_tile[kTile * kTile];
  __shared__ __half b_tile[kTile * kTile];
  __shared__ float c_tile[kTile * kTile];
  const int top = blockIdx.y * kTile;
  const int left = blockIdx.x * kTile;

  wmma::fragment<wmma::accumulator, kTile, kTile, kTile, float> sum;
  wmma::fill_fragment(sum, 0.0f);
  for (int start = 0; start < k; start += kTile) {
    // Tiles at the edges are padded with zeros, because wmma has no mask.
    for (int i = threadIdx.x; i < kTile * kTile; i += 32) {
      const int row = i / kTile;
      const int column = i % kTile;
      a_tile[i] = top + row < m && start + column < k ? a[(top + row) * k + start + column] : __half(0.0f);
      b_tile[i] = start + row < k && left + column < n ? b[(start + row) * n + left + column] : __half(0.0f);
    }
    if (!__any_sync(0xffffffff, start < k)) break;
    wmma::fragment<wmma::matrix_a, kTile, kTile, kTile, __half, wmma::row_major> x;
    wmma::fragment<wmma::matrix_b, kTile, kTile, kTile, __half, wmma::row_major> y;
    wmma::load_matrix_sync(x, a_tile, kTile);
    wmma::load_matrix_sync(y, b_tile, kTile);
    wmma::mma_sync(sum, x, y, sum);
    __syncwarp();  // the tiles are read before the next ones are loaded
  }
  wmma::store_matrix_sync(c_tile, sum, kTile, wmma::mem_row_major);
  __syncwarp();
  for (int i = threadIdx.x; i < kTile * kTile; i += 32) {
    const int row = top + i / kTile;
    const int column = left + i % kTile;
    if (row < m && column < n) c[row * n + column] = c_tile[i];
  }
}
