"""The lines and branches of kernels that were reached: as text, as lcov's tracefile,
and combined from several runs."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from kcheck.model import CodeCoverage, FileCoverage
from kcheck.model.coverage import both_ways
from kcheck.report import plain, wording
from kcheck.report.detail import DetailRow, list_row, sentence


def ranges(lines: Iterable[int]) -> list[str]:
    """Lines as ``3-5``, ``9``."""
    runs = groupby(enumerate(sorted(lines)), lambda pair: pair[1] - pair[0])
    found = [[line for _, line in run] for _, run in runs]
    return [str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in found]


def share(file: FileCoverage) -> str:
    """``26 of 28 lines, 5 of 6 branches``."""
    parts = [f"{len(file.lines) - len(file.missed):,} of {wording.count(len(file.lines), 'line')}"]
    if file.branches:
        whole = sum(all(ways) for _, ways in file.branches)
        parts.append(f"{whole:,} of {len(file.branches):,} branch{'es' if len(file.branches) > 1 else ''}")
    return ", ".join(parts)


def reached_rows(found: CodeCoverage, cases: int) -> Iterator[DetailRow]:
    """The coverage of a spec's kernel.

    Args:
        cases: how many cases ran, including those that did not count lines.
    """
    for file in found.files:
        yield DetailRow("coverage", (f"{plain.line(file.path)}:", share(file)), " ")
        if file.missed:
            yield list_row("", ["no case reached line " + ranges(file.missed)[0], *ranges(file.missed)[1:]])
        if file.one_sided:
            yield list_row("", ["one way only at line " + ranges(file.one_sided)[0], *ranges(file.one_sided)[1:]])
    if found.cases < cases:
        yield sentence("", f"counted in {found.cases:,} of {cases:,} cases; --coverage counts every case")


def combined(found: Sequence[CodeCoverage]) -> CodeCoverage:
    """The combined coverage of several runs or specs. For a branch whose condition a compiler may have inverted in
    one of them, the counts are from the run that took the most directions."""
    lines: dict[str, Counter[int]] = {}
    branches: dict[str, dict[int, tuple[int, ...]]] = {}
    for file in (file for coverage in found for file in coverage.files):
        counts = lines.setdefault(file.path, Counter())
        for line, cases in file.lines:
            counts[line] += cases
        known = branches.setdefault(file.path, {})
        for line, ways in file.branches:
            known[line] = max(known.get(line, ways), ways, key=both_ways)
    files = (
        FileCoverage(path, tuple(sorted(lines[path].items())), tuple(sorted(branches[path].items())))
        for path in sorted(lines)
    )
    return CodeCoverage(sum(coverage.cases for coverage in found), tuple(files))


def lcov(found: CodeCoverage, root: str) -> str:
    """A tracefile for ``genhtml`` and other tools that read lcov's format. Counts are cases, not executions."""
    records: list[str] = []
    for file in found.files:
        ways = [(line, way, cases) for line, counts in file.branches for way, cases in enumerate(counts)]
        reached = {line for line, cases in file.lines if cases}
        records += [
            "TN:kcheck",
            f"SF:{plain.line(os.path.join(root, file.path))}",
            *(f"BRDA:{line},0,{way},{cases if line in reached else '-'}" for line, way, cases in ways),
            f"BRF:{len(ways)}",
            f"BRH:{sum(cases > 0 for _, _, cases in ways)}",
            *(f"DA:{line},{cases}" for line, cases in file.lines),
            f"LF:{len(file.lines)}",
            f"LH:{len(reached)}",
            "end_of_record",
        ]
    return "".join(f"{record}\n" for record in records)


def is_as_run(root: str, path: str, digests: Mapping[str, str]) -> bool:
    """Whether a file is the same as when its coverage was measured.

    Args:
        digests: SHA-256 of the files at that time, by path relative to the root. Files that are not in it count as
            unchanged.
    """
    known = digests.get(path.replace(os.sep, "/"))
    if known is None:
        return True
    try:
        with open(os.path.join(root, path), "rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest() == known
    except OSError:
        return False
