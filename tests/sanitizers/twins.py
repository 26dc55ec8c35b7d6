"""Holds a pair of twins against what the device found on each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from device_child import DeviceChild
from pairs import Mark, Pair, read_pairs

SECONDS = 60.0
SAMPLE = 5  # every so many pairs are run at one lane as well
HERE = Path(__file__).parent


def pairs_of(*modules: str) -> dict[str, Pair]:
    """The pairs of some files of this folder, by name."""
    pairs = [pair for module in modules for pair in read_pairs(HERE / f"{module}.py")]
    named = {pair.name: pair for pair in pairs}
    assert len(named) == len(pairs), "two pairs of one name"
    return named


NOT_MODELLED = {"named_for_each_half": "a barrier for part of the block is treated as one for all of it"}
"""By pair what its kernels have that a sanitizer does not follow, and says so: a warning on both twins."""


def check_twins(child: DeviceChild, pair: Pair, width: int | None = None) -> None:
    """The clean twin has no finding of any rule; the buggy one has those that its lines name, and no other."""
    clean = _run(child, pair, width, is_buggy=False)
    assert clean["findings"] == [], f"on the clean twin: {clean['findings']}"
    assert clean["raised"] is None, clean["raised"]
    check_findings(pair, _run(child, pair, width, is_buggy=True))


def check_spec_twins(child: DeviceChild, pair: Pair) -> None:
    """As :func:`check_twins`, by the twins' specs; the clean one passes as a whole, the buggy one fails."""
    results = {}
    for is_buggy in (False, True):
        request = {"module": str(pair.module), "name": pair.name, "buggy": is_buggy, "spec": pair.rest}
        results[is_buggy] = child.ask(request, SECONDS)
    clean = results[False]
    assert (clean["findings"], clean["statuses"]) == ([], ["passed"]), clean
    assert results[True]["statuses"] == ["failed"], results[True]
    check_findings(pair, results[True])


def check_findings(pair: Pair, result: dict[str, Any]) -> None:
    """Every finding stands on a line that names its rule, and every line that names one has it."""
    lines = Path(result["file"]).read_text(encoding="utf-8").split("\n")
    marked = {_side(mark): mark for mark in pair.marks}
    told = set()
    for finding in result["findings"]:
        rule, severity = finding["rule"], finding["severity"]
        # What a launch left behind is marked by its array. Its line is that of a store, by a second launch.
        if finding["line"] is None or (finding["array"], rule, severity) in marked:
            places: set[Any] = {finding["array"]}
        else:
            assert finding["file"] == result["file"], finding
            places = {finding["line"]} | ({finding["other_line"]} - {None})
        for place in places:
            text = lines[place - 1].strip() if isinstance(place, int) else ""
            assert (place, rule, severity) in marked, f"not marked: {text}: {finding}"
            told.add((place, rule, severity))
    wanted = {side for side, mark in marked.items() if not mark.optional}
    missed = [lines[marked[side].line - 1].strip() for side in wanted - told]
    assert not missed, f"not found: {missed}; only {result['findings']}"
    if result["raised"] is not None:
        assert "memcheck" in pair.rules, result["raised"]


def _side(mark: Mark) -> tuple[int | str, str, str]:
    """What a finding must say for a mark: its place, rule and severity."""
    return mark.array or mark.line, mark.rule, mark.severity


def _run(child: DeviceChild, pair: Pair, width: int | None, *, is_buggy: bool) -> Any:
    request = {"module": str(pair.module), "name": pair.name, "buggy": is_buggy, "width": width}
    result = child.ask(request, SECONDS)
    told = NOT_MODELLED.get(pair.name)
    if told is not None:
        warnings = [f for f in result["findings"] if told in f["message"]]
        assert [f["severity"] for f in warnings] == ["warn"], result["findings"]
        result["findings"].remove(warnings[0])
    return result
