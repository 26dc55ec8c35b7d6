"""``make compare-reports``: two reports of the same specs are equal case by case, but for what is listed."""

from __future__ import annotations

import argparse
import copy
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

from compare_reports import Difference, Intended, differences, judged, read_intended, show, start  # noqa: E402

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
    row = Intended("findings.message", r"(?P<n>\d+) races on (\w+)", r"(?P<n>\d+) races: .+", "reworded", "f.yaml")
    meant = Difference("specs/f.yaml f[0]", "findings.message", "2 races on x", "2 races: x[0]")
    others = [
        replace(meant, field="findings.fix"),
        replace(meant, place="specs/g.yaml g[0]"),
        replace(meant, now="no race"),
        replace(meant, now="3 races: x[0]"),
    ]
    assert judged([meant, *others], [row]) == (others, {row: 1})


def test_each_listed_difference_has_a_reason() -> None:
    """A row that would excuse every change of a verdict is not one."""
    verdict = Difference("specs/f.yaml f[0]", "status", "failed", "passed")
    for row in read_intended():
        assert row.reason.endswith(".")
        assert not row.explains(verdict)


def test_the_exit_code_says_whether_the_reports_differ(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [tmp_path / "before.json", tmp_path / "now.json"]
    for path, report in zip(paths, (REPORT, changed(status="passed")), strict=True):
        path.write_text(json.dumps(report))
    assert show(paths) == 1
    assert 'specs/f.yaml f[0]: status was "failed", is "passed"' in capsys.readouterr().out
    assert show([paths[0], paths[0]]) == 0


def test_each_tree_runs_its_own_kcheck_on_the_specs_of_the_other(tmp_path: Path) -> None:
    """Python would take the package from the folder in which it is started."""
    trees = [tmp_path / name for name in ("before", "now")]
    told = "import os, sys\nopen(sys.argv[-1], 'w').write(f'{__file__} in {os.getcwd()}')\n"
    for tree in trees:
        (tree / "kcheck").mkdir(parents=True)
        (tree / "kcheck" / "__init__.py").touch()
        (tree / "kcheck" / "__main__.py").write_text(told)
    chosen = argparse.Namespace(specs=["specs/f.yaml"], cases=1, seed=0)
    for tree in trees:
        report = tmp_path / f"{tree.name}.json"
        assert start(tree, trees[0], chosen, report).wait() == 0
        assert report.read_text() == f"{tree / 'kcheck' / '__main__.py'} in {trees[0]}"
