"""Choosing a device: every name, and what is said where it does not answer. In processes of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from interruptible import start

from kcheck.device import DEVICES, choose
from kcheck.device.cpu import missing
from kcheck.device.cuda import driver_answers
from kcheck.errors import DeviceUnavailable


def python(code, **environment):
    """Run code in a new process, warnings as errors: (exit code, stdout, stderr)."""
    clean = {k: v for k, v in os.environ.items() if k != "NUMBA_ENABLE_CUDASIM"}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**clean, **environment},
    )
    return done.returncode, done.stdout, done.stderr


CHOOSE = "from kcheck.device import choose; d = choose({name!r}); print(d.name)"
REFUSED = (
    "from kcheck.device import choose\nfrom kcheck.errors import DeviceUnavailable\n"
    "try: choose({name!r})\nexcept DeviceUnavailable as error: print(error)"
)


def test_the_simulator_is_chosen_by_name_without_a_warning():
    """Numba's simulator comes up with warnings as errors, and nothing is printed."""
    assert python(CHOOSE.format(name="simulator")) == (0, "simulator\n", "")


@pytest.mark.skipif(driver_answers(), reason="a GPU is here")
def test_auto_is_the_cpu_where_no_driver_answers():
    """auto is the cpu device where that can run, else the simulator; gpu by name says that no driver answers."""
    name = "simulator" if missing() else "cpu"
    assert python(CHOOSE.format(name="auto")) == (0, f"{name}\n", "")
    code, said, _ = python(REFUSED.format(name="gpu"))
    assert code == 0
    assert "no CUDA driver with a device was found" in said


def test_an_unknown_device_lists_the_known_ones():
    """The message names every device."""
    with pytest.raises(DeviceUnavailable, match=r"'tpu'; use one of auto, gpu, cpu, simulator"):
        choose("tpu")
    assert list(DEVICES) == ["auto", "gpu", "cpu", "simulator"]


def test_numba_imported_for_another_device_is_refused_with_the_fix():
    """Once numba.cuda is the real one it cannot become the simulator."""
    code, said, _ = python("import numba.cuda\n" + REFUSED.format(name="simulator"))
    assert code == 0
    assert "already imported without its simulator" in said
    assert "NUMBA_ENABLE_CUDASIM=1" in said


@pytest.mark.parametrize(("name", "before"), [("simulator", "0"), ("cpu", "1")])
def test_numba_without_its_cuda_may_be_imported_before(name, before):
    """A program that has Numba for its own code gets the device that it names, whatever Numba read at import."""
    if name == "cpu" and missing():
        pytest.skip(missing())
    simulated = "import numba.cuda; print(int(numba.cuda.config.ENABLE_CUDASIM))"
    code, said, told = python(
        f"import numba\n{CHOOSE.format(name=name)}\n{simulated}", NUMBA_ENABLE_CUDASIM=before
    )
    assert (code, said, told) == (0, f"{name}\n{int(name == 'simulator')}\n", "")


def test_choosing_imports_numba_only_when_a_device_is_made():
    """Importing the package imports no Numba, so that the choice can still be made."""
    code, said, _ = python("import sys, kcheck.device; print('numba' in sys.modules)")
    assert (code, said) == (0, "False\n")


ENDLESS = """
import threading
from kcheck.device import choose
choose("simulator")
from numba import cuda
import numpy as np

@cuda.jit
def endless(y):
    cuda.syncthreads()
    print("running", flush=True)
    while True:
        y[0] = 1

try:
    endless[1, 4](cuda.to_device(np.zeros(1)))
except KeyboardInterrupt:
    print("interrupted", threading.active_count())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT")
def test_ctrl_c_stops_an_endless_kernel():
    """KeyboardInterrupt reaches the caller, and every thread of the kernel is gone."""
    process = start([sys.executable, "-c", ENDLESS], stdout=subprocess.PIPE, text=True)
    with process:
        assert process.stdout.readline() == "running\n"
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=60)
    assert said.splitlines()[-1] == "interrupted 1"
