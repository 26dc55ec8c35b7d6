"""``kcheck exec`` with programs that import Triton."""

from __future__ import annotations

import shlex
import sys
import venv
from pathlib import Path

from tests.driver.test_exec import run

PROGRAM = """
import numpy as np
import triton
import triton.language as tl

class Tensor:
    dtype, shape = "fp32", (100,)

    def __init__(self, values):
        self.array = np.array(values, np.float32)

    def data_ptr(self):
        return self.array.ctypes.data

@triton.jit
def double(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, 2 * tl.load(x + i, mask=i < n), mask=i < LIMIT)

x, out = Tensor(range(100)), Tensor([0] * 100)
double[(2,)](x, out, 100, BLOCK=64)
print(np.array_equal(out.array, 2 * x.array))
"""


def test_a_triton_program_runs_unchanged(tmp_path: Path) -> None:
    done = run(tmp_path, PROGRAM.replace("LIMIT", "n"))
    assert (done.stdout, done.stderr, done.returncode) == ("True\n", "", 0)


def test_a_missing_mask_is_reported_with_its_line(tmp_path: Path) -> None:
    """Of this file, even if a copy of it in another folder is in the cache."""
    done = run(tmp_path, PROGRAM.replace("i < LIMIT", "i < 2 * n"))
    told = "kcheck: program.py:18: memcheck in double: writes out[100], but axis 0 has size 100"
    assert told in done.stderr
    assert done.returncode == 1


def test_an_unsupported_triton_is_told_with_the_fix(tmp_path: Path) -> None:
    """What kcheck changes in Triton differs between versions."""
    package = tmp_path / "triton"
    package.mkdir()
    (package / "__init__.py").write_text("__version__ = '3.2.0'\nfrom . import backends\n")
    (package / "backends.py").write_text("backends = {}\n")
    done = run(tmp_path, "import triton", words=(sys.executable, "program.py"))
    fix = 'pip install "triton>=3.6,<3.9"'
    assert (
        done.stderr.splitlines()[-1] == f"kcheck: triton 3.2.0 is not supported: kcheck supports 3.6 to 3.8; {fix}"
    )
    assert done.returncode == 2


def test_a_python_without_kcheck_is_told_with_both_fixes(tmp_path: Path) -> None:
    """The python of the PATH need not be the one that runs kcheck."""
    venv.create(tmp_path / "bare", symlinks=True)
    python = str(tmp_path / "bare" / "bin" / "python")
    done = run(tmp_path, "import triton", words=(python, "program.py"))
    assert done.stderr.startswith(f"kcheck: {python} has no ")
    assert f"{python} -m pip install kcheck" in done.stderr
    assert f"kcheck exec -- {shlex.quote(sys.executable)} ..." in done.stderr
    assert done.returncode == 2


TUNED = PROGRAM.replace(
    "@triton.jit",
    """
tried = []

def config(block, warps):
    return triton.Config({"BLOCK": block}, num_warps=warps, pre_hook=lambda given: tried.append(block))

@triton.autotune([config(*pair) for pair in CONFIGS], key=["n"])
@triton.jit""",
).replace("double[(2,)](x, out, 100, BLOCK=64)", "double[lambda given: (-(-100 // given['BLOCK']),)](x, out, 100)")


def tried_blocks(tmp_path: Path, configs: list[tuple[int, int]], *options: str) -> list[int]:
    """The blocks of the configurations, each a block and a number of warps, that the autotuner ran or tried to."""
    program = TUNED.replace("LIMIT", "n").replace("CONFIGS", str(configs))
    done = run(tmp_path, f"{program}\nprint(*dict.fromkeys(tried))", *options)
    assert (done.stderr, done.returncode) == ("", 0)
    right, used = done.stdout.splitlines()
    assert right == "True"
    return [int(block) for block in used.split()]


def test_the_autotuner_tries_every_configuration(tmp_path: Path) -> None:
    assert tried_blocks(tmp_path, [(32, 4), (64, 4), (128, 4)]) == [32, 64, 128]


def test_the_autotuner_tries_as_many_configurations_as_asked_for(tmp_path: Path) -> None:
    assert tried_blocks(tmp_path, [(32, 4), (64, 4), (128, 4)], "--autotune=2") == [32, 64]


def test_a_configuration_that_triton_rejects_does_not_count(tmp_path: Path) -> None:
    """A block has at most 1,024 threads."""
    assert tried_blocks(tmp_path, [(32, 64), (64, 4), (128, 4)], "--autotune=1") == [32, 64]
