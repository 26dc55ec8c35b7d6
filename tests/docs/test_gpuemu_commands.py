"""Every command line of docs/coming-from-gpuemu.md runs, in a project of an op that fails and one that passes."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from forked_python import environment, run_module

from kcheck.device.cpu import missing

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/coming-from-gpuemu.md").read_text("utf-8")

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(missing()), reason=missing())]

FILES = {
    "kcheck.yaml": "device: cpu\nprofiles: {ci: {cases: 20}, quick: {cases: 5}}\n",
    "kernels/softmax.py": """\
import math

from numba import cuda


@cuda.jit
def softmax(x, y):
    row = cuda.grid(1)
    if row < x.shape[0]:
        largest = x[row, 0]
        for column in range(x.shape[1]):
            largest = max(largest, x[row, column])
        total = x[row, 0] - x[row, 0]
        for column in range(min(64, x.shape[1])):  # leaves out the others
            total += math.exp(x[row, column] - largest)
        for column in range(x.shape[1]):
            y[row, column] = math.exp(x[row, column] - largest) / total
""",
    "kernels/scale.py": """\
from numba import cuda


@cuda.jit
def scale(x, y):
    i = cuda.grid(1)
    if i < y.size:
        y[i] = 2 * x[i]
""",
    "kernels/negate.py": """\
from numba import cuda


@cuda.jit
def negate(x, y):
    i = cuda.grid(1)
    if i < y.size:
        y[i] = -x[i]
""",
    "references/ops.py": """\
import numpy as np


