"""Which integers are valid in the inputs of a definition, which does not say so.

==================================  ==============================================================================
known from                          contents
==================================  ==============================================================================
``constraints``: ``n == ptr[-1]``   offsets: ascending from 0 to n
the reference, which is asked       indices: the largest number that it accepts, at several sizes, as an expression
a workload that says ``random``     any numbers of the dtype: data, such as quantized weights
a file of a workload                what is in the file, at the sizes of that workload only
==================================  ==============================================================================
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from kcheck.symbolic import ExpressionError, evaluate_size, parse

Sizes: TypeAlias = Mapping[str, int]
Contents: TypeAlias = Mapping[str, Any]

_TOTAL = re.compile(r"(\w+)\s*={1,2}\s*(\w+)\[-1\](?:\.item\(\))?")
_TOTAL_REVERSED = re.compile(r"(\w+)\[-1\](?:\.item\(\))?\s*={1,2}\s*(\w+)")
_TRIES = 4
_BYTES = {"I8": "int8", "U8": "uint8", "I16": "int16", "I32": "int32", "I64": "int64", "BOOL": "bool"}


def totals(constraints: Sequence[str], arrays: Sequence[str]) -> dict[str, str]:
    """The last number of each array of offsets, as constraints give it: the name of an axis."""
    found = {}
    for text in constraints:
        match = re.fullmatch(_TOTAL, text.strip())
        reverse = re.fullmatch(_TOTAL_REVERSED, text.strip())
        pair = match.groups() if match else reverse.groups()[::-1] if reverse else ("", "")
        if pair[1] in arrays:
            found[pair[1]] = pair[0]
    return found


def of_sizes(constraints: Sequence[str], arrays: Sequence[str]) -> list[str]:
    """The constraints on axes; those on contents of arrays are not conditions on sizes."""
    named = re.compile(r"\b(" + "|".join(map(re.escape, arrays)) + r")\b") if arrays else None
    kept = [text for text in map(str, constraints) if named is None or not named.search(text)]
    return [re.sub(r"(?<![=<>!])=(?!=)", "==", text) for text in kept]


class IndexRange:
    """Asks a reference which numbers it accepts in an array of integers.

    Args:
        accepts: whether the reference runs at some sizes, with this number in each element of the array.
        sizes: several assignments of the axes; no two axes have equal sizes.
        most: no array has as many elements.
    """

    def __init__(self, accepts: Callable[[Sizes, int], bool], sizes: Sequence[Sizes], most: int) -> None:
        self._accepts = accepts
        self._sizes = sizes
        self._most = most

    def expression(self) -> str:
        """How many numbers it accepts, from 0, as an expression of axes; empty if it accepts any, or if no
        simple expression gives what it accepts."""
        counts = [self._count(sizes) for sizes in self._sizes]
        if any(count is None for count in counts):
            return ""
        names = list(self._sizes[0])
        texts = itertools.chain(
            names,
            (f"{one} * {other}" for one, other in itertools.combinations(names, 2)),
            (f"{name} {sign} 1" for name in names for sign in "+-"),
            [str(counts[0])],
        )
        pairs = list(zip(self._sizes, counts, strict=True))
        return next((text for text in texts if all(_at(text, sizes) == count for sizes, count in pairs)), "")

    def _count(self, sizes: Sizes) -> int | None:
        """How many numbers from 0 the reference accepts; None if it accepts any, or not even 0."""
        if not self._accepts(sizes, 0) or self._accepts(sizes, self._most):
            return None
        low, high = 0, self._most
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._accepts(sizes, middle) else (low, middle)
        return low + 1


def _at(text: str, sizes: Sizes) -> int | None:
    try:
        return evaluate_size(parse(text), sizes)
    except ExpressionError:
        return None


def distinct_sizes(var: Sequence[str], fits: Callable[[Sizes], bool]) -> Iterator[dict[str, int]]:
    """Small sizes that differ from each other, in several ways, as far as constraints permit.

    Args:
        fits: whether the constraints hold.
    """
    found = 0
    for start in (5, 7, 11, 4, 3, 2):
        for order in itertools.islice(itertools.permutations(range(len(var))), 24):
            sizes = {name: start + 3 * k + k * k for name, k in zip(var, order, strict=True)}
            settled = _settled(sizes, fits)
            if settled is not None:
                yield settled
                found += 1
                break
        if found == _TRIES:
            return


def _settled(sizes: dict[str, int], fits: Callable[[Sizes], bool]) -> dict[str, int] | None:
    """The sizes, with at most two of them changed so that the constraints hold."""
    if fits(sizes):
        return sizes
    values = sorted({*range(1, 17), *sizes.values(), *(value + 1 for value in sizes.values())})
    for count in (1, 2):
        for names in itertools.combinations(sizes, count):
            for new in itertools.product(values, repeat=count):
                changed = {**sizes, **dict(zip(names, new, strict=True))}
                if fits(changed):
                    return changed
    return None


def even_offsets(count: int, total: int) -> Any:
    """``count`` offsets from 0 to ``total``, evenly."""
    return np.linspace(0, total, count).astype(np.int64) if count > 1 else np.zeros(count, np.int64)


def stored(path: Path, key: str, under: Sequence[Path]) -> Any | None:
    """An array of integers in a safetensors file; None if there is none.

    Args:
        path: as a workload names it.
        under: folders that it may be relative to.
    """
    for folder in (Path(), *under):
        file = folder / path
        if not file.is_file():
            continue
        with file.open("rb") as opened:
            header = json.loads(opened.read(int.from_bytes(opened.read(8), "little")))
            entry = header.get(key)
            if entry is None or entry["dtype"] not in _BYTES:
                return None
            begin, end = entry["data_offsets"]
            opened.seek(begin, 1)
            return np.frombuffer(opened.read(end - begin), _BYTES[entry["dtype"]]).reshape(entry["shape"])
    return None
