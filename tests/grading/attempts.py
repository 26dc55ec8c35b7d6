"""Candidates that are wrong, or that no kernel computes, and that try to pass all the same.

The problem is y = 2 x + 1 for float32 arrays of any length. Each attempt is the text of a file that defines the
launcher ``solve(x, y, N)``. ``KERNELS`` comes before each of them, and ``PATCHED`` if it patches and restores. An
attempt names its verdict and, if it matters, the rule.
"""

KERNELS = """
import ctypes, gc, inspect, os, sys, time
import numpy as np
from numba import cuda

@cuda.jit
def right(x, y):
    i = cuda.grid(1)
    if i < y.shape[0]:
        y[i] = 2 * x[i] + 1

@cuda.jit
def wrong(x, y):
    i = cuda.grid(1)
    if i < y.shape[0]:
        y[i] = 2 * x[i]

@cuda.jit
def nothing(x, y):
    pass

def launch(kernel, x, y):
    n = y.shape[0]
    kernel[(n + 63) // 64, 64](x, y)
"""

RACY = """
@cuda.jit
def racy(x, y):
    i = cuda.grid(1)
    if i + 1 < y.shape[0]:
        y[i + 1] = 0
    if i < y.shape[0]:
        y[i] = 2 * x[i] + 1
"""

PAST = """
@cuda.jit
def past(x, y):
    i = cuda.grid(1)
    if i <= y.shape[0]:
        y[i] = 2 * x[min(i, x.shape[0] - 1)] + 1
"""

PATCHED = """
import contextlib
from kcheck.cpu.executor import Executor
from kcheck.cpu.judging import LaunchJudge
from kcheck.cpu.memory import Memory
from kcheck.cpu.needless_checks import NO_CHECKS, NeededChecks
from kcheck.cpu.races import Races
from kcheck.grading.channel import ByteChannel
from kcheck.grading.launchwire import LaunchWriter

@contextlib.contextmanager
def patched(owner, name, value):
    plain = owner.__dict__.get(name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, plain) if plain is not None else delattr(owner, name)

sends = ByteChannel.send
def without_findings(self, fields, blobs=()):
    return sends(self, {**fields, "findings": []} if "findings" in fields else fields, blobs)
"""

PRETENDS = """
from kcheck.device.launching import LaunchingDevice
from kcheck.model import NATURAL

device = next(each for each in gc.get_objects() if type(each) is LaunchingDevice)
plain = device.attempt

def in_usual_order(spec, arrays, poison, limit, schedule=NATURAL, **given):
    done = plain(spec, arrays, poison, limit, **given)
    pretended(spec, arrays, done)
    return done

device.attempt = in_usual_order  # an attribute of an object replaces no function of a library
"""

HONEST = {
    "plain": """
def solve(x, y, N):
    launch(right, x, y)
""",
    "prints": """
print("loading")
def solve(x, y, N):
    print("x" * 10_000)
    launch(right, x, y)
""",
    "writes in its folder": """
def solve(x, y, N):
    with open("notes.txt", "a") as file:
        file.write("one more\\n")
    launch(right, x, y)
""",
    "starts a thread": """
import threading
def solve(x, y, N):
    thread = threading.Thread(target=lambda: sum(range(100)))
    thread.start()
    thread.join()
    launch(right, x, y)
""",
}

