"""A thread that has a context is not asked for it before each launch, and never gets one that was released."""

from __future__ import annotations

import subprocess
import sys

import pytest
from cpu_project import environment

from kcheck.device.cpu import missing

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())

PROGRAM = """
import threading
import warnings
import numpy as np
from kcheck.device import choose
choose("cpu")
from numba import cuda
from numba.cuda.cudadrv import driver
warnings.simplefilter("ignore")

asked = []
class Counted(driver._ActiveContext):
    def __enter__(self):
        asked.append(1)
        return super().__enter__()
driver._ActiveContext = Counted

def launched(value):
    @cuda.jit
    def fill(y, value):
        y[cuda.grid(1)] = value

    y = cuda.to_device(np.zeros(4, np.float32))
    launch = fill[1, 4]
    launch(y, value)
    count = len(asked)
    launch(y, value)
    count = len(asked) - count
    return y.copy_to_host().tolist(), count

def in_thread():
    told.append(launched(5))

told = [launched(3)]
first = cuda.current_context()
thread = threading.Thread(target=in_thread)
thread.start()
thread.join()
cuda.close()
told.append(launched(7))
for values, count in told:
    print(set(values), count)
print(first is not cuda.current_context())
"""


def test_a_launch_asks_for_its_context_once_in_each_thread(tmp_path) -> None:
    """The second launch of a thread knows it; after `cuda.close` there is another one."""
    words = [sys.executable, "-c", PROGRAM]
    env = environment(KCHECK_CACHE_DIR=str(tmp_path / "cache"))
    done = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout.splitlines() == ["{3.0} 0", "{5.0} 0", "{7.0} 0", "True"], done.stderr
