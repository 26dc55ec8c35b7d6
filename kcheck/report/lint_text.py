"""``kcheck lint`` for people: a table for each spec, then what is wrong, then what is likely to be slow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from rich.cells import cell_len

from kcheck.model import Finding
from kcheck.model.metrics import Metrics
from kcheck.report import layout, plain, wording
from kcheck.report.detail import Paint, ReadLine, finding_rows, read_line

_HEAD = ("target", "regs", "spills", "stack", "shared", "const", "instr", "occupancy", "types")
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
    source: ReadLine = read_line,
) -> Iterator[str]:
    """The lines about one spec, or one PTX file.

    Args:
        title: the op's name; empty for a PTX file.
        width: terminal columns.
        paint: gives text the colour of a role, or leaves it.
        source: reads the line of a file that a finding points to.
    """
    yield plain.line(f"{title}  {path}" if title else path)
    for kernel in dict.fromkeys(metric.kernel for metric in metrics):
        mine = [metric for metric in metrics if metric.kernel == kernel]
        place = mine[0].place
        yield paint(plain.line(f"  {layout.shorten(kernel, width - 30)}  {place.file}:{place.line}"), "place")
        whole = [metric for metric in mine if not metric.problem]
        if whole:
            yield from _table(whole, width)
            yield from _mix(whole[0], width)
        for metric in mine:
            if metric.problem:
                told = Finding("compile", metric.problem, kernel=metric.kernel, place=metric.place)
                yield from _finding(told, width, paint, source)
    for finding in findings:
        yield from _finding(finding, width, paint, source)
    for finding in _merged(metrics):
        yield from _finding(finding, width, paint, source)
    for note in notes:
        yield from layout.wrap(plain.line(f"  note: {note}").split(" "), " ", width)
    yield ""


def _merged(metrics: Sequence[Metrics]) -> list[Finding]:
    """The advice on all specialisations, each rule and line once, of the one where it is most."""
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
            message=f"{finding.message}, in {times} of {len(metrics)} specialisations"
            if several
            else finding.message,
            count=1,
        )
        for finding, times in worst.values()
    ]


def _finding(finding: Finding, width: int, paint: Paint, source: ReadLine) -> Iterator[str]:
    for row in finding_rows(finding, source):
        for left, text in layout.labelled(row, 2, width):
            yield f"{paint(left, row.role) if row.label else left}{paint(text, row.role)}".rstrip()


def _table(metrics: Sequence[Metrics], width: int) -> Iterator[str]:
    rows = [_HEAD, *(_row(metric) for metric in metrics)]
    sizes = [max(cell_len(row[n]) for row in rows) for n in range(len(_HEAD) - 1)]
    room = width - 4 - sum(sizes) - 2 * len(sizes)
    for row in rows:
        cells = [row[0].ljust(sizes[0])]
        cells += [text.rjust(size) for text, size in zip(row[1:-1], sizes[1:], strict=True)]
        if room >= 8:
            cells.append(layout.shorten(row[-1], room))
        yield ("    " + "  ".join(cells)).rstrip()


def _row(metric: Metrics) -> tuple[str, ...]:
    resources = metric.resources
    sizes = ["-"] * 5
    if resources is not None:
        bytes_ = (resources.registers, resources.spills, resources.stack, resources.shared, resources.constant)
        sizes = [f"{size:,}" for size in bytes_]
    held = metric.occupancy
    share = "-" if held is None else f"{100 * held.share:.0f}%{' ' + _SHORT[held.limit] if held.limit else ''}"
    return (metric.target, *sizes, f"{metric.instructions:,}", share, short_types(metric.types))


_SHORT = {"registers": "regs", "shared memory": "smem", "threads": "threads", "blocks": "blocks"}


def short_types(types: str) -> str:
    """``float32[:,:] A, float32[:,:], int64`` as ``float32 AC.``: the arrays' dtypes, and of each argument its
    layout, a dot for a scalar."""
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
    """What the instructions of one specialisation are, the most frequent first."""
    total = sum(metric.families.values())
    common = sorted(metric.families.items(), key=lambda row: -row[1])[:_FAMILIES_SHOWN]
    parts = [f"{name} {100 * count / total:.0f}%" for name, count in common if total]
    counted = [
        wording.count(number, noun)
        for number, noun in (
            (metric.families.get("branch", 0), "branch"),
            (metric.families.get("barrier", 0), "barrier"),
            (metric.divisions, "division"),
            (metric.prints, "print"),
        )
        if number
    ]
    for line in layout.wrap([*parts, *(text.replace("branchs", "branches") for text in counted)], "  ", width - 4):
        yield f"    {line}"
