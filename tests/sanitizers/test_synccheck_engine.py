"""synccheck through ``kcheck run``: each bug at its line, in its words; no finding at its clean twin."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "device"))

from cpu_project import CpuProject
from sync_project import ENDLESS, LEFT, PRELUDE, REFERENCE, RETURNED, TABLES, UNNAMED, USED, Row

from kcheck.device.cpu import missing

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(missing()), reason=missing())]

ROWS = {f"{table}: {name}": row for table, rows in TABLES.items() for name, row in rows.items()}


def fill(project: CpuProject, rows: dict[str, Row]) -> CpuProject:
    """Add both twins of each row: ``bug_0``, ``clean_0`` and so on."""
    for number, row in enumerate(rows.values()):
        bug, clean = row.twins()
        called = PRELUDE if any(f"{name}(" in bug for name in ("meet", "trap", "dive", "divide")) else ""
        project.add(f"bug_{number}", row.spec(), called + bug, REFERENCE)
        project.add(f"clean_{number}", row.spec(), called + clean, REFERENCE)
    return project


def marked(project: CpuProject, name: str, mark: str) -> int:
    """The number of the last line of a kernel's file that ends in a mark; 0: none."""
    lines = (project.root / f"{name}_k.py").read_text().split("\n")
    return max((n for n, line in enumerate(lines, 1) if line.rstrip().endswith(mark)), default=0)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> CpuProject:
    """All rows whose launches end."""
    return fill(CpuProject(tmp_path_factory.mktemp("sync") / "a project"), ROWS)


@pytest.fixture(scope="module")
def report(project: CpuProject, tmp_path_factory: pytest.TempPathFactory):
    """What ``kcheck run`` says of them, in one process."""
    return project.report(KCHECK_CACHE_DIR=str(tmp_path_factory.mktemp("cache")))


@pytest.mark.parametrize("name", ROWS)
def test_a_bug_is_told_with_its_line_and_who_waits(project: CpuProject, report, name: str) -> None:
    """One finding: rule, sentence, line, block, thread; the case has failed and the next is as it should be."""
    number, row = list(ROWS).index(name), ROWS[name]
    (case,) = report[f"bug_{number}"]["cases"]
    found = [f for f in case["findings"] if f["rule"] != "unwritten"]
    assert [f["rule"] for f in found] == [row.rule], found
    (finding,) = found
    assert finding["message"] == row.says.format(there=marked(project, f"bug_{number}", "# there"))
    if "# here" in row.kernel:
        assert finding["place"]["line"] == marked(project, f"bug_{number}", "# here"), finding
    assert finding["block"] == [row.block, 0, 0]
    if "blocks" not in row.says:
        assert finding["thread"] == [row.thread, 0, 0]
    assert case["status"] == "failed"


@pytest.mark.parametrize("name", ROWS)
def test_a_clean_twin_passes_synccheck(report, name: str) -> None:
    """The twin that differs by one line has no finding, whatever ran before it."""
    (case,) = report[f"clean_{list(ROWS).index(name)}"]["cases"]
    assert (case["status"], case["findings"]) == ("passed", [])


def ran(folders: pytest.TempPathFactory, rows: dict[str, Row], *words: str):
    """The project of some rows, and the report on them."""
    project = fill(CpuProject(folders.mktemp("more") / "a project"), rows)
    return project, project.report(*words, ".", KCHECK_CACHE_DIR=str(folders.mktemp("cache")))


EXITED = {**LEFT, **RETURNED}


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory):
    """Kernels with threads that exit before a barrier, or lanes that a mask names."""
    return ran(tmp_path_factory, EXITED)


@pytest.mark.parametrize("name", EXITED)
def test_threads_that_exit_before_a_barrier_or_are_named_in_a_mask_are_a_warning(left, name: str) -> None:
    """PTX ISA: barriers and instructions with a mask wait for non-exited threads only. So the case has passed."""
    project, report = left
    number, row = list(EXITED).index(name), EXITED[name]
    (case,) = report[f"bug_{number}"]["cases"]
    (finding,) = case["findings"]
    assert (finding["rule"], finding["severity"], finding["message"]) == ("synccheck", "warn", row.says)
    assert finding["place"]["line"] == marked(project, f"bug_{number}", "# here"), finding
    assert finding["thread"] == [row.thread, 0, 0]
    assert case["status"] == "passed"
    (case,) = report[f"clean_{number}"]["cases"]
    assert (case["status"], case["findings"]) == ("passed", [])


SHUFFLED = {**USED, **UNNAMED}


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory):
    """Kernels that use what a shuffle read from a lane that had exited, or that its mask does not name."""
    return ran(tmp_path_factory, SHUFFLED)


@pytest.mark.parametrize("name", SHUFFLED)
def test_a_use_of_what_a_shuffle_read_from_a_lane_that_takes_no_part_is_an_error(used, name: str) -> None:
    """The value is undefined; the error is where it is used. A shuffle that reads an exited lane is a warning, and
    so is a mask with lanes that the last warp of a block does not have."""
    project, report = used
    number, row = list(SHUFFLED).index(name), SHUFFLED[name]
    (case,) = report[f"bug_{number}"]["cases"]
    here, there = (marked(project, f"bug_{number}", mark) for mark in ("# here", "# there"))
    found = [f for f in case["findings"] if f["rule"] == "synccheck"]
    errors = [f for f in found if f["severity"] == "error"]
    assert [(f["message"], f["place"]["line"]) for f in errors] == [(row.says.format(there=there), here)], found
    warned = [f["place"]["line"] for f in found if f["severity"] == "warn"]
    assert there in warned if name in USED else not warned
    assert case["status"] == "failed"
    (case,) = report[f"clean_{number}"]["cases"]
    found = [f for f in case["findings"] if f["rule"] == "synccheck"]
    assert [f for f in found if f["severity"] == "error" or row.threads % 32 == 0] == []


@pytest.fixture(scope="module")
def endless(tmp_path_factory: pytest.TempPathFactory):
    """Kernels that never end."""
    return ran(tmp_path_factory, ENDLESS, "--timeout", "0.5")


@pytest.mark.parametrize("name", ENDLESS)
def test_an_endless_kernel_is_told_with_the_line_of_its_loop(endless, name: str) -> None:
    """A hang is a finding that names the loop, a block and a thread in it; its twin passes."""
    project, report = endless
    number, row = list(ENDLESS).index(name), ENDLESS[name]
    (case,) = report[f"bug_{number}"]["cases"]
    (finding,) = case["findings"]
    assert finding["rule"] == "timeout"
    # A launch is stopped wherever it is: at the head of the loop, or at a barrier in it.
    head = marked(project, f"bug_{number}", "# here")
    assert finding["place"]["line"] in ((head, head + 1) if "syncthreads" in row.kernel else (head,)), finding
    assert finding["block"] == [row.block, 0, 0]
    assert finding["thread"] is not None
    assert ("waits for another block" in finding["fix"]) == (row.grid > 1 and "atomic" in row.kernel)
    (case,) = report[f"clean_{number}"]["cases"]
    assert [f for f in case["findings"] if f["rule"] in ("timeout", "synccheck")] == []
