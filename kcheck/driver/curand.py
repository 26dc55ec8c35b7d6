"""cuRAND's generators for CuPy under ``kcheck exec``: a module that replaces ``cupy_backends.cuda.libs.curand``.

cuRAND is machine code, so NumPy draws the numbers. They have the same distributions, but are other numbers; equal
seeds give equal numbers. CuPy's own kernels, which make most distributions from them, run on the device.
"""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from kcheck.driver.thrust import write

CURAND_RNG_PSEUDO_DEFAULT = 100
CURAND_RNG_PSEUDO_XORWOW = 101
CURAND_RNG_PSEUDO_MRG32K3A = 121
CURAND_RNG_PSEUDO_MTGP32 = 141
CURAND_RNG_PSEUDO_MT19937 = 142
CURAND_RNG_PSEUDO_PHILOX4_32_10 = 161

_generators: dict[int, np.random.Generator] = {}
_numbers = itertools.count(1)


def createGenerator(method: int) -> int:  # noqa: N802  # CuPy's names, as all below
    """A new generator, whatever the method is."""
    number = next(_numbers)
    _generators[number] = np.random.Generator(np.random.Philox(0))
    return number


def destroyGenerator(generator: int) -> None:  # noqa: N802
    """Forget a generator."""
    _generators.pop(generator, None)


def setPseudoRandomGeneratorSeed(generator: int, seed: int) -> None:  # noqa: N802
    """Begin the numbers of a seed."""
    _generators[generator] = np.random.Generator(np.random.Philox(int(seed)))


def setGeneratorOffset(generator: int, offset: int) -> None:  # noqa: N802
    """Leave out numbers. CuPy only does so at the beginning, with 0."""
    if offset:
        _generators[generator].bit_generator.advance(offset)  # type: ignore[attr-defined]  # Philox has it


def generate(generator: int, address: int, size: int) -> None:
    """``size`` numbers of 32 bits."""
    write(address, _generators[generator].integers(0, 1 << 32, size, np.uint32))


def generateUniform(generator: int, address: int, size: int) -> None:  # noqa: N802
    """``size`` values of float32 in (0, 1], as cuRAND has them."""
    write(address, np.float32(1) - _generators[generator].random(size, np.float32))


def generateUniformDouble(generator: int, address: int, size: int) -> None:  # noqa: N802
    """``size`` values of float64 in (0, 1]."""
    write(address, 1 - _generators[generator].random(size))


def generateNormal(generator: int, address: int, size: int, mean: float, deviation: float) -> None:  # noqa: N802
    """``size`` normal values of float32."""
    write(address, _generators[generator].normal(mean, deviation, size).astype(np.float32))


def generateNormalDouble(generator: int, address: int, size: int, mean: float, deviation: float) -> None:  # noqa: N802
    """``size`` normal values of float64."""
    write(address, _generators[generator].normal(mean, deviation, size))


def generateLogNormal(generator: int, address: int, size: int, mean: float, deviation: float) -> None:  # noqa: N802
    """``size`` log-normal values of float32."""
    write(address, _generators[generator].lognormal(mean, deviation, size).astype(np.float32))


def generateLogNormalDouble(generator: int, address: int, size: int, mean: float, deviation: float) -> None:  # noqa: N802
    """``size`` log-normal values of float64."""
    write(address, _generators[generator].lognormal(mean, deviation, size))


class BitGenerator:
    """``cupy.random.BitGenerator`` and its subclasses: the source of a :class:`Generator`, here Philox for all.

    Args:
        seed: as for ``numpy.random.SeedSequence``.
    """

    def __init__(self, seed: Any = None) -> None:
        self.source = np.random.Philox(seed)


class Generator:
    """``cupy.random.Generator``: it has the methods of NumPy's, whose results it copies to the device."""

    def __init__(self, bit_generator: BitGenerator) -> None:
        self._drawn = np.random.Generator(bit_generator.source)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        cupy = importlib.import_module("cupy")
        plain = getattr(self._drawn, name)

        def draw(*arguments: Any, **keywords: Any) -> Any:
            hosts = {
                key: cupy.asnumpy(value) if hasattr(value, "get") else value for key, value in keywords.items()
            }
            on_host = [cupy.asnumpy(value) if hasattr(value, "get") else value for value in arguments]
            return cupy.asarray(plain(*on_host, **hosts))

        return draw
