"""A launch that repeats another goes straight to the executor, with the same parameters, results and errors."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from cpu_project import environment

from kcheck.device.cpu import missing

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())

BEGIN = """
import ctypes, json, os, signal, threading, time, warnings
import numpy as np
from kcheck.driver.install import install, settings
warnings.simplefilter("ignore")
found = []
device = install(settings(os.environ), found.append, print)
executor = device.machine.executor
from numba import cuda, float32
from numba.cuda import dispatcher

through = []  # launches that went through cuda.core
plain = dispatcher.launch
def counted(*arguments):
    through.append(1)
    return plain(*arguments)
dispatcher.launch = counted

def went_through(launch, *arguments):
    count = len(through)
    launch(*arguments)
    return len(through) - count

told = {}
"""
END = "\nprint(json.dumps(told))\n"


def told(tmp_path: Path, program: str) -> dict[str, object]:
    """What a program tells."""
    path = tmp_path / "program.py"
    path.write_text(BEGIN + program + END)
    env = environment(KCHECK_CACHE_DIR=str(tmp_path / "cache"))
    words = [sys.executable, str(path)]
    done = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return found


PARAMETERS = """
from kcheck.driver import repeats

@cuda.jit
def numbers(a, b, c, x, d, e, f, y, g):
    if x.size:
        x[0] = a + b + c + d + e + f + g
    y[0, 0] = a

@cuda.jit
def arrays(x, y, z):
    x[0] = y[0, 0] + z[0, 0, 0]

base = cuda.to_device(np.arange(240, dtype=np.float64))
square = base[:144].reshape(12, 12)
cube = base.reshape(4, 5, 12)
fortran = cuda.to_device(np.asfortranarray(np.ones((3, 5))))
fields = (
    np.int8(-5), np.uint8(250), np.int16(-300), np.uint16(60000), np.uint32(1 << 31), np.float32(0.1),
    np.uint64(1 << 63),
)
def all_numbers(big, real, x, y):
    i8, u8, i16, u16, u32, f32, u64 = fields
    return [
        (i8, u8, i16, x, u16, big, f32, y, u64),
        (u8, real, f32, x, i8, u32, i16, y, big),
        (big, i8, real, x, u64, i8, u32, y, i8),
    ]
rounds = []
for big, real in ((7, 1.5), (-9, float("nan")), (1 << 40, float("inf")), (0, -0.0)):
    for x in (base, base[3:9], base[5:5]):
        rounds += [(numbers, one) for one in all_numbers(big, real, x, square)]
rounds += [(arrays, one) for one in (
    (base, square, cube), (base[3:], square[2:], cube[1:]), (base[::2], square[::3, 1:4], cube[1:, ::2]),
    (base[::7], square[:, 5:], cube[:, 1:]), (base[1:], fortran, cube[:1]),
)]

def run():
    given, count = [], []
    def recorded(launch):
        given.append(launch)
        return type(executor).launch(executor, launch)
    executor.launch = recorded
    for kernel, arguments in rounds * 2:
        for grid in ((2, 1), (1, 2)):
            count.append(went_through(kernel[grid, 1], *arguments))
            count.append(went_through(kernel[grid, 1], *arguments))
    del executor.launch
    return [(one.entry, one.params, one.grid, one.block, one.shared, one.cooperative) for one in given], count

direct, count = run()
found_anything = len(found)
packed, repeats._packed = repeats._packed, lambda recipe, arguments, array: None
driven, all_through = run()
told["same"] = direct == driven
told["launches"] = len(driven)
told["through"] = sum(count)
told["all through"] = sum(all_through)
told["repeats through"] = sum(count[1::2])
"""


def test_parameters_are_those_that_cuda_core_passes(tmp_path: Path) -> None:
    """Numbers of every size, arrays of every layout, empty arrays and views."""
    result = told(tmp_path, PARAMETERS)
    assert result["same"] is True
    assert result["all through"] == result["launches"]
    assert result["through"] < result["launches"] * 2 / 3
    empty = result["repeats through"]  # numba-cuda passes no address for an empty array
    assert isinstance(empty, int)
    assert empty < result["launches"] / 8


REPEATED = """
@cuda.jit
def fill(x, value):
    i = cuda.grid(1)
    x[i] = value

x = cuda.to_device(np.zeros(64, np.float32))
launch = fill[2, 32]
told["repeats"] = [went_through(launch, x, value) for value in (1, 2, 3)]
told["filled"] = x.copy_to_host().tolist() == [3] * 64
told["shape"] = [went_through(fill[grid, 32], x, 4) for grid in (2, 1, 1, 2, 2)]
stream = cuda.stream()
told["stream"] = [went_through(fill[2, 32, stream], x, 4) for _ in range(3)]
host = np.zeros(64, np.float32)
launch(x, 1)
told["host"] = [went_through(launch, host, 5) for _ in range(2)], host.tolist() == [5] * 64
told["after host"] = went_through(launch, x, 1)
told["number"] = went_through(launch, x, 1 << 70)

