from numba import cuda, int64


@cuda.jit
def rows_of(values, cols, x, y, k):
    row = cuda.grid(1)
    if row < y.size:
        start = int64(int64(row) * k)
        acc = 0.0
        for e in range(start, start + k):
            acc += values[e] * x[cols[e]]
        y[row] = acc
