"""The monitor on CUDA tensors: copies on the device, checked on another stream, and a caller that never waits.

Without a GPU the program runs under ``kcheck exec``, which gives torch a device ``cuda`` in host memory
(``make monitor-torch``); ``make test-gpu`` runs it on a GPU.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """\
import threading

import torch
from torch.overrides import TorchFunctionMode

from kcheck.monitor import EquivalenceChecker, Mismatch

WAITS = {"synchronize", "cpu", "item", "tolist", "numpy", "nonzero", "__bool__", "__float__", "to", "wait_stream"}
main = threading.current_thread()
waited, streams, kept = [], [], []
found: list[Mismatch] = []
devices = set()


def counted(owner, name):
    plain = getattr(owner, name)

    def wrapper(*args, **kwargs):
        if threading.current_thread() is main:
            waited.append(name)
        return plain(*args, **kwargs)

    setattr(owner, name, wrapper)


class Reads(TorchFunctionMode):
    \"\"\"Notes what reads a tensor on the host.\"\"\"

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if getattr(function, "__name__", "") in WAITS:
            waited.append(function.__name__)
        return function(*args, **(kwargs or {}))


x = torch.ones(64, 64, device="cuda")  # the device is ready
counted(torch.cuda, "synchronize")
counted(torch.cuda.Event, "synchronize")
counted(torch.cuda.Stream, "synchronize")
made = torch.cuda.Stream


class Stream(made):
    def __new__(cls, *args, **kwargs):
        if "stream_id" not in kwargs:  # not a handle of a stream that exists, as current_stream() makes
            streams.append(threading.current_thread().name)
        return made.__new__(cls, *args, **kwargs) if made.__new__ is not object.__new__ else object.__new__(cls)


torch.cuda.Stream = Stream
plain_record = torch.Tensor.record_stream


def record_stream(self, stream):
    kept.append(threading.current_thread().name)
    plain_record(self, stream)


torch.Tensor.record_stream = record_stream


def reference(x):
    devices.add((x.device.type, threading.current_thread() is main))
    return x + x


def wrong_at_three(x):
    return torch.where(x == 3, 7.0, 2 * x)


def calls(count, **settings):
    \"\"\"Calls whose arrays change afterwards; what made the caller wait; the counts.\"\"\"
    checker = EquivalenceChecker()
    double = checker.equivalent(reference, found.append, **settings)(wrong_at_three)
    inputs = [torch.full((8, 8), float(n), device="cuda") for n in range(count)]
    with checker.start(sample_probability=settings.get("sample_probability", 0.0)):
        waited.clear()
        with Reads():
            for n, x in enumerate(inputs):
                y = double(x)
                x.fill_(100)
                y.fill_(200)
        by_caller = list(waited)
        checker.flush()
    return by_caller, checker.stats()


by_caller, stats = calls(6, sample_probability=1.0)
assert by_caller == [], by_caller
assert (stats.checked, stats.reference_errors, stats.copy_errors) == (6, 0, 0), stats
assert [mismatch.number for mismatch in found] == [4]
assert found[0].inputs[0].is_cuda and found[0].original_result.is_cuda
assert found[0].inputs[0].unique().tolist() == [3.0]
assert found[0].original_result.unique().tolist() == [7.0]
assert found[0].ground_truth_result.unique().tolist() == [6.0]
assert devices == {("cuda", False)}
assert streams and all("kcheck-monitor" in name for name in streams), streams
assert kept and all("kcheck-monitor" in name for name in kept), kept

found.clear()
by_caller, stats = calls(300)  # not sampled: the default detector looks at copies, in the background
assert by_caller == [], by_caller
assert stats.sampled == 0 and stats.checked == stats.outliers < 60, stats
by_caller, stats = calls(300, outlier_detector=False)
assert by_caller == [], by_caller
assert (stats.calls, stats.checked) == (300, 0), stats

in_place = EquivalenceChecker()
relu = in_place.equivalent(lambda x: torch.clamp(x, min=0), found.append)(torch.relu_)
found.clear()
with in_place.start(sample_probability=1.0):
    relu(torch.randn(100, device="cuda"))
assert found == [] and in_place.stats().checked == 1

model = torch.nn.Linear(4, 4).to("cuda")
watched = EquivalenceChecker()
layer = watched.equivalent(lambda x: x @ model.weight.T + model.bias, found.append)(model)
with watched.start(sample_probability=1.0):
    layer(torch.randn(3, 4, device="cuda")).sum().backward()
assert found == [] and watched.stats().checked == 1, (found, watched.stats())
print("done")
"""


def ran(*launcher: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, *launcher, "-c", PROGRAM]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_the_monitor_on_cuda_in_host_memory() -> None:
    done = ran("-m", "kcheck", "exec", "--", sys.executable)
    assert done.stdout == "done\n", done.stdout + done.stderr


@pytest.mark.gpu
def test_the_monitor_on_a_gpu() -> None:
    if not torch.cuda.is_available():
        pytest.skip("torch finds no CUDA device")
    done = ran()
    assert done.stdout == "done\n", done.stdout + done.stderr
