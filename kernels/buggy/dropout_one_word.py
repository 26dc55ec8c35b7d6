"""Dropout with a planted bug: the first of the four words of a counter is used for all four elements."""

import numpy as np
from numba import cuda

LOW = np.uint64(0xFFFFFFFF)
MULTIPLIER_0 = np.uint64(0xD2511F53)
MULTIPLIER_1 = np.uint64(0xCD9E8D57)
WEYL_0 = np.uint64(0x9E3779B9)
WEYL_1 = np.uint64(0xBB67AE85)
UNIT = np.float32(2.0**-24)
LANES = 4  # numbers per call of Philox, and elements per thread


@cuda.jit(device=True)
def philox(counter, seed, words):
    """words[0:4] = the four 32-bit words of a 64-bit counter under a 64-bit seed. words: [4] of uint64."""
    c0 = counter & LOW
    c1 = counter >> np.uint64(32)
    c2 = np.uint64(0)
    c3 = np.uint64(0)
    key_0 = seed & LOW
    key_1 = seed >> np.uint64(32)
    for _ in range(10):
        product_0 = MULTIPLIER_0 * c0
        product_1 = MULTIPLIER_1 * c2
        c0 = (product_1 >> np.uint64(32)) ^ c1 ^ key_0
        c1 = product_1 & LOW
        c2 = (product_0 >> np.uint64(32)) ^ c3 ^ key_1
        c3 = product_0 & LOW
        key_0 = (key_0 + WEYL_0) & LOW
        key_1 = (key_1 + WEYL_1) & LOW
    words[0] = c0
    words[1] = c1
    words[2] = c2
    words[3] = c3


@cuda.jit
def dropout(x, p, seed, y, mask):
    """y = x / (1 - p) where mask, 0 elsewhere; launch with LANES elements per thread or fewer, one axis.

    x, y: [N] of T, C-contiguous, with T float32 or bfloat16; mask: [N] of uint8, 1 where an element is kept; p:
    float32 in [0, 1), the probability of a 0; seed: uint64. Element i is kept where word i % 4 of Philox(i // 4),
    as a number in [0, 1), is at least p. Computes in float32.
    """
    words = cuda.local.array(LANES, dtype=np.uint64)
    group = cuda.grid(1)
    first = group * LANES
    if first < x.shape[0]:
        philox(np.uint64(group), seed, words)
        scale = np.float32(1.0) / (np.float32(1.0) - p)
        for lane in range(min(LANES, x.shape[0] - first)):
            i = first + lane
            kept = np.float32(words[0] >> np.uint64(8)) * UNIT >= p
            mask[i] = kept
            y[i] = np.float32(x[i]) * scale if kept else np.float32(0.0)
