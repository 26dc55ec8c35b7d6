"""The inputs of a case in a few words: shape, layout and values of each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from kcheck.model import ArraySnapshot, Snapshot
from kcheck.report import plain, wording
from kcheck.report.detail import DetailRow

_FEW = 8  # elements that are shown one by one


def input_rows(snapshot: Snapshot) -> Iterator[DetailRow]:
    """One row for each input."""
    for number, array in enumerate(each for each in snapshot.arrays if each.values is not None):
        yield DetailRow("" if number else "inputs", (plain.line(array.name), *_words(array)))


def _words(array: ArraySnapshot) -> Iterator[str]:
    yield f"{array.dtype}[{', '.join(map(str, array.shape))}]"
    values: Any = array.values
    flat = np.ascontiguousarray(values).reshape(-1)
    if flat.size <= _FEW:
        yield " ".join(wording.value(number.item(), array.dtype) for number in flat)
        return
    wide = flat.astype(np.complex128 if flat.dtype.kind == "c" else np.float64)
    special = int(np.count_nonzero(~np.isfinite(wide)))
    wide = wide[np.isfinite(wide)]
    if wide.size and wide.dtype.kind != "c":
        low, high = wide.min(), wide.max()
        yield (
            f"all {wording.measure(float(low))}"
            if low == high
            else f"{wording.measure(float(low))} to {wording.measure(float(high))}"
        )
        yield f"mean {wording.measure(float(wide.mean()))}"
    zeros = int(np.count_nonzero(wide == 0))
    for count, what in ((zeros, "zero"), (special, "NaN or Inf")):
        if count:
            yield f"{wording.share(count, flat.size)} {what}"
