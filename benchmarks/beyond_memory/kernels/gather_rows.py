from numba import cuda, int64


@cuda.jit
def gather(x, idx, y, d):
    t = cuda.blockIdx.x
    base = int64(idx[t] * d)
    j = cuda.threadIdx.x
    while j < d:
        y[t, j] = x[base + j]
        j += cuda.blockDim.x
