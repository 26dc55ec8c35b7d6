"""``kcheck exec``: programs as their authors wrote them, on the cpu device."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import textwrap
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

DOUBLE = """
import numpy as np
from numba import cuda

@cuda.jit
def double(x, y):
    i = cuda.grid(1)
    if i < LIMIT:
        y[i] = 2 * x[i]

x = np.arange(100, dtype=np.float32)
y = cuda.to_device(np.zeros_like(x))
double[4, 32](cuda.to_device(x), y)
print(np.array_equal(y.copy_to_host(), 2 * x))
"""


NO_RACES = "kcheck: races were not checked; add --sanitize racecheck\n"


def run(folder: Path, program: str, *options: str, words: tuple[str, ...] = (), **variables: str):
    """``kcheck exec OPTIONS -- python program.py`` in a folder of its own, with a cache shared by the module;
    its stderr without the line about races."""
    (folder / "program.py").write_text(textwrap.dedent(program))
    start = "import sys; from kcheck.cli.exec import command; command(prog_name='kcheck exec')"
    command = words or (sys.executable, "-W", "ignore", "program.py")
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{folder}", **variables}
    process = subprocess.Popen(
        [sys.executable, "-c", start, *options, "--", *command],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=120)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # the program too, should it hang
    return subprocess.CompletedProcess(process.args, process.returncode, out, err.replace(NO_RACES, ""))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a space in its name."""
    made = tmp_path / "a folder"
    made.mkdir()
    return made


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A Python with nothing installed."""
    venv.create(tmp_path / "bare", with_pip=False, symlinks=True)
    return tmp_path / "bare" / "bin" / "python"


def test_a_program_runs_unchanged(folder: Path) -> None:
    """Arrays go to the device and come back computed; nothing is printed but what the program prints."""
    done = run(folder, DOUBLE.replace("LIMIT", "x.size"))
    assert (done.stdout, done.stderr, done.returncode) == ("True\n", "", 0)


def test_a_finding_is_told_and_fails(folder: Path) -> None:
    """A missing bounds check is told with its line of Python, numba raises its exception, the exit code is 1."""
    program = DOUBLE.replace("LIMIT", "10**6").replace("double[4", "try:\n    double[4")
    program = program.replace(
        "(cuda.to_device(x), y)", "(cuda.to_device(x), y)\nexcept Exception as e:\n    print(e)"
    )
    done = run(folder, program)
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in done.stdout
    assert "program.py:9:" in done.stderr
    assert "memcheck in double: reads x[" in done.stderr
    assert "block 3, thread 4" in done.stderr
    assert "guard the access with `if i < x.shape[0]`" in done.stderr
    assert done.returncode == 1


def test_what_numba_cuda_s_own_kernels_do_is_a_warning(folder: Path) -> None:
    """cuda.reduce synchronizes two lanes by the mask of all: true, and nothing that its user could fix."""
    program = """
    import numpy as np
    from numba import cuda

    add = cuda.reduce(lambda a, b: a + b)
    print(add(np.arange(1000.0)))
    """
    done = run(folder, program)
    assert (done.stdout, done.returncode) == ("499500.0\n", 0)
    assert "reduction.py" in done.stderr
    assert "warning: synccheck in gpu_reduce_block_strided" in done.stderr
    assert "→ it is in numba-cuda's own code, not in yours" in done.stderr


SKIPS = """
import sys
import numpy as np
from numba import cuda

@cuda.jit
def skips(y):
    i = cuda.threadIdx.x
    if i < 4:
        cuda.syncthreads()
    y[i] = i

def go(times):
    y = cuda.to_device(np.zeros(32, np.float32))
    for _ in range(times):
        skips[1, 32](y)
    cuda.synchronize()
