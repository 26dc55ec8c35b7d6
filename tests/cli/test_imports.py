"""What a command imports: help and validation are for editors and hooks, where each tenth of a second counts."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from small_project import CHECKOUT, Kcheck

PROBE = """\
import json, sys
from kcheck.__main__ import main
code = main(sys.argv[1:])
print(json.dumps([int(code), sorted(sys.modules)]), file=sys.stderr)
"""


def imported(kcheck: Kcheck, *arguments: str, exit_code: int = 0) -> set[str]:
    """The modules that a command has imported at its end."""
    done = subprocess.run(
        [sys.executable, "-c", PROBE, *arguments],
        cwd=kcheck.folder,
        env=kcheck.environment,
        capture_output=True,
        text=True,
    )
    code, modules = json.loads(done.stderr.splitlines()[-1])
    assert code == exit_code, done.stderr
    return set(modules)


@pytest.mark.parametrize(
    ("arguments", "absent"),
    [
        (("--help",), {"numba", "llvmlite", "rich", "numpy", "yaml", "jsonschema", "cuda", "junit_xml"}),
        (("run", "--help"), {"numba", "llvmlite", "rich", "numpy", "yaml", "jsonschema", "cuda", "junit_xml"}),
        (("--version",), {"numba", "llvmlite", "rich", "numpy", "yaml", "jsonschema", "cuda", "junit_xml"}),
        (("config",), {"numba", "llvmlite", "rich", "numpy", "cuda", "junit_xml", "jsonschema"}),
        (("failures",), {"numba", "numpy", "llvmlite", "jsonschema", "cuda", "junit_xml", "kcheck.generator"}),
        (
            ("completion", "bash"),
            {"numba", "llvmlite", "rich", "numpy", "yaml", "jsonschema", "cuda", "junit_xml"},
        ),
        (("init", "new"), {"numba", "llvmlite", "rich", "numpy", "cuda", "junit_xml"}),
        (("schema",), {"numba", "llvmlite", "rich", "cuda", "junit_xml"}),
        (("schema", "report"), {"numba", "llvmlite", "rich", "numpy", "cuda", "junit_xml"}),
        (("validate", "specs/good.yaml"), {"numba", "llvmlite", "rich", "cuda", "junit_xml", "jsonschema"}),
        (("cases", "specs/good.yaml"), {"llvmlite", "rich", "cuda", "junit_xml"}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_command_imports_no_more_than_it_needs(
    kcheck: Kcheck, arguments: tuple[str, ...], absent: set[str]
) -> None:
    """A command leaves out what only running kernels, or another command, needs."""
    modules = imported(kcheck, *arguments)
    assert absent.isdisjoint(modules), absent & modules


COMPILERS = {
    "numba.cuda.cudaimpl",  # imported when Numba compiles
    "numba.cuda._internal.cuda_fp16",
    "scipy.linalg",
    "cffi",
    "kcheck.ptx.compile",  # imported when kcheck compiles
    "kcheck.ptx.syntax.parser",
    "kcheck.ptx.syntax.ast",
    "kcheck.device.kinds.nvrtc",  # of other kinds of kernels
    "kcheck.device.kinds.triton",
    "kcheck.linter.measure",
    "jsonschema",  # a valid spec needs no messages
    "rich.progress",  # stderr is no terminal
}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_run_from_full_caches_imports_no_compiler(kcheck: Kcheck, project: Path, dtype: str) -> None:
    """Kernels that an earlier run compiled are run without importing what compiles them."""
    spec = (project / "specs/good.yaml").read_text() + f"dtypes: [{dtype}]\nartifact: {{}}\n"
    (project / "specs/good.yaml").write_text(spec)
    kcheck.environment["KCHECK_CACHE_DIR"] = str(project / "cache")
    arguments = ("run", "specs/good.yaml", "--device", "cpu")
    first = imported(kcheck, *arguments)
    assert {"numba.cuda.cudaimpl", "kcheck.ptx.compile"} <= first
    assert COMPILERS.isdisjoint(again := imported(kcheck, *arguments)), COMPILERS & again


@pytest.mark.parametrize("device", ["auto", "cpu"])
def test_run_of_refused_specs_imports_no_numba(kcheck: Kcheck, device: str) -> None:
    """Specs are refused before a device is set up, so that `run` refuses them as quickly as `validate`."""
    modules = imported(kcheck, "run", "specs/broken/typo.yaml", "--device", device, exit_code=2)
    assert {"numba", "llvmlite"}.isdisjoint(modules)  # cuda.pathfinder, which is light, names the device of `auto`


LAST_WORDS = """\
import atexit, sys, threading, time
import kcheck.__main__ as command

def main():
    import numba
    atexit.register(lambda: print("exit handler", flush=False))
    release = threading.Event()
    threading.Thread(target=lambda: (release.wait(), print("thread"))).start()
    threading.Timer(0.1, release.set).start()
    print("main")
    return 5

command.main = main
command.process()
"""


def test_the_command_ends_as_python_does(kcheck: Kcheck) -> None:
    """The short way out waits for threads, calls exit handlers, flushes streams and keeps the exit code."""
    done = subprocess.run(
        [sys.executable, "-c", LAST_WORDS], env=kcheck.environment, capture_output=True, text=True, check=False
    )
    assert (done.stdout.splitlines(), done.stderr, done.returncode) == (["main", "thread", "exit handler"], "", 5)


def test_validate_imports_no_code_of_the_user(kcheck: Kcheck, project: Path) -> None:
    """A kernel file that would end the process on import is validated all the same."""
    (project / "kernels/k.py").write_text((project / "kernels/k.py").read_text() + "\nraise SystemExit(77)\n")
    assert kcheck("validate", "specs/good.yaml").returncode == 0


def quickest(command: list[str], environment: dict[str, str]) -> float:
    """Seconds of the quickest of several runs: what the others add is the machine's."""
    times = []
    for _ in range(7):
        begun = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True, env=environment, cwd=CHECKOUT)
        times.append(time.perf_counter() - begun)
    return min(times)


def test_help_is_quick(kcheck: Kcheck) -> None:
    """``kcheck --help`` takes less than four times what importing click alone takes."""
    click = quickest([sys.executable, "-c", "import click"], kcheck.environment)
    assert quickest(kcheck.command("--help"), kcheck.environment) < 4 * click
