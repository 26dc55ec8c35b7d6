"""Compare the result of a function with that of its reference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kcheck.monitor.arrays import Array, as_host, is_array
from kcheck.monitor.lifetime import IMPORTING

if TYPE_CHECKING:
    from kcheck.model import Comparison


@dataclass(frozen=True)
class Differences:
    """The comparisons of arrays that differ, and other differences, one sentence each."""

    comparisons: tuple[Comparison, ...] = ()
    sentences: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.comparisons or self.sentences)


def differences(actual: Any, expected: Any, rtol: float, atol: float) -> Differences:
    """The differences between two results, which may be nested tuples, lists and dicts.

    Numbers and arrays are equal if ``abs(actual - expected) <= atol + rtol * abs(expected)`` for every element,
    NaN is where NaN is expected, and infinities have the same sign. Dtypes may differ.
    """
    comparisons, sentences = [], []
    for found in _pairs("result", actual, expected, rtol, atol):
        if isinstance(found, str):
            sentences.append(found)
        else:
            comparisons.append(found)
    return Differences(tuple(comparisons), tuple(sentences))


def _pairs(name: str, actual: Any, expected: Any, rtol: float, atol: float) -> Iterator[Comparison | str]:
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        for key in {**expected, **actual}:
            if key not in actual:
                yield f"{name}[{key!r}] is missing"
            elif key not in expected:
                yield f"{name}[{key!r}] is not in the result of the reference"
            else:
                yield from _pairs(f"{name}[{key!r}]", actual[key], expected[key], rtol, atol)
    elif isinstance(expected, list | tuple) and isinstance(actual, list | tuple):
        if len(actual) != len(expected):
            yield f"{name} has {len(actual)} values, but the reference returned {len(expected)}"
            return
        for number, (one, other) in enumerate(zip(actual, expected, strict=True)):
            yield from _pairs(f"{name}[{number}]", one, other, rtol, atol)
    elif _is_numeric(actual) and _is_numeric(expected):
        yield from _arrays(name, as_host(actual), as_host(expected), rtol, atol)
    elif _is_numeric(actual) or _is_numeric(expected):
        yield f"{name} is a {type(actual).__name__}, but the reference returned a {type(expected).__name__}"
    elif actual is not expected and actual != expected:
        yield f"{name} is {actual!r:.60}, but the reference returned {expected!r:.60}"


def _is_numeric(value: Any) -> bool:
    return isinstance(value, int | float | complex | np.generic) or is_array(value)


def _arrays(name: str, actual: Array, expected: Array, rtol: float, atol: float) -> Iterator[Comparison | str]:
    if actual.shape != expected.shape:
        yield f"{name} has shape {list(actual.shape)}, but the reference returned {list(expected.shape)}"
        return
    if _close(actual, expected, rtol, atol):
        return
    with IMPORTING:
        from kcheck.model import DTYPES, Bounds, Compare
        from kcheck.oracle.compare import compare
        from kcheck.oracle.tolerance import Fixed

    dtype = DTYPES[actual.dtype.name]
    if dtype.is_inexact:
        expected = expected.astype(np.complex128 if dtype.kind == "complex" else np.float64)
    elif expected.dtype.kind not in "biu":
        actual, expected, dtype = actual.astype(np.float64), expected.astype(np.float64), DTYPES["float64"]
    found = compare(name, dtype, actual, expected, Fixed(Bounds(atol, rtol)), Compare())
    if not found.passed:
        yield found


def _close(actual: Array, expected: Array, rtol: float, atol: float) -> bool:
    """A fast check whether all elements are close. If not, the detailed comparison decides whether they differ."""
    if actual.dtype.kind not in "fiub" or expected.dtype.kind not in "fiub":
        return False
    with np.errstate(all="ignore"):
        wide = expected.astype(np.float64)
        error = np.abs(actual.astype(np.float64) - wide)
        return bool((error <= atol + rtol * np.abs(wide)).all())
