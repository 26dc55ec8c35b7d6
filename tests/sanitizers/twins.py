"""Holds a pair of twins against what the device found on each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from device_child import DeviceChild
from pairs import Pair, read_pairs

SECONDS = 60.0
HERE = Path(__file__).parent


def pairs_of(*modules: str) -> dict[str, Pair]:
    """The pairs of some files of this folder, by name."""
    return {pair.name: pair for module in modules for pair in read_pairs(HERE / f"{module}.py")}


def check_twins(child: DeviceChild, pair: Pair, width: int | None = None) -> None:
    """The clean twin has no finding of any rule; the buggy one has those that its lines name, and no other."""
    clean = _run(child, pair, width, is_buggy=False)
    assert clean["findings"] == [], f"found on the clean twin of {pair.name}"
    assert clean["raised"] is None, clean["raised"]
    check_findings(pair, _run(child, pair, width, is_buggy=True))


def check_findings(pair: Pair, result: dict[str, Any]) -> None:
    """Every finding stands on a line that names its rule, and every line that names one has it."""
    lines = Path(result["file"]).read_text(encoding="utf-8").split("\n")
    marked = {(mark.line, mark.rule, mark.severity) for mark in pair.marks}
    told = set()
    for finding in result["findings"]:
        sides = {finding["line"]} | ({finding["other_line"]} - {None})
        for line in sides:
            side = (line, finding["rule"], finding["severity"])
            assert side in marked, f"not marked: {finding}\n{lines[line - 1] if line else ''}"
            told.add(side)
        assert finding["file"] == result["file"], finding
    wanted = {(mark.line, mark.rule, mark.severity) for mark in pair.marks if not mark.optional}
    missed = {side: lines[side[0] - 1].strip() for side in wanted - told}
    assert not missed, f"not found: {missed}; only {result['findings']}"
    if result["raised"] is not None:
        assert "memcheck" in pair.rules, result["raised"]


def _run(child: DeviceChild, pair: Pair, width: int | None, *, is_buggy: bool) -> Any:
    request = {"module": str(pair.module), "name": pair.name, "buggy": is_buggy, "width": width}
    return child.ask(request, SECONDS)
