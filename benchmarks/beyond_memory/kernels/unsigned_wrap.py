from numba import cuda, int64


@cuda.jit
def windows(x, y, stride, w):
    i = cuda.blockIdx.x
    j = cuda.threadIdx.x
    if j < w:
        y[i, j] = x[int64(i * stride) + j]
