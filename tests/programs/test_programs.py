"""CUDA C++ programs that nvcc built, under kcheck exec: their output and their status are their own."""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from kcheck.driver.nvcc import find_nvcc

HERE = Path(__file__).parent
NVCC = find_nvcc()
pytestmark = pytest.mark.skipif(NVCC is None, reason="no nvcc")


def built(tmp_path_factory: pytest.TempPathFactory, name: str, *words: str) -> Path:
    """A program, which one of the test processes builds."""
    folder = tmp_path_factory.getbasetemp().parent
    path = folder / name
    with open(folder / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            subprocess.run([str(NVCC), "-lineinfo", "-o", str(path), *words], cwd=HERE, check=True)
    return path


@pytest.fixture(scope="session")
def modes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built as nvcc does by default: the runtime is linked statically, PTX is compressed."""
    return built(tmp_path_factory, "modes", "modes.cu")


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two files of device code, and the runtime as a shared library."""
    return built(tmp_path_factory, "whole", "-rdc=true", "-cudart", "shared", "whole.cu", "part.cu")


def run(program: Path, *words: str, options: tuple[str, ...] = (), **variables: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a program under kcheck exec."""
    command = [sys.executable, "-m", "kcheck", "exec", *options, "--", str(program), *words]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False, env={**os.environ, **variables}
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("mode", "code", "expected"),
    [
        ("fill", 3, "sum 4950\n"),
        ("symbols", 0, "sum 15350 total 42\n"),
        ("printf", 0, "before\nthread 0\nthread 1\nafter\n"),
        ("shared", 0, "first 99\n"),
        ("cooperative", 0, "cudaSuccess\nblocks met 64\n"),
        ("graph", 0, "before 0 after 4950 host 7\n"),
        ("graph-memory", 0, "cudaSuccess 4950\ncudaSuccess 4950\n"),
        ("memory", 0, "99 99 99\n3 6\n"),
        ("thread", 0, "thread 4950\n"),
        ("fork", 0, "child 9 sum 4950\n"),
        ("exec", 3, "malloc cudaSuccess\nsum 4950\n"),
        ("properties", 0, "kcheck CPU device 8.0 1024\n"),
    ],
)
def test_a_program_prints_its_output_and_ends_with_its_status(
    modes: Path, mode: str, code: int, expected: str
) -> None:
    actual, out, err = run(modes, mode)
    assert (actual, out) == (code, "malloc cudaSuccess\n" + expected), err
    assert "error" not in err


def test_a_child_that_was_forked_before_the_first_call_has_its_own_device(modes: Path) -> None:
    assert run(modes, "fork-first")[:2] == (0, "child 7\nmalloc cudaSuccess\n")


def test_errors_are_those_of_the_runtime(modes: Path) -> None:
    _, out, _ = run(modes, "errors")
    assert out.splitlines()[1:] == [
        "cudaErrorInvalidValue",  # a copy beyond the allocation
        "cudaSuccess cudaErrorInvalidValue",  # the last error is returned once
        "cudaErrorInvalidConfiguration",
        "cudaErrorInvalidValue",  # a second cudaFree
    ]


def test_a_stray_write_is_found_at_its_line(modes: Path) -> None:
    code, out, err = run(modes, "stray")
    line = 1 + (HERE / "modes.cu").read_text().splitlines().index(
        "    if (i <= n) out[i] = i;  // the twin of fill"
    )
    assert f"modes.cu:{line}: memcheck in stray" in err
    assert (code, out) == (1, "malloc cudaSuccess\nsync cudaErrorIllegalAddress\n")


def test_a_block_that_does_not_come_to_the_barrier_of_its_grid_is_found(modes: Path) -> None:
    code, out, err = run(modes, "cooperative-exit")
    assert "synccheck in together_but_one: " in err
    assert "grid barrier" in err
    assert (code, out) == (1, "malloc cudaSuccess\ncudaSuccess\n")


def test_modules_of_several_files_are_linked(whole: Path) -> None:
    """A static variable of the same name in both files stays that of its file; virtual functions are in both."""
    code, out, err = run(whole)
    assert (code, out) == (0, "cudaSuccess 42 1 2 42\n"), err


ASKS = """
import ctypes, subprocess

nvml = ctypes.CDLL("libnvidia-ml.so.1")
count, device, text = ctypes.c_uint(), ctypes.c_void_p(), ctypes.create_string_buffer(64)
memory, major, minor = (ctypes.c_ulonglong * 3)(), ctypes.c_int(), ctypes.c_int()
early = nvml.nvmlDeviceGetCount_v2(ctypes.byref(count))
codes = [nvml.nvmlInit_v2(), nvml.nvmlDeviceGetCount_v2(ctypes.byref(count))]
codes += [nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)), nvml.nvmlDeviceGetName(device, text, 64)]
codes += [nvml.nvmlDeviceGetMemoryInfo(device, memory)]
codes += [nvml.nvmlDeviceGetCudaComputeCapability(device, ctypes.byref(major), ctypes.byref(minor))]
print(early, *codes, count.value, text.value.decode(), major.value, minor.value, memory[0] - memory[1])
print(nvml.nvmlDeviceGetHandleByIndex_v2(1, ctypes.byref(device)), nvml.nvmlDeviceGetTemperature(device, 0, text))
query = ["nvidia-smi", "--query-gpu=index,memory.used,compute_cap,fan.speed", "--format=csv"]
print(subprocess.run(query, capture_output=True, text=True, check=True).stdout, end="")
print(subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=True).stdout.partition(" (")[0])
print(subprocess.run(["nvidia-smi", "dmon"], capture_output=True, text=True).returncode)
"""


def test_nvml_and_nvidia_smi_answer_with_the_device(tmp_path: Path) -> None:
    """By NVIDIA's management library, or by nvidia-smi; that alone is no use of the device."""
    (tmp_path / "asks.py").write_text(ASKS)
    command = [sys.executable, "-m", "kcheck", "exec", "--cc", "9.0", "--", sys.executable, "asks.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.splitlines() == [
        "1 0 0 0 0 0 0 1 kcheck CPU device 9 0 0",
        "2 3",
        "index, memory.used [MiB], compute_cap, fan.speed",
        "0, 0 MiB, 9.0, [N/A]",
        "GPU 0: kcheck CPU device",
        "2",
    ], done.stderr
    assert "did not use the device" in done.stderr


