"""The same algorithms as plain ``@njit``, one thread each: the yardstick of the benchmark.

The work of a block's threads is a loop, a barrier the end of one, shared memory an array: what a user without a
GPU would write to try the algorithm of the kernel.
"""

import math

import numpy as np
from numba import njit

KEYS = 32
HEAD = 32
BLOCK = 128
BINS = 256


@njit
def gelu(x, out):
    for i in range(x.size):
        v = x[i]
        inner = np.float32(0.7978845608) * (v + np.float32(0.044715) * v * v * v)
        out[i] = np.float32(0.5) * v * (np.float32(1.0) + np.float32(math.tanh(inner)))


@njit
def softmax(x, out):
    partial = np.empty(BLOCK, np.float32)
    for row in range(x.shape[0]):
        for t in range(BLOCK):
            largest = np.float32(-np.inf)
            for j in range(t, x.shape[1], BLOCK):
                largest = max(largest, x[row, j])
            partial[t] = largest
        step = BLOCK // 2
        while step > 0:
            for t in range(step):
                partial[t] = max(partial[t], partial[t + step])
            step //= 2
        largest = partial[0]
        for t in range(BLOCK):
            total = np.float32(0.0)
            for j in range(t, x.shape[1], BLOCK):
                total += np.float32(math.exp(x[row, j] - largest))
            partial[t] = total
        step = BLOCK // 2
        while step > 0:
            for t in range(step):
                partial[t] += partial[t + step]
            step //= 2
        total = partial[0]
        for j in range(x.shape[1]):
            out[row, j] = np.float32(math.exp(x[row, j] - largest)) / total


@njit
def matmul(a, b, c):
    # One dot product per element, as a thread of the kernel computes it; tiles are there for a GPU's memory.
    for row in range(c.shape[0]):
        for column in range(c.shape[1]):
            total = np.float32(0.0)
            for k in range(a.shape[1]):
                total += a[row, k] * b[k, column]
            c[row, column] = total


@njit
def row_sums(x, out):
    partial = np.empty(32, np.float32)
    for row in range(x.shape[0]):
        for lane in range(32):
            total = np.float32(0.0)
            for j in range(lane, x.shape[1], 32):
                total += x[row, j]
            partial[lane] = total
        step = 16
        while step > 0:
            for lane in range(step):
                partial[lane] += partial[lane + step]
            step //= 2
        out[row] = partial[0]


@njit
def attention(q, k, v, scale, out):
    score = np.empty(KEYS, np.float32)
    acc = np.empty(HEAD, np.float32)
    for row in range(q.shape[0]):
        acc[:] = np.float32(0.0)
        largest = np.float32(-np.inf)
        total = np.float32(0.0)
        for start in range(0, k.shape[0], KEYS):
            tile_max = largest
            for j in range(KEYS):
                dot = np.float32(0.0)
                for d in range(HEAD):
                    dot += np.float32(q[row, d]) * scale * np.float32(k[start + j, d])
                score[j] = dot
                tile_max = max(tile_max, dot)
            rescale = np.float32(math.exp(largest - tile_max))
            largest = tile_max
            total *= rescale
            for d in range(HEAD):
                acc[d] *= rescale
            for j in range(KEYS):
                weight = np.float32(math.exp(score[j] - largest))
                total += weight
                for d in range(HEAD):
                    acc[d] += weight * np.float32(v[start + j, d])
        for d in range(HEAD):
            out[row, d] = acc[d] / total


@njit
def histogram(x, bins):
    counts = np.zeros(BINS, np.int32)
    for i in range(x.size):
        counts[x[i]] += 1
    for i in range(BINS):
        bins[i] += counts[i]


@njit
def scan(x, out):
    ping = np.empty(BLOCK, np.float32)
    value = np.empty(BLOCK, np.float32)
    for start in range(0, x.size, BLOCK):
        for t in range(BLOCK):
            ping[t] = x[start + t] if start + t < x.size else np.float32(0.0)
        step = 1
        while step < BLOCK:
            for t in range(BLOCK):
                value[t] = ping[t] + ping[t - step] if t >= step else ping[t]
            for t in range(BLOCK):
                ping[t] = value[t]
            step *= 2
        for t in range(BLOCK):
            if start + t < x.size:
                out[start + t] = ping[t]
