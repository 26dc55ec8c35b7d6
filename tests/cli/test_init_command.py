"""``kcheck init``: a project that passes and shows one caught bug, and drafts of specs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kcheck.cli.main import main
from kcheck.draft.starter import BUGGY, FILES, SPEC

RUN = ["run", "--device", "simulator", "--cases", "2"]


@pytest.fixture(autouse=True)
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, with the current folder in it."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_the_example_passes_and_its_twin_is_caught(inside: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The commands that init prints: one passes, the other shows the bug; ``kcheck run`` alone passes."""
    assert main(["init", "demo"]) == 0
    said = capsys.readouterr().out
    assert files(inside / "demo") == {*FILES, "kcheck.yaml"}
    for line in ("cd demo", f"kcheck run {SPEC}", f"kcheck run {BUGGY}"):
        assert f"  {line}" in said
    assert max(map(len, said.splitlines())) <= 80
    os.chdir("demo")
    assert main(["validate", "-r"]) == 0
    assert main(RUN) == 0
    assert main([*RUN, BUGGY]) == 1


def test_nothing_is_overwritten(inside: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One file that exists is enough to write none."""
    (inside / "kernels").mkdir()
    (inside / "kernels/row_sum.py").write_text("mine")
    assert main(["init"]) == 2
    assert "kernels/row_sum.py already exists; nothing was written" in capsys.readouterr().err
    assert files(inside) == {"kernels/row_sum.py"}


def test_an_existing_project_keeps_its_files(inside: Path) -> None:
    """A folder that is a project root gets no kcheck.yaml."""
    (inside / "pyproject.toml").write_text("")
    assert main(["init"]) == 0
    assert files(inside) == {*FILES, "pyproject.toml"}


KERNEL = """\
from numba import cuda

@cuda.jit
def scale(x, alpha, y, n):
    i = cuda.grid(1)
    if i < n:
        y[i] = alpha * x[i]
"""


def test_a_draft_validates_and_says_what_to_fill_in(inside: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The spec is valid, its open points are marked, and the reference says to fill it in when it runs."""
    (inside / "pyproject.toml").write_text("[tool.kcheck]\nspecs = ['checks']\n")
    (inside / "lib").mkdir()
    (inside / "lib/ops.py").write_text(KERNEL)
    assert main(["init", "--kernel", "lib/ops.py:scale"]) == 0
    said = capsys.readouterr().out
    assert "edit references/scale.py" in said
    assert main(["validate"]) == 0
    spec = (inside / "checks/scale.yaml").read_text()
    assert "alpha: {dtype: float32, values: [0.5]}   # TODO" in spec
    assert "args: [x, alpha, y, n]" in spec
    assert main(RUN) == 2
    assert "fill in references/scale.py" in capsys.readouterr().out
    (inside / "references/scale.py").write_text("def scale(x, alpha):\n    return alpha * x\n")


@pytest.mark.parametrize(
    ("kernel", "said"),
    [
        ("ops.py", "'ops.py' does not name a kernel; write FILE:NAME"),
        ("nowhere.py:k", "there is no file 'nowhere.py'"),
        ("ops.py:scal", "no function 'scal' in this file; did you mean 'scale'?"),
    ],
)
def test_a_wrong_kernel_is_refused(
    inside: Path, capsys: pytest.CaptureFixture[str], kernel: str, said: str
) -> None:
    """Exit 2, the fix, and nothing written."""
    (inside / "ops.py").write_text(KERNEL)
    assert main(["init", "--kernel", kernel]) == 2
    assert said in capsys.readouterr().err
    assert files(inside) == {"ops.py"}
