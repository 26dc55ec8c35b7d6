"""Kernels as tutorials, papers and public programs write them, for ``wide.py``: plain indexing, no tuning.

``wide_plain.py`` has the same algorithms as ordinary ``@njit`` functions, with the same names and arguments.
"""

import math

import numpy as np
from numba import cuda, float32, int32
from numba.cuda.random import xoroshiro128p_uniform_float32

TAPS = 9  # of the convolution
BINS = 64
TILE, PADDED, ROWS = 32, 33, 8  # of the transpose: a tile with a free column, and its rows per pass
THREADS = 256  # per block of the reductions
SCANNED = 512  # elements per block of the prefix sums, two for each thread
SORTED = 512  # elements per block of the sort
SIDE, FREE = 16, 17  # of the tiles of points, with a free column


@cuda.jit
def stencil_rows(a, out):
    """x is the row, as in Numba's documentation."""
    i, j = cuda.grid(2)
    n, m = a.shape
    if 1 <= i < n - 1 and 1 <= j < m - 1:
        out[i, j] = float32(0.25) * (a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1])


@cuda.jit
def stencil_columns(a, out):
    """The same with x as the column."""
    j, i = cuda.grid(2)
    n, m = a.shape
    if 0 < i < n - 1 and 0 < j < m - 1:
        out[i, j] = float32(0.25) * (a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1])


@cuda.jit
def convolution(x, taps, out):
    window = cuda.local.array(TAPS, dtype=float32)
    i = cuda.grid(1)
    if i < out.size:
        for k in range(TAPS):
            window[k] = x[i + k]
        total = float32(0.0)
        for k in range(TAPS):
            total += window[k] * taps[k]
        out[i] = total


@cuda.jit
def histogram(x, low, high, bins):
    start, step = cuda.grid(1), cuda.gridsize(1)
    width = (high - low) / bins.shape[0]
    for i in range(start, x.shape[0], step):
        k = int32((x[i] - low) / width)
        if k >= 0 and k < bins.shape[0]:
            cuda.atomic.add(bins, k, 1)


@cuda.jit
def scatter_add(values, where, out):
    i = cuda.grid(1)
    if i < values.size:
        cuda.atomic.add(out, where[i], values[i])


@cuda.jit
def spmv(data, columns, starts, x, y):
    """CSR, a thread a row."""
    row = cuda.grid(1)
    if row < y.shape[0]:
        total = float32(0.0)
        for k in range(starts[row], starts[row + 1]):
            total += data[k] * x[columns[k]]
        y[row] = total


@cuda.jit
def row_sums(a, out):
    """A thread a row."""
    i = cuda.grid(1)
    if i < a.shape[0]:
        total = float32(0.0)
        for j in range(a.shape[1]):
            total += a[i, j]
        out[i] = total