class Doubling:
    def prepare_args(self, kind, value, stream, retr):
        return kind, 2 * value if isinstance(value, int) else value

kernel, = fill.overloads.values()
kernel.extensions.append(Doubling())
told["extension"] = went_through(launch, x, 5), x.copy_to_host().tolist() == [10] * 64
kernel.extensions.clear()

@cuda.jit(debug=True, opt=False)
def checked(x):
    x[cuda.grid(1)] = 1
told["debug"] = [went_through(checked[2, 32], x) for _ in range(2)]

def in_thread():
    told["thread"] = [went_through(launch, x, 6) for _ in range(2)]
thread = threading.Thread(target=in_thread)
thread.start()
thread.join()

child = os.fork()
if not child:
    try:
        launch(x, 7)
    except Exception as error:
        os._exit(17)
    os._exit(0)
told["child"] = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

kinds = cuda.jit("void(float32[:], float32)")(fill.py_func)
told["specialized"] = [went_through(kinds[2, 32], x, value) for value in (1, 2.5)]
try:
    kinds[2, 32](cuda.to_device(np.zeros((8, 8), np.float32)), 1)
except TypeError as error:
    told["other dimensions"] = type(error).__name__
cuda.close()
y = cuda.to_device(np.zeros(64, np.float32))
try:
    launch(y, 8)  # numba-cuda keeps the handle of the kernel, which was unloaded
except Exception as error:
    told["closed"] = str(error).split(":")[0], y.copy_to_host().tolist() == [0] * 64
told["found"] = len(found)
"""


def test_only_repeats_skip_the_driver(tmp_path: Path) -> None:
    """Any other launch goes through it; so does one after the context was closed, and in a forked child."""
    result = told(tmp_path, REPEATED)
    assert result["repeats"] == [1, 0, 0]
    assert result["filled"] is True
    assert result["shape"] == [0, 1, 0, 1, 0]
    assert result["stream"] == [1, 1, 1]
    assert result["host"] == [[1, 1], True]
    assert result["after host"] == 0
    assert result["number"] == 1
    assert result["extension"] == [1, True]
    assert result["debug"] == [1, 1]
    assert result["thread"] == [1, 0]
    assert result["child"] == 17
    assert result["specialized"] == [1, 0]
    assert result["other dimensions"] == "SignatureMismatch"
    assert result["closed"] == ["CUDA_ERROR_INVALID_HANDLE", True]
    assert result["found"] == 0


ERRORS = """
@cuda.jit
def reach(x, i):
    x[i] = 1

x = cuda.to_device(np.zeros(64, np.float32))
launch = reach[1, 1]

def failure(i):
    count = len(found), executor._launches
    try:
        launch(x, i)
    except Exception as error:
        told = type(error).__name__, str(error)
        cuda.synchronize()
        return told, [(one.rule, one.message) for one in found[count[0]:]], executor._launches - count[1]

told["first"] = failure(64)
launch(x, 1)
told["through"] = went_through(launch, x, 2)
told["repeat"] = failure(64)
launch(x, 1)
told["after"] = went_through(launch, x, 2)

@cuda.jit
def long(x, rounds):
    for k in range(rounds):
        x[k & 63] += 1

class Stopped(Exception):
    pass

def stop(number, frame):
    raise Stopped("by a handler")

signal.signal(signal.SIGALRM, stop)
forever = long[1, 1]
forever(x, 1)
forever(x, 1)
signal.setitimer(signal.ITIMER_REAL, 0.3)
try:
    count = len(through)
    forever(x, 1 << 40)
except Stopped as error:
    names = []
    trace = error.__traceback__
    while trace is not None:
        names.append(trace.tb_frame.f_code.co_name)
        trace = trace.tb_next
    told["stopped"] = names[-1], "_repeat" in names or "launch" in names, len(through) - count, error.__cause__
told["usable"] = went_through(forever, x, 1)

from cuda.bindings import driver as bindings
stream_done = []
work = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda given: (time.sleep(0.3), stream_done.append(1)))
def later():
    function = bindings.CUhostFn(ctypes.cast(work, ctypes.c_void_p).value)
    assert bindings.cuLaunchHostFunc(bindings.CUstream(0), function, 0) == (0,)
later()
launch(x, 1)
told["waited"] = len(stream_done)
later()
cuda.synchronize()
told["synchronized"] = len(stream_done)
"""


def test_errors_and_signals_of_repeats(tmp_path: Path) -> None:
    """A failing repeat raises what a first launch raises, runs once, and does not affect the next launch; a signal
    handler can stop it; it waits for callbacks as other launches do."""
    result = told(tmp_path, ERRORS)
    assert result["through"] == result["after"] == 0
    assert result["repeat"] == result["first"]
    failed, messages, launches = result["repeat"]  # type: ignore[misc]
    assert failed[0] == "CUDAError"
    assert [rule for rule, _ in messages] == ["memcheck"]
    assert launches == 1
    assert result["stopped"] == ["stop", True, 0, None]
    assert result["usable"] == 0
    assert (result["waited"], result["synchronized"]) == (1, 2)
