"""The text output of ``kcheck diff``: what got worse and where, and what got better."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Sequence

from kcheck.model.baseline import MEASURES, Change
from kcheck.report import layout, plain
from kcheck.report.detail import Paint, Role
from kcheck.report.lint_text import short_types

_KINDS: dict[str, tuple[str, Role]] = {
    "worse": ("WORSE", "wrong"),
    "within": ("within", "warn"),
    "better": ("better", "right"),
}
_INDENT = 10
_COUNT = 1000  # a smaller difference of counts is shown as a number, not in percent


def change_lines(changes: Sequence[Change], width: int, paint: Paint) -> Iterator[str]:
    """One line for each change, by op, the worst first, with its place at the end or, if there is no room, below.

    The same change in several specializations of a kernel is one line.

    Args:
        width: terminal columns.
        paint: colors text by its role.
    """
    order = list(_KINDS)
    for op in dict.fromkeys(change.op for change in changes):
        yield from layout.wrap([plain.line(op)], "", width)
        mine = sorted((c for c in changes if c.op == op), key=lambda change: order.index(change.kind))
        sizes = [max(len(cells[n]) for cells in map(change_cells, mine)) for n in range(3)]
        for alike in _alike(mine):
            change = alike[0]
            word, role = _KINDS[change.kind]
            cells = change_cells(change)
            text = "  ".join(cell.ljust(size) for cell, size in zip(cells, sizes, strict=True))
            line = f"  {word:<6}  {text}".rstrip()
            where = [plain.line(part) for part in _where(alike)]
            beside = "  ".join([f"  {word:<6}  {text}", *where])
            if where and len(beside) <= width:
                yield paint(beside, role)
                continue
            parts = [text.rstrip()] if len(line) <= width else layout.wrap(cells, "  ", width - _INDENT)
            for number, part in enumerate(parts):
                yield paint(" " * _INDENT + part if number else f"  {word:<6}  {part}", role)
            if where:
                yield from (" " * _INDENT + part for part in layout.wrap(where, "  ", width - _INDENT))


def change_cells(change: Change) -> tuple[str, str, str]:
    """Three cells: the measure, both numbers, and the change with the allowed one."""
    words = MEASURES[change.measure].words or change.measure
    name = f"{words} {change.detail}" if change.detail else words
    by = _by(change)
    allowed = f"({by}, {_allowed(change)})" if change.kind == "worse" else f"({by})"
    before, after = _numbers(change)
    return name, f"{before} → {after}", allowed


def _by(change: Change) -> str:
    """A factor if one is allowed or the number at least doubles, a difference of small counts, or percent."""
    before, after = change.before, change.after
    more = after - before
    if not before or not after:
        return _rounded(more, "+")
    if change.kind == "worse" and change.limit.times is not None:
        return f"{_ratio(max(before, after) / min(before, after))}x"
    if more == int(more) and abs(more) < _COUNT:
        return f"{more:+.0f}"
    if before < 0 or after / before < 2:
        return f"{_rounded(100 * more / abs(before), '+')}%"
    return f"{_rounded(after / before)}x"


def _rounded(number: float, sign: str = "") -> str:
    """A number with three significant digits, without an exponent if it is large: ``10,800,000``."""
    text = f"{number:{sign}.3g}"
    return f"{float(text):{sign},.0f}" if "e+" in text else text


def _numbers(change: Change) -> tuple[str, str]:
    """Both numbers, with enough digits to differ."""
    numbers = (change.before, change.after)
    if all(number == int(number) for number in numbers):
        return f"{change.before:,.0f}", f"{change.after:,.0f}"
    for digits in range(3, 17):
        before, after = (f"{number:.{digits}g}" for number in numbers)
        if before != after:
            break
    return _plain(change.before, before), _plain(change.after, after)


def _plain(number: float, text: str) -> str:
    return f"{number:,.0f}" if "e+" in text else text


def _ratio(ratio: float) -> str:
    """A ratio with three significant digits, or as many as are needed to differ from 1."""
    text = next(text for digits in range(3, 18) if (text := f"{ratio:.{digits}g}") != "1" or digits == 17)
    return _rounded(ratio) if "e+" in text else text


def _allowed(change: Change) -> str:
    more = change.limit.more
    if more is None:
        return f"allowed {change.limit}"
    return f"allowed {math.copysign(more, change.after - change.before):+g}" if more else "none allowed"


def _alike(changes: Iterable[Change]) -> Iterable[list[Change]]:
    """Group changes that differ only in the types of a specialization."""
    groups: dict[tuple[object, ...], list[Change]] = {}
    for change in changes:
        types = dataclasses.replace(change, where=change.where[:2]) if len(change.where) == 3 else change
        groups.setdefault(dataclasses.astuple(types), []).append(change)
    return groups.values()


def _where(alike: Sequence[Change]) -> tuple[str, ...]:
    change = alike[0]
    where = change.where
    if len(where) == 3:
        where = (*where[:2], *(short_types(each.where[2]) for each in alike))
    return (*([change.at] if change.at and change.kind == "worse" else []), *where)