def test_a_program_that_crashes_ends_as_under_a_shell(modes: Path) -> None:
    code, _, err = run(modes, "crash")
    assert code == 128 + signal.SIGSEGV
    assert "internal error" not in err


def test_a_program_without_cuda_starts_no_device(modes: Path) -> None:
    code, out, err = run(modes, "nothing")
    assert (code, out) == (2, "no CUDA\n")
    assert "did not use the device" in err


def test_a_stripped_program_says_how_to_link(modes: Path, tmp_path: Path) -> None:
    subprocess.run(["strip", "-o", str(tmp_path / "stripped"), str(modes)], check=True)
    _, _, err = run(tmp_path / "stripped", "fill")
    assert "has no symbol table" in err
    assert "-cudart shared" in err


@pytest.mark.parametrize("name", ["libcublas.so.13", "libcufft.so.12", "libnccl.so.2"])
def test_a_library_with_machine_code_only_is_named_at_the_start(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty.c").write_text("int library_call(void) { return 7; }\n")
    (tmp_path / "main.c").write_text("int library_call(void);\nint main(void) { return library_call(); }\n")
    link = [f"-Wl,-soname,{name}", "-Wl,-rpath,$ORIGIN"]
    subprocess.run(["cc", "-shared", "-fPIC", *link, "-o", name, "empty.c"], cwd=tmp_path, check=True)
    subprocess.run(["cc", "-o", "main", "main.c", name, "-Wl,-rpath,$ORIGIN"], cwd=tmp_path, check=True)
    code, _, err = run(tmp_path / "main")
    assert f"kcheck: {name} contains machine code only, which the cpu device cannot run" in err
    assert code == 7


def test_a_missing_compiler_is_named(modes: Path, tmp_path: Path) -> None:
    folder = tmp_path / "empty"
    folder.mkdir()
    code, _, err = run(modes, "fill", PATH=str(folder), KCHECK_CACHE_DIR=str(tmp_path / "cache"))
    assert code != 0
    assert "no C compiler" in err


def test_the_device_process_ends_with_a_killed_program(modes: Path) -> None:
    command = [sys.executable, "-m", "kcheck", "exec", "--", "sh", "-c", f"{modes} fill; kill -9 $$"]
    started = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 128 + signal.SIGKILL
    assert "sum 4950" in done.stdout
    assert time.monotonic() - started < 30


def children(program: subprocess.Popen[str], word: str) -> list[psutil.Process]:
    """The children of kcheck exec with a word in their command, once there are some."""
    for _ in range(400):
        found = [each for each in psutil.Process(program.pid).children() if word in each.cmdline()]
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"no process with {word}")


