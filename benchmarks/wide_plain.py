"""The algorithms of ``wide_kernels.py`` as plain ``@njit`` functions, with the same names and arguments."""

import math

import numpy as np
from numba import float32, int32, njit

TAPS, SCANNED, SORTED, THREADS = 9, 512, 512, 256


@njit
def stencil_rows(a, out):
    n, m = a.shape
    for i in range(1, n - 1):
        for j in range(1, m - 1):
            out[i, j] = float32(0.25) * (a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1])


stencil_columns = stencil_rows


@njit
def convolution(x, taps, out):
    for i in range(out.size):
        total = float32(0.0)
        for k in range(TAPS):
            total += x[i + k] * taps[k]
        out[i] = total


@njit
def histogram(x, low, high, bins):
    width = (high - low) / bins.shape[0]
    for i in range(x.shape[0]):
        k = int32((x[i] - low) / width)
        if k >= 0 and k < bins.shape[0]:
            bins[k] += 1


@njit
def scatter_add(values, where, out):
    for i in range(values.size):
        out[where[i]] += values[i]


@njit
def spmv(data, columns, starts, x, y):
    for row in range(y.shape[0]):
        total = float32(0.0)
        for k in range(starts[row], starts[row + 1]):
            total += data[k] * x[columns[k]]
        y[row] = total


@njit
def row_sums(a, out):
    for i in range(a.shape[0]):
        total = float32(0.0)
        for j in range(a.shape[1]):
            total += a[i, j]
        out[i] = total


@njit
def transpose(a, out):
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            out[j, i] = a[i, j]


@njit
def matmul(a, b, c):
    for i in range(c.shape[0]):
        for j in range(c.shape[1]):
            total = float32(0.0)
            for k in range(a.shape[1]):
                total += a[i, k] * b[k, j]
            c[i, j] = total


@njit
def layer_norm(x, weight, bias, eps, out):
    n = x.shape[1]
    for row in range(x.shape[0]):
        total = float32(0.0)
        squares = float32(0.0)
        for j in range(n):
            v = x[row, j]
            total += v
            squares += v * v
        mean = total / float32(n)
        scale = float32(1.0) / math.sqrt(squares / float32(n) - mean * mean + eps)
        for j in range(n):
            out[row, j] = (x[row, j] - mean) * scale * weight[j] + bias[j]


@njit
def life(cells, out):
    h, w = cells.shape
    for y in range(h):
        for x in range(w):
            alive = 0
            for dy in range(-1, 2):
                for dx in range(-1, 2):
                    if dx != 0 or dy != 0:
                        alive += cells[(y + dy + h) % h, (x + dx + w) % w]
            out[y, x] = 1 if alive == 3 or (alive == 2 and cells[y, x] == 1) else 0


@njit
def hashed(x, out):
    for i in range(x.size):
        h = x[i]
        h ^= h >> np.uint32(16)
        h = np.uint32(h * np.uint32(0x85EBCA6B))
        h ^= h >> np.uint32(13)
        h = np.uint32(h * np.uint32(0xC2B2AE35))
        h ^= h >> np.uint32(16)
        out[i] = h


@njit
def _escapes(x, y, most):
    c = complex(x, y)
    z = 0.0j
    for i in range(most):
        z = z * z + c
        if (z.real * z.real + z.imag * z.imag) >= 4:
            return i
    return 255


@njit
def mandelbrot(min_x, max_x, min_y, max_y, image, most):
    height, width = image.shape
    for y in range(height):
        imaginary = min_y + y * ((max_y - min_y) / height)
        for x in range(width):
            image[y, x] = _escapes(min_x + x * ((max_x - min_x) / width), imaginary, most)


@njit
def bitonic_sort(x, out):
    for start in range(0, x.size, SORTED):
        part = out[start : start + SORTED]
        part[:] = x[start : start + SORTED]
        k = 2
        while k <= SORTED:
            j = k // 2
            while j > 0:
                for t in range(SORTED):
                    other = t ^ j
                    if other > t:
                        up = (t & k) == 0
                        if (part[t] > part[other]) == up:
                            part[t], part[other] = part[other], part[t]
                j //= 2
            k *= 2


@njit
def _normal(d):
    k = 1.0 / (1.0 + 0.2316419 * math.fabs(d))
    tail = k * (0.31938153 + k * (-0.356563782 + k * (1.781477937 + k * (-1.821255978 + k * 1.330274429))))
    value = 0.39894228040143267794 * math.exp(-0.5 * d * d) * tail
    return 1.0 - value if d > 0 else value


@njit
def black_scholes(call, put, price, strike, years, rate, volatility):
    for i in range(price.shape[0]):
        root = math.sqrt(years[i])
        drift = (rate + 0.5 * volatility * volatility) * years[i]
        d1 = (math.log(price[i] / strike[i]) + drift) / (volatility * root)
        d2 = d1 - volatility * root
        discount = math.exp(-rate * years[i])
        call[i] = price[i] * _normal(d1) - strike[i] * discount * _normal(d2)
        put[i] = strike[i] * discount * (1.0 - _normal(d2)) - price[i] * (1.0 - _normal(d1))


