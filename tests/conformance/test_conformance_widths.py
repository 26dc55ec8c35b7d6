"""``make conformance-widths`` itself: it tells a kernel whose lanes matter from one whose threads' order does."""

from __future__ import annotations

import ctypes
import json
import struct
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from conformance.page import WIDTHS, section_of, widths
from conformance.suite import Verdict, read_verdicts, run_suite
from conformance.verdicts import DIFFERENT, SAME
from conformance.widths import Comparison
from kcheck.cpu.executor import Ending
from kcheck.cpu.memory import MemoryBlock, MemoryKind
from kcheck.model import NATURAL

SUITE = """
import numpy as np
import pytest
from numba import cuda

@cuda.jit
def plain(out):
    out[cuda.grid(1)] = cuda.grid(1)

@cuda.jit
def tickets(out, counter):
    first = cuda.atomic.add(counter, 0, 1)
    out[cuda.grid(1)] = first - cuda.atomic.add(counter, 0, 1)

@cuda.jit
def races(out):
    out[0] = cuda.grid(1)
    cuda.threadfence()
    out[1 + cuda.grid(1)] = out[0]

@cuda.jit
def own(out):
    here = cuda.local.array(4, np.int32)
    out[cuda.grid(1)] = here.ctypes.data

@cuda.jit
def wild(out):
    out[cuda.grid(1) + 1000] = 1

def test_plain():
    out = cuda.device_array(70, np.int32)
    plain[2, 35](out)
    assert list(out.copy_to_host()) == list(range(70))

def test_tickets():
    counter = cuda.to_device(np.zeros(1, np.int32))
    tickets[2, 35](cuda.device_array(70, np.int32), counter)
    assert counter.copy_to_host()[0] == 140

def test_races():
    races[2, 35](cuda.device_array(71, np.int32))

def test_own():
    own[2, 35](cuda.device_array(70, np.int64))

def test_wild():
    with pytest.raises(Exception):
        wild[2, 35](cuda.device_array(70, np.int32))
        cuda.synchronize()
"""


def test_each_launch_gets_its_verdict(tmp_path: Path) -> None:
    """Equal, by turns, a race, addresses of local memory, a fault; each test passes as without."""
    path = tmp_path / "tests" / "test_kernels.py"
    path.parent.mkdir()
    path.write_text(SUITE)
    written = tmp_path / "verdicts.jsonl"
    run = run_suite(1, tests=[str(path.parent)], widths=written)
    assert {outcome.outcome for outcome in run.outcomes.values()} == {"passed"}
    verdicts = read_verdicts(written)
    assert {(v.test, v.kernel): v.verdict for v in verdicts} == {
        ("test_kernels.py::test_plain", "plain"): SAME,
        ("test_kernels.py::test_tickets", "tickets"): "ticket",
        ("test_kernels.py::test_races", "races"): "order",
        ("test_kernels.py::test_own", "own"): "address",
        ("test_kernels.py::test_wild", "wild"): "fault",
    }


@pytest.mark.parametrize(
    ("leaves", "verdict"),
    [
        (lambda executor: b"same", SAME),
        (lambda executor: b"%04d" % executor.width, DIFFERENT),
        (lambda executor: b"%04d" % (100 * executor.width + ord(executor.schedule.order[0])), "order"),
        (lambda executor: struct.pack("<I", 0x7FC00000 | (executor.width == 1) << 31), DIFFERENT),
    ],
    ids=["same", "by width", "by width and order", "which NaN"],
)
def test_what_hangs_on_the_width_alone_is_told(tmp_path: Path, leaves, verdict: str) -> None:
    """Each launch begins with the same memory, and the usual one is what is left, whatever else was tried.
    What a thread of the program launches beside others is not held to it."""
    buffer = ctypes.create_string_buffer(b"....", 4)
    begun = []

    def launch(executor, asked) -> Ending:
        begun.append(buffer.raw)
        buffer.raw = leaves(executor)
        return Ending.FINISHED

    executor = SimpleNamespace(
        memory=[MemoryBlock(ctypes.addressof(buffer), 4, MemoryKind.DEVICE, 1)],
        width=16,
        kernels=SimpleNamespace(quick=True),
        schedule=NATURAL,
        limit=None,
        report=None,
        _write=None,
        _heap_used=0,
        _launches=0,
        _scheduler=SimpleNamespace(_workers=[], _resident=[]),
    )
    asked = SimpleNamespace(module=SimpleNamespace(variables=dict, text=""), entry="k")
    path = tmp_path / "verdicts.jsonl"
    comparison = Comparison(path, launch)
    comparison.compare(executor, asked)  # type: ignore[arg-type]
    assert json.loads(path.read_text())[3] == verdict
    assert set(begun) == {b"...."}
    assert buffer.raw == leaves(executor)
    assert (executor.width, executor.kernels.quick, executor.schedule) == (16, True, NATURAL)
    buffer.raw = b"...."
    beside = threading.Thread(target=comparison.compare, args=(executor, asked))
    beside.start()
    beside.join()
    assert json.loads(path.read_text().splitlines()[1])[3] == (SAME if verdict == SAME else "threads")


def test_the_page_lists_what_differs() -> None:
    """Launches and kernels are counted; what leaves other bits is listed; a later page can keep the section."""
    verdicts = [
        Verdict("a::t", "k", "1", SAME, ""),
        Verdict("a::t", "k", "1", SAME, ""),
        Verdict("a::u", "n", "2", DIFFERENT, "byte 0 | of"),
    ]
    text = widths(verdicts)
    assert text.startswith(WIDTHS)
    assert "| 2 | 1 | **the same bits** |" in text
    assert "| `a::u` | `n` | **different bits** | byte 0 \\| of |" in text
    assert section_of("# Conformance\n\nrest\n\n" + text, WIDTHS) == text
