"""A run compiles nothing that an earlier run with the same caches compiled, or left out because of its cost."""

from __future__ import annotations

import struct
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest
from cpu_project import CHECKOUT, environment
from forked_python import run_module

from kcheck.cpu.cache import ObjectCache
from kcheck.cpu.executor import Ending, Executor, KernelLaunch
from kcheck.cpu.memory import Memory, MemoryKind
from kcheck.device.cpu import missing
from kcheck.model import Finding
from kcheck.ptx.abi import Checks

SPECS = {"specs/relu.yaml": "numba", "specs/vector_add_triton.yaml": "triton", "specs/scan_cuda.yaml": "numba"}
THREADS = 64
# Every thread stores its number to the same word: a race.
KERNEL = """.version 8.7
.target sm_80
.address_size 64
.visible .entry last(.param .u64 out)
{
    .reg .b32 %r<2>; .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %tid.x;
    st.global.u32 [%rd1], %r1;
    ret;
}
"""


def compiled(cache: Path) -> set[Path]:
    """The files of the caches, one for each object, program and PTX."""
    return {path for path in cache.rglob("*") if path.is_file()}


@pytest.mark.slow
@pytest.mark.skipif(bool(missing()), reason=missing())
@pytest.mark.parametrize("processors", ["1", "2"])
def test_a_second_run_compiles_nothing(tmp_path: Path, processors: str) -> None:
    """For kernels of numba.cuda, Triton and CUDA C++, with the code of their sanitizers, whether one process
    compiles everything or several do."""
    specs = [spec for spec, needs in SPECS.items() if find_spec(needs)]
    cache = tmp_path / "cache"

    def run() -> subprocess.CompletedProcess[str]:
        words = ("kcheck", "run", *specs, "--cases", "8", "--device", "cpu", "--no-store", "--no-lint")
        variables = environment(KCHECK_CACHE_DIR=str(cache), KCHECK_THREADS=processors)
        return run_module(words, CHECKOUT, variables, seconds=600)

    first = run()
    assert first.returncode == 0, first.stdout + first.stderr
    before = compiled(cache)
    second = run()
    assert second.returncode == 0, second.stdout + second.stderr
    assert before
    assert compiled(cache) == before


class Device:
    """A device as a process has it: executors of several share the folder of the cache."""

    def __init__(self, folder: Path) -> None:
        self.findings: list[Finding] = []
        memory = Memory(1 << 20)
        self.executor = Executor(memory, 1, ObjectCache(folder), lambda: 0.0, self.findings.append, lambda _: None)
        self.module = self.executor.load(KERNEL)
        self.base = memory.allocate(4, MemoryKind.DEVICE)

    def launch(self, checks: Checks, *, otherwise: Checks | None = None) -> bool:
        """Launch; whether the checks were left out."""
        self.executor.checks, self.executor.otherwise, self.executor.left_out = checks, otherwise, False
        self.findings.clear()
        params = struct.pack("<Q", self.base)
        launch = KernelLaunch(self.module, "last", params, (1, 1, 1), (THREADS, 1, 1), 0, cooperative=False)
        assert self.executor.launch(launch) is Ending.FINISHED
        return self.executor.left_out


RACE = Checks(race=True)


def test_checks_are_left_out_only_where_their_code_would_have_to_be_compiled(tmp_path: Path) -> None:
    """The twin differs in a run that compiled it."""
    assert Device(tmp_path).launch(RACE, otherwise=Checks())
    device = Device(tmp_path)
    assert not device.launch(RACE)
    assert [finding.rule for finding in device.findings] == ["racecheck"]
    later = Device(tmp_path)
    assert not later.launch(RACE, otherwise=Checks())
    assert [finding.rule for finding in later.findings] == ["racecheck"]


def test_a_launch_without_its_checks_reports_nothing_of_them(tmp_path: Path) -> None:
    device = Device(tmp_path)
    assert device.launch(RACE, otherwise=Checks())
    assert device.findings == []


def test_code_with_checks_is_lent_from_the_cache(tmp_path: Path) -> None:
    """An earlier run compiled only code with checks, and this one runs the case without them."""
    Device(tmp_path).launch(RACE)
    before = compiled(tmp_path)
    later = Device(tmp_path)
    later.executor.lends = RACE
    later.launch(Checks())
    assert later.findings == []
    assert {path.name for path in compiled(tmp_path)} == {path.name for path in before}
    assert later.executor.kernels.compiled == 0
    nothing_lent = Device(tmp_path)
    nothing_lent.launch(Checks())
    assert nothing_lent.executor.kernels.compiled == 1
