"""Advice on real kernels: each pair differs in the line that the rule is about, and only one half is warned of."""

import importlib.util
import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from kcheck.linter.lanes import LaneAccess, sectors
from kcheck.model import Finding
from kcheck.ptx.syntax.ast import Instruction
from kcheck.rules import ADVICE

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("nvidia") is None, reason="NVVM is not installed (cu12, cu13)"),
]

ROOT = Path(__file__).resolve().parents[2]

KERNELS = """
import numpy as np
from numba import cuda

@cuda.jit
def neighbors(x, y):
    i = cuda.grid(1)
    if i < y.size:
        y[i] = x[i]                        # fine

@cuda.jit
def strided(x, y):
    i = cuda.grid(1)
    if i < y.size:
        y[i] = x[i * 32]                   # uncoalesced

@cuda.jit
def backwards(x, y):
    i = cuda.grid(1)
    if i < y.size:
        y[i] = x[y.size - 1 - i]           # fine

@cuda.jit
def pairs(x, y):
    i = cuda.grid(1)
    if i < y.size:
        y[i] = x[2 * i] - x[2 * i + 1]     # fine

@cuda.jit
def first_of_each_pair(x, y):
    i = cuda.grid(1)
    if i < y.size:
        y[i] = x[2 * i]                    # uncoalesced

@cuda.jit
def same_for_all(x, y):
    i = cuda.grid(1)
    if i < y.size:
        y[i] = x[cuda.blockIdx.x]          # fine

@cuda.jit
def columns(x, y):
    tile = cuda.shared.array((32, 32), np.float32)
    t = cuda.threadIdx.x
    for row in range(32):
        tile[row, t] = x[row * 32 + t]
    cuda.syncthreads()
    for row in range(32):
        y[row * 32 + t] = tile[t, row]     # bank-conflict

@cuda.jit
def quarter_columns(x, y):
    tile = cuda.shared.array(256, np.float32)
    t = cuda.threadIdx.x
    tile[t] = x[t]
    cuda.syncthreads()
    y[t] = tile[8 * t]                     # bank-conflict

@cuda.jit
def padded(x, y):
    tile = cuda.shared.array((32, 33), np.float32)
    t = cuda.threadIdx.x
    for row in range(32):
        tile[row, t] = x[row * 32 + t]
    cuda.syncthreads()
    for row in range(32):
        y[row * 32 + t] = tile[t, row]     # fine

@cuda.jit
def python_constant(x, y):
    i = cuda.grid(1)
    if i < y.size:
        y[i] = x[i] * 0.1                  # f64-in-f32

@cuda.jit
def narrow_constant(x, y):
    i = cuda.grid(1)
    if i < y.size:
        y[i] = x[i] * np.float32(0.1)      # fine

@cuda.jit
def constant_in_a_device_function(x, y):
    i = cuda.grid(1)
    if i < y.size:
        y[i] = scaled(x[i]) + x[i]

if True:
    @cuda.jit(device=True)
    def scaled(v):
        w = v + v
        return w * 0.1                     # f64-in-f32

@cuda.jit
def constant_in_a_variable(x, y):
    i = cuda.grid(1)
    total = 0.0                            # f64-in-f32
    for k in range(4):
        total += x[i + k]
    y[i] = total

@cuda.jit
def integer_factor(x, y):
    i = cuda.grid(1)
    if i < y.size:
        y[i] = x[i] * i                    # f64-in-f32

@cuda.jit
def rounds(x, y):
    i = cuda.grid(1)
    if i < y.size:
        y[i] = round(x[i])                 # f64-in-f32

@cuda.jit
def divides_each(x, y):
    i = cuda.grid(1)
    total = np.float32(0)
    for k in range(y.size):
        total += x[k] / x[i]               # division
    y[i] = total

@cuda.jit
def divides_integers(x, y):
    i = cuda.grid(1)
    total = np.float32(0)
    for k in range(y.size):
        total += x[(i * k) // y.size]      # division
    y[i] = total

@cuda.jit
def divides_once(x, y):
    i = cuda.grid(1)
    total = np.float32(0)
    for k in range(y.size):
        total += x[k]
    y[i] = total / x[i]                    # fine

@cuda.jit
def says(x, y):
    i = cuda.grid(1)
    print(i)                               # printf
    y[i] = x[i]

@cuda.jit
def indexed(x, y):                         # local-array
    i = cuda.grid(1)
    mine = cuda.local.array(16, np.float32)
    for k in range(16):
        mine[k] = x[i + k]
    y[i] = mine[int(x[i]) % 16]

@cuda.jit(max_registers=16)
def starved(x, y):                         # spills
    i = cuda.grid(1)
LOADS
    cuda.syncthreads()
    y[i] = SUM
""".replace("LOADS", "\n".join(f"    v{k} = x[i + {k}]" for k in range(40))).replace(
    "SUM", " + ".join(f"v{k} * v{(k * 7 + 3) % 40}" for k in range(40))
)