@cuda.jit
def transpose(a, out):
    """32 x 8 threads on a tile of 32 x 33, square matrices whose side is a multiple of 32."""
    tile = cuda.shared.array((TILE, PADDED), dtype=float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    x = cuda.blockIdx.x * TILE + tx
    y = cuda.blockIdx.y * TILE + ty
    for k in range(0, TILE, ROWS):
        tile[ty + k, tx] = a[y + k, x]
    cuda.syncthreads()
    x = cuda.blockIdx.y * TILE + tx
    y = cuda.blockIdx.x * TILE + ty
    for k in range(0, TILE, ROWS):
        out[y + k, x] = tile[tx, ty + k]


@cuda.jit
def matmul(a, b, c):
    """As in Numba's documentation: x is the row."""
    i, j = cuda.grid(2)
    if i < c.shape[0] and j < c.shape[1]:
        total = float32(0.0)
        for k in range(a.shape[1]):
            total += a[i, k] * b[k, j]
        c[i, j] = total


@cuda.jit
def layer_norm(x, weight, bias, eps, out):
    """A warp a row."""
    row = cuda.blockIdx.x * cuda.blockDim.y + cuda.threadIdx.y
    lane = cuda.threadIdx.x
    n = x.shape[1]
    if row < x.shape[0]:
        total = float32(0.0)
        squares = float32(0.0)
        for j in range(lane, n, 32):
            v = x[row, j]
            total += v
            squares += v * v
        offset = 16
        while offset > 0:
            total += cuda.shfl_xor_sync(0xFFFFFFFF, total, offset)
            squares += cuda.shfl_xor_sync(0xFFFFFFFF, squares, offset)
            offset //= 2
        mean = total / float32(n)
        scale = float32(1.0) / math.sqrt(squares / float32(n) - mean * mean + eps)
        for j in range(lane, n, 32):
            out[row, j] = (x[row, j] - mean) * scale * weight[j] + bias[j]


@cuda.jit
def life(cells, out):
    """int8, the edges joined."""
    x, y = cuda.grid(2)
    h, w = cells.shape
    if x < w and y < h:
        alive = 0
        for dy in range(-1, 2):
            for dx in range(-1, 2):
                if dx != 0 or dy != 0:
                    alive += cells[(y + dy + h) % h, (x + dx + w) % w]
        out[y, x] = 1 if alive == 3 or (alive == 2 and cells[y, x] == 1) else 0


@cuda.jit
def hashed(x, out):
    """The finalizer of MurmurHash3."""
    i = cuda.grid(1)
    if i < x.size:
        h = x[i]
        h ^= h >> np.uint32(16)
        h = np.uint32(h * np.uint32(0x85EBCA6B))
        h ^= h >> np.uint32(13)
        h = np.uint32(h * np.uint32(0xC2B2AE35))
        h ^= h >> np.uint32(16)
        out[i] = h


@cuda.jit(device=True)
def _escapes(x, y, most):
    c = complex(x, y)
    z = 0.0j
    for i in range(most):
        z = z * z + c
        if (z.real * z.real + z.imag * z.imag) >= 4:
            return i
    return 255


@cuda.jit
def mandelbrot(min_x, max_x, min_y, max_y, image, most):
    height, width = image.shape
    x, y = cuda.grid(2)
    if x < width and y < height:
        real = min_x + x * ((max_x - min_x) / width)
        imaginary = min_y + y * ((max_y - min_y) / height)
        image[y, x] = _escapes(real, imaginary, most)


@cuda.jit
def bitonic_sort(x, out):
    """Each block sorts its elements in shared memory, a thread for each."""
    shared = cuda.shared.array(SORTED, dtype=float32)
    t = cuda.threadIdx.x
    i = cuda.blockIdx.x * SORTED + t
    shared[t] = x[i]
    cuda.syncthreads()
    k = 2
    while k <= SORTED:
        j = k // 2
        while j > 0:
            other = t ^ j
            if other > t:
                up = (t & k) == 0
                if (shared[t] > shared[other]) == up:
                    shared[t], shared[other] = shared[other], shared[t]
            cuda.syncthreads()
            j //= 2
        k *= 2
    out[i] = shared[t]


@cuda.jit(device=True)
def _normal(d):
    k = 1.0 / (1.0 + 0.2316419 * math.fabs(d))
    tail = k * (0.31938153 + k * (-0.356563782 + k * (1.781477937 + k * (-1.821255978 + k * 1.330274429))))
    value = 0.39894228040143267794 * math.exp(-0.5 * d * d) * tail
    return 1.0 - value if d > 0 else value


@cuda.jit
def black_scholes(call, put, price, strike, years, rate, volatility):
    i = cuda.grid(1)
    if i >= price.shape[0]:
        return
    root = math.sqrt(years[i])
    d1 = (math.log(price[i] / strike[i]) + (rate + 0.5 * volatility * volatility) * years[i]) / (volatility * root)
    d2 = d1 - volatility * root
    discount = math.exp(-rate * years[i])
    call[i] = price[i] * _normal(d1) - strike[i] * discount * _normal(d2)
    put[i] = strike[i] * discount * (1.0 - _normal(d2)) - price[i] * (1.0 - _normal(d1))


@cuda.jit
def nbody(position, mass, softening, force):
    i = cuda.grid(1)
    if i < position.shape[0]:
        fx = fy = fz = float32(0.0)
        for j in range(position.shape[0]):
            dx = position[j, 0] - position[i, 0]
            dy = position[j, 1] - position[i, 1]
            dz = position[j, 2] - position[i, 2]
            inverse = float32(1.0) / math.sqrt(dx * dx + dy * dy + dz * dz + softening)
            s = mass[j] * inverse * inverse * inverse
            fx += s * dx
            fy += s * dy
            fz += s * dz
        force[i, 0] = fx
        force[i, 1] = fy
        force[i, 2] = fz


@cuda.jit
def saxpy(a, x, y, out):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        out[i] = a * x[i] + y[i]


@cuda.jit
def block_sums(x, out):
    partial = cuda.shared.array(THREADS, dtype=float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    partial[t] = x[i] if i < x.size else float32(0.0)
    cuda.syncthreads()
    s = cuda.blockDim.x // 2
    while s > 0:
        if t < s:
            partial[t] += partial[t + s]
        cuda.syncthreads()
        s //= 2
    if t == 0:
        out[cuda.blockIdx.x] = partial[0]


@cuda.jit
def prefix_sums(x, out):
    """Exclusive, in each block (Blelloch)."""
    temp = cuda.shared.array(SCANNED, dtype=float32)
    t = cuda.threadIdx.x
    base = cuda.blockIdx.x * SCANNED
    temp[2 * t] = x[base + 2 * t]
    temp[2 * t + 1] = x[base + 2 * t + 1]
    offset = 1
    d = SCANNED // 2
    while d > 0:
        cuda.syncthreads()
        if t < d:
            temp[offset * (2 * t + 2) - 1] += temp[offset * (2 * t + 1) - 1]
        offset *= 2
        d //= 2
    if t == 0:
        temp[SCANNED - 1] = 0.0
    d = 1
    while d < SCANNED:
        offset //= 2
        cuda.syncthreads()
        if t < d:
            left = offset * (2 * t + 1) - 1
            right = offset * (2 * t + 2) - 1
            value = temp[left]
            temp[left] = temp[right]
            temp[right] += value
        d *= 2
    cuda.syncthreads()
    out[base + 2 * t] = temp[2 * t]
    out[base + 2 * t + 1] = temp[2 * t + 1]


@cuda.jit
def nearest_center(points, centers, labels):
    """The assignment of k-means."""
    i = cuda.grid(1)
    if i < points.shape[0]:
        least = float32(1e30)
        label = 0
        for k in range(centers.shape[0]):
            distance = float32(0.0)
            for d in range(points.shape[1]):
                delta = points[i, d] - centers[k, d]
                distance += delta * delta
            if distance < least:
                least = distance
                label = k
        labels[i] = label


@cuda.jit
def floyd_warshall(distance, k, out):
    """The paths through vertex k."""
    i, j = cuda.grid(2)
    if i < distance.shape[0] and j < distance.shape[1]:
        through = distance[i, k] + distance[k, j]
        out[i, j] = through if through < distance[i, j] else distance[i, j]


@cuda.jit
def gray(image, out):
    """image: uint8[H, W, 3]."""
    x, y = cuda.grid(2)
    if y < image.shape[0] and x < image.shape[1]:
        r, g, b = image[y, x, 0], image[y, x, 1], image[y, x, 2]
        out[y, x] = float32(0.299) * r + float32(0.587) * g + float32(0.114) * b


@cuda.jit
def heat(u, alpha, out):
    """A step of the heat equation; x is the slowest axis."""
    i, j, k = cuda.grid(3)
    nx, ny, nz = u.shape
    if 0 < i < nx - 1 and 0 < j < ny - 1 and 0 < k < nz - 1:
        around = (
            u[i - 1, j, k] + u[i + 1, j, k] + u[i, j - 1, k] + u[i, j + 1, k] + u[i, j, k - 1] + u[i, j, k + 1]
        )
        out[i, j, k] = u[i, j, k] + alpha * (around - float32(6.0) * u[i, j, k])


@cuda.jit
def monte_carlo_pi(states, rounds, out):
    thread = cuda.grid(1)
    inside = 0
    for _ in range(rounds):
        x = xoroshiro128p_uniform_float32(states, thread)
        y = xoroshiro128p_uniform_float32(states, thread)
        if x**2 + y**2 <= 1.0:
            inside += 1
    out[thread] = 4.0 * inside / rounds


@cuda.jit
def softmax(x, out):
    """A block a row; the tree reductions have a thread for each of 256 columns or more."""
    partial = cuda.shared.array(THREADS, dtype=float32)
    row, t, n = cuda.blockIdx.x, cuda.threadIdx.x, x.shape[1]
    largest = float32(-1e30)
    for j in range(t, n, THREADS):
        largest = max(largest, x[row, j])
    partial[t] = largest
    cuda.syncthreads()
    s = THREADS // 2
    while s > 0:
        if t < s:
            partial[t] = max(partial[t], partial[t + s])
        cuda.syncthreads()
        s //= 2
    largest = partial[0]
    cuda.syncthreads()
    total = float32(0.0)
    for j in range(t, n, THREADS):
        e = math.exp(x[row, j] - largest)
        out[row, j] = e
        total += e
    partial[t] = total
    cuda.syncthreads()
    s = THREADS // 2
    while s > 0:
        if t < s:
            partial[t] += partial[t + s]
        cuda.syncthreads()
        s //= 2
    for j in range(t, n, THREADS):
        out[row, j] /= partial[0]


@cuda.jit
def resize(image, out):
    """Bilinear."""
    x, y = cuda.grid(2)
    h, w = out.shape
    if x < w and y < h:
        fx = x * float32(image.shape[1] - 1) / float32(w - 1)
        fy = y * float32(image.shape[0] - 1) / float32(h - 1)
        x0, y0 = int(fx), int(fy)
        x1, y1 = min(x0 + 1, image.shape[1] - 1), min(y0 + 1, image.shape[0] - 1)
        dx, dy = float32(fx - x0), float32(fy - y0)
        top = image[y0, x0] * (float32(1.0) - dx) + image[y0, x1] * dx
        low = image[y1, x0] * (float32(1.0) - dx) + image[y1, x1] * dx
        out[y, x] = top * (float32(1.0) - dy) + low * dy


@cuda.jit
def pairwise_distances(x, y, out):
    """Tiles of both sets of points in shared memory, with a free column against bank conflicts."""
    left = cuda.shared.array((SIDE, FREE), dtype=float32)
    right = cuda.shared.array((SIDE, FREE), dtype=float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    i = cuda.blockIdx.y * SIDE + ty
    j = cuda.blockIdx.x * SIDE + tx
    near = cuda.blockIdx.x * SIDE + ty
    total = float32(0.0)
    for first in range(0, x.shape[1], SIDE):
        k = first + tx
        left[ty, tx] = x[i, k] if i < x.shape[0] and k < x.shape[1] else float32(0.0)
        right[ty, tx] = y[near, k] if near < y.shape[0] and k < y.shape[1] else float32(0.0)
        cuda.syncthreads()
        for s in range(SIDE):
            delta = left[ty, s] - right[tx, s]
            total += delta * delta
        cuda.syncthreads()
    if i < x.shape[0] and j < y.shape[0]:
        out[i, j] = math.sqrt(total)


@cuda.jit
def tridiagonal(lower, diagonal, upper, right, work, out):
    """Thomas' algorithm, a system for each thread."""
    s = cuda.grid(1)
    if s < right.shape[0]:
        n = right.shape[1]
        work[s, 0] = upper[s, 0] / diagonal[s, 0]
        out[s, 0] = right[s, 0] / diagonal[s, 0]
        for k in range(1, n):
            scale = diagonal[s, k] - lower[s, k] * work[s, k - 1]
            work[s, k] = upper[s, k] / scale
            out[s, k] = (right[s, k] - lower[s, k] * out[s, k - 1]) / scale
        for k in range(n - 2, -1, -1):
            out[s, k] -= work[s, k] * out[s, k + 1]


@cuda.jit
def int8_matmul(a, transposed, out):
    """Products of bytes; the second matrix is transposed, so that both are read along their rows."""
    j, i = cuda.grid(2)
    if i < out.shape[0] and j < out.shape[1]:
        total = int32(0)
        for k in range(a.shape[1]):
            total += int32(a[i, k]) * int32(transposed[j, k])
        out[i, j] = total


@cuda.jit
def center_sums(points, labels, sums, counts):
    """The update of k-means: sums of the points of each center, by atomics."""
    i = cuda.grid(1)
    if i < points.shape[0]:
        for d in range(points.shape[1]):
            cuda.atomic.add(sums, (labels[i], d), points[i, d])
        cuda.atomic.add(counts, labels[i], 1)
