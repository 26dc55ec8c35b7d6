from numba import cuda, int64


@cuda.jit
def pairs(p, out, n):
    i = cuda.blockIdx.y * 16 + cuda.threadIdx.y
    j = cuda.blockIdx.x * 16 + cuda.threadIdx.x
    if i < n and j < n:
        d = p[i] - p[j]
        out[int64(i * n + j)] = d * d
