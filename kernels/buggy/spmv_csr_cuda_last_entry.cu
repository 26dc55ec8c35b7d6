// Sparse matrix times vector with a planted bug: the last entry of each row is skipped.

constexpr int kLanes = 8;  // of a row; a divisor of 32

// y = A @ x for A of [rows, _] in CSR form: offsets: [rows + 1], columns and values: [entries].
// Any block of one axis of whole warps; grid [ceil(rows * kLanes / block)].
template <class T>
__global__ void spmv(const int* offsets, const int* columns, const T* values, const T* x, T* y, int rows) {
  const int row = (blockIdx.x * blockDim.x + threadIdx.x) / kLanes;
  const int lane = threadIdx.x % kLanes;
  T sum = 0;
  if (row < rows) {
    for (int i = offsets[row] + lane; i < offsets[row + 1] - 1; i += kLanes) sum += values[i] * x[columns[i]];
  }
  // All lanes of the warp take part, those beyond the last row too.
  for (int offset = kLanes / 2; offset > 0; offset /= 2) sum += __shfl_down_sync(0xffffffff, sum, offset, kLanes);
  if (row < rows && lane == 0) y[row] = sum;
}
