"""``make compare-reports``: two reports of the same specs are equal case by case, but for what is listed."""

from __future__ import annotations

import copy
import json
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

from compare_reports import Difference, Intended, differences, judged, read_intended, show  # noqa: E402

FINDING = {"rule": "race", "message": "a race on x", "mend": "add cuda.syncthreads()", "index": [3]}
CASE = {"id": "f[0]", "seed": "7", "status": "failed", "comparisons": [{"error": 0.1}], "findings": [FINDING]}
REPORT: dict[str, Any] = {
    "version": 1,
    "specs": [{"path": "specs/f.yaml", "status": "failed", "cases": [CASE], "time": {"seconds": 1.0}}],
}


def changed(**fields: Any) -> dict[str, Any]:
    """A copy of the report in which the one case has other fields."""
    report = copy.deepcopy(REPORT)
    report["specs"][0]["cases"][0] |= fields
    return report


def found(now: dict[str, Any]) -> list[tuple[str, str]]:
    return [(one.place, one.field) for one in differences(REPORT, now)]


def test_the_name_of_a_remedy_and_times_do_not_count() -> None:
    finding = {("fix" if key == "mend" else key): value for key, value in FINDING.items()}
    now = changed(findings=[finding])
    now["version"] = 2
    now["specs"][0]["time"] = {"seconds": 2.0}
    assert found(now) == []


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"status": "passed"}, "status"),
        ({"seed": "8"}, "seed"),
        ({"comparisons": [{"error": 0.1 + 2**-56}]}, "comparisons.error"),
        ({"findings": []}, "findings"),
        ({"findings": [{**FINDING, "mend": "another"}]}, "findings.fix"),
        ({"findings": [{**FINDING, "index": [4]}]}, "findings.index"),
    ],
)
def test_each_other_field_counts_to_the_last_bit(fields: dict[str, Any], field: str) -> None:
    assert found(changed(**fields)) == [("specs/f.yaml f[0]", field)]


def test_a_case_or_a_spec_that_is_missing_counts() -> None:
    assert {place for place, _ in found(changed(id="f[1]"))} == {"specs/f.yaml f[0]", "specs/f.yaml f[1]"}
    assert found({"specs": []}) == [("specs/f.yaml", "spec")]


def test_a_difference_is_meant_only_if_its_field_place_and_values_are_listed() -> None:
    row = Intended("findings.message", "specs/f.yaml", "a race", "race on x", "reworded")
    meant = Difference("specs/f.yaml f[0]", "findings.message", "a race", "race on x")
    others = [
        Difference("specs/f.yaml f[0]", "findings.fix", "a race", "race on x"),
        Difference("specs/g.yaml g[0]", "findings.message", "a race", "race on x"),
        Difference("specs/f.yaml f[0]", "findings.message", "a race", "no race"),
    ]
    assert judged([meant, *others], [row]) == (others, {row: 1})


def test_every_listed_difference_has_a_reason_and_names_its_values() -> None:
    for row in read_intended():
        assert row.reason
        assert row.before != row.now


def test_the_exit_code_says_whether_the_reports_differ(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [tmp_path / "before.json", tmp_path / "now.json"]
    for path, report in zip(paths, (REPORT, changed(status="passed")), strict=True):
        path.write_text(json.dumps(report))
    assert show(paths, every=False) == 1
    assert 'specs/f.yaml f[0]: status was "failed", is "passed"' in capsys.readouterr().out
    assert show([paths[0], paths[0]], every=False) == 0