"""
CHILDREN = """
if __name__ == "__main__":
    import multiprocessing
    context = multiprocessing.get_context("{method}")
    children = [context.Process(target=go, args=(20,)) for _ in range(2)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    print([child.exitcode for child in children])
"""


def test_a_finding_is_told_once_and_counted(folder: Path) -> None:
    """A kernel launched 300 times has its barrier reported once, with line, source and fix; the sum counts it."""
    done = run(folder, SKIPS + "\ngo(300)\n")
    assert done.returncode == 1
    told, _, summed = done.stderr.partition("kcheck: 1 error\n")
    assert told.startswith("kcheck: program.py:10: synccheck in skips: ")
    assert told.count("synccheck") == 1
    assert "\n        cuda.syncthreads()\n" in told
    assert "\n        → move " in told
    (row,) = summed.splitlines()
    assert row.split("  ")[-1] == "300 times"
    assert row.split()[:3] == ["synccheck", "skips", "program.py:10"]


@pytest.mark.parametrize(
    ("options", "code", "lines"),
    [
        (
            ("--sanitize", "synccheck=warn"),
            0,
            ["kcheck: program.py:10: warning: synccheck in skips", "kcheck: 1 warning"],
        ),
        (("--sanitize", "synccheck=off"), 0, []),
        (("--sanitize", "all=off"), 0, []),
        (
            ("--sanitize", "all=off", "--sanitize", "synccheck"),
            1,
            ["kcheck: program.py:10: synccheck", "kcheck: 1 error"],
        ),
    ],
)
def test_levels_of_sanitizers(folder: Path, options: tuple[str, ...], code: int, lines: list[str]) -> None:
    """A warning is told and exits with 0, off is silent, an error exits with 1."""
    done = run(folder, SKIPS + "\ngo(1)\n", *options)
    assert done.returncode == code
    heads = [line for line in done.stderr.splitlines() if line.startswith("kcheck")]
    assert len(heads) == len(lines)
    assert all(head.startswith(line) for head, line in zip(heads, lines, strict=True))


def test_the_program_s_own_code_comes_first(folder: Path) -> None:
    """A program that fails by itself ends with its own code, findings or not."""
    done = run(folder, SKIPS + "\ngo(1)\nsys.exit(7)\n")
    assert done.returncode == 7
    assert done.stderr.endswith("kcheck: 1 error\n")


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_findings_of_child_processes_are_told_and_count(folder: Path, method: str) -> None:
    """Two children with 20 launches each: both tell their line, the sum has it once with 40, the code is 1."""
    program = SKIPS + CHILDREN.format(method=method)
    done = run(folder, program, "--report", "found here.jsonl")
    assert done.stdout == "[0, 0]\n"
    assert done.returncode == 1
    assert done.stderr.count("synccheck in skips") == 2
    assert done.stderr.endswith("40 times\n")
    (line,) = (folder / "found here.jsonl").read_text().splitlines()
    finding = json.loads(line)
    assert (finding["rule"], finding["severity"], finding["kernel"]) == ("synccheck", "error", "skips")
    assert (finding["count"], finding["place"]["line"], finding["block"]) == (40, 10, [0, 0, 0])


def test_a_killed_program_s_findings_are_counted(folder: Path) -> None:
    """What a process found before it was killed is told and summed; the exit code is the signal's."""
    done = run(folder, SKIPS + "\ngo(50)\nimport os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
    assert done.returncode == 128 + signal.SIGKILL
    assert done.stderr.endswith("50 times\n")


def test_nothing_found_leaves_an_empty_report(folder: Path) -> None:
    """A report of nothing is a file without lines: that something was looked for can be seen."""
    done = run(folder, DOUBLE.replace("LIMIT", "x.size"), "--report", "r.jsonl")
    assert (done.returncode, done.stderr) == (0, "")
    assert (folder / "r.jsonl").read_text() == ""


def test_an_endless_kernel_is_stopped(folder: Path) -> None:
    """``--timeout`` bounds each launch: the program gets an exception, and goes on."""
    program = """
    from numba import cuda
    @cuda.jit
    def forever(flag):
        while flag[0] == 0:
            cuda.nanosleep(100)
    import numpy as np
    flag = cuda.to_device(np.zeros(1, np.int32))
    try:
        forever[1, 1](flag)
    except Exception as fault:
        print(fault)
    print(flag.copy_to_host()[0])
    """
    done = run(folder, program, "--timeout", "0.5")
    assert "CUDA_ERROR_LAUNCH_TIMEOUT" in done.stdout
    assert done.stdout.endswith("0\n")
    assert "timeout in forever" in done.stderr
    assert done.returncode == 1


def test_kernels_print(folder: Path) -> None:
    """What a kernel prints comes out on stdout, in the program's order."""
    program = """
    from numba import cuda
    @cuda.jit
    def hello(n):
        print("thread", cuda.threadIdx.x, n)
    print("before")
    hello[1, 2](1.5)
    cuda.synchronize()
    print("after")
    """
    done = run(folder, program)
    assert done.stdout == "before\nthread 0 1.500000\nthread 1 1.500000\nafter\n"


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_child_processes_are_on_the_device_too(folder: Path, method: str) -> None:
    """A process that the program starts has the same device, with no edit."""
    program = f"""
    import multiprocessing
    def ask():
        from numba import cuda
        print(cuda.get_current_device().name, *cuda.get_current_device().compute_capability)
    if __name__ == "__main__":
        child = multiprocessing.get_context("{method}").Process(target=ask)
        child.start()
        child.join()
    """
    done = run(folder, program, "--cc", "9.0")
    assert done.stdout == "kcheck CPU device 9 0\n"


def test_a_sitecustomize_of_the_user_s_still_runs(folder: Path) -> None:
    """The sitecustomize that ours stands before is run after it."""
    (folder / "sitecustomize.py").write_text("import builtins\nbuiltins.mine = 42\n")
    done = run(folder, "print(mine)")
    assert (done.stdout, done.returncode) == ("42\n", 2)


def test_programs_without_numba_load_nothing(folder: Path) -> None:
    """Another program starts as fast as ever: neither kcheck nor ctypes is loaded into it."""
    done = run(
        folder, "import sys; print([name for name in ('kcheck', 'ctypes', 'numba') if name in sys.modules])"
    )
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    ("program", "code"),
    [
        ("from numba import cuda", 1),
        ("import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'import numba'], stderr=-3)", 2),
        ("try:\n    import numba\nexcept ImportError:\n    pass", 2),
    ],
)
def test_a_python_without_numba_is_named_with_the_fix(folder: Path, bare: Path, program: str, code: int) -> None:
    """One line on stderr after the program's own, also if a child process or optional import looked for Numba."""
    done = run(folder, program, words=(str(bare), "program.py"), PYTHONPATH=str(ROOT))
    note = (
        f"kcheck: {bare} has no numba, which kcheck needs; install kcheck there ({bare} -m pip install kcheck), "
        f"or use the Python that has kcheck: kcheck exec -- {shlex.quote(sys.executable)} ...\n"
    )
    assert done.returncode == code
    assert done.stderr.endswith(note)
    assert done.stderr.count("has no numba") == 1


def test_a_python_without_numba_runs_what_does_not_need_it(folder: Path, bare: Path) -> None:
    """Looking for an absent package still finds nothing, and a program that never looks hears of nothing."""
    done = run(folder, "print(1)", words=(str(bare), "program.py"), PYTHONPATH=str(ROOT))
    assert (done.stdout, done.returncode) == ("1\n", 2)
    assert "numba, which kcheck needs" not in done.stderr
    program = "import importlib.util\nprint(importlib.util.find_spec('numba'))"
    assert run(folder, program, words=(str(bare), "program.py"), PYTHONPATH=str(ROOT)).stdout == "None\n"


def test_exec_says_that_races_were_not_looked_for(folder: Path) -> None:
    """Unless racecheck was asked for or turned off, or the program did not use the device."""
    (folder / "program.py").write_text(DOUBLE.replace("LIMIT", "x.size"))
    (folder / "other.py").write_text("print(1)\n")
    said = {}
    for options, program in (((), "program.py"), (("--sanitize", "racecheck"), "program.py"), ((), "other.py")):
        done = subprocess.run(
            [sys.executable, "-m", "kcheck", "exec", *options, "--", sys.executable, "-W", "ignore", program],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=program == "program.py",
        )
        said[(*options, program)] = done.stderr
    with_races, without, other = said.values()
    assert (with_races, without) == (NO_RACES, "")
    assert NO_RACES not in other


@pytest.mark.parametrize("code", [0, 3])
def test_the_exit_code_is_the_program_s(folder: Path, code: int) -> None:
    """Without findings the exit code passes through."""
    assert run(folder, f"import numba.cuda\nraise SystemExit({code})").returncode == code


@pytest.mark.parametrize(
    ("options", "words", "message"),
    [
        ((), ("no-such-command",), "no-such-command: No such file or directory"),
        ((), ("a program.py",), "this is a Python file; run it with: kcheck exec -- python 'a program.py'"),
        (("--cc", "eight"), (), "--cc 'eight' is not a compute capability"),
        (("--timeout", "0"), (), "0"),
        (
            ("--sanitize", "racechek"),
            (),
            "unknown sanitizer 'racechek'; did you mean 'racecheck'? Choose from memcheck,",
        ),
        (("--sanitize", "racecheck=on"), (), "unknown level 'on' for racecheck; choose from error, warn, off"),
        (("--sanitize", "unwritten"), (), "unwritten: it needs a spec that names the arrays; use `kcheck run`"),
        (("--report", "no/where.jsonl"), (), "--report no/where.jsonl: no such folder: 'no'; create it first"),
        (("--sanitise", "all"), (), "No such option"),
    ],
)
def test_what_cannot_run_says_so(folder: Path, options, words, message: str) -> None:
    """A command that is not there, or a device that cannot be, is an error with its fix, not a traceback."""
    (folder / "a program.py").write_text("")
    done = run(folder, "", *options, words=words)
    assert message in done.stderr
    assert done.returncode != 0


def test_a_forked_child_is_refused_as_by_a_driver(folder: Path) -> None:
    """After cuInit a forked child may not use the device: numba says that CUDA was initialized before forking."""
    program = """
    import os
    from numba import cuda
    cuda.current_context()
    child = os.fork()
    if child == 0:
        try:
            cuda.to_device([1])
        except Exception as fault:
            print(fault, flush=True)
        os._exit(0)
    os.waitpid(child, 0)
    """
    assert run(folder, program).stdout == "CUDA initialized before forking\n"


def test_an_interrupt_ends_the_kernel_and_the_program(folder: Path) -> None:
    """Ctrl-C while a kernel runs stops it; KeyboardInterrupt arrives in the program, which can go on."""
    program = """
    import os, signal, threading, time
    import numpy as np
    from numba import cuda
    @cuda.jit
    def forever(flag):
        while flag[0] == 0:
            cuda.nanosleep(100)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    flag = cuda.to_device(np.zeros(1, np.int32))
    threading.Timer(3, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        try:
            forever[1, 1](flag)
        except Exception:
            time.sleep(5)
    except KeyboardInterrupt:
        print("interrupted", flag.copy_to_host()[0])
    """
    assert run(folder, program).stdout == "interrupted 0\n"


def test_what_a_signal_handler_raises_rises_from_the_launch(folder: Path) -> None:
    """The launch stops, on one worker and on several, its line is in the traceback, and the next launch runs."""
    program = """
    import signal, time, traceback
    import numpy as np
    from numba import cuda
    @cuda.jit
    def wait(flag):
        while flag[0] == 0:
            cuda.nanosleep(100)
    class TooLate(Exception):
        pass
    def late(number, frame):
        raise TooLate
    signal.signal(signal.SIGALRM, late)
    done, never = cuda.to_device(np.ones(1, np.int32)), cuda.to_device(np.zeros(1, np.int32))
    for blocks in (1, 64):
        wait[blocks, 32](done)
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        begun = time.monotonic()
        try:
            wait[blocks, 32](never)
        except TooLate as error:
            _, launch, *_, handler, _ = traceback.format_exception(error)
            print(time.monotonic() - begun < 5, "wait[blocks, 32](never)" in launch, "raise TooLate" in handler)
        wait[blocks, 32](done)
    """
    done = run(folder, program)
    assert (done.stdout, done.stderr) == ("True True True\n" * 2, "")


def test_no_exception_of_a_signal_handler_is_lost(folder: Path) -> None:
    """Whenever the signal comes, before, during or after a launch, the program gets what its handler raises."""
    program = """
    import random, signal, time
    import numpy as np
    from numba import cuda
    @cuda.jit
    def count(x):
        x[cuda.grid(1)] += 1
    class TooLate(Exception):
        pass
    def late(*told):
        raise TooLate
    signal.signal(signal.SIGALRM, late)
    x = cuda.to_device(np.zeros(64 * 64, np.int32))
    count[64, 64](x)
    raised = 0
    for n in range(100):
        end = time.monotonic() + 20
        try:
            signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-4, 1e-3))
            while time.monotonic() < end:
                count[(1, 64)[n % 2], 64](x)
        except TooLate:
            raised += 1
    print(raised)
    """
    done = run(folder, program)
    assert (done.stdout, done.stderr) == ("100\n", "")


def test_what_a_signal_handler_raises_during_the_compilation_rises_from_the_launch(folder: Path) -> None:
    """It is no error of the compiler, after which the kernel is compiled again without line information."""
    program = """
    import os
    import signal
    import numpy as np
    from numba import cuda
    from numba.cuda.core.compiler_machinery import PassManager

    @cuda.jit
    def k(x):
        x[cuda.grid(1)] = 1

    def late(number, frame):
        raise TimeoutError("late")

    def run_with_signal(self, state):
        PassManager.run = plain
        os.kill(os.getpid(), signal.SIGALRM)
        return plain(self, state)

    signal.signal(signal.SIGALRM, late)
    plain, PassManager.run = PassManager.run, run_with_signal
    try:
        k[1, 4](np.zeros(4))
    except TimeoutError as error:
        print("heard", error)
    """
    done = run(folder, program)
    assert done.stdout == "heard late\n", done.stderr


def test_a_lambda_whose_line_cannot_be_parsed_compiles(folder: Path) -> None:
    """Without line information, for which Numba parses the source: here, a part of a call."""
    program = """
    from numba import cuda

    def compiled():
        ptx, _ = cuda.compile_ptx(
            lambda: None, tuple(), cc=(8, 9)
        )
        return ptx

    print(".target sm_89" in compiled())
    """
    done = run(folder, program)
    assert done.stdout == "True\n", done.stderr


def test_what_kernels_raise_is_reported_and_changes_no_result(folder: Path) -> None:
    """A kernel that can raise writes, adds and prints once, whatever its memory is and wherever it is named."""
    program = """
    import numpy as np
    from numba import cuda
    table = cuda.to_device(np.zeros(4, np.int32))
    @cuda.jit
    def count(x):
        i = cuda.grid(1)
        table[i] += 1
        cuda.atomic.add(x, 0, 1)
        if i == 0:
            print("counting")
        if table[i] > 1:
            raise RuntimeError("twice")
    x = cuda.mapped_array(4, np.int32)
    x[:] = 0
    count[1, 4](x)
    count[1, 4](x)
    print(x[0], table.copy_to_host())
    """
    done = run(folder, program)
    assert done.stdout == "counting\ncounting\n8 [2 2 2 2]\n"
    assert "program.py:13: launch in count: a thread raised RuntimeError: twice" in done.stderr
    assert (done.returncode, done.stderr.count("raised")) == (1, 1)


def test_an_exception_with_computed_arguments_does_not_compile(folder: Path) -> None:
    """numba-cuda cannot compile it; the message says so, and where."""
    program = """
    from numba import cuda
    @cuda.jit
    def refuse(n):
        raise ValueError(n)
    refuse[1, 1](3)
    """
    done = run(folder, program)
    assert done.returncode == 1
    assert "the arguments of an exception must be constants in a CUDA kernel" in done.stderr
    assert "program.py:5: compile" in done.stderr


def test_under_a_limit_on_address_space(folder: Path) -> None:
    """Where a process may have little address space the device has less memory, and still works."""
    program = "import resource\nresource.setrlimit(resource.RLIMIT_AS, (12 << 30, 12 << 30))\n"
    program += (
        DOUBLE.replace("LIMIT", "x.size") + "print(cuda.current_context().get_memory_info().total >> 30 < 8)"
    )
    done = run(folder, program)
    assert (done.stdout, done.returncode) == ("True\nTrue\n", 0), done.stderr


# A kernel that is known to be short runs on the thread that launches it; then it does not end after all.
ASTRAY = """
import os, signal, threading, time
import numpy as np
from numba import cuda

@cuda.jit
def wait(flag):
    while flag[0] == 0:
        cuda.nanosleep(100)

flag = cuda.to_device(np.ones(1, np.int32))
for _ in range(200):
    wait[1, 1](flag)
flag.copy_to_device(np.zeros(1, np.int32))

def later(seconds):
    threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT)).start()
"""


def test_an_interrupt_ends_a_kernel_that_used_to_be_short(folder: Path) -> None:
    """Ctrl-C stops it at once, KeyboardInterrupt arrives in the program, and the device goes on."""
    program = """
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    later(1)
    begun = time.monotonic()
    try:
        try:
            wait[1, 1](flag)
        except Exception:
            time.sleep(5)
    except KeyboardInterrupt:
        flag.copy_to_device(np.ones(1, np.int32))
        wait[1, 1](flag)
        print("interrupted", time.monotonic() - begun < 3)
    """
    assert run(folder, ASTRAY + textwrap.dedent(program)).stdout == "interrupted True\n"


def test_another_signal_ends_a_kernel_that_used_to_be_short(folder: Path) -> None:
    """A handler that raises ends it, too, and not only Ctrl-C."""
    program = """
    def late(number, frame):
        raise OSError("too late")
    signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        wait[1, 1](flag)
    except OSError as error:
        print(error)
    """
    done = run(folder, ASTRAY + textwrap.dedent(program))
    assert (done.stdout, done.stderr) == ("too late\n", "")


def test_a_program_still_hears_of_its_signals(folder: Path) -> None:
    """A program's own signal.set_wakeup_fd stays in place, and is told of what came while a kernel ran."""
    program = """
    read, write = os.pipe()
    os.set_blocking(write, False)
    signal.set_wakeup_fd(write)
    heard = []
    signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))
    later(0.5)
    try:
        wait[1, 1](flag)
    except Exception as error:
        print(type(error).__name__)
    told = os.read(read, 100)
    signal.signal(signal.SIGUSR1, lambda *_: None)
    signal.raise_signal(signal.SIGUSR1)
    told += os.read(read, 100)
    print(set(heard), told[0] == signal.SIGINT, told[-1] == signal.SIGUSR1, signal.set_wakeup_fd(-1) == write)
    """
    done = run(folder, ASTRAY + textwrap.dedent(program))
    assert done.stdout == "CUDAError\n{2} True True True\n", done.stderr


def test_a_kernel_that_compiles_only_without_line_information_runs(folder: Path) -> None:
    """libNVVM rejects what numba-cuda's line information says about these kernels' variables, which kcheck
    leaves out; findings still have lines."""
    program = """
    import numpy as np
    from numba import cuda

    @cuda.jit(device=True)
    def place(keys, table):
        k = keys[cuda.grid(1)]
        slot = k % 1024
        while True:
            old = table[slot]
            if old == -1:
                table[slot] = k
            if old == -1 or old == k:
                return slot
            slot = (slot + 1) % 1024

    @cuda.jit
    def insert(keys, table):
        k = keys[cuda.grid(1)]
        slot = k % 1024
        while True:
            old = table[slot]
            if old == -1:
                table[slot] = k
            if old == -1 or old == k:
                return
            slot = (slot + 1) % 1024

    @cuda.jit
    def insert_by_function(keys, table):
        keys[cuda.grid(1)] = place(keys, table)

    for kernel in (insert, insert_by_function):
        table = cuda.to_device(np.full(1024, -1, np.int32))
        kernel[1, 4](cuda.to_device(np.arange(4, dtype=np.int32)), table)
        print(table.copy_to_host()[:6])
    insert[1, 4](cuda.to_device(np.arange(3, dtype=np.int32)), table)
    """
    done = run(folder, program)
    assert done.stdout == "[ 0  1  2  3 -1 -1]\n" * 2, done.stderr
    assert "program.py:19: memcheck in insert" in done.stderr


def test_code_that_numba_writes_has_no_warning_about_its_lines(folder: Path) -> None:
    """Numba has no source for the loop of a @vectorize; the program did not ask for line information."""
    program = """
    import numpy as np
    from numba import vectorize

    @vectorize(["float32(float32)"], target="cuda")
    def double(a):
        return a + a

    print(double(np.ones(3, np.float32)))
    """
    done = run(folder, program)
    assert done.stdout == "[2. 2. 2.]\n"
    assert "Warning" not in done.stderr


CONTRACTED = """
import numpy as np
from numba import cuda

@cuda.jit
def step(y, dt, slope):
    i = cuda.grid(1)
    if i < y.size:
        y[i] = y[i] + dt * slope[i]

rng = np.random.default_rng(1)
state, slope = rng.random((2, 1000), dtype=np.float32)
y = cuda.to_device(state)
step[8, 128](y, np.float32(0.02), cuda.to_device(slope))
got = y.copy_to_host()
exact = state.astype(np.float64) + np.float64(np.float32(0.02)) * slope  # the product has 48 bits: one rounding
print(np.array_equal(got, exact.astype(np.float32)), np.count_nonzero(got != state + np.float32(0.02) * slope))
"""


def test_contracted_products_are_rounded_once(folder: Path) -> None:
    """NVVM makes one ``fma.rn`` of ``y + dt * k``, so a GPU and the cpu device round it once; Numba's simulator
    and NumPy round it twice and differ in the last bit of some elements."""
    done = run(folder, CONTRACTED)
    assert (done.stderr, done.returncode) == ("", 0)
    once, differ = done.stdout.split()
    assert once == "True"
    assert int(differ) > 0


@pytest.mark.parametrize("words", [("ls", "/"), (sys.executable, "-c", "print(1)")])
def test_a_program_that_never_uses_the_device_exits_with_2(words: tuple[str, ...], tmp_path: Path) -> None:
    """Silence and 0 would look like a program without errors."""
    done = run(tmp_path, "", words=words)
    assert done.returncode == 2
    assert "did not use the device, so nothing was checked" in done.stderr


def test_a_program_that_fails_keeps_its_exit_code(tmp_path: Path) -> None:
    """Its own error is the one to look at."""
    assert run(tmp_path, "raise SystemExit(7)\n").returncode == 7


MODULE = '''
import ctypes
import numpy as np
from cuda.bindings import driver
from numba import cuda

PTX = b""".version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 x) {
 .reg .b64 %d; .reg .b32 %r;
 ld.param.u64 %d,[x]; mov.u32 %r, 7; st.global.u32 [%d], %r; ret; }
"""

cuda.current_context()
code, module = driver.cuModuleLoadData(IMAGE)
print(code.name)
if module is not None:
    _, kernel = driver.cuModuleGetFunction(module, b"k")
    a = cuda.to_device(np.zeros(1, np.int32))
    held = ctypes.c_uint64(a.device_ctypes_pointer.value)
    slots = (ctypes.c_void_p * 1)(ctypes.addressof(held))
    driver.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, 0, ctypes.addressof(slots), 0)
    print(a.copy_to_host())
'''


def test_a_module_of_ptx_is_loaded_and_a_binary_is_told(tmp_path: Path) -> None:
    """cuModuleLoadData takes either; only PTX can be run."""
    good = run(tmp_path, MODULE.replace("IMAGE", "PTX"))
    assert (good.returncode, good.stdout.split()) == (0, ["CUDA_SUCCESS", "[7]"])
    bad = run(tmp_path, MODULE.replace("IMAGE", "b'\\x7fELF' + bytes(100)"))
    assert (bad.returncode, bad.stdout.split()) == (1, ["CUDA_ERROR_NO_BINARY_FOR_GPU"])
    assert "this program loads machine code (a cubin); kcheck runs PTX" in bad.stderr


CORE = '''
import numpy as np
from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch

CODE = """
extern "C" __global__ void twice(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i LESS n) y[i] = 2 * x[i];
}
"""

device = Device()
device.set_current()
stream = device.create_stream()
major, minor = device.compute_capability
options = ProgramOptions(arch=f"compute_{major}{minor}", lineinfo=True)
kernel = Program(CODE, "c++", options).compile("ptx").get_kernel("twice")
n = 1000
x, y = (device.memory_resource.allocate(4 * n, stream=stream) for _ in range(2))
launch(stream, LaunchConfig(grid=8, block=128), kernel, x, y, np.int32(n))
stream.sync()
'''


def test_programs_with_cuda_core_run_unchanged(tmp_path: Path) -> None:
    """NVRTC compiles their kernels; an access past the end is told, and the correct twin is silent."""
    pytest.importorskip("cuda.core")
    good = run(tmp_path, CORE.replace("LESS", "<"))
    assert good.returncode == 0, good.stderr
    bad = run(tmp_path, CORE.replace("LESS", "<="))
    assert bad.returncode == 1
    assert "memcheck in twice: reads 4 bytes right past the end of device memory of 4000 bytes" in bad.stderr