def softmax(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def scale(x):
    return 2 * x
""",
    "specs/softmax.yaml": """\
kcheck: 1
op: softmax
kernel: kernels/softmax.py:softmax
reference: references/ops.py:softmax
dims: {M: 1..2, N: 65..80}
dtypes: [float32]
inputs: {x: {shape: [M, N], values: normal}}
outputs: {y: [M, N]}
launch: {args: [x, y], grid: ["ceildiv(M, 32)"], block: [32]}
cases: {count: 6}
""",
    "specs/scale.yaml": """\
kcheck: 1
op: scale
kernel: kernels/scale.py:scale
reference: references/ops.py:scale
dims: {N: 1..300}
inputs: {x: {shape: [N], values: normal}}
outputs: {y: [N]}
launch: {args: [x, y], grid: ["ceildiv(N, 64)"], block: [64]}
cases: {count: 4}
""",
    "tests/test_scale.py": """\
import numpy as np
from kernels.scale import scale


def test_scale():
    x, y = np.ones(100, np.float32), np.zeros(100, np.float32)
    scale[2, 64](x, y)
    assert (y == 2).all()
""",
    "conftest.py": "",  # pytest puts its folder on the path
    "softmax.ptx": """\
.version 8.0
.target sm_80
.address_size 64
.visible .entry one(.param .u64 p) {
    .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [p];
    mov.u64 %rd2, 1;
    st.global.u64 [%rd1], %rd2;
    ret;
}
""",
}

SECONDS = 300.0
FAILS = "1 of 2 specs failed"

SAID: dict[str, tuple[int, str]] = {
    "kcheck doctor": (0, "numba-cuda"),
    "kcheck --version": (0, "kcheck 0"),
    "kcheck run -v": (1, FAILS),
    "kcheck init": (0, "kcheck run"),
    "kcheck init --kernel FILE:NAME": (0, "specs/negate.yaml"),
    "kcheck schema": (0, '"$schema"'),
    "kcheck init --ci github": (0, ".github/workflows/kcheck.yml"),
    "kcheck ci": (1, FAILS),
    "kcheck run": (1, FAILS),
    "kcheck run -r": (1, FAILS),
    "kcheck run --cases 10 -k float32": (1, FAILS),
    "kcheck run --cases 1000": (1, FAILS),
    "kcheck run --seed 42": (1, FAILS),
    "kcheck run specs/softmax.yaml --cases 500": (1, "500 cases + 1 open failure: 501 failed"),
    "kcheck run kernels/softmax.py": (1, "1 spec failed"),
    "kcheck run -x": (1, "1 failed"),
    "kcheck failures": (0, "softmax · specs/softmax.yaml · 7 failures"),
    "kcheck runs": (0, "10: 6 failed"),
    "kcheck reproduce 98765 --op softmax": (1, "STILL FAILS"),
    "kcheck show 98765 --op softmax": (0, "map"),
    "kcheck minimize --seed 98765 --op softmax --strategy dims --max-iters 50": (0, "N=65"),
    "kcheck minimize --seed 98765 --op softmax --strategy values": (0, "x="),
    "kcheck lint kernels/softmax.py": (0, "regs"),
    "kcheck lint --ptx softmax.ptx": (0, "regs"),
    "kcheck lint --format json": (0, '"registers"'),
    "kcheck lint specs/softmax.yaml": (0, "regs"),
    "kcheck baseline show v1.0 softmax": (0, "registers"),
    "kcheck baseline save v1.0": (0, "baselines/v1.0.json"),
    "kcheck baseline save NAME": (0, "baselines/NAME.json"),
    "kcheck lint": (0, "regs"),
    "kcheck baseline list": (0, "v1.0"),
    "kcheck baseline rm v1.0": (0, "v1.0"),
    "kcheck diff v1.0": (0, "0 regressions"),
    "kcheck diff v1.0 --fail-on-regression": (0, "0 regressions"),
    "kcheck diff v1.0 --fail-on-regression --format json": (0, '"regressions"'),
    "kcheck ci -o reports": (1, FAILS),
    "kcheck run --format junit -o results.xml": (1, ""),
    "kcheck ci --baseline main": (1, FAILS),
    "kcheck ci --quick": (1, FAILS),
    "kcheck report --format json -o report.json": (0, ""),
    "kcheck report --since 24h": (0, "softmax"),
    "kcheck report --format sarif -o kcheck.sarif": (0, ""),
    "kcheck report --format markdown -o comment.md": (0, ""),
    "kcheck report --format html -o report.html": (0, ""),
    "kcheck report --sign kcheck.key": (0, ""),
    "kcheck keygen": (2, "kcheck.key"),
    "kcheck verify kcheck.dsse.json --key kcheck.key.pub": (0, "signature"),
    "kcheck coverage": (0, "softmax"),
    "kcheck reproduce 98765 --op softmax --debug": (1, "dtype('float32')"),
    "kcheck show 98765": (0, "map"),
    "kcheck minimize --seed 98765": (0, "N=65"),
    "kcheck reproduce 98765 --op softmax --script bug.py": (1, "wrote bug.py"),
    "kcheck export 98765 --op softmax -o case.kcase": (0, "case.kcase"),
    "kcheck reproduce case.kcase": (1, "STILL FAILS"),
    "kcheck calibrate specs/softmax.yaml": (1, "the kernel may be wrong"),
    "kcheck run -k float32": (1, FAILS),
    "kcheck run --timeout 20": (1, FAILS),
    "kcheck run --jobs 4": (1, FAILS),
    "kcheck run --strict": (1, FAILS),
    "kcheck exec -- pytest tests": (0, "1 passed"),
    "kcheck exec --sanitize all -- pytest tests": (0, "1 passed"),
}
"""The exit code of each line, and a part of what it prints."""

INSTEAD = {"kcheck init --kernel FILE:NAME": "kcheck init --kernel kernels/negate.py:negate"}
"""What a reader types."""

INPUT = {"kcheck reproduce 98765 --op softmax --debug": "inputs['x'].dtype\n"}


def lines() -> list[str]:
    """The command lines of the page, without redirection."""
    found = re.findall(r"`(kcheck [^`]*)`", PAGE)
    return list(dict.fromkeys(line.partition(" > ")[0] for line in found))


def run(root: Path, line: str, given: str = "") -> subprocess.CompletedProcess[str]:
    """A command line as a process, with kcheck's store; started by Python if it reads what is typed."""
    variables = environment("KCHECK_STORE", "COLUMNS")
    variables["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), variables["PATH"]])
    words = shlex.split(line)
    if not given:
        return run_module(words, root, variables, SECONDS)
    command = [sys.executable, "-m", *words]
    return subprocess.run(
        command, cwd=root, env=variables, input=given, capture_output=True, encoding="utf-8", timeout=SECONDS
    )


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project after a run: with failures, one of the seed 98765, baselines, a key and an exported case."""
    root = tmp_path_factory.mktemp("theirs") / "a project"
    for path, text in FILES.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    for line, code in (
        ("kcheck run", 1),
        ("kcheck run specs/softmax.yaml --case-seed 98765", 1),
        ("kcheck baseline save v1.0", 0),
        ("kcheck baseline save main", 0),
        ("kcheck keygen", 0),
        ("kcheck report --sign kcheck.key", 0),
        ("kcheck export 98765 --op softmax -o case.kcase", 0),
    ):
        done = run(root, line)
        assert done.returncode == code, done.stdout + done.stderr
    return root


LONG = ("--cases 1000", "--cases 500")
"""Lines that differ from others only by how long they take."""


def of_a_day() -> list[object]:
    """The lines; the long ones run in a soak."""
    return [pytest.param(line, marks=pytest.mark.soak) if line.endswith(LONG) else line for line in lines()]


@pytest.mark.parametrize("line", of_a_day())
def test_every_command_line_runs(line: str, project: Path, tmp_path: Path) -> None:
    """With the exit code and the answer of its row."""
    root = tmp_path / "a project"
    if line == "kcheck init":
        root.mkdir()
    else:
        shutil.copytree(project, root)
    done = run(root, INSTEAD.get(line, line), INPUT.get(line, ""))
    code, part = SAID[line]
    assert done.returncode == code, done.stdout + done.stderr
    assert part in done.stdout + done.stderr
    for file in re.findall(r"(?:-o|--script) (\S+)", line):
        assert (root / file).exists()


def test_no_line_is_left_over() -> None:
    assert set(SAID) == set(lines())
