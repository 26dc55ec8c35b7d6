"""What a process prepares for the processes that are forked from it."""

from __future__ import annotations

import json
import subprocess
import sys

PROBE = """\
import json, os, sys, threading, time
from kcheck.device.choose import warm

warm("cpu")
prepared = threading.active_count() == 1 and "kcheck.ptx.sanitizers.race.hooks" in sys.modules
from kcheck.device.warming import compile_one

times = []
for _ in range(2):  # the first one again, and one more
    begun = time.thread_time()
    compile_one()
    times.append(time.thread_time() - begun)
print(json.dumps([prepared, times]))
"""

FIRST = """\
import time
from kcheck.device.choose import warm

warm("cpu", compiles=False)
import kcheck.cpu.jit, kcheck.ptx.compile, kcheck.ptx.syntax.parser
from kcheck.device.warming import compile_one

begun = time.thread_time()
compile_one()
print(time.thread_time() - begun)
"""


def test_later_compilations_are_quicker_than_the_first() -> None:
    """A process that is forked after the warm-up compiles in less than 0.8 of the time of a first compilation; no
    thread is started, which would not survive the fork."""

    def run(program: str) -> str:
        return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout

    prepared, times = json.loads(run(PROBE))
    assert prepared
    assert min(times) < 0.8 * float(run(FIRST))
