"""What a run leaves in the project's store, and the commands that show it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from small_project import Kcheck

RUN = ("run", "--device", "simulator")
BAD = (*RUN, "specs/buggy/bad.yaml")


def seeds(output: str) -> list[str]:
    return re.findall(r" (\d+)  mismatch", output, re.MULTILINE)


def test_a_failure_from_run_to_fixed(stored: Kcheck, project: Path) -> None:
    """It is listed, shown, run first by the next run, and closed by the run in which it passes."""
    assert stored(*BAD).returncode == 1
    listed = stored("failures")
    assert listed.returncode == 0
    assert listed.stdout.startswith("bad · specs/buggy/bad.yaml · 2 failures\n")
    (one, two) = seeds(listed.stdout)
    assert "kcheck reproduce 1\n" in listed.stdout
    shown = stored("show", max(one, two, key=lambda seed: "N=1\n" not in stored("show", seed).stdout))  # has a map
    assert shown.returncode == 0
    for part in (
        "state      open, failed 1 time on the simulator",
        "inputs     x  float32[",
        "worst  ",
        "map  ",
        "█",
    ):
        assert part in shown.stdout, shown.stdout
    assert all(len(line) <= 80 for line in (listed.stdout + shown.stdout).splitlines())
    report = json.loads(stored(*BAD, "--cases", "1", "--seed", "77", "--format", "json").stdout)
    cases = [(case["label"], case["seed"]) for case in report["specs"][0]["cases"]]
    assert [label.partition("_")[0] for label, _ in cases] == ["stored", "stored", "least"]
    assert {seed for _, seed in cases[:2]} == {one, two}
    kernels = project / "kernels/k.py"
    kernels.write_text(kernels.read_text().replace("x[i] * 3", "x[i] * 2"))
    assert stored(*BAD).returncode == 0
    assert stored("failures").stdout == "no open failures\n"
    assert stored("failures", "-a").stdout.count(" fixed ") == 3


def test_runs_are_listed_and_collected(stored: Kcheck) -> None:
    """Newest first, with their counts; gc keeps as many as it is told."""
    stored(*RUN)
    stored(*RUN, "specs", "-r")
    head, *rows = stored("runs").stdout.splitlines()
    assert head.split() == ["run", "started", "device", "took", "cases", "command"]
    assert [row.split()[0] for row in rows] == ["2", "1"]
    assert "8: 2 failed, 1 error" in rows[0]
    assert "4 passed" in rows[1]
    assert stored("gc", "--runs", "1").stdout.startswith("deleted 1 run; the store now takes ")
    assert [row.split()[0] for row in stored("runs").stdout.splitlines()[1:]] == ["2"]


def test_runs_are_collected_by_age_and_size(stored: Kcheck) -> None:
    """An age or a date; a size with its unit."""
    for _ in range(2):
        stored(*RUN)
    assert stored("gc", "--older-than", "1d", "--max-size", "1.5GiB").stdout.startswith(
        "nothing to delete; the store takes "
    )
    assert stored("gc", "--max-size", "10kB").stdout.startswith("deleted 1 run;")
    done = stored("gc", "--max-size", "ten")
    assert done.returncode == 2
    assert "write 200MB" in done.stderr


@pytest.mark.parametrize("how", [("--no-store",), ()])
def test_a_run_without_the_store_leaves_nothing(stored: Kcheck, project: Path, how: tuple[str, ...]) -> None:
    """--no-store, or KCHECK_STORE=off."""
    environment = {} if how else {"KCHECK_STORE": "off"}
    assert stored(*BAD, *how, **environment).returncode == 1
    assert not (project / ".kcheck").exists()


@pytest.mark.parametrize(
    ("content", "says"),
    [(b"not a database, whatever its name says" * 100, "the store is damaged"), (None, "unable to open")],
)
def test_a_store_that_cannot_be_used_does_not_stop_a_run(
    stored: Kcheck, project: Path, content: bytes | None, says: str
) -> None:
    """The verdict is given, with a warning that names the file and the fix; other commands exit with 2."""
    file = project / ".kcheck/store.db"
    file.parent.mkdir()
    if content is None:
        file.mkdir()
    else:
        file.write_bytes(content)
    done = stored(*BAD)
    assert done.returncode == 1
    assert "2 of 2 failed" in done.stdout
    assert f"kcheck: warning: .kcheck/store.db: {says}" in done.stderr
    assert "the run continues, but its results are not stored" in done.stderr
    listed = stored("failures")
    assert (listed.returncode, listed.stdout) == (2, "")
    assert ".kcheck/store.db: " in listed.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("show", "12"), "`kcheck failures` has no number 12, and no case with the seed 12 is stored"),
        (("show", "bad"), "'bad' names no case; give a number or an id from `kcheck failures`, a seed, 'last' or"),
        (("failures", "--since", "monday"), "'monday' is not a date or an age; write 2026-11-20,"),
    ],
)
def test_what_is_not_there_is_said(stored: Kcheck, arguments: tuple[str, ...], message: str) -> None:
    """A seed or a time that means nothing is a mistake on the command line."""
    done = stored(*arguments)
    assert done.returncode == 2
    assert message in done.stderr


def test_outside_of_a_project(stored: Kcheck, tmp_path: Path) -> None:
    """There is no store to ask, and it is said what makes a project."""
    stored.folder = tmp_path
    done = stored("runs")
    assert done.returncode == 2
    assert "no project found: neither this folder nor a parent folder has kcheck.yaml, pyproject.toml or .git" in (
        done.stderr
    )
    assert "create an empty kcheck.yaml in its root" in done.stderr


def test_since_selects(stored: Kcheck) -> None:
    """--since takes days and moments; --rule and --op narrow further."""
    stored(*BAD)
    assert len(seeds(stored("failures", "--since", "1d", "--rule", "mismatch", "--op", "bad").stdout)) == 2
    assert stored("failures", "--since", "2999-01-01").stdout == "no stored failures match\n"
    assert stored("failures", "--op", "good").stdout == "no stored failures match\n"


def test_inputs_that_were_not_kept_say_why(stored: Kcheck, project: Path) -> None:
    """A run keeps those of twenty failures of a spec; of the others it is said, and what makes them again."""
    spec = project / "specs/buggy/bad.yaml"
    spec.write_text(spec.read_text().replace("N: [1, 2, 5]", "N: 1..8").replace("count: 2", "count: 22"))
    stored(*BAD)
    told = [
        " ".join(stored("show", seed).stdout.split())
        for seed in seeds(stored("failures", "-a", COLUMNS="120").stdout)[:2]
    ]
    why = "a run stores those of 20 new failures per spec; the seed generates them again"
    assert len(told) == 2
    assert all(f"inputs not stored: {why}" in each for each in told)
