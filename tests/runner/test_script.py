"""``kcheck reproduce --script``: the file that it writes shows the bug with numba and NumPy alone."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from forked_python import run_module

from kcheck.device.cpu import missing

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(missing()), reason=missing())]

CHECKOUT = Path(__file__).parents[2]
SPEC = """\
kcheck: 1
op: op
{target}
reference: r.py:op
dims: {{N: [40], M: [3]}}
{rest}
cases: {{count: 1}}
"""
LAUNCH = "inputs: {x: [N]}\noutputs: {y: [N]}\nlaunch: {args: [x, y], grid: [2], block: [32]}"


@dataclass(frozen=True)
class Row:
    """A kernel with a bug, its clean twin by one replacement, and what the script prints of it."""

    name: str
    kernel: str
    bug: tuple[str, str]
    says: str
    rest: str = LAUNCH
    reference: str = "def op(x):\n    return 2 * x\n"
    target: str = "kernel: kernels/k.py:op"
    other: str = ""


DOUBLE = "from numba import cuda\n\n\n@cuda.jit\ndef op(x, y):\n    i = cuda.grid(1)\n    if i < x.size:\n"
DOUBLE += "        y[i] = x[i] * 2\n"
ROWS = [
    Row("mismatch", DOUBLE, ("x[i] * 2", "x[i] * 3"), "<- wrong"),
    Row("unwritten", DOUBLE, ("i < x.size", "i < x.size - 1"), "elements of y that were not written: 1"),
    Row(
        "mutated",
        DOUBLE,
        ("y[i] = x[i] * 2", "y[i] = x[i] * 2\n        x[i] = 0"),
        "x is an input and was written",
    ),
    Row(
        "memcheck",
        DOUBLE,
        ("i < x.size", "i < x.size + 1"),
        "kcheck found memcheck: ",
    ),
    Row(
        "layouts, scalars, strides",
        "from numba import cuda\n\n\n@cuda.jit\ndef op(x, w, y, a, n, s):\n    j, i = cuda.grid(2)\n"
        "    if i < n and j < y.shape[1]:\n        y[i, j] = x[i, j] * a + w[j] + s\n",
        ("* a", "+ a"),
        "<- wrong",
        rest=(
            "dtypes: [float16]\n"
            "inputs:\n  x: {shape: [M, N], layouts: [transposed]}\n  w: {shape: [N], layouts: [reversed]}\n"
            "params: {a: {dtype: float64, values: [2.5]}}\n"
            "outputs: {y: {shape: [M, N], layouts: [strided]}}\n"
            "launch: {args: [x, w, y, a, {M: int32}, {stride: [w, 0]}], grid: [2, 1], block: [32, 4]}"
        ),
        reference="def op(x, w, a):\n    return x * a + w - 1\n",
    ),
    Row(
        "two files and a launcher",
        DOUBLE.replace("x[i] * 2", "twice(x[i])").replace("\n\n\n", "\nfrom lib.twice import twice\n\n\n", 1)
        + "\n\ndef launch(x, y, N):\n    op[2, 32](x, y)\n",
        ("op[2, 32](x, y)", "op[1, 32](x, y)"),
        "elements of y that were not written: 8",
        target="launcher: kernels/k.py:launch",
        rest="inputs: {x: [N]}\noutputs: {y: [N]}",
        other="from numba import cuda\n\n\n@cuda.jit(device=True)\ndef twice(value):\n    return value + value\n",
    ),
]


def kcheck(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """``kcheck`` as users have it, with a cache of its own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", "KCHECK_"))}
    variables = {**kept, "PYTHONPATH": str(CHECKOUT), "KCHECK_CACHE_DIR": str(folder / "cache")}
    return run_module(("kcheck", *words), folder, variables, seconds=300)


DAILY = ("mismatch", "two files and a launcher")


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(
            row, id=row.name, marks=() if row.name in DAILY else (pytest.mark.soak,)
        )  # five processes each
        for row in ROWS
    ],
)
def test_the_file_shows_the_bug_until_it_is_fixed(tmp_path: Path, row: Row) -> None:
    """Moved away from its project it fails as the case did; with the bug fixed in it, it ends with 0."""
    assert row.bug[0] in row.kernel
    root = tmp_path / "project"
    for path, text in (
        ("kcheck.yaml", ""),
        ("specs/op.yaml", SPEC.format(target=row.target, rest=row.rest)),
        ("kernels/k.py", row.kernel.replace(*row.bug)),
        ("lib/__init__.py", ""),
        ("lib/twice.py", row.other),
        ("r.py", row.reference),
    ):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    ran = kcheck(root, "run", "--device", "cpu")
    assert ran.returncode == 1, ran.stdout + ran.stderr
    (seed,) = set(re.findall(r"seed (\d+)", ran.stdout))
    done = kcheck(root, "reproduce", seed, "--script", str(tmp_path / "bug.py"))
    assert done.returncode == 1, done.stdout + done.stderr
    away = tmp_path / "away"
    away.mkdir()
    text = (tmp_path / "bug.py").read_text()
    (away / "bug.py").write_text(text)
    shown = kcheck(away, "exec", "--", sys.executable, "bug.py")
    assert row.says in shown.stdout or row.says in text, shown.stdout + shown.stderr
    assert shown.returncode == 1, shown.stdout + shown.stderr
    # No advice of Numba's against a small grid.
    assert shown.stderr == "kcheck: races were not checked; add --sanitize racecheck\n"
    assert row.bug[1] in text
    if row.name == "layouts, scalars, strides":
        return  # whose reference is not what its clean twin computes: the difference is what is looked at
    (away / "bug.py").write_text(text.replace(row.bug[1], row.bug[0]))
    fixed = kcheck(away, "exec", "--", sys.executable, "bug.py")
    assert fixed.returncode == 0, fixed.stdout + fixed.stderr