@njit
def nbody(position, mass, softening, force):
    for i in range(position.shape[0]):
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


@njit
def saxpy(a, x, y, out):
    for i in range(x.size):
        out[i] = a * x[i] + y[i]


@njit
def block_sums(x, out):
    for block in range(out.size):
        total = float32(0.0)
        for i in range(block * THREADS, min((block + 1) * THREADS, x.size)):
            total += x[i]
        out[block] = total


@njit
def prefix_sums(x, out):
    for base in range(0, x.size, SCANNED):
        total = float32(0.0)
        for i in range(base, base + SCANNED):
            out[i] = total
            total += x[i]


@njit
def nearest_center(points, centers, labels):
    for i in range(points.shape[0]):
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


@njit
def floyd_warshall(distance, k, out):
    for i in range(distance.shape[0]):
        for j in range(distance.shape[1]):
            through = distance[i, k] + distance[k, j]
            out[i, j] = through if through < distance[i, j] else distance[i, j]


@njit
def gray(image, out):
    for y in range(image.shape[0]):
        for x in range(image.shape[1]):
            r, g, b = image[y, x, 0], image[y, x, 1], image[y, x, 2]
            out[y, x] = float32(0.299) * r + float32(0.587) * g + float32(0.114) * b


@njit
def heat(u, alpha, out):
    nx, ny, nz = u.shape
    for i in range(1, nx - 1):
        for j in range(1, ny - 1):
            for k in range(1, nz - 1):
                sides = u[i - 1, j, k] + u[i + 1, j, k] + u[i, j - 1, k] + u[i, j + 1, k]
                around = sides + u[i, j, k - 1] + u[i, j, k + 1]
                out[i, j, k] = u[i, j, k] + alpha * (around - float32(6.0) * u[i, j, k])


@njit
def _uniform(states, i):
    s0, s1 = states[i]["s0"], states[i]["s1"]
    drawn = s0 + s1
    s1 ^= s0
    turned = (s0 << np.uint64(55)) | (s0 >> np.uint64(9))
    states[i]["s0"] = turned ^ s1 ^ (s1 << np.uint64(14))
    states[i]["s1"] = (s1 << np.uint64(36)) | (s1 >> np.uint64(28))
    return float32((drawn >> np.uint64(11)) * (1.0 / 9007199254740992.0))


@njit
def monte_carlo_pi(states, rounds, out):
    for thread in range(out.size):
        inside = 0
        for _ in range(rounds):
            x = _uniform(states, thread)
            y = _uniform(states, thread)
            if x**2 + y**2 <= 1.0:
                inside += 1
        out[thread] = 4.0 * inside / rounds


@njit
def softmax(x, out):
    for row in range(x.shape[0]):
        largest = float32(-1e30)
        for j in range(x.shape[1]):
            largest = max(largest, x[row, j])
        total = float32(0.0)
        for j in range(x.shape[1]):
            e = math.exp(x[row, j] - largest)
            out[row, j] = e
            total += e
        for j in range(x.shape[1]):
            out[row, j] /= total


@njit
def resize(image, out):
    h, w = out.shape
    for y in range(h):
        for x in range(w):
            fx = x * float32(image.shape[1] - 1) / float32(w - 1)
            fy = y * float32(image.shape[0] - 1) / float32(h - 1)
            x0, y0 = int(fx), int(fy)
            x1, y1 = min(x0 + 1, image.shape[1] - 1), min(y0 + 1, image.shape[0] - 1)
            dx, dy = float32(fx - x0), float32(fy - y0)
            top = image[y0, x0] * (float32(1.0) - dx) + image[y0, x1] * dx
            low = image[y1, x0] * (float32(1.0) - dx) + image[y1, x1] * dx
            out[y, x] = top * (float32(1.0) - dy) + low * dy


@njit
def pairwise_distances(x, y, out):
    for i in range(x.shape[0]):
        for j in range(y.shape[0]):
            total = float32(0.0)
            for k in range(x.shape[1]):
                delta = x[i, k] - y[j, k]
                total += delta * delta
            out[i, j] = math.sqrt(total)


@njit
def tridiagonal(lower, diagonal, upper, right, work, out):
    n = right.shape[1]
    for s in range(right.shape[0]):
        work[s, 0] = upper[s, 0] / diagonal[s, 0]
        out[s, 0] = right[s, 0] / diagonal[s, 0]
        for k in range(1, n):
            scale = diagonal[s, k] - lower[s, k] * work[s, k - 1]
            work[s, k] = upper[s, k] / scale
            out[s, k] = (right[s, k] - lower[s, k] * out[s, k - 1]) / scale
        for k in range(n - 2, -1, -1):
            out[s, k] -= work[s, k] * out[s, k + 1]


@njit
def int8_matmul(a, transposed, out):
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            total = int32(0)
            for k in range(a.shape[1]):
                total += int32(a[i, k]) * int32(transposed[j, k])
            out[i, j] = total


@njit
def center_sums(points, labels, sums, counts):
    for i in range(points.shape[0]):
        for d in range(points.shape[1]):
            sums[labels[i], d] += points[i, d]
        counts[labels[i]] += 1
