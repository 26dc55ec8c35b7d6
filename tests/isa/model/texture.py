"""Texture fetches in NumPy, written from the CUDA C++ Programming Guide, "Texture Fetching", and from what an H100
does where the guide leaves it open: coordinates, weights and the order of a gather (``make test-gpu``)."""

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
        _texels_between(F32(x), size, mode, sampler)
        for x, size, mode in zip(place, sizes, sampler.modes, strict=True)
    ]
    weights = _weights([share for *_, share in axes])
    total = np.zeros(values.shape[-1], np.float64 if sampler.linear else values.dtype)
    for corner in itertools.product(range(1 + sampler.linear), repeat=len(axes)):
        index = tuple(axis[which] for axis, which in zip(axes, corner, strict=True))[::-1]
        texel = values[index] if None not in index else np.zeros_like(values[(0,) * len(index)])
        total = total + weights[corner] * texel if sampler.linear else texel
    return total.astype(values.dtype)


def _weights(shares: list[float]) -> dict[tuple[int, ...], float]:
    """The weight of each corner, from the shares (in 256ths) of the second texel on each axis."""
    found = {}
    x, y, z = (*shares, 0, 0)[:3]
    for far, layer in enumerate((256 - z, z)):
        right = np.floor(layer * x / 256 + 0.5)
        left = layer - right
        upper = np.floor(right * y / 256 + 0.5)
        lower = np.floor(left * (256 - y) / 256 + 0.5)
        parts = {(0, 0): lower, (0, 1): left - lower, (1, 0): right - upper, (1, 1): upper}
        for corner, part in parts.items():
            place = (*corner, far)
            if not any(place[len(shares) :]):  # the other texels are on axes that are not there
                found[place[: len(shares)]] = part / 256
    return found


def gather(array: np.ndarray, sampler: Sampler, place: tuple[float, float], component: int) -> list[float]:
    """One component of the four texels between which a linear fetch would filter, counter-clockwise from the
    lower left; y points down."""
    shape = replace(sampler, linear=True)
    (x0, x1), (y0, y1) = (
        _texels_between(F32(p), size, mode, shape)[:2]
        for p, size, mode in zip(place, array.shape[1::-1], sampler.modes, strict=True)
    )
    values = texels(array, sampler)
    found = []
    for x, y in ((x0, y1), (x1, y1), (x1, y0), (x0, y0)):
        found.append(0 if x is None or y is None else values[y, x, component])
    return found


def _texels_between(x: np.float32, size: int, mode: str, sampler: Sampler) -> tuple[int | None, int | None, float]:
    """The texel of an axis at a place, the next one, and its share in 256ths; None: the border."""
    at = float(x)
    if sampler.normalized:
        at = np.floor((0 if abs(at) < 2.0**-126 else at) * 2.0**21) / 2.0**21 * size
    elif mode in ("wrap", "mirror"):
        mode = "clamp"
    if sampler.linear:
        at = np.floor((at - 0.5) * 256 + 0.5) / 256
    first = int(np.floor(at))
    share = (at - first) * 256
    if mode == "clamp" and not 0 <= first < size - 1:
        share = 0
    return _texel(first, size, mode), _texel(first + 1, size, mode), share


def _texel(i: int, size: int, mode: str) -> int | None:
    if 0 <= i < size:
        return i
    if mode == "border":
        return None
    if mode == "wrap":
        return i % size
    if mode == "mirror":
        turned = i % (2 * size)
        return min(turned, 2 * size - 1 - turned)
    return min(max(i, 0), size - 1)
