"""LLVM IR text to machine code of this processor, and into this process.

The code of a kernel is an object file made for one processor: it is kept on disk by :mod:`kcheck.cpu.cache` and is
loaded from there in a millisecond or two.
"""

from __future__ import annotations

import functools
import itertools
import platform
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kcheck.errors import InternalError

# One thread at a time in LLVM's global state (targets, the pass registry); machine code runs outside of it.
_LOCK = threading.RLock()


@dataclass(frozen=True, slots=True)
class Processor:
    """What machine code is made for. ``width``: lanes per vector that suit it."""

    name: str
    features: str
    width: int


@functools.cache
def host() -> Processor:
    """This machine's processor: 16 lanes where it has AVX-512, else 8 (narrower compiles several times faster
    than a whole warp and keeps memory operations contiguous)."""
    from llvmlite import binding as llvm

    name = llvm.get_host_cpu_name()
    features = llvm.get_host_cpu_features()
    return Processor(name, features.flatten(), 16 if features.get("avx512f") else 8)


@functools.cache
def _select_carefully() -> None:
    """Without LLVM's fast way to select instructions at level 0: masks of AVX-512 beside calls end the process
    there (LLVM 22: "Cannot emit physreg copy instruction"). The usual way takes a tenth longer to quick code."""
    from llvmlite import binding as llvm

    llvm.set_option("kcheck", "-fast-isel=0")


def _new_machine(level: int) -> Any:
    """What makes code of this processor, as hard as LLVM's -O0 to -O3 would try."""
    from llvmlite import binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmparser()  # of inline assembly, in kcheck.cpu.native
    llvm.initialize_native_asmprinter()
    _select_carefully()
    processor = host()
    # Small and position independent: constants are memory operands.
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=processor.name, features=processor.features, opt=level, reloc="pic", codemodel="small"
    )


_machine = functools.cache(_new_machine)


@functools.cache
def toolchain() -> str:
    """Everything that decides what an object file holds, apart from the IR: part of a cache key."""
    import llvmlite
    from llvmlite import binding as llvm

    processor = host()
    version = ".".join(map(str, llvm.llvm_version_info))
    return "|".join((llvmlite.__version__, version, platform.machine(), processor.name, processor.features))


def compile_ir(ir: str, width: int, *, quick: bool = False) -> bytes:
    """An object file from IR text.

    Args:
        ir: a module; what it defines ``alwaysinline`` is gone from the result.
        width: lanes per vector of its code: 1 gets LLVM's own -O2, which finds vectors; more gets a short list
            of passes, since -O2 takes 4 to 8 times longer there and gains nothing.
        quick: make it in a third of the time, from the short list of passes and without looking for good
            instructions and registers. Such code takes two to three times as long, and leaves the same bits.

    Raises:
        InternalError: LLVM does not accept the module: a fault of the lowering.
    """
    from llvmlite import binding as llvm

    with _LOCK:
        machine = _machine(0 if quick else 2)
        try:
            module = llvm.parse_assembly(ir)
            module.verify()
        except RuntimeError as fault:
            raise InternalError(f"LLVM does not accept the lowered code: {fault}") from fault
        builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=2))
        if width == 1 and not quick:
            passes = builder.getModulePassManager()
        else:
            passes = llvm.create_new_module_pass_manager()
            passes.add_always_inliner_pass()
            passes.add_sroa_pass()
            passes.add_simplify_cfg_pass()
            passes.add_instruction_combine_pass()
            passes.add_sccp_pass()
            passes.add_jump_threading_pass()
            passes.add_instruction_combine_pass()
            passes.add_simplify_cfg_pass()
            passes.add_aggressive_dce_pass()
        passes.run(module, builder)
        code: bytes = machine.emit_object(module)
        return code


@functools.cache
def _linker() -> Any:
    """LLVM's JITLink: it lays the sections of an object out side by side, so that what is position independent
    reaches its constants. (RuntimeDyld may put them gigabytes apart.)"""
    from llvmlite import binding as llvm

    return llvm.create_lljit_compiler(_new_machine(2), use_jit_link=True)


class LoadedCode:
    """Machine code in this process, as long as this object lives.

    Args:
        code: an object file.
        names: the functions to find in it.

    Raises:
        InternalError: it cannot be linked: a symbol is missing.
    """

    _count = itertools.count()

    def __init__(self, code: bytes, names: Sequence[str]) -> None:
        from llvmlite import binding as llvm

        builder = llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
        for name in names:
            builder.export_symbol(name)
        with _LOCK:
            try:
                self._library = builder.link(_linker(), f"kernel-{next(self._count)}")
            except RuntimeError as fault:
                raise InternalError(f"the machine code does not link: {fault}") from fault

    def address(self, name: str) -> int:
        """The address of a function that was named."""
        address: int = self._library[name]
        return address
