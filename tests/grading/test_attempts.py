"""No attempt turns a wrong candidate into a correct one; each gets one verdict, and the next one is graded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kcheck.grading.grader import Grader, GradingOptions
from kcheck.grading.isolated import Isolation
from kcheck.grading.problem import read_problem
from tests.grading.attempts import ATTEMPTS, HONEST, KERNELS, PATCHED

_SPEC = """kcheck: 1
op: twice
dims: {N: 1..300}
inputs:
  x: {shape: [N], dtype: float32, layouts: [contiguous], values: [normal]}
outputs:
  y: {shape: [N], dtype: float32, layouts: [contiguous]}
launcher: solution.py:solve
reference: reference.py:twice
"""
_REFERENCE = "def twice(x):\n    return 2 * x + 1\n"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    (folder / "kcheck.yaml").write_text("")
    (folder / "twice.yaml").write_text(_SPEC)
    (folder / "reference.py").write_text(_REFERENCE)
    (folder / "solution.py").write_text(KERNELS + HONEST["plain"])
    return folder


@pytest.fixture(scope="module")
def grader(project: Path) -> Iterator[Grader]:
    isolation = Isolation(memory=1 << 30, timeout=2.0, loading=4.0)
    with Grader(read_problem(project / "twice.yaml"), GradingOptions(6, 0, isolation)) as made:
        yield made


def _file(folder: Path, project: Path, text: str) -> Path:
    path = folder / "candidate.py"
    before = KERNELS + (
        PATCHED if any(name in text for name in ("patched(", "Executor", "ByteChannel", "Memory")) else ""
    )
    path.write_text(f"{before}\nPROJECT = {str(project)!r}\n{text}\n")
    return path


@pytest.mark.parametrize("name", HONEST)
def test_a_correct_candidate_is_correct(grader: Grader, project: Path, tmp_path: Path, name: str) -> None:
    graded = grader.grade(_file(tmp_path, project, HONEST[name]))
    assert (graded.verdict, graded.message) == ("correct", "")
    assert graded.passed == graded.planned
    assert graded.reward == 1


@pytest.mark.parametrize("name", ATTEMPTS)
def test_an_attempt_has_its_verdict(grader: Grader, project: Path, tmp_path: Path, name: str) -> None:
    expected, text = ATTEMPTS[name]
    verdict, _, rule = expected.partition(" ")
    graded = grader.grade(_file(tmp_path, project, text))
    assert (graded.verdict, bool(graded.message)) == (verdict, True), graded
    assert rule in ("", graded.rule), graded
    assert graded.reward < 1
