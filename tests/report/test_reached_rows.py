"""Coverage of the lines of kernels in reports."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from kcheck.model import CodeCoverage, FileCoverage
from kcheck.report.detail import plain_text
from kcheck.report.html.coverage import code_section
from kcheck.report.reached import combined, lcov, ranges, reached_rows

FILE = FileCoverage("k.py", ((1, 3), (2, 3), (3, 0), (4, 0), (6, 0)), ((1, (3, 1)), (2, (3, 0)), (3, (0, 0))))


def test_ranges_of_lines() -> None:
    assert ranges([9, 3, 4, 5, 7]) == ["3-5", "7", "9"]


def test_rows_name_what_was_not_reached() -> None:
    """A branch on a line that was not reached is not told again; cases that did not count are."""
    assert plain_text(reached_rows(CodeCoverage(3, (FILE,)), 5)).splitlines() == [
        "coverage   k.py: 2 of 5 lines, 1 of 3 branches",
        "           no case reached line 3-4, 6",
        "           one way only at line 2",
        "           counted in 3 of 5 cases; --coverage counts every case",
    ]


def test_runs_together_reach_what_one_of_them_does() -> None:
    """Cases of lines add up. Ways of branches do not: a compiler may have turned one of them around."""
    other = FileCoverage("k.py", ((1, 1), (3, 1)), ((1, (0, 9)), (2, (0, 1)), (3, (1, 1))))
    found = combined([CodeCoverage(3, (FILE,)), CodeCoverage(1, (other,))])
    assert found.cases == 4
    assert found.files[0].lines == ((1, 4), (2, 3), (3, 1), (4, 0), (6, 0))
    assert found.files[0].branches == ((1, (3, 1)), (2, (3, 0)), (3, (1, 1)))


def test_lcov_has_a_dash_for_a_branch_whose_line_was_not_reached() -> None:
    text = lcov(CodeCoverage(3, (FILE,)), "/p")
    assert "SF:/p/k.py\n" in text
    assert "BRDA:2,0,0,3\nBRDA:2,0,1,0\nBRDA:3,0,0,-\nBRDA:3,0,1,-\n" in text


@pytest.mark.parametrize("is_changed", [False, True])
def test_the_page_shows_source_that_is_what_was_run(tmp_path: Path, is_changed: bool) -> None:
    """Hostile source is text. Of a file that has changed, the lines would be the wrong ones."""
    source = tmp_path / "k.py"
    source.write_text("one\nif two:\n  <script>three</script>\n  four\n\n  six\n")
    digest = hashlib.sha256(source.read_bytes()).hexdigest()
    page = code_section(CodeCoverage(3, (FILE,)), str(tmp_path), {"k.py": "0" * 64 if is_changed else digest})
    assert ("&lt;script&gt;three" in page) is not is_changed
    assert ("has changed since the run" in page) is is_changed
    assert "<script" not in page
    assert page.count('class="missed"') == (0 if is_changed else 3)