CHILD = """
import json, sys
from dataclasses import asdict
from kcheck.device.artifact import _no_device_needed, compile_kernel
from kcheck.linter.measure import measure
from kcheck.model import FunctionRef, Span
from kcheck.model.compiled import ArrayType
from kcheck.specfile.load import load_function
path, names = sys.argv[1], sys.argv[2:]
array = ArrayType("float32", 1, "C")
answer = {}
for name in names:
    kernel = load_function(path.rpartition("/")[0], FunctionRef(path.rpartition("/")[2], name, Span("s.yaml", 1)))
    with _no_device_needed(["sm_80"], lineinfo=True):
        (made,) = compile_kernel(kernel, [(array, array)], ["sm_80"])
    metrics = measure(made, (32, 1, 1))
    answer[name] = {"advice": [asdict(f) for f in metrics.advice], "problem": metrics.problem}
print(json.dumps(answer))
"""

NAMES = [line[4:].partition("(")[0] for line in KERNELS.splitlines() if line.startswith("def ")]


@cache
def _advice(folder: Path) -> dict[str, dict[str, object]]:
    path = folder / "kernels.py"
    path.write_text(KERNELS)
    child = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CHILD, str(path), *NAMES],
        cwd=ROOT,
        env={**os.environ, "NUMBA_ENABLE_CUDASIM": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert child.returncode == 0, child.stderr[-2000:]
    answer: dict[str, dict[str, object]] = json.loads(child.stdout)
    return answer


@pytest.fixture(scope="module")
def advice(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, object]]:
    """What each kernel is told."""
    return _advice(tmp_path_factory.mktemp("advice"))


def _expected(name: str) -> tuple[str, int]:
    """The comment in a kernel's text, and its line."""
    lines = KERNELS.splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith(f"def {name}("))
    for n, line in enumerate(lines[start:], start + 1):
        words = line.rpartition("# ")[2]
        if words == "fine" or words in ADVICE:
            return words, n
    raise AssertionError(name)


@pytest.mark.parametrize("name", NAMES)
def test_a_kernel_is_warned_of_what_its_comment_says_and_nothing_else(advice: dict, name: str) -> None:
    """The rule that the comment names, at its line; none where it says fine."""
    assert advice[name]["problem"] == ""
    rule, line = _expected(name)
    found = [(f["rule"], f["place"]["line"]) for f in advice[name]["advice"]]
    if rule in ("local-array", "spills"):  # of the kernel as a whole: the line of its decorator
        line -= 1
    assert found == ([] if rule == "fine" else [(rule, line)])


def test_every_rule_has_a_kernel() -> None:
    """No rule of the table is untested."""
    assert {_expected(name)[0] for name in NAMES} - {"fine"} == set(ADVICE)


def test_advice_is_a_warning_with_a_fix(advice: dict) -> None:
    """Severity warn, a fix, and for a conflict how bad it is."""
    findings = [f for row in advice.values() for f in row["advice"]]
    assert findings
    assert {f["severity"] for f in findings} == {"warn"}
    assert all(f["fix"] for f in findings)
    assert set(findings[0]) == set(Finding.__dataclass_fields__)
    (conflict,) = advice["columns"]["advice"]
    assert "a 32-way bank conflict" in conflict["message"]
    (eight,) = advice["quarter_columns"]["advice"]
    assert "an 8-way bank conflict" in eight["message"]
    (apart,) = advice["strided"]["advice"]
    assert "128 bytes apart" in apart["message"]
    assert "32 sectors of 32 bytes are transferred where 4 would do" in apart["message"]


@pytest.mark.parametrize("stride", [1, -1])
def test_bytes_of_neighbors_fill_one_sector_in_either_direction(stride: int) -> None:
    """32 lanes read 32 bytes, forward or backward."""
    load = Instruction(1, "ld", ("global", "u8"), ())
    assert sectors(LaneAccess(load, "global", 1, stride)) == (1, 1)
    assert sectors(LaneAccess(load, "global", 1, 2 * stride)) == (2, 1)


def test_integers_have_no_reciprocal(advice: dict) -> None:
    """The fix for a slow division depends on what is divided."""
    (floats,) = advice["divides_each"]["advice"]
    (integers,) = advice["divides_integers"]["advice"]
    assert floats["fix"].startswith("compute the reciprocal")
    assert integers["fix"].startswith("integer divisions are slow: update the quotient")


def test_a_function_that_computes_in_float64_is_named(advice: dict) -> None:
    """The line has no constant to change."""
    (wide,) = advice["rounds"]["advice"]
    assert wide["fix"] == "use cuda.libdevice.rintf(): round() computes in float64"
