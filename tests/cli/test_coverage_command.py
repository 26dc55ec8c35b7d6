"""``kcheck coverage``: what the stored runs have covered."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from small_project import Kcheck

from kcheck.model import CodeCoverage, FileCoverage
from kcheck.report.reached import lcov


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


def test_a_limit_of_the_grid_that_no_size_reaches_is_in_every_format(stored: Kcheck) -> None:
    """The console, JSON and HTML name it; of a spec without such a limit, HTML has no list."""
    spec = stored.folder / "specs/good.yaml"
    stored("run", "specs/good.yaml")
    assert "<ul>" not in stored("coverage", "specs/good.yaml", "--format", "html").stdout
    spec.write_text(re.sub(r"grid: \[[^]]*\]", 'grid: ["min(ceildiv(N, 32), 4096)"]', spec.read_text()))
    stored("run", "specs/good.yaml")
    for kind in ("text", "json", "html"):
        told = " ".join(stored("coverage", "specs/good.yaml", "--format", kind).stdout.split())
        assert "4,096 blocks, since the sizes need at most 1" in told


UNREACHED = """\
from numba import cuda


@cuda.jit
def double(x, y):
    i = cuda.grid(1)
    if x.size > 1000:
        y[0] = x[0] * x[1]
    if i < x.size:
        y[i] = x[i] + x[i]
"""


def test_lines_that_no_case_reached_are_told(stored: Kcheck) -> None:
    """In `run -v`, and later from the store in every format, until the kernel changes. genhtml reads lcov's."""
    kernel = stored.folder / "kernels/k.py"
    kernel.write_text(UNREACHED)
    told = " ".join(stored("run", "specs/good.yaml", "-v", "--coverage").stdout.split())
    assert "coverage kernels/k.py: 5 of 6 lines, 1 of 2 branches no case reached line 8" in told
    text = stored("coverage", "specs/good.yaml").stdout
    assert "  lines     5 of 6    kernels/k.py  not reached: 8\n  branches  1 of 2    one way only: 7\n" in text

    (found,) = json.loads(stored("coverage", "specs/good.yaml", "--format", "json").stdout)
    (file,) = found["code"]["files"]
    assert (found["code"]["cases"], file["path"], file["lines"][2:4]) == (2, "kernels/k.py", [[7, 2], [8, 0]])

    assert stored("coverage", "specs/good.yaml", "--format", "html", "-o", "c.html").returncode == 0
    assert '<mark class="missed">      0 !    8          y[0] = x[0] * x[1]</mark>' in (
        (stored.folder / "c.html").read_text()
    )

    assert stored("coverage", "specs/good.yaml", "--format", "lcov", "-o", "lcov.info").returncode == 0
    lines = (stored.folder / "lcov.info").read_text().splitlines()
    assert lines[:3] == ["TN:kcheck", f"SF:{kernel}", "BRDA:7,0,0,2"]
    assert {"DA:8,0", "LF:6", "LH:5", "BRF:4", "BRH:3"} <= set(lines)

    kernel.write_text(UNREACHED.replace("1000", "100"))
    changed = " ".join(stored("coverage", "specs/good.yaml").stdout.split())
    assert "the kernel has changed since its lines were counted; run: kcheck run specs/good.yaml --cov" in changed


GENHTML = shutil.which("genhtml")


@pytest.mark.skipif(GENHTML is None, reason="genhtml, of Debian's lcov, is not installed")
def test_genhtml_reads_the_tracefile(tmp_path: Path) -> None:
    """Lines and branches are counted as we count them."""
    source = tmp_path / "k.py"
    source.write_text(UNREACHED)
    file = FileCoverage(str(source), ((5, 2), (7, 2), (8, 0), (9, 2)), ((7, (2, 0)), (9, (1, 2))))
    (tmp_path / "lcov.info").write_text(lcov(CodeCoverage(2, (file,)), ""))
    words = [str(GENHTML), "--branch-coverage", "-o", "pages", "lcov.info"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60)
    assert "lines......: 75.0% (3 of 4 lines)" in done.stdout
    assert "branches...: 75.0% (3 of 4 branches)" in done.stdout
    assert "WARNING" not in done.stdout + done.stderr
