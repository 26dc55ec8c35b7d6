"""The reference of dropout."""

import numpy as np


def philox(counters, seed):
    """Philox-4x32-10 (Salmon et al., 2011). counters: [n] of uint64, seed: uint64; returns [n, 4] of uint64."""
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    c0, c1 = counters & low, counters >> half
    c2 = c3 = np.zeros_like(counters)
    for turn in range(10):
        key_0 = np.uint64((int(seed) + turn * 0x9E3779B9) & 0xFFFFFFFF)
        key_1 = np.uint64(((int(seed) >> 32) + turn * 0xBB67AE85) & 0xFFFFFFFF)
        first, second = c0 * np.uint64(0xD2511F53), c2 * np.uint64(0xCD9E8D57)
        c0, c1, c2, c3 = (second >> half) ^ c1 ^ key_0, second & low, (first >> half) ^ c3 ^ key_1, first & low
    return np.stack([c0, c1, c2, c3], axis=-1)


def dropout(x, p, seed):
    """x / (1 - p) where the mask is 1, 0 elsewhere.

    x: [N]; p and seed: scalars; returns y: [N] and mask: [N], uint8. Element i is kept where the upper 24 bits of
    word i % 4 of Philox(i // 4), as a number in [0, 1), are at least p.
    """
    words = philox(np.arange((x.size + 3) // 4, dtype=np.uint64), seed).reshape(-1)[: x.size]
    kept = (words >> np.uint64(8)) * 2.0**-24 >= p
    return {"y": np.where(kept, x / (1.0 - p), 0.0), "mask": kept.astype(np.uint8)}
