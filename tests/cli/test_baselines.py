"""``kcheck baseline`` and ``kcheck diff``: an unchanged tree shows nothing, and each planted regression shows."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest
from small_project import Kcheck

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("nvidia") is None, reason="NVVM is not installed (cu12, cu13)"),
]

K = 40
KERNEL = """\
import numpy as np
from numba import cuda
from numba.cuda import libdevice


@cuda.jit{options}
def dot(x, w, y):
    i = cuda.grid(1)
    if i < y.size:
        total = np.float32(0)
{body}
        y[i] = total
"""
PLAIN = f"""\
        for k in range({K}):
            total += x[i, k] * w[k]"""
# Every element of the row is read before any is used.
HOISTED = "\n".join(
    [f"        v{k} = x[i, {k}]" for k in range(K)]
    + ["        cuda.threadfence_block()"]
    + [f"        total += v{k} * w[{k}]" for k in range(K)]
)
PLANTED = {
    "registers": ("", HOISTED),
    "spills": ("(max_registers=24)", HOISTED),
    "float64": ("", PLAIN.replace("w[k]", "w[k] * 1.0")),
    "fma": ("", PLAIN.replace("total += x[i, k] * w[k]", "total = libdevice.fadd_rn(total, x[i, k] * w[k])")),
    "error": ("", f"{PLAIN}\n        total *= np.float32(1.0000003)"),
    "passed": ("", PLAIN.replace(f"range({K})", "range(y.size)")),
}
SPEC = f"""\
kcheck: 1
op: dot
kernel: kernels/dot.py:dot
reference: references/dot.py:dot
dims: {{{{N: [1, 33, {K}]}}}}
inputs: {{{{x: {{{{shape: [N, {K}], values: all_positive}}}}, w: {{{{shape: [{K}], values: all_positive}}}}}}}}
outputs: {{{{y: [N]}}}}
launch: {{{{args: [x, w, y], grid: [1], block: [64]}}}}
cases: {{{{count: 6}}}}
""".replace("{{", "{").replace("}}", "}")
REFERENCE = """\
def dot(x, w):
    return x @ w
"""


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Kcheck:
    """A project of one op, its baseline saved as v1."""
    root = tmp_path_factory.mktemp("a project")
    for folder, text in (("specs/dot.yaml", SPEC), ("references/dot.py", REFERENCE), ("kcheck.yaml", "")):
        (root / folder).parent.mkdir(exist_ok=True)
        (root / folder).write_text(text)
    (root / "kernels").mkdir()
    write(root)
    kcheck = Kcheck(root)
    done = kcheck("baseline", "save", "v1")
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert done.stdout == "wrote baselines/v1.json: 1 op, 1 specialization, 6 cases\n"
    return kcheck


def write(project: Path, options: str = "", body: str = PLAIN) -> None:
    """The kernel, or a variant of it."""
    (project / "kernels/dot.py").write_text(KERNEL.format(options=options, body=body))


def test_an_unchanged_tree_shows_nothing(saved: Kcheck) -> None:
    """No change at all, not even one within limits; saving again says so and writes the same bytes."""
    write(saved.folder)
    done = saved("diff", "v1", "--fail-on-regression")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "since v1: 0 regressions, 0 worse within limits, 0 better, 0 new, 0 gone\n"
    file = saved.folder / "baselines/v1.json"
    before = file.read_bytes()
    again = saved("baseline", "save", "v1")
    assert (again.returncode, again.stderr) == (0, "")
    assert "note: replaced the earlier baseline 'v1'\n" in again.stdout
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    "measure",
    [pytest.param(m, marks=pytest.mark.soak) if m in ("passed", "spills", "fma") else m for m in PLANTED],
)
def test_a_planted_regression_is_reported(saved: Kcheck, measure: str) -> None:
    """The number that the change is about is worse than its limit allows; --fail-on-regression exits with 1."""
    write(saved.folder, *PLANTED[measure])
    done = saved("diff", "v1", "--fail-on-regression", "--format", "json")
    assert done.returncode == 1, done.stdout + done.stderr
    found = {c["measure"]: c for c in json.loads(done.stdout)["changes"] if c["kind"] == "worse"}
    assert measure in found, done.stdout
    assert ("passed" in found) == (measure == "passed")
    if measure == "error":
        assert found["error"]["after"] > 1.5 * found["error"]["before"]


def test_the_report_is_calm(saved: Kcheck) -> None:
    """80 columns, the worst first, each with its limit; without --fail-on-regression the exit is 0."""
    write(saved.folder, *PLANTED["float64"])
    done = saved("diff", "v1", COLUMNS="80")
    assert done.returncode == 0
    head, first, *_, last = done.stdout.splitlines()
    assert head == "dot"
    assert first.startswith("  WORSE ")
    assert "allowed" in first
    assert "regression" in last
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_a_spec_and_the_project_set_limits(saved: Kcheck) -> None:
    """What kcheck.yaml or the spec allows is no regression; the spec has the last word."""
    write(saved.folder, *PLANTED["registers"])
    project, spec = saved.folder / "kcheck.yaml", saved.folder / "specs/dot.yaml"
    try:
        project.write_text("regression: {registers: off, occupancy: off, instructions: off, error: off}\n")
        assert saved("diff", "v1", "--fail-on-regression").returncode == 0
        spec.write_text(SPEC + "regression: {registers: +1}\n")
        assert saved("diff", "v1", "--fail-on-regression").returncode == 1
    finally:
        project.write_text("")
        spec.write_text(SPEC)


def test_list_show_and_rm(saved: Kcheck) -> None:
    """A copy is listed, shown and removed; what is not there is exit 2 with the names that are."""
    text = (saved.folder / "baselines/v1.json").read_text()
    (saved.folder / "baselines/v2.json").write_text(text)
    assert [line.split()[0] for line in saved("baseline", "list").stdout.splitlines()] == ["v1", "v2"]
    assert saved("baseline", "list").stdout.startswith("v1                   1 op     1 specialization  kcheck ")
    shown = saved("baseline", "show", "v2").stdout
    assert "dot  specs/dot.yaml  6 of 6 cases passed on cpu" in shown
    assert "registers" in shown
    assert saved("baseline", "rm", "v2").stdout == "removed v2\n"
    (saved.folder / "empty").mkdir(exist_ok=True)
    (saved.folder / "empty/kcheck.yaml").write_text("")
    none = Kcheck(saved.folder / "empty")("baseline", "list")
    assert (none.returncode, none.stdout) == (0, "no baselines; save one with: kcheck baseline save NAME\n")
    done = saved("diff", "v2")
    assert done.returncode == 2
    assert "available: v1" in done.stderr


def test_another_toolchain_is_pointed_out(saved: Kcheck) -> None:
    """Versions that differ are named as a likely cause."""
    write(saved.folder, *PLANTED["float64"])
    file = saved.folder / "baselines/old.json"
    held = json.loads((saved.folder / "baselines/v1.json").read_text())
    held["versions"]["numba-cuda"] = "0.1.0"
    file.write_text(json.dumps(held))
    told = " ".join(saved("diff", "old").stdout.split())
    assert "numba-cuda 0.1.0 → " in told
    assert "a likely cause" in told
