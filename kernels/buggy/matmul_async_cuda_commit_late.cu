// Matrix product by asynchronous copies with a planted bug: the copies are committed after the wait, which
// does not wait for them.

#include <cuda_pipeline.h>

constexpr int kTile = 16;  // the side of a tile; a block has kTile * kTile / 4 threads
constexpr int kStages = 2;
constexpr int kVector = 4;  // floats that a thread copies at once

// Starts copying a tile of a matrix of [rows, columns] from (top, left); what is outside becomes 0. columns: a multiple
// of kVector, so that four floats are inside or outside together.
__device__ void fetch(float (*tile)[kTile], const float* from, int rows, int columns, int top, int left) {
  const int row = threadIdx.x / (kTile / kVector);
  const int column = threadIdx.x % (kTile / kVector) * kVector;
  const bool inside = top + row < rows && left + column < columns;
  const float* source = inside ? from + (top + row) * columns + left + column : from;
  __pipeline_memcpy_async(&tile[row][column], source, sizeof(float4), inside ? 0 : sizeof(float4));
}

// c = a @ b for a: [m, k], b: [k, n], c: [m, n], contiguous, with n and k multiples of kVector.
// Block [kTile * kTile / 4], grid [ceil(n / kTile), ceil(m / kTile)].
extern "C" __global__ void matmul(const float* a, const float* b, float* c, int m, int n, int k) {
  __shared__ alignas(16) float a_tile[kStages][kTile][kTile];
  __shared__ alignas(16) float b_tile[kStages][kTile][kTile];
  const int top = blockIdx.y * kTile;
  const int left = blockIdx.x * kTile;
  const int column = threadIdx.x % kTile;
  const int row = threadIdx.x / kTile;  // and every fourth row from there
  const int steps = (k + kTile - 1) / kTile;

  for (int step = 0; step < kStages - 1; ++step) {
    fetch(a_tile[step], a, m, k, top, step * kTile);
    fetch(b_tile[step], b, k, n, step * kTile, left);
    __pipeline_commit();
  }
  float sums[4] = {0.0f, 0.0f, 0.0f, 0.0f};
  for (int step = 0; step < steps; ++step) {
    const int next = step + kStages - 1;
    fetch(a_tile[next % kStages], a, m, k, top, next * kTile);
    fetch(b_tile[next % kStages], b, k, n, next * kTile, left);
    __pipeline_wait_prior(kStages - 1);  // this thread's copies of the current tiles are complete
    __pipeline_commit();
    __syncthreads();                     // and so are those of all other threads
    for (int j = 0; j < kTile; ++j) {
      for (int i = 0; i < 4; ++i) sums[i] += a_tile[step % kStages][row + 4 * i][j] * b_tile[step % kStages][j][column];
    }
    __syncthreads();  // the tiles are read before the next copies overwrite them
  }
  for (int i = 0; i < 4; ++i) {
    if (top + row + 4 * i < m && left + column < n) c[(top + row + 4 * i) * n + left + column] = sums[i];
  }
}
