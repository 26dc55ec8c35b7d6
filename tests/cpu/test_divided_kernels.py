"""Quick code of a kernel and of its checks is compiled apart, so that an edit compiles the kernel alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcheck.cpu import kernel
from kcheck.cpu.cache import ObjectCache
from kcheck.cpu.kernel import Tier, Variant, compile_kernel
from kcheck.cpu.memory import Memory
from kcheck.cpu.module import LoadedModule
from kcheck.ptx.abi import Checks
from tests.ptx.division_kernel import KERNEL

VARIANT = Variant("double", 16, Checks(race=True, init=True), 32, widens=False)


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The modules that LLVM compiles, as text."""
    texts: list[str] = []
    compile_ir = kernel.compile_ir

    def noting(ir: str, width: int, *, quick: bool, registers: bool = False) -> bytes:
        texts.append(ir)
        return compile_ir(ir, width, quick=quick, registers=registers)

    monkeypatch.setattr(kernel, "compile_ir", noting)
    kernel._compiled_scheduler.cache_clear()
    return texts


def test_after_an_edit_only_the_kernel_itself_is_compiled(tmp_path: Path, compiled: list[str]) -> None:
    cache = ObjectCache(tmp_path)
    counts = []
    for factor in ("2", "3", "2"):
        module = LoadedModule(KERNEL.replace("FACTOR", factor), Memory(1 << 20), cache, "double.ptx")
        made = compile_kernel(module, VARIANT, cache, Tier.QUICK)
        assert made.run is not None
        counts.append(len(compiled))
        compiled.clear()
    assert counts == [3, 1, 0]  # the kernel, its checks and the scheduler; the kernel; all from the cache
