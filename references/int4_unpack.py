"""The reference of unpacking 4-bit weights."""

import numpy as np


def int4_unpack(packed, scale, zero):
    """(nibble - zero) * scale, the low nibble of each byte first, 16 columns a group.

    packed: [N, K / 2], uint8; scale, zero: [N, ceil(K / 16)]; returns [N, K].
    """
    nibbles = np.stack([packed & 15, packed >> 4], axis=-1).reshape(packed.shape[0], -1).astype(np.int32)
    group = np.arange(nibbles.shape[1]) // 16
    return (nibbles - zero[:, group].astype(np.int32)) * scale[:, group]
