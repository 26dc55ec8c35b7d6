"""The reference of dropout by Triton's tl.rand."""

import numpy as np


def first_word(counters, seed):
    """The first word of Philox-4x32-10 (Salmon et al., 2011). counters: [n] of uint32; returns the same."""
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    c0 = counters.astype(np.uint64)
    c1 = c2 = c3 = np.zeros_like(c0)
    for turn in range(10):
        key_0 = np.uint64((int(seed) + turn * 0x9E3779B9) & 0xFFFFFFFF)
        key_1 = np.uint64(((int(seed) >> 32) + turn * 0xBB67AE85) & 0xFFFFFFFF)
        first, second = c0 * np.uint64(0xD2511F53), c2 * np.uint64(0xCD9E8D57)
        c0, c1, c2, c3 = (second >> half) ^ c1 ^ key_0, second & low, (first >> half) ^ c3 ^ key_1, first & low
    return c0.astype(np.uint32)


def dropout_rand(x, p, seed):
    """x / (1 - p) where tl.rand(seed, i) > p, 0 elsewhere. x: [N]; returns [N]."""
    word = first_word(np.arange(x.size, dtype=np.uint32), seed).view(np.int32)
    drawn = np.where(word < 0, -word - 1, word).astype(np.float32) * np.float32(4.6566127342e-10)
    return np.where(drawn > np.float32(p), x / (1.0 - p), 0.0)