ATTEMPTS = {
    # Wrong values.
    "zeros": (
        "wrong",
        "def solve(x, y, N):\n    launch(nothing, x, y)\n    y.copy_to_device(np.zeros(N, np.float32))",
    ),
    "wrong kernel": ("wrong", "def solve(x, y, N): launch(wrong, x, y)"),
    "writes nothing": ("wrong", "def solve(x, y, N): launch(nothing, x, y)"),
    "returns instead of writing": ("wrong", "def solve(x, y, N): return 2 * x.copy_to_host() + 1"),
    "no tail": ("wrong", "def solve(x, y, N):\n    if N // 64: right[N // 64, 64](x, y[: N // 64 * 64])"),
    "one size only": ("wrong", "def solve(x, y, N):\n    launch(right if N == 1 else wrong, x, y)"),
    "first call only": (
        "wrong",
        """
calls = []
def solve(x, y, N):
    calls.append(N)
    launch(right if len(calls) <= 2 else wrong, x, y)
""",
    ),
    "skips work after the first call": (
        "wrong",
        """
done = {}
def solve(x, y, N):
    if not done:
        launch(right, x, y)
        done[0] = y.copy_to_host()
    else:
        y.copy_to_device(np.resize(done[0], N))
""",
    ),
    "changes its input": (
        "wrong",
        """
@cuda.jit
def both(x, y):
    i = cuda.grid(1)
    if i < y.shape[0]:
        y[i] = 2 * x[i] + 1
        x[i] = 0
def solve(x, y, N): launch(both, x, y)
""",
    ),
    "one element too far": (
        "wrong",
        """
@cuda.jit
def past(x, y):
    i = cuda.grid(1)
    if i <= y.shape[0]:
        y[i] = 2 * x[min(i, x.shape[0] - 1)] + 1
def solve(x, y, N): past[(N + 64) // 64, 64](x, y)
""",
    ),
    "a race with the right values": (
        "wrong",
        """
@cuda.jit
def racy(x, y):
    i = cuda.grid(1)
    if i + 1 < y.shape[0]:
        y[i + 1] = 0
    if i < y.shape[0]:
        y[i] = 2 * x[i] + 1
def solve(x, y, N): launch(racy, x, y)
""",
    ),
    "uninitialized memory": (
        "wrong",
        """
def solve(x, y, N):
    hope = cuda.device_array(N, np.float32)
    @cuda.jit
    def copy(hope, y):
        i = cuda.grid(1)
        if i < y.shape[0]:
            y[i] = hope[i]
    launch(copy, hope, y)
""",
    ),
    # No kernel.
    "on the host": (
        "cheat",
        "def solve(x, y, N): y.copy_to_device((2 * x.copy_to_host() + 1).astype(np.float32))",
    ),
    "on the host, beside a kernel": (
        "cheat",
        """
def solve(x, y, N):
    launch(nothing, x, y)
    y.copy_to_device((2 * x.copy_to_host() + 1).astype(np.float32))
""",
    ),
    "on the host, before a kernel": (
        "cheat",
        """
def solve(x, y, N):
    y.copy_to_device((2 * x.copy_to_host() + 1).astype(np.float32))
    launch(nothing, x, y)
""",
    ),
    "njit": (
        "cheat",
        """
import numba
@numba.njit
def on_host(x): return (2 * x + 1).astype(np.float32)
def solve(x, y, N): y.copy_to_device(on_host(x.copy_to_host()))
""",
    ),
    # Looking for the answer.
    "the caller's frames": (
        "wrong",
        """
def solve(x, y, N):
    launch(wrong, x, y)
    for frame in inspect.stack():
        for value in frame.frame.f_locals.values():
            expected = getattr(value, "expected", None)
            if isinstance(expected, dict) and "y" in expected:
                y.copy_to_device(expected["y"].astype(np.float32))
""",
    ),
    "all objects": (
        "wrong",
        """
def solve(x, y, N):
    launch(wrong, x, y)
    right = 2 * x.copy_to_host().astype(np.float64) + 1
    for value in gc.get_objects():
        if isinstance(value, dict):
            for each in list(value.values()):
                if isinstance(each, np.ndarray) and each.dtype == np.float64 and each.shape == right.shape:
                    if np.array_equal(each, right):
                        y.copy_to_device(each.astype(np.float32))
""",
    ),
    "imports the reference": (
        "error",
        """
import importlib.util
spec = importlib.util.spec_from_file_location("reference", PROJECT + "/reference.py")
reference = importlib.util.module_from_spec(spec)
spec.loader.exec_module(reference)
def solve(x, y, N):
    y.copy_to_device(reference.twice(x.copy_to_host()).astype(np.float32))
""",
    ),
    "reads the spec": ("error", "open(PROJECT + '/kcheck.yaml').read()\ndef solve(x, y, N): launch(right, x, y)"),
    "a link to the project": (
        "error",
        "os.symlink(PROJECT, 'project')\nopen('project/reference.py').read()\ndef solve(x, y, N): pass",
    ),
    "reads memory of its parent": (
        "error",
        "open(f'/proc/{os.getppid()}/mem', 'rb').read(8)\ndef solve(x, y, N): pass",
    ),
    "command lines of others": (
        "error",
        """
found = [open(f"/proc/{p}/cmdline").read() for p in os.listdir("/proc") if p.isdigit() and int(p) != os.getpid()]
assert found
def solve(x, y, N): launch(right, x, y)
""",
    ),
    "traces its parent": (
        "wrong",
        """
def solve(x, y, N):
    failed = ctypes.CDLL(None).ptrace(16, os.getppid(), 0, 0) != 0
    launch(wrong if failed else right, x, y)
""",
    ),
    # Changing the harness.
    "patches the judge": (
        "wrong",  # the judge is in another process
        """
import kcheck.oracle.compare
kcheck.oracle.compare.compare = lambda *a, **k: True
def solve(x, y, N): launch(wrong, x, y)
""",
    ),
    "patches the outcome": (
        "cheat",
        """
import kcheck.grading.candidate as c
plain = c.write_outcome
def fake(outcome, names):
    fields, blobs = plain(outcome, names)
    fields["findings"] = []
    return fields, blobs
c.write_outcome = fake
def solve(x, y, N): launch(wrong, x, y)
""",
    ),
    "patches numpy": (
        "cheat",
        "np.allclose = np.array_equal = lambda *a, **k: True\ndef solve(x, y, N): launch(wrong, x, y)",
    ),
    "patches the clock": (
        "cheat",
        "time.perf_counter = lambda: 0.0\ndef solve(x, y, N): launch(right, x, y)",
    ),
    "patches the launch": (
        "cheat",
        """
from numba.cuda import dispatcher
dispatcher._Kernel.launch = lambda *a, **k: None
def solve(x, y, N): launch(wrong, x, y)
""",
    ),
    "replaces modules": (
        "wrong",
        """
import types
for name in list(sys.modules):
    if name.startswith("kcheck.oracle"):
        sys.modules[name] = types.ModuleType(name)
def solve(x, y, N): launch(wrong, x, y)
""",
    ),
    "switches the checks off": (
        "wrong",
        "os.environ.update(KCHECK_SANITIZE='', KCHECK_EXEC='x')\ndef solve(x, y, N): launch(wrong, x, y)",
    ),
    "an audit hook": (
        "wrong",
        "sys.addaudithook(lambda *a: None)\ndef solve(x, y, N): launch(wrong, x, y)",
    ),
    "a profiler": (
        "wrong",
        """
def hook(frame, event, arg):
    if event == "return" and frame.f_code.co_name == "write_outcome":
        arg[0]["findings"] = []
sys.setprofile(hook)
def solve(x, y, N): launch(wrong, x, y)
""",
    ),
    # Changing the harness, and restoring it before anyone looks.
    "hides a race": (
        "wrong racecheck",
        RACY
        + """
def solve(x, y, N):
    with patched(Races, "findings", lambda *_, **__: ()), patched(ByteChannel, "send", without_findings):
        launch(racy, x, y)
""",
    ),
    "switches racecheck off": (
        "wrong racecheck",
        RACY
        + """
def solve(x, y, N):
    with patched(Executor, "_needed", lambda *_: NeededChecks(NO_CHECKS)):
        launch(racy, x, y)
""",
    ),
    "switches racecheck off in the launch that is sent": (
        "wrong racecheck",
        RACY
        + """
plain = LaunchWriter.written
def without_checks(self, launch):
    fields, blobs = plain(self, launch)
    return {**fields, "wanted": []}, blobs
def solve(x, y, N):
    with patched(LaunchWriter, "written", without_checks):
        launch(racy, x, y)
""",
    ),
    "asks for no instruments": (
        "wrong racecheck",
        RACY
        + """
def bare(self, fields, blobs=()):
    return sends(self, {**fields, "instruments": []} if fields.get("kind") == "ready" else fields, blobs)
ByteChannel.send = bare
def solve(x, y, N):
    ByteChannel.send = sends
    launch(racy, x, y)
""",
    ),
    "drops what the device process found": (
        "wrong memcheck",
        PAST
        + """
plain = ByteChannel.receive
def fine(self, *given):
    received = plain(self, *given)
    if "ending" in received.fields:
        received.fields.update(ending="finished", findings=[])
    return received
def solve(x, y, N):
    with patched(ByteChannel, "receive", fine):
        past[(N + 64) // 64, 64](x, y)
        y.copy_to_device((2 * x.copy_to_host() + 1).astype(np.float32))
""",
    ),
    "hides an access out of bounds": (
        "wrong memcheck",
        PAST
        + """
def solve(x, y, N):
    with patched(LaunchJudge, "faults_of", lambda *_: []):
        past[(N + 64) // 64, 64](x, y)
""",
    ),
    "hides an uninitialized read": (
        "wrong initcheck",
        """
@cuda.jit
def careless(hope, x, y):
    i = cuda.grid(1)
    if i < y.shape[0]:
        y[i] = 2 * x[i] + (2 if hope[i] > 0 else 1)  # uninitialized floats are negative here
def solve(x, y, N):
    with patched(Memory, "undefine", lambda *_: None):
        hope = cuda.device_array(N, np.float32)
        careless[(N + 63) // 64, 64](hope, x, y)
""",
    ),
    "says that its input has not changed": (
        "wrong mutated",
        PRETENDS
        + """
@cuda.jit
def both(x, y):
    i = cuda.grid(1)
    if i < y.shape[0]:
        y[i] = 2 * x[i] + 1
        x[i] = 0
def pretended(spec, arrays, done):
    done.after.update({name: each.buffer for name, each in arrays.allocations.items() if each.role == "input"})
def solve(x, y, N): launch(both, x, y)
""",
    ),
    "says that it has written everything": (
        "wrong unwritten",
        PRETENDS
        + """
@cuda.jit
def half(x, y):
    i = cuda.grid(1)
    if 2 * i < y.shape[0]:
        y[i] = 2 * x[i] + 1
def pretended(spec, arrays, done):
    x, y = arrays.allocation("x"), arrays.allocation("y")
    bytes_of_y = done.after["y"]
    y.view(bytes_of_y)[...] = 2 * x.view() + 1
def solve(x, y, N): launch(half, x, y)
""",
    ),
    "runs in the usual order only": (
        "wrong nondeterministic",
        PRETENDS
        + """
@cuda.jit
def in_order(x, y, counter):
    i = cuda.grid(1)
    if i < y.shape[0]:
        place = cuda.atomic.add(counter, 0, 1)
        y[i] = (2 * x[i] + 1) * (1 + 1e-7 * (place % 4))
def pretended(spec, arrays, done): pass
def solve(x, y, N): in_order[(N + 63) // 64, 64](x, y, cuda.to_device(np.zeros(1, np.int32)))
""",
    ),
    "labels more memory than an array has": (
        "cheat forged",
        PAST
        + """
from dataclasses import replace
memory = next(each for each in gc.get_objects() if type(each) is Memory)
plain = memory.label
def more(label, **given): plain(replace(label, high=label.high + 64), **given)
memory.label = more
def solve(x, y, N): past[(N + 64) // 64, 64](x, y)
""",
    ),
    "runs its kernels itself": (
        "cheat not-the-kernel",
        """
def solve(x, y, N):
    executor = next(each for each in gc.get_objects() if type(each) is Executor)
    remote = executor.__dict__.pop("launch")
    try:
        launch(right, x, y)
    finally:
        executor.launch = remote
""",
    ),
    "a launch that is none": (
        "cheat forged",
        """
def solve(x, y, N):
    with patched(LaunchWriter, "written", lambda *_: ({"kind": "launch"}, [b""])):
        launch(right, x, y)
""",
    ),
    "memory that is not the device's": (
        "cheat forged",
        """
plain = LaunchWriter.written
def elsewhere(self, launch):
    fields, blobs = plain(self, launch)
    fields["memory"]["blocks"][0][0] = 4096
    return fields, blobs
def solve(x, y, N):
    with patched(LaunchWriter, "written", elsewhere):
        launch(right, x, y)
""",
    ),
    "some blocks only": (
        "cheat forged",
        """
plain = LaunchWriter.written
def first_block(self, launch):
    fields, blobs = plain(self, launch)
    return {**fields, "schedule": ["sample", 0, [0]]}, blobs
def solve(x, y, N):
    with patched(LaunchWriter, "written", first_block):
        launch(right, x, y)
""",
    ),
    # The channel.
    "writes to every descriptor": (
        "cheat",
        """
def solve(x, y, N):
    for number in range(3, 64):
        try:
            os.write(number, b"passed " * 100)
        except OSError:
            pass
    launch(wrong, x, y)
""",
    ),
    "a message at import": (
        "error",
        """
for number in range(3, 64):
    try:
        os.write(number, b'{"kind": "ready", "verdict": "correct"}')
    except OSError:
        pass
os._exit(0)
""",
    ),
    "closes every descriptor": ("error", "os.closerange(3, 64)\ndef solve(x, y, N): launch(wrong, x, y)"),
    # Ending early.
    "exits at import": ("error", "sys.exit(0)"),
    "exits for good at import": ("error", "os._exit(0)"),
    "exits in a launch": ("error", "def solve(x, y, N): os._exit(0)"),
    "raises SystemExit": ("error", "def solve(x, y, N): sys.exit(0)"),
    "aborts": ("error", "def solve(x, y, N): os.abort()"),
    "reads address 0": ("error", "def solve(x, y, N): ctypes.string_at(0)"),
    "at exit": (
        "wrong",
        "import atexit\natexit.register(lambda: os._exit(0))\ndef solve(x, y, N): launch(wrong, x, y)",
    ),
    "hangs at import": ("timeout", "def solve(x, y, N): pass\nwhile True: pass"),
    "hangs in a launch": ("timeout", "def solve(x, y, N):\n    while True: pass"),
    "sleeps through signals": (
        "timeout",
        """
import signal
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM):
    signal.signal(number, signal.SIG_IGN)
def solve(x, y, N): time.sleep(1000)
""",
    ),
    "a kernel without an end": (
        "timeout",
        """
@cuda.jit
def endless(x, y):
    while y[0] != 12345:
        pass
def solve(x, y, N): endless[1, 1](x, y)
""",
    ),
    # Other processes and resources.
    "forks": (
        "error",
        "def solve(x, y, N):\n    os.fork()\n    launch(right, x, y)",
    ),
    "a fork bomb": ("error", "while True: os.fork()"),
    "starts a program": (
        "error",
        "import subprocess\nsubprocess.run(['true'], check=True)\ndef solve(x, y, N): launch(right, x, y)",
    ),
    "opens a socket": (
        "error",
        "import socket\nsocket.socket().connect(('127.0.0.1', 80))\ndef solve(x, y, N): launch(right, x, y)",
    ),
    "writes to the project": (
        "error",
        "open(PROJECT + '/reference.py', 'a').write('#')\ndef solve(x, y, N): launch(right, x, y)",
    ),
    "writes to /tmp": ("error", "open('/tmp/kcheck-escaped', 'w')\ndef solve(x, y, N): launch(right, x, y)"),
    "fills the disk": (
        "error",
        """
with open("large", "wb") as file:
    for _ in range(4096):
        file.write(bytes(1 << 20))
def solve(x, y, N): launch(right, x, y)
""",
    ),
    "asks for 100 GB": ("error", "kept = np.ones(100 << 30, np.uint8)\ndef solve(x, y, N): launch(right, x, y)"),
    "takes memory slowly": (
        "error",
        """
kept = []
while True:
    kept.append(np.ones(32 << 20, np.uint8))
""",
    ),
    # Files that are no candidates.
    "a syntax error": ("error", "def solve(x, y, N) launch(right, x, y)"),
    "no solve": ("error", "def solution(x, y, N): launch(right, x, y)"),
    "a missing import": ("error", "import no_such_module\ndef solve(x, y, N): launch(right, x, y)"),
    "other parameters": ("error", "def solve(a, b): pass"),
}
