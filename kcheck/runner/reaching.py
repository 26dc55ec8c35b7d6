"""Adds up what the cases of a spec have reached of its kernel."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from kcheck.model.coverage import CodeCoverage, CodePoint, FileCoverage, Place, Reached, both_ways
from kcheck.model.shard import Tally

Way = tuple[Place, str, int, int]
"""One direction of a branch: its line, the code that it is in, its number there, and the direction."""


class Reaching:
    """The tally of one spec. Most cases reach the same points, so it counts cases by what they reach."""

    def __init__(self) -> None:
        self.cases = 0
        self._points: dict[int, Sequence[CodePoint]] = {}
        self._counts: Counter[tuple[tuple[str, int, bytes], ...]] = Counter()

    def add(self, reached: Sequence[Reached]) -> None:
        """Count a case. If its code does not record what it reaches, it is not counted."""
        if not reached:
            return
        self.cases += 1
        self._points.update((id(each.points), each.points) for each in reached)
        self._counts[tuple((each.code, id(each.points), each.hits) for each in reached)] += 1

    def tally(self, root: str, notes: tuple[tuple[str, ...], ...]) -> Tally:
        """The tally of one shard, for :meth:`add_tally`. ``root`` and ``notes`` are the spec's."""
        codes: dict[tuple[str, int], int] = {}
        patterns = []
        for pattern, cases in self._counts.items():
            part = [(codes.setdefault((code, points), len(codes)), hits.hex()) for code, points, hits in pattern]
            patterns.append((cases, tuple(part)))
        found = ((code, tuple(_relative(point, root) for point in self._points[points])) for code, points in codes)
        return Tally(notes, tuple(found), tuple(patterns), self.cases)

    def add_tally(self, tally: Tally) -> None:
        """Add the tally of a shard. Its paths, which are relative to the root of the project, are unchanged."""
        self.cases += tally.counted
        for _, points in tally.codes:
            self._points[id(points)] = points
        for cases, pattern in tally.patterns:
            parts = [(*tally.codes[number], bytes.fromhex(hits)) for number, hits in pattern]
            self._counts[tuple((code, id(points), hits) for code, points, hits in parts)] += cases

    def result(self, root: str) -> CodeCoverage | None:
        """What the cases reached; None if nothing was counted.

        Args:
            root: paths in this folder become relative to it; empty if they are already relative.
        """
        if not self.cases:
            return None
        lines: Counter[Place] = Counter()
        ways: Counter[Way] = Counter()
        for pattern, cases in self._counts.items():
            here: dict[Place, bool] = {}
            taken: dict[Way, bool] = {}
            for code, points, hits in pattern:
                for point, hit in zip(self._points[points], hits, strict=True):
                    for place in point.lines:
                        here[place] = here.get(place, False) or bool(hit)
                    if point.branch is not None:
                        way = (point.branch, code, point.number, point.way)
                        taken[way] = taken.get(way, False) or bool(hit)
            for place, hit in here.items():
                lines[place] += cases * hit
            for way, hit in taken.items():
                ways[way] += cases * hit
        return CodeCoverage(self.cases, tuple(_files(lines, ways, root)))


def _files(lines: Mapping[Place, int], ways: Mapping[Way, int], root: str) -> list[FileCoverage]:
    branches: dict[tuple[Place, str, int], dict[int, int]] = {}
    for (place, code, number, way), cases in ways.items():
        branches.setdefault((place, code, number), {})[way] = cases
    best: dict[Place, tuple[int, ...]] = {}
    for (place, _, _), found in branches.items():
        here = tuple(cases for _, cases in sorted(found.items()))
        best[place] = max(best.get(place, here), here, key=both_ways)
    files = sorted((_path(file, root), file) for file in {file for file, _ in lines})
    return [
        FileCoverage(
            path,
            tuple(sorted((line, cases) for (where, line), cases in lines.items() if where == file)),
            tuple(sorted((line, found) for (where, line), found in best.items() if where == file)),
        )
        for path, file in files
    ]


def _relative(point: CodePoint, root: str) -> CodePoint:
    lines = tuple((_path(file, root), line) for file, line in point.lines)
    branch = None if point.branch is None else (_path(point.branch[0], root), point.branch[1])
    return replace(point, lines=lines, branch=branch)


def _path(file: str, root: str) -> str:
    if not root:
        return file
    relative = os.path.relpath(file, root)
    return file if relative.startswith("..") else relative
