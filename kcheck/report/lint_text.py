"""The text output of ``kcheck lint``: a table for each spec, then errors, then advice on slow code."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from rich.cells import cell_len

from kcheck.model import Finding
from kcheck.model.metrics import Metrics
from kcheck.model.outcome import NotCompiling
from kcheck.report import layout, plain, wording
from kcheck.report.detail import Paint, finding_rows, read_line

_HEAD = ("target", "regs", "spills", "stack", "shared", "const", "instr", "sass", "occupancy", "types")
_SASS = _HEAD.index("sass")
_FAMILIES_SHOWN = 6


def lint_lines(
    title: str,
    path: str,
    metrics: Sequence[Metrics],
    findings: Iterable[Finding],
    notes: Iterable[str],
    *,
    width: int,
    paint: Paint,
) -> Iterator[str]:
    """The lines about one spec, or one PTX file.

    Args:
        title: the op's name; empty for a PTX file.
        width: terminal columns.
        paint: colors text by its role.
    """
    yield from layout.wrap([plain.line(part) for part in (title, path) if part], "  ", width)
    for kernel in dict.fromkeys(metric.kernel for metric in metrics):
        mine = [metric for metric in metrics if metric.kernel == kernel]
        place = mine[0].place
        parts = [plain.line(kernel), layout.cut_folders(plain.line(place.short), width - 2)]
        yield from (paint(f"  {line}", "place") for line in layout.wrap(parts, "  ", width - 2))
        whole = [metric for metric in mine if not metric.problem]
        if whole:
            yield from _table(whole, width)
            yield from _mix(whole[0], width)
        for metric in mine:
            if metric.problem and NotCompiling(metric.problem) not in [finding.seen for finding in findings]:
                told = Finding("compile", metric.problem, kernel=metric.kernel, place=metric.place)
                yield from _finding(told, width, paint)
    for finding in findings:
        yield from _finding(finding, width, paint)
    for finding in _merged(metrics):
        yield from _finding(finding, width, paint)
    for note in notes:
        yield from (f"  {line}" for line in layout.wrap(plain.line(f"note: {note}").split(" "), " ", width - 2))
    yield ""


def _merged(metrics: Sequence[Metrics]) -> list[Finding]:
    """The advice for all specializations: for each rule and line, the one with the highest count."""
    worst: dict[tuple[object, ...], tuple[Finding, int]] = {}
    for metric in metrics:
        for finding in metric.advice:
            key = (finding.rule, finding.kernel, finding.place)
            known, times = worst.get(key, (finding, 0))
            worst[key] = (finding if finding.count > known.count else known, times + 1)
    several = len(metrics) > 1
    return [
        replace(
            finding,
            message=f"{finding.message}, in {times} of {len(metrics)} specializations"
            if several
            else finding.message,
            count=1,
        )
        for finding, times in worst.values()
    ]


def _finding(finding: Finding, width: int, paint: Paint) -> Iterator[str]:
    for row in finding_rows(finding, read_line):
        for left, text in layout.labeled(row, 2, width):
            yield f"{paint(left, row.role) if row.label else left}{paint(text, row.role)}".rstrip()


def _table(metrics: Sequence[Metrics], width: int) -> Iterator[str]:
    rows = [_HEAD, *(_row(metric) for metric in metrics)]
    sass = [row[_SASS] for row in rows]
    rows = [(*row[:_SASS], *row[_SASS + 1 :]) for row in rows]
    whole = 4 + sum(2 + max(cell_len(row[n]) for row in rows) for n in range(len(rows[0])))
    # The SASS column is shown only if there is room: its numbers are also below the table.
    if any(metric.sass is not None for metric in metrics) and whole + max(map(len, sass)) <= width:
        rows = [(*row[:_SASS], cell, *row[_SASS:]) for row, cell in zip(rows, sass, strict=True)]
    sizes = [max(cell_len(row[n]) for row in rows) for n in range(len(rows[0]) - 1)]
    room = width - 4 - sum(sizes) - 2 * len(sizes)
    if room < -2:  # too narrow for a table
        for row in rows[1:]:
            pairs = [f"{name} {cell}" for name, cell in zip(rows[0][1:], row[1:], strict=True) if cell]
            for number, line in enumerate(layout.wrap([row[0], *pairs], "  ", width - 6)):
                yield f"{'      ' if number else '    '}{line}"
        return
    for row in rows:
        cells = [row[0].ljust(sizes[0])]
        cells += [text.rjust(size) for text, size in zip(row[1:-1], sizes[1:], strict=True)]
        if room >= 8:
            cells.append(layout.cut_end(row[-1], room))
        yield ("    " + "  ".join(cells)).rstrip()


def _row(metric: Metrics) -> tuple[str, ...]:
    resources = metric.resources
    sizes = ["-"] * 5
    if resources is not None:
        bytes_ = (resources.registers, resources.spills, resources.stack, resources.shared, resources.constant)
        sizes = [f"{size:,}" for size in bytes_]
    held = metric.occupancy
    share = "-" if held is None else f"{100 * held.share:.0f}%{' ' + _SHORT[held.limit] if held.limit else ''}"
    sass = "-" if metric.sass is None else f"{metric.sass.instructions:,}"
    return (metric.target, *sizes, f"{metric.instructions:,}", sass, share, short_types(metric.types))


_SHORT = {"registers": "regs", "shared memory": "smem", "threads": "threads", "blocks": "blocks"}


def short_types(types: str) -> str:
    """``float32[:,:] A, float32[:,:], int64`` as ``float32 AC.``: the dtypes of the arrays, then the layout
    of each argument, with a dot for a scalar."""
    dtypes: dict[str, None] = {}
    letters = ""
    for part in types.split(", ") if types else ():
        dtype, bracket, rest = part.partition("[")
        if not bracket:
            letters += "."
            continue
        dtypes.setdefault(dtype)
        letters += rest.partition("]")[2].strip() or "C"
    return f"{'/'.join(dtypes)} {letters}".strip()


def _mix(metric: Metrics, width: int) -> Iterator[str]:
    """The instruction mix of one specialization, in PTX and in machine code, the most frequent first."""
    others = {"division": metric.divisions, "print": metric.prints}
    rows = [("PTX ", metric.instructions, metric.families, others)]
    if (sass := metric.sass) is not None:
        rows.append(("SASS", sass.instructions, sass.families, {"call": sass.families.get("call", 0)}))
    size = max(len(f"{total:,}") for _, total, _, _ in rows)
    for label, total, families, others in rows:
        left = f"    {label} {total:>{size},}  "
        counts = {noun: families.get(noun, 0) for noun in ("branch", "barrier")} | others
        counted = [wording.count(number, noun) for noun, number in counts.items() if number]
        parts = [*_shares(families), *(text.replace("branchs", "branches") for text in counted)]
        for number, line in enumerate(layout.wrap(parts, "  ", width - len(left))):
            yield f"{left if number == 0 else ' ' * len(left)}{line}".rstrip()


def _shares(families: Mapping[str, int]) -> list[str]:
    total = sum(families.values())
    common = sorted(families.items(), key=lambda row: -row[1])[:_FAMILIES_SHOWN]
    return [f"{name} {100 * count / total:.0f}%" for name, count in common]
