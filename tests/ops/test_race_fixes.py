"""The fix of a race is right: obeyed to the letter, it removes the race and breaks nothing."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from forked_python import environment, run_module

from benchmarks.evidence.corpus import ROOT, Twin, twins

BARRIERS = re.compile(r"put (cuda\.sync\w+\(\)|__sync\w+\(\)) (between .*)")
"""The call, and where it belongs."""
ATOMIC = {"non-atomic update", "accumulator overwritten"}
RACING = [
    twin
    for twin in twins()
    if set(twin.caught_by) == {"racecheck"} and twin.kernel.is_file() and not twin.of.endswith("_triton")
]
BY_BARRIER = [twin for twin in RACING if twin.kind == "missing barrier" and "fence" not in twin.name]
BY_ATOMIC = [twin for twin in RACING if twin.kind in ATOMIC]
SECONDS = 200.0
MOST_EDITS = 3
"""A twin that lacks one barrier may need two where the path around a loop is open, too."""


def test_there_are_races_of_both_kinds() -> None:
    assert len(BY_BARRIER) >= 12
    assert len(BY_ATOMIC) >= 3


def some(of: list[Twin]) -> list[Any]:
    """All of them; two of three run in a soak only."""
    return [
        pytest.param(twin, id=twin.name, marks=[pytest.mark.soak] if n % 3 else []) for n, twin in enumerate(of)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("twin", some(BY_BARRIER))
def test_the_barrier_that_a_fix_names_removes_the_race(twin: Twin, tmp_path: Path) -> None:
    project = Project(tmp_path / "project", twin)
    for _ in range(MOST_EDITS):
        errors = project.errors()
        if not errors:
            return
        project.obey(errors[0])
    assert project.errors() == []


@pytest.mark.slow
@pytest.mark.parametrize("twin", BY_ATOMIC, ids=lambda twin: twin.name)
def test_a_lost_update_is_told_to_use_an_atomic(twin: Twin, tmp_path: Path) -> None:
    (first, *_) = Project(tmp_path / "project", twin).errors()
    assert re.match(
        "to update one element, use|give each thread its own element, or use|use an atomic", first["fix"]
    )
    assert "atomic" in first["fix"]


class Project:
    """A copy of a twin's project whose kernel can be edited."""

    def __init__(self, root: Path, twin: Twin) -> None:
        for folder in ("kernels", "specs", "references"):
            shutil.copytree(ROOT / folder, root / folder, ignore=shutil.ignore_patterns("__pycache__"))
        (root / "kcheck.yaml").write_text("")
        self.root, self.spec = root, f"specs/buggy/{twin.name}.yaml"

    def errors(self) -> list[dict[str, Any]]:
        """The errors of the first cases; wrong values count, too."""
        words = ["run", self.spec, "--cases", "8", "--sanitize", "racecheck", "--format", "json", "-o", "r.json"]
        run = run_module(["kcheck", *words], self.root, environment(), SECONDS)
        assert run.returncode in (0, 1), run.stderr
        cases = [
            case for spec in json.loads((self.root / "r.json").read_text())["specs"] for case in spec["cases"]
        ]
        found = [f for case in cases for f in case["findings"] if f["severity"] == "error"]
        found.sort(key=lambda f: f["rule"] != "racecheck")
        return found or [case for case in cases if case["status"] == "failed"]

    def obey(self, finding: dict[str, Any]) -> None:
        """Edit the kernel as the fix says."""
        assert finding["rule"] == "racecheck", finding
        wanted = BARRIERS.search(finding["fix"])
        assert wanted, finding
        call = wanted[1] + (";" if wanted[1].startswith("_") else "")
        places = [finding["place"], finding["other_place"]]
        file = self.root / places[0]["file"]
        lines = file.read_text().splitlines()
        first, last = sorted(place["line"] - 1 for place in places)
        if re.search(r"the next|between calls|end of the loop", wanted[2]):  # before the first access comes again
            at = _statement(lines, first, last, first)
            lines.insert(at, " " * _indent(lines[at]) + call)
            first, last = first + 1, last + 1
        if not re.search(r"the next|between calls", wanted[2]):
            at = _statement(lines, first, last, last)
            lines.insert(at, " " * _indent(lines[at]) + call)
        file.write_text("\n".join(lines) + "\n")


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _statement(lines: list[str], first: int, last: int, wanted: int) -> int:
    """Where the statement of a line begins, in the innermost block that has the lines ``first`` and ``last``; in
    the body of its function if they are in two functions."""
    block = min(_indent(line) for line in lines[first : last + 1] if line.strip())
    if block == 0:
        head = max(n for n in range(wanted) if lines[n].strip() and _indent(lines[n]) == 0)
        block = _indent(lines[head + 1])
    return max(n for n in range(wanted + 1) if _indent(lines[n]) <= block and lines[n].strip())
