"""Findings of the processes under ``kcheck exec``: printed as they occur, counted in files, summed up at the end.
Each process reports the first finding of a rule at a line, on stderr and as a line of JSON in a shared file. Equal
findings that follow are only counted. Each process counts in its own file, with 8 bytes for each finding that it
reported, so that counts are exact however the process ends.
"""

from __future__ import annotations

import json
import linecache
import os
import struct
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any, TextIO, TypeAlias

from kcheck.model import Finding, Index3, Level, Span
from kcheck.span import as_typed

_COUNT = struct.Struct("<Q")
_INDENT = " " * 8
Site: TypeAlias = tuple[str, str, str | None, tuple[str, int] | None]


class FindingLog:
    """Reports what this process finds.

    Args:
        path: the file that every process appends to; the files with counts are in the same folder.
        levels: the levels of sanitizers; error for the others.
        stream: where the findings are printed for people to read.
    """

    def __init__(self, path: str, levels: Mapping[str, Level], stream: TextIO) -> None:
        self._path = path
        self._levels = dict(levels)
        self._stream = stream
        self._lock = threading.Lock()
        self._forget()
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        """Start over: a forked process counts in its own file."""
        self._slots: dict[Site, int] = {}
        self._counts: list[int] = []
        self._file: int | None = None
        self._name = ""

    @property
    def is_empty(self) -> bool:
        """Whether this process has reported nothing."""
        return not self._slots

    def report(self, finding: Finding) -> None:
        """Report a finding, unless its rule is off. Notes are not reported: they have no fix, and only a
        comparison with a reference could tell whether they matter."""
        if finding.note:
            return
        told = finding.at_level(self._levels.get(finding.rule, "error"))
        if told is None:
            return
        finding = told
        with self._lock:
            site = _site(finding)
            slot = self._slots.get(site)
            if slot is None:
                slot = self._slots[site] = len(self._slots)
                self._counts.append(0)
                self._tell(finding, slot)
            self._counts[slot] += finding.count
            if self._file is not None:
                os.pwrite(self._file, _COUNT.pack(self._counts[slot]), slot * _COUNT.size)

    def _tell(self, finding: Finding, slot: int) -> None:
        print("\n".join(told(finding)), file=self._stream, flush=True)
        if self._file is None:
            self._file, self._name = tempfile.mkstemp(dir=os.path.dirname(self._path), prefix="counts-")
        line = json.dumps(
            {"finding": asdict(replace(finding, seen=None)), "counts": os.path.basename(self._name), "slot": slot}
        )
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(line + "\n")  # one write per line, since processes append concurrently


def _site(finding: Finding) -> Site:
    """Findings with the same key are equal, and only the first one is reported."""
    line = None if finding.place is None else (finding.place.file, finding.place.line)
    return (finding.rule, finding.severity, finding.kernel, line)


def collected(path: str) -> list[Finding]:
    """The findings of all processes, in order: each rule and line once, with the total count."""
    found: dict[Site, Finding] = {}
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        for line in file:
            row = json.loads(line)
            finding = replace(read_finding(row["finding"]), count=_count(path, row["counts"], row["slot"]))
            site = _site(finding)
            before = found.get(site)
            found[site] = finding if before is None else replace(before, count=before.count + finding.count)
    return list(found.values())


def _count(path: str, name: str, slot: int) -> int:
    with open(os.path.join(os.path.dirname(path), name), "rb") as file:
        file.seek(slot * _COUNT.size)
        content = file.read(_COUNT.size)
    return (
        int(_COUNT.unpack(content)[0]) if len(content) == _COUNT.size else 1
    )  # the process ended before it counted


def read_finding(fields: dict[str, Any]) -> Finding:
    """The inverse of ``dataclasses.asdict``."""
    return Finding(**{name: _value(value) for name, value in fields.items()})


def _value(value: Any) -> Any:
    if isinstance(value, dict):
        return Span(**value)
    return tuple(_value(part) for part in value) if isinstance(value, list) else value


def told(finding: Finding) -> list[str]:
    """The lines of text for a finding::

    kcheck: script.py:12: memcheck in gemm: reads 4 bytes right past the end of ...
            c[i] += a[i, k] * b[k, j]
            block 3, thread 4
            → guard the access
    """
    where = f"{_place(finding.place)}: " if finding.place else ""
    warning = "warning: " if finding.severity == "warn" else ""
    kernel = f" in {finding.kernel}" if finding.kernel else ""
    lines = [f"kcheck: {where}{warning}{finding.rule}{kernel}: {finding.message}"]
    if finding.place and (source := linecache.getline(finding.place.file, finding.place.line).strip()):
        lines.append(_INDENT + source)
    lines += [f"{_INDENT}in {_place(place)}" for place in finding.callees]
    lines += [f"{_INDENT}called from {_place(place)}" for place in finding.callers]
    parts = []
    threads = finding.unit == "block"
    if finding.block is not None:
        parts.append(f"{finding.unit} {_told3(finding.block)}")
    if finding.thread is not None and threads:
        parts.append(f"thread {_told3(finding.thread)}")
    if finding.other is not None:
        where = f" at {_place(finding.other_place)}" if finding.other_place else ""
        thread = f", thread {_told3(finding.other[1])}" if threads else ""
        who = "itself" if not threads and finding.other[0] == finding.block else ""
        parts.append(f"against {who or f'{finding.unit} {_told3(finding.other[0])}{thread}'}{where}")
    if parts:
        lines.append(_INDENT + ", ".join(parts))
    if finding.fix:
        lines.append(f"{_INDENT}→ {finding.fix}")
    return lines


def summary(findings: list[Finding]) -> list[str]:
    """The number of errors and warnings; one line for each finding if there are several, or one that occurred more
    than once. Then how to see lines, if some have none."""
    if not findings:
        return []
    has_lines = all(found.place or not found.kernel or found.rule == "compile" for found in findings)
    hint = [] if has_lines else ["kcheck: to see lines of the source, compile it with -lineinfo"]
    return [*_totals(findings), *hint]


def _totals(findings: list[Finding]) -> list[str]:
    counts = [("error", sum(finding.severity == "error" for finding in findings))]
    counts.append(("warning", len(findings) - counts[0][1]))
    head = ", ".join(f"{number} {noun}{'s' if number != 1 else ''}" for noun, number in counts if number)
    if len(findings) == 1 and findings[0].count == 1:
        return [f"kcheck: {head}"]
    rows = [
        (
            finding.rule,
            finding.kernel or "",
            _place(finding.place) if finding.place else "",
            f"{finding.count:,} times" if finding.count > 1 else "once",
        )
        for finding in findings
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return [
        f"kcheck: {head}",
        *(
            _INDENT + "  ".join((*(text.ljust(width) for text, width in zip(row, widths, strict=False)), row[3]))
            for row in rows
        ),
    ]


def _place(place: Span) -> str:
    """``script.py:12``, relative to the folder in which the program was started if it is below that."""
    return replace(place, file=as_typed(place.file)).short


def _told3(index: Index3) -> str:
    return str(index[0]) if index[1:] == (0, 0) else f"({index[0]}, {index[1]}, {index[2]})"
