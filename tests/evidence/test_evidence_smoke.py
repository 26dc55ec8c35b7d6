"""docs/evidence.md can be made again: the whole way, on few kernels and few cases."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from benchmarks.evidence.__main__ import PAGE, alone, family, write
from benchmarks.evidence.corpus import twins
from benchmarks.evidence.measure import Request
from benchmarks.evidence.page import acceptance, evidence_text, soak_faults, soak_text
from benchmarks.evidence.pool import Pool
from benchmarks.evidence.tables import Evidence, by_allclose, by_default

ROOT = Path(__file__).parents[2]
STATIC = """
import json, sys
from benchmarks.evidence.corpus import control_spec
from benchmarks.evidence.measure import static_metrics
from benchmarks.evidence.trial import cpu_device

spec = control_spec(sys.argv[1])
print(json.dumps(static_metrics(cpu_device([spec]), spec)))
"""
PLANTED = ("gelu_no_half", "matmul_griddim")


@pytest.mark.parametrize("name", ["softmax_cuda", "softmax_triton"])
def test_static_metrics_cover_kernels_that_are_not_numba_s(name: str) -> None:
    """Each by the compiler of its own kind; in a process of its own, which has not chosen its device yet."""
    done = subprocess.run(
        (sys.executable, "-c", STATIC, name), cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["instructions"] > 50
    assert found["registers"] > 16


@pytest.mark.slow
def test_two_twins_are_caught_and_their_controls_are_not(tmp_path: Path) -> None:
    """Measured in processes of their own, kept on disk and not measured twice; every table has its row."""
    planted = [twin for twin in twins() if twin.name in PLANTED]
    told: list[str] = []
    pool = Pool(tmp_path, jobs=2, fresh=False, report=told.append)
    jobs = [
        partial(family, Request(twin.of, twin=False, seeds=(0,), cases=4, more=6), [twin.name]) for twin in planted
    ]
    found = pool.run(jobs)
    assert len(told) == 4
    assert pool.run(jobs) == found
    assert len(told) == 4
    clean, buggy = ({name: found[name] for name in names} for names in ([t.of for t in planted], PLANTED))
    evidence = Evidence(clean, buggy, planted, (0,), 4)
    assert acceptance(evidence) == []
    assert evidence.recall("mix", by_default).by_seed == (1.0,)
    assert evidence.recall("friendly", by_allclose).by_seed == (0.5,)  # of a square product the bug does no harm
    assert evidence.alarms("mix", by_default)[0] == 0
    text = evidence_text(evidence)
    for row in ("| **kcheck, 4 cases** | 100% |", "| loop bound from gridDim | 1 | 0% |", "| nan-injected |"):
        assert row in text


@pytest.mark.slow
def test_a_soak_counts_its_cases(tmp_path: Path) -> None:
    """A correct kernel is run as often as asked for, and has no false alarm."""
    soaked = Pool(tmp_path, jobs=1, fresh=False, report=lambda line: None).run(
        [partial(alone, Request("gelu", False, soak=40))]
    )
    assert soak_faults(soaked) == []
    assert "40 cases, 40 of each of 1 correct kernels" in soak_text(soaked)


def test_text_goes_between_its_marks(tmp_path: Path) -> None:
    """The page keeps what is written by hand, and the other command's part."""
    page = tmp_path / "evidence.md"
    page.write_text(PAGE.read_text("utf-8"), "utf-8")
    write(page, "evidence", "one")
    write(page, "soak", "two")
    write(page, "evidence", "three")
    text = page.read_text("utf-8")
    assert "<!-- evidence -->\nthree\n<!-- end of evidence -->" in text
    assert "<!-- soak -->\ntwo\n<!-- end of soak -->" in text
    assert text.startswith(PAGE.read_text("utf-8").split("<!-- evidence -->")[0])
