"""The reference of one step of a radix sort."""

import numpy as np


def radix_step(keys, values, shift):
    """Keys and values in the stable order of four bits of the keys. keys, values: [N] of uint32."""
    order = np.argsort(keys >> np.uint32(shift) & np.uint32(15), kind="stable")
    return {"sorted_keys": keys[order], "sorted_values": values[order]}
