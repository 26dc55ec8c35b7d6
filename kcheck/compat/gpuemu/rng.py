"""gpuemu's random numbers, drawn by kcheck's generator: the same algorithms, but different bits."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kcheck import api
from kcheck.rng import derive


class SeededRng(api.SeededRng):
    """As :class:`kcheck.SeededRng`; ``randn`` also accepts the shape as separate arguments."""

    def derive(self, domain: str) -> SeededRng:
        """An independent stream derived from this one."""
        return SeededRng(derive(self.seed, domain))

    def randn(self, *shape: Any, dtype: npt.DTypeLike = np.float32) -> npt.NDArray[Any]:
        """Normally distributed values: ``randn(2, 3)`` or ``randn((2, 3))``."""
        extents: Sequence[int] = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
        return super().randn(extents, dtype)


def derive_seed(seed: int, domain: str) -> int:
    """A seed in [0, 2**64) that is derived from another seed, for a part of its work."""
    return derive(seed, domain)


def random_seed() -> int:
    """A seed from the system's entropy, in [0, 2**64)."""
    return secrets.randbits(64)


generate_seed = random_seed
"""gpuemu's other name for :func:`random_seed`."""
