"""``kcheck diff`` for people: what has become worse, what better, what is new, and what may be the cause."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kcheck.model.baseline import Change
from kcheck.report import layout, plain, wording
from kcheck.report.detail import Paint, Role
from kcheck.report.lint_text import short_types

_KINDS: dict[str, tuple[str, Role]] = {
    "worse": ("WORSE", "wrong"),
    "within": ("within", "warn"),
    "better": ("better", "right"),
}


def change_lines(changes: Sequence[Change], width: int, paint: Paint) -> Iterator[str]:
    """One line for each change, by op, the worst kind first; where it is, below where there is no room beside."""
    order = list(_KINDS)
    for op in dict.fromkeys(change.op for change in changes):
        yield plain.line(op)
        mine = sorted((c for c in changes if c.op == op), key=lambda change: order.index(change.kind))
        sizes = [max(len(cells[n]) for cells in map(_cells, mine)) for n in range(3)]
        for change in mine:
            word, role = _KINDS[change.kind]
            cells = _cells(change)
            text = "  ".join(cell.ljust(size) for cell, size in zip(cells, sizes, strict=True))
            where = plain.line("  ".join(_where(change)))
            line = f"  {word:<6}  {text}".rstrip()
            if where and len(line) + 2 + len(where) <= width:
                line, where = f"{line}  {where}", ""
            yield paint(line, role)
            if where:
                yield f"          {layout.shorten(where, width - 10)}"


def _cells(change: Change) -> tuple[str, str, str]:
    """What, from where to where, by how much and how much is allowed."""
    name = change.measure if not change.detail else f"{change.measure} {change.detail}"
    low, high = sorted((change.before, change.after))
    by = f"{change.after - change.before:+g}" if change.limit.times is None or not low else f"{high / low:.3g}x"
    allowed = f"({by}, allowed {change.limit})" if change.kind == "worse" else f"({by})"
    return name, f"{_number(change.before)} → {_number(change.after)}", allowed


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else wording.measure(value)


def _where(change: Change) -> tuple[str, ...]:
    if len(change.where) != 3:
        return change.where
    kernel, target, types = change.where
    return kernel, target, short_types(types)
