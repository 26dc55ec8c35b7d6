from numba import cuda, int64


@cuda.jit
def grid_1(x, y):
    i = int64(cuda.grid(1))
    if i < x.size:
        y[i] = x[i] + 1
