"""``kcheck coverage``: what the stored runs have covered."""

from __future__ import annotations

import json

from small_project import Kcheck


def test_coverage_counts_the_cases_of_the_stored_runs(stored: Kcheck) -> None:
    """A row for each factor, in text; the same numbers as JSON; a spec that has not run says how to run it."""
    stored("run", "specs/good.yaml")
    text = stored("coverage", "specs/good.yaml", "specs/loud.yaml").stdout.splitlines()
    assert text[:2] == ["specs/good.yaml · 2 cases", "  dim N     2 of 3    not run: " + text[1][-1]]
    assert any(line.startswith("  pairs ") for line in text)
    assert text[-2:] == [
        "specs/loud.yaml · 0 cases",
        "  none of its cases has run; run: kcheck run specs/loud.yaml",
    ]
    found, empty = json.loads(stored("coverage", "--format", "json").stdout)
    assert (found["spec"], found["cases"], empty["cases"]) == ("specs/good.yaml", 2, 0)
    (dim,) = [factor for factor in found["factors"] if factor["name"] == "dim N"]
    assert len(dim["run"]) == 2
    assert {*dim["run"], *dim["missing"]} == {"1", "2", "5"}


def test_coverage_of_newer_runs_only(stored: Kcheck) -> None:
    """--since leaves out what ran before."""
    stored("run", "specs/good.yaml")
    assert "specs/good.yaml · 0 cases" in stored("coverage", "specs/good.yaml", "--since", "2100-01-01").stdout
