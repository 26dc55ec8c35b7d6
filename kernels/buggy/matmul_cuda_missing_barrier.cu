// Matrix product by tiles in shared memory with a planted bug: the next tiles are loaded while the current ones
// are still read.

constexpr int kTile = 16;         // the side of a tile
constexpr int kRows = kTile / 2;  // threads along y: each has the rows y and y + kRows of a tile

// c = a @ b for a: [m, k], b: [k, n], c: [m, n], contiguous; block [kTile, kRows], grid [ceil(n / kTile), ceil(m / kTile)].
template <class T>
__global__ void matmul(const T* a, const T* b, T* c, int m, int n, int k) {
  __shared__ T a_tile[kTile][kTile];
  __shared__ T b_tile[kTile][kTile];
  const int tx = threadIdx.x;
  const int ty = threadIdx.y;
  const int column = blockIdx.x * kTile + tx;
  const int top = blockIdx.y * kTile;

  T upper = 0;
  T lower = 0;
  for (int start = 0; start < k; start += kTile) {
    for (int i = ty; i < kTile; i += kRows) {
      a_tile[i][tx] = top + i < m && start + tx < k ? a[(top + i) * k + start + tx] : T(0);
      b_tile[i][tx] = start + i < k && column < n ? b[(start + i) * n + column] : T(0);
    }
    __syncthreads();
    for (int j = 0; j < kTile; ++j) {
      upper += a_tile[ty][j] * b_tile[j][tx];
      lower += a_tile[ty + kRows][j] * b_tile[j][tx];
    }
  }
  if (column < n) {
    if (top + ty < m) c[(top + ty) * n + column] = upper;
    if (top + ty + kRows < m) c[(top + ty + kRows) * n + column] = lower;
  }
}
