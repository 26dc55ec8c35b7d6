"""The reference of SwiGLU."""

import numpy as np


def swiglu(x):
    """silu(gate) * value (Shazeer, 2020), packed side by side. x: [..., 2 * H]; returns [..., H]."""
    H = x.shape[-1] // 2
    gate, value = x[..., :H], x[..., H:]
    decay = np.exp(-np.abs(gate))
    return np.where(gate >= 0, gate, gate * decay) / (1.0 + decay) * value
