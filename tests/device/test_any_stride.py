"""In a round of ``--watch`` the cases run in one specialization for each choice of dtypes, before the rest."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from cpu_project import HEAD, environment

from kcheck.device.cpu import missing

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())

SPEC = """
kcheck: 1
op: twice
kernel: k.py:twice
reference: r.py:twice
dims: {N: [3, 40]}
dtypes: [float32, float64]
inputs: {x: {shape: [N], layouts: [contiguous, strided, reversed]}}
outputs: {y: {shape: [N], layouts: [contiguous, strided]}}
launch: {args: [x, y], grid: [2], block: [32]}
artifact: {}
cases: {count: 20}
"""
GOOD = "@cuda.jit\ndef twice(x, y):\n    i = cuda.grid(1)\n    if i < x.size:\n        y[i] = x[i] + x[i]\n"
BAD = GOOD.replace("x[i] + x[i]", "x[i] - x[i]")
RESHAPES = GOOD.replace("    i =", "    flat = x.reshape(x.size)\n    i =").replace("= x[i] +", "= flat[i] +")
EXPLICIT = GOOD.replace("@cuda.jit", "@cuda.jit('void(float32[::1], float32[::1])')")
REFERENCE = "def twice(x):\n    return 2 * x\n"

ROUND = """
import json
from pathlib import Path
from kcheck.device import choose_for
from kcheck.model import CaseFinished, Compiling, SpecFinished
from kcheck.runner import Options, run_with
from kcheck.runner.work import InProcess
from kcheck.specfile import load_function, load_spec

spec = load_spec(Path("op.yaml"))
options = Options(cases_first=True)
executor = InProcess(options, choose_for([spec], "cpu", any_stride=True))
def kernel():
    return load_function(spec.root, spec.kernel) if spec.kernel else __import__("k").twice

told = []
for event in run_with(executor, [spec], options):
    compiled = kernel().overloads if told or isinstance(event, CaseFinished) else ()
    if isinstance(event, CaseFinished):
        told.append([event.verdict.status.value, [[array.layout for array in types] for types in compiled]])
    elif isinstance(event, Compiling):
        told.append(["compiling", []])
    elif isinstance(event, SpecFinished):
        told.append(["finished", [[array.layout for array in types] for types in compiled], event.notes])
print(json.dumps(told))
"""


LAUNCHER = """
from k import twice

def launch(x, y):
    twice[2, 32](x, y)
"""
WITH_LAUNCHER = SPEC.replace("kernel: k.py:twice\n", "").replace(
    "launch: {args: [x, y], grid: [2], block: [32]}", "launcher: l.py:launch"
)


def round_of(folder: Path, kernel: str, spec: str = SPEC) -> tuple[list[str], list, list]:
    """What a round is told in order, the layouts that were compiled by the last case, and the last event."""
    (folder / "op.yaml").write_text(spec)
    (folder / "k.py").write_text(HEAD + kernel)
    (folder / "r.py").write_text(REFERENCE)
    (folder / "l.py").write_text(LAUNCHER)
    (folder / "kcheck.yaml").touch()
    variables = environment(KCHECK_CACHE_DIR=str(folder / "cache"))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", ROUND],
        cwd=folder,
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    cases = [row for row in told if row[0] not in ("compiling", "finished")]
    return [row[0] for row in told], cases[-1][1], told[-1]


def test_one_specialization_for_each_dtype_gives_the_verdict(tmp_path: Path) -> None:
    """Two dtypes and six layouts: two specializations until all cases have passed; the artifact's follow."""
    order, compiled, finished = round_of(tmp_path, GOOD)
    assert order == ["passed"] * 20 + ["compiling", "finished"]
    assert compiled == [["A", "A"]] * 2
    assert {tuple(layouts) for layouts in finished[1]} == {(x, y) for x in "CA" for y in "CA"}


def test_a_failure_is_not_kept_waiting_by_the_artifact(tmp_path: Path) -> None:
    """With a failing case nothing more is compiled, and a note says so."""
    order, _, finished = round_of(tmp_path, BAD)
    assert "failed" in order
    assert "compiling" not in order
    assert finished[1] == [["A", "A"]] * 2
    assert "artifact was not checked because cases failed" in finished[2]


def test_a_failure_is_not_kept_waiting_by_the_linter(tmp_path: Path) -> None:
    """Its advice follows when the cases pass."""
    of_float32 = SPEC.replace("[float32, float64]", "[float32]")
    _, _, finished = round_of(tmp_path, GOOD.replace("x[i] + x[i]", "x[i] * 3.0 - x[i]"), of_float32)
    assert any(note.startswith("lint: k.py:") for note in finished[2])
    _, _, finished = round_of(tmp_path, GOOD.replace("x[i] + x[i]", "x[i] * 3.1 - x[i]"), of_float32)
    assert not any(note.startswith("lint: ") for note in finished[2])


def test_a_kernel_that_needs_contiguous_arrays_gets_them(tmp_path: Path) -> None:
    """One that reshapes does not compile for any stride, one with a signature of its own is compiled for that."""
    of_contiguous = SPEC.replace("layouts: [contiguous, strided, reversed]", "layouts: [contiguous]")
    of_contiguous = of_contiguous.replace("layouts: [contiguous, strided]", "layouts: [contiguous]")
    order, compiled, _ = round_of(tmp_path, RESHAPES, of_contiguous)
    assert set(order) == {"passed", "compiling", "finished"}
    assert {tuple(layouts) for layouts in compiled} == {("C", "C")}
    of_float32 = of_contiguous.replace("[float32, float64]", "[float32]")
    order, compiled, _ = round_of(tmp_path, EXPLICIT, of_float32)
    assert set(order) == {"passed", "compiling", "finished"}
    assert compiled == [["C", "C"]]


def test_the_kernels_of_a_launcher_are_compiled_as_few_times(tmp_path: Path) -> None:
    """A launcher gets its arrays as they are; the artifact is that of their layouts."""
    order, compiled, finished = round_of(tmp_path, GOOD, WITH_LAUNCHER)
    assert order == ["passed"] * 20 + ["compiling", "finished"]
    assert compiled == [["A", "A"]] * 2
    assert {tuple(layouts) for layouts in finished[1]} > {("A", "A"), ("C", "C")}


def test_a_kernel_of_a_launcher_that_needs_contiguous_arrays_gets_them(tmp_path: Path) -> None:
    """It reshapes them, which does not compile for any stride."""
    contiguous = WITH_LAUNCHER.replace("layouts: [contiguous, strided, reversed]", "layouts: [contiguous]")
    contiguous = contiguous.replace("layouts: [contiguous, strided]", "layouts: [contiguous]")
    order, compiled, _ = round_of(tmp_path, RESHAPES, contiguous)
    assert set(order) == {"passed", "compiling", "finished"}
    assert {tuple(layouts) for layouts in compiled} == {("C", "C")}
