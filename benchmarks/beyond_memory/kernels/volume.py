from numba import cuda, int64


@cuda.jit
def volume(x, y, h, w):
    k = cuda.blockIdx.y
    p = cuda.grid(1)
    if p < h * w:
        at = int64(k * h * w + p)
        y[at] = -x[at]
