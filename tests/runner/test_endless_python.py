"""Python of the user that does not end: the time limit stops it, the verdict names it, and the run goes on."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from forked_python import environment, run_module
from interruptible import start

from kcheck.device.cpu import missing

KERNEL = """
import time
from pathlib import Path

from numba import cuda


@cuda.jit
def double(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = 2 * x[i]


def launch(x, y, N):
    double[1, 64](x, y)
    Path("begun").touch()
    while N == 5:
        pass


def catches(x, y, N):
    double[1, 64](x, y)
    while N == 5:
        try:
            time.sleep(0.01)
        except Exception:
            pass
"""
REFERENCE = """
from pathlib import Path

import numpy as np


def double(x):
    return 2 * x


def hangs(x, N):
    Path("begun").touch()
    while N == 5:
        pass
    return 2 * x


def converges(x, N):
    total = x
    while N == 5 and ((total + x) - total != x).any():  # exact in float64, never in float32
        total = total * 1.0
    total = x * 1e9
    while N == 5 and ((total + x) - total != x).any():
        pass
    return 2 * x


def ones(shape, dtype, N):
    Path("begun").touch()
    while N == 5:
        try:
            pass
        except Exception:
            pass
    return np.ones(shape, dtype)
"""
SPEC = """
kcheck: 1
op: double
{kernel}
reference: r.py:{reference}
dims: {{N: {sizes}}}
inputs: {{x: {{shape: [N], values: [{values}]}}}}
outputs: {{y: [N]}}
cases: {{count: 3}}
"""
LAUNCH = "kernel: k.py:double\nlaunch: {args: [x, y], grid: [1], block: [64]}"
RIGHT = {"kernel": LAUNCH, "reference": "double", "values": "uniform", "sizes": "[3, 5, 7]"}


@pytest.fixture
def spec(tmp_path: Path):
    """Writes a spec of which one part does not end if N is 5, and returns its folder."""
    (tmp_path / "kcheck.yaml").write_text("")
    (tmp_path / "k.py").write_text(KERNEL)
    (tmp_path / "r.py").write_text(REFERENCE)

    def write(**parts: str) -> Path:
        (tmp_path / "spec.yaml").write_text(SPEC.format(**{**RIGHT, **parts}))
        return tmp_path

    return write


RUN = ("run", "spec.yaml", "--no-store", "--device")


@pytest.mark.skipif(bool(missing()), reason=missing())
@pytest.mark.parametrize(
    ("part", "value", "who", "line", "status"),
    [
        ("kernel", "launcher: k.py:launch", "the launcher", "    while N == 5:", "failed"),
        ("kernel", "launcher: k.py:catches", "the launcher", None, "failed"),
        ("reference", "hangs", "the reference", "    while N == 5:", "error"),
        ("reference", "converges", "the reference", None, "error"),
        ("values", "{from: r.py:ones}", "r.py:ones for input 'x'", None, "error"),
    ],
)
def test_what_does_not_end_is_stopped_and_named(
    spec, part: str, value: str, who: str, line: str | None, status: str
) -> None:
    """With its limit and the fix; the other cases run."""
    root = spec(**{part: value})
    words = ("kcheck", *RUN, "cpu", "--timeout", "2", "--format", "json")
    done = run_module(words, root, environment(), seconds=200)
    (told,) = json.loads(done.stdout)["specs"]
    cases = {case["dims"]["N"]: case for case in told["cases"]}
    assert {size: case["status"] for size, case in cases.items()} == {3: "passed", 5: status, 7: "passed"}
    found = next(each for each in cases[5]["findings"] if each["message"].startswith(who))
    assert found["rule"] == "timeout"
    assert f"{who} did not finish within its time limit of 2 s" in found["message"]
    assert "raise --timeout" in found["fix"]
    text = (root / found["place"]["file"]).read_text().splitlines()
    assert line is None or text[found["place"]["line"] - 1] in (line, "        pass")


@pytest.mark.parametrize("part", [{"kernel": "launcher: k.py:launch"}, {"reference": "hangs"}])
def test_the_simulator_has_the_same_limit(spec, part: dict[str, str]) -> None:
    words = ("kcheck", *RUN, "simulator", "--timeout", "0.4")
    done = run_module(words, spec(**part), environment(), seconds=120)
    assert done.returncode == (1 if "kernel" in part else 2), done.stdout + done.stderr
    assert "did not finish within its time limit" in " ".join(done.stdout.split())


@pytest.mark.parametrize(
    "part", [{"kernel": "launcher: k.py:launch"}, {"reference": "hangs"}, {"values": "{from: r.py:ones}"}]
)
def test_ctrl_c_ends_it_before_its_limit(spec, part: dict[str, str]) -> None:
    root = spec(**part, sizes="[5]")
    process = start(
        [sys.executable, "-m", "kcheck", *RUN, "simulator", "--timeout", "1000"],
        cwd=root,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not (root / "begun").exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, out + err
    assert "did not finish" not in out
    assert "Traceback" not in err
