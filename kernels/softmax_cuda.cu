// Row softmax: one warp per row, online, so that a row is read twice instead of three times.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

constexpr unsigned kAll = 0xffffffff;  // the lanes of a warp

// y[i, :] = exp(x[i, :] - max(x[i, :])) / sum for x, y: [rows, columns], contiguous. Computes in float.
// Launch with kRows rows per block: block [32, kRows], grid [ceil(rows / kRows)].
template <class T, int kRows>
__global__ void softmax(const T* x, T* y, int rows, int columns) {
  const int row = blockIdx.x * kRows + threadIdx.y;
  if (row >= rows) return;  // the whole warp returns
  x += static_cast<size_t>(row) * columns;
  y += static_cast<size_t>(row) * columns;

  // Each lane: the maximum of its columns, and the sum of their exponentials relative to it.
  float highest = -INFINITY;
  float total = 0.0f;
  for (int i = threadIdx.x; i < columns; i += 32) {
    const float value = float(x[i]);
    const float above = fmaxf(highest, value);
    if (above > -INFINITY) total = total * expf(highest - above) + expf(value - above);
    highest = above;
  }
  // Two partial sums are brought to the larger of their maxima, then added.
  for (int offset = 16; offset > 0; offset /= 2) {
    const float other_highest = __shfl_xor_sync(kAll, highest, offset);
    const float other_total = __shfl_xor_sync(kAll, total, offset);
    const float above = fmaxf(highest, other_highest);
    if (above > -INFINITY) total = total * expf(highest - above) + other_total * expf(other_highest - above);
    highest = above;
  }
  for (int i = threadIdx.x; i < columns; i += 32) y[i] = T(expf(float(x[i]) - highest) / total);
}
