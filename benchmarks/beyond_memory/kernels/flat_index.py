from numba import cuda, int64


@cuda.jit
def flat(x, y, n):
    i = cuda.blockIdx.x
    j = cuda.threadIdx.x
    while j < n:
        at = int64(int64(i) * n + j)
        y[at] = 2 * x[at]
        j += cuda.blockDim.x
