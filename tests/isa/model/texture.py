"""Texture fetches in NumPy, written from the CUDA C++ Programming Guide, "Texture Fetching"."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np

F32 = np.float32


@dataclass(frozen=True)
class Sampler:
    """How a texture is read. ``modes``: ``clamp``, ``wrap``, ``mirror`` or ``border`` for each axis, x first."""

    modes: tuple[str, ...]
    linear: bool = False
    normalized: bool = False
    read_normalized: bool = False


def texels(array: np.ndarray, sampler: Sampler) -> np.ndarray:
    """The texels as a fetch returns them: float32, or integers of 32 bits."""
    if array.dtype.kind == "f":
        return array.astype(F32)
    if sampler.read_normalized and array.dtype.itemsize < 4:
        most = np.iinfo(array.dtype).max
        return np.maximum(array.astype(F32) / F32(most), F32(-1))
    return array.astype(np.int32 if array.dtype.kind == "i" else np.uint32)


def fetch(array: np.ndarray, sampler: Sampler, place: tuple[float, ...]) -> np.ndarray:
    """The channels at a place.

    Args:
        array: ``[..., y, x, channel]``.
        place: x first, float32.
    """
    values = texels(array, sampler)
    sizes = values.shape[-2::-1]
    axes = [
        _weights(F32(x), size, mode, sampler) for x, size, mode in zip(place, sizes, sampler.modes, strict=True)
    ]
    total = np.zeros(values.shape[-1], np.float64 if sampler.linear else values.dtype)
    for corner in itertools.product(*axes):
        weight = np.prod([w for _, w in corner])
        index = tuple(i for i, _ in reversed(corner))
        texel = values[index] if None not in index else np.zeros_like(values[(0,) * len(index)])
        total = total + weight * texel if sampler.linear else texel
    return total.astype(values.dtype)


def gather(array: np.ndarray, sampler: Sampler, place: tuple[float, float], component: int) -> list[float]:
    """One component of the four texels between which a linear fetch would filter, counter-clockwise from the
    lower left; y points down."""
    shape = replace(sampler, linear=True)
    (x0, x1), (y0, y1) = (
        [index for index, _ in _weights(F32(p), size, mode, shape)]
        for p, size, mode in zip(place, array.shape[1::-1], sampler.modes, strict=True)
    )
    values = texels(array, sampler)
    found = []
    for x, y in ((x0, y1), (x1, y1), (x1, y0), (x0, y0)):
        found.append(0 if x is None or y is None else values[y, x, component])
    return found


def _weights(x: np.float32, size: int, mode: str, sampler: Sampler) -> list[tuple[int | None, float]]:
    """The texels of an axis that a place depends on, with their weights; None: the border."""
    if sampler.normalized:
        if mode == "wrap":
            x = x - np.floor(x)
        elif mode == "mirror":
            whole = np.floor(x)
            x = x - whole if whole % 2 == 0 else F32(1) - (x - whole)
        x = F32(x * F32(size))
    elif mode in ("wrap", "mirror"):
        mode = "clamp"
    if not sampler.linear:
        return [(_texel(int(np.floor(x)), size, mode), 1.0)]
    b = F32(x - F32(0.5))
    first = np.floor(b)
    share = np.floor(float(b - first) * 256 + 0.5) / 256  # 8 bits behind the point
    return [(_texel(int(first) + n, size, mode), w) for n, w in ((0, 1 - share), (1, share))]


def _texel(i: int, size: int, mode: str) -> int | None:
    if 0 <= i < size:
        return i
    if mode == "border":
        return None
    if mode == "wrap":
        return i % size
    return min(max(i, 0), size - 1)
