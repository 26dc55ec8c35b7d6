"""A file has one subject: at most 400 lines, or it is one class or table that would not read better in two."""

from __future__ import annotations

from pathlib import Path

LINES = 400
PACKAGE = Path(__file__).resolve().parents[2] / "kcheck"

LONG = {
    "compat/gpuemu/client.py": "gpuemu's client, method by method",
    "cpu/executor.py": "one class: launches",
    "cpu/memory.py": "one class: the device's memory",
    "device/launching.py": "one class: a spec's launches",
    "device/simulator/schedule.py": "one class: a grid",
    "monitor/running.py": "one class: a monitored call",
    "ptx/ir/function.py": "one class: the builder of functions",
    "ptx/lowering/function.py": "one class: a function",
    "ptx/lowering/interior_values.py": "one class: the evaluator of a block",
    "ptx/lowering/warp.py": "one class: a warp's code",
    "report/causes.py": "one order: which symptoms explain others",
    "store/store.py": "one class: the store",
}
"""The files that are longer, and why."""

MOST = 500
"""Lines of any file."""


def sizes() -> dict[str, int]:
    """The lines of each file of the package."""
    return {
        file.relative_to(PACKAGE).as_posix(): len(file.read_text("utf-8").splitlines())
        for file in sorted(PACKAGE.rglob("*.py"))
    }


def test_a_file_has_at_most_400_lines_or_is_named_here() -> None:
    assert {name: lines for name, lines in sizes().items() if lines > LINES and name not in LONG} == {}


def test_no_file_has_more_than_500_lines() -> None:
    assert {name: lines for name, lines in sizes().items() if lines > MOST} == {}


def test_the_files_named_here_exist() -> None:
    assert set(LONG) <= sizes().keys()
