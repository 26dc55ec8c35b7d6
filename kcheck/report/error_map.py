"""Where an output is wrong, as labeled rows: the worst elements, and a map."""

from __future__ import annotations

import math
from collections.abc import Iterator

from kcheck.model import Comparison
from kcheck.report import wording
from kcheck.report.detail import DetailRow, sentence

_SHADES = "·░░░▒▒▓▓▓█"  # indexed by the digit of a map cell: 0 if no element is wrong, 9 if all are


def error_map_rows(comparison: Comparison) -> Iterator[DetailRow]:
    """The worst elements of an output that differs, and a map of it; no rows if it does not differ."""
    found = comparison.error_map
    if found is None:
        return
    cells = [("", "actual", "expected", "error", "allowed")]
    cells += [
        (
            wording.element(comparison.output, element.index),
            wording.value(element.actual, comparison.dtype),
            wording.value(element.expected, comparison.dtype),
            "-" if element.error is None else wording.measure(element.error),
            wording.measure(element.allowed),
        )
        for element in found.worst
    ]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for number, row in enumerate(cells):
        text = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        yield DetailRow("" if number else "worst", (text,), role="picture" if number else "plain")
    if comparison.elements > 1:
        yield sentence("map", _legend(comparison.output, comparison.shape, found.grid))
        for line in found.grid:
            yield DetailRow("", ("".join(_SHADES[int(digit)] for digit in line),), role="picture")


def _legend(output: str, shape: tuple[int, ...], grid: tuple[str, ...]) -> str:
    rows, columns = math.prod(shape[:-1]), shape[-1]
    size = f"{_part(rows, len(grid))} x {_part(columns, len(grid[0]))} elements"
    if len(grid) == rows and len(grid[0]) == columns:
        return f"{output}, {' x '.join(map(str, shape))}; one mark per element, █ wrong, · right"
    folded = ", the rows are all axes except the last" if len(shape) > 2 else ""
    extent = " x ".join(map(str, shape))
    return f"{output}, {extent}{folded}; one mark is {size}, █ all wrong, · none wrong"


def _part(extent: int, parts: int) -> str:
    return str(extent // parts) if extent % parts == 0 else f"about {extent / parts:.1f}"