def has_ended(process: psutil.Process, seconds: float = 5) -> bool:
    try:
        process.wait(seconds)
    except psutil.TimeoutExpired:
        return process.status() == psutil.STATUS_ZOMBIE
    return True


@pytest.mark.parametrize(("mode", "killed"), [("long", "program"), ("long", "kcheck"), ("long, forks", "program")])
def test_nothing_goes_on_after_a_kill_during_a_launch(modes: Path, mode: str, killed: str) -> None:
    """The kernel does not end. A child of the program that has its files open does not keep the device, either."""
    command = [sys.executable, "-m", "kcheck", "exec", "--", str(modes), mode]
    started = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert started.stdout is not None
    assert [started.stdout.readline() for _ in range(2)] == ["malloc cudaSuccess\n", "waits\n"]
    (program,), (engine,) = children(started, mode), children(started, "kcheck.driver.engine")
    left = program.children()
    # The system closes the files of a killed process in its own time: until then, its socket takes connections.
    address = Path(program.environ()["KCHECK_DEVICE"], "device")
    address.unlink()
    try:
        with socket.socket(socket.AF_UNIX) as still_open:
            still_open.bind(str(address))
            still_open.listen()
            (program if killed == "program" else started).kill()
            assert has_ended(engine)
            assert has_ended(program)
        assert started.wait(30) == (137 if killed == "program" else -9)
    finally:
        for each in left:
            each.kill()
    _, err = started.communicate(timeout=30)
    assert "internal error" not in err
    assert ("kcheck exec has ended" in err) == (killed == "kcheck")


@pytest.mark.parametrize(
    ("mode", "code", "expected"),
    [("long, execs", 3, "malloc cudaSuccess\nsum 4950\n"), ("long, leaves", 5, "")],
)
def test_a_program_can_leave_a_launch_that_does_not_end(modes: Path, mode: str, code: int, expected: str) -> None:
    started = time.monotonic()
    assert run(modes, mode)[:2] == (code, "malloc cudaSuccess\n" + expected)
    assert time.monotonic() - started < 30


def test_a_device_process_that_is_killed_is_not_taken_for_the_program(modes: Path) -> None:
    command = [sys.executable, "-m", "kcheck", "exec", "--", str(modes), "wait"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "malloc cudaSuccess\n"
    engines = [each for each in psutil.Process(child.pid).children() if "kcheck.driver.engine" in each.cmdline()]
    assert len(engines) == 1
    engines[0].kill()
    _, err = child.communicate(timeout=60)
    assert child.returncode == 3
    assert "the device process ended; this is an error of kcheck, not of the program" in err
