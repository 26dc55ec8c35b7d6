"""``--lf``, ``--cases 0``, and how open failures are counted beside the cases that were asked for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from small_project import Kcheck

RUN = ("run", "--device", "simulator")
BAD = (*RUN, "specs/buggy/bad.yaml")
BOTH = (*RUN, "specs/good.yaml", "specs/buggy/bad.yaml")


def test_lf_runs_the_open_failures_and_nothing_else(stored: Kcheck) -> None:
    """Specs without an open failure do not appear, nor do the planned cases that passed."""
    stored(*BAD, "--cases", "3")
    done = stored(*BOTH, "--lf", "--format", "json")
    assert done.returncode == 1
    (spec,) = json.loads(done.stdout)["specs"]
    assert spec["op"] == "bad"
    assert len(spec["cases"]) == 3


def test_lf_without_paths_runs_failures_of_specs_in_any_folder(stored: Kcheck, project: Path) -> None:
    """Even if the spec is in a subfolder, which a run without paths does not read; a deleted spec is skipped."""
    stored(*BAD, "--cases", "3")
    assert "3 open failures: 3 failed" in stored(*RUN, "--lf").stdout
    (project / "specs/buggy/bad.yaml").unlink()
    done = stored(*RUN, "--lf")
    assert (done.returncode, done.stderr) == (5, "kcheck: nothing selected: no open failures in the store\n")


def test_lf_without_an_open_failure_selects_nothing(stored: Kcheck, project: Path) -> None:
    """Exit code 5 and a message, before the first run and after the fix."""
    nothing = "kcheck: nothing selected: no open failures in the store\n"
    done = stored(*BOTH, "--lf")
    assert (done.returncode, done.stderr) == (5, nothing)
    assert stored(*BAD).returncode == 1
    kernels = project / "kernels/k.py"
    kernels.write_text(kernels.read_text().replace("x[i] * 3", "x[i] * 2"))
    assert stored(*BOTH, "--lf").returncode == 0
    done = stored(*BOTH, "--lf")
    assert (done.returncode, done.stderr) == (5, nothing)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--no-store",), "--lf needs the store"),
        (("--cases", "3"), "--lf runs stored failures; remove --cases, --seed and --case-seed"),
    ],
)
def test_lf_refuses_what_contradicts_it(stored: Kcheck, options: tuple[str, ...], message: str) -> None:
    """Options that choose other cases."""
    done = stored(*BAD, "--lf", *options)
    assert done.returncode == 2
    assert message in done.stderr


def test_the_sum_tells_cases_from_open_failures(stored: Kcheck) -> None:
    """``--cases 3`` says 3 cases, however many failures ran first."""
    assert "1 case: 1 failed" in stored(*BAD, "--cases", "1").stdout
    done = stored(*BAD, "--cases", "3", "--seed", "99")
    assert "3 cases + 1 open failure: " in done.stdout.splitlines()[-1]


def test_lf_counts_every_case_as_an_open_failure(stored: Kcheck) -> None:
    """Also those that the plan would run anyway, so that the sum is the number that the store had open."""
    stored(*BAD, "--cases", "3")
    stored(*BAD, "--cases", "2", "--seed", "99")
    assert (
        stored(*BAD, "--lf").stdout.splitlines()[-1].startswith("1 of 1 spec failed · 5 open failures: 5 failed")
    )


def test_zero_cases_without_examples_says_so(stored: Kcheck) -> None:
    """The message names --cases, not an option that was not given."""
    done = stored(*BAD, "--cases", "0")
    assert done.returncode == 5
    assert "--cases 0 runs only the examples of a spec, and there are none" in done.stderr
    assert "-k" not in done.stderr
