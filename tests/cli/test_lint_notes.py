"""``kcheck run`` notes what the linter says about the PTX that ran on the cpu device."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from small_project import Kcheck

RUN = ("run", "--device", "cpu", "specs/good.yaml")
SAYS = "lint: kernels/k.py:8: 2.0 is a float64 constant, so the kernel computes in float64"


@pytest.fixture
def doubling(kcheck: Kcheck, project: Path) -> Kcheck:
    """A float32 kernel with a float64 constant on line 8."""
    kernels = project / "kernels/k.py"
    text = kernels.read_text()
    assert text.splitlines()[7] == "        y[i] = x[i] + x[i]"
    kernels.write_text(text.replace("y[i] = x[i] + x[i]", "y[i] = (x[i] + 1) * 2.0 - 2", 1))
    return kcheck


def test_a_float64_constant_in_a_float32_kernel_is_noted(doubling: Kcheck) -> None:
    """Once per line, not per case, with file, line and fix; from the cache as from the compiler; not an error."""
    for _ in range(2):
        done = doubling(*RUN, "--format", "json")
        assert done.returncode == 0, done.stdout
        (spec,) = json.loads(done.stdout)["specs"]
        (note,) = [note for note in spec["notes"] if note.startswith("lint: ")]
        assert note.startswith(SAYS)
        assert "; write np.float32(2.0)" in note


def test_equal_advice_is_noted_once_with_every_line(doubling: Kcheck, project: Path) -> None:
    """One constant on two lines is one note."""
    kernels = project / "kernels/k.py"
    text = kernels.read_text()
    line = "        y[i] = (x[i] + 1) * 2.0 - 2\n"
    kernels.write_text(text.replace(line, line + line.replace("x[i]", "x[0]"), 1))
    (spec,) = json.loads(doubling(*RUN, "--format", "json").stdout)["specs"]
    notes = [note for note in spec["notes"] if note.startswith("lint: ")]
    assert [note.partition(": 2.0 is")[0] for note in notes] == ["lint: kernels/k.py:8, 9"]


def test_no_lint_silences_it(doubling: Kcheck) -> None:
    """The run says nothing about the code then; nor does one case that is run again."""
    for options in (("--no-lint",), ("-k", "least")):
        done = doubling(*RUN, *options)
        assert done.returncode == 0
        assert "lint" not in done.stdout


def test_a_clean_kernel_has_no_note(kcheck: Kcheck) -> None:
    """The twin without the constant."""
    assert "lint" not in kcheck(*RUN).stdout
