"""Compile LLVM IR text to machine code for this processor, and load it into this process.

The code of a kernel is an object file made for one processor: it is cached on disk by :mod:`kcheck.cpu.cache` and
loaded from there in a millisecond or two.
"""

from __future__ import annotations

import functools
import itertools
import platform
import threading
from collections.abc import Sequence
from typing import Any

from kcheck.dataclass import dataclass
from kcheck.errors import InternalError

LARGE_MODULE = 350_000
"""Characters of IR above which register allocation takes most of the compile time."""

VERY_LARGE_MODULE = 1_000_000
"""Characters of IR above which quick code leaves values in the memory that the lowering gave them."""

# One thread at a time in LLVM's global state (targets, the pass registry); machine code runs without it.
_LOCK = threading.RLock()


@dataclass(frozen=True, slots=True)
class Processor:
    """The processor that machine code is compiled for. ``width``: the best number of lanes per vector."""

    name: str
    features: str
    width: int


@functools.cache
def host() -> Processor:
    """This machine's processor: 16 lanes with AVX-512, else 8. (Narrow vectors compile several times faster than a
    whole warp and keep memory operations contiguous.)"""
    from llvmlite import binding as llvm

    name = llvm.get_host_cpu_name()
    features = llvm.get_host_cpu_features()
    return Processor(name, features.flatten(), 16 if features.get("avx512f") else 8)


def _allocate_registers(globally: bool) -> None:
    """Set whether level 0 allocates registers as the other levels do, or keeps values in memory between blocks.

    In LLVM this is an option of the process. It must be on for the other levels, and for Numba's own code.
    """
    from llvmlite import binding as llvm

    llvm.set_option("kcheck", f"-optimize-regalloc={'true' if globally else 'false'}")


@functools.cache
def _select_carefully() -> None:
    """Disable LLVM's fast instruction selection at level 0: AVX-512 masks next to calls crash it (LLVM 22: "Cannot
    emit physreg copy instruction"). Without it, quick code takes 10% longer to compile."""
    from llvmlite import binding as llvm

    llvm.set_option("kcheck", "-fast-isel=0")


def _new_machine(level: int) -> Any:
    """LLVM's target machine for this processor, at the optimization level -O0 to -O3."""
    from llvmlite import binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmparser()  # for inline assembly, in kcheck.cpu.native
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
    """Everything other than the IR that determines an object file: part of a cache key."""
    import llvmlite
    from llvmlite import binding as llvm

    processor = host()
    version = ".".join(map(str, llvm.llvm_version_info))
    return "|".join((llvmlite.__version__, version, platform.machine(), processor.name, processor.features))


def compile_ir(ir: str, width: int, *, quick: bool = False, registers: bool = False) -> bytes:
    """An object file from IR text.

    Args:
        ir: a module; its ``alwaysinline`` functions are not in the result.
        width: lanes per vector of its code: 1 gets LLVM's -O2, which vectorizes; more lanes get a short list of
            passes, because for them -O2 takes 4 to 8 times longer and gains nothing.
        quick: compile in a third of the time, with fewer of these passes and without optimizing code generation.
            Such code runs two to three times as long, with bit-identical results.
        registers: keep values in registers in quick code, unless the module is large. This takes 1.5 times
            as long to compile, and the code is nearly as fast as other code.

    Raises:
        InternalError: LLVM rejects the module: a bug in the lowering.
    """
    from llvmlite import binding as llvm

    with _LOCK:
        machine = _machine(0 if quick else 2)
        try:
            module = llvm.parse_assembly(ir)
            module.verify()
        except RuntimeError as fault:
            raise InternalError(f"LLVM rejects the lowered code: {fault}") from fault
        stores = quick and not (registers and len(ir) <= LARGE_MODULE)
        builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=2))
        if width == 1 and not quick:
            passes = builder.getModulePassManager()
        else:
            passes = llvm.create_new_module_pass_manager()
            passes.add_always_inliner_pass()
            if stores and len(ir) > VERY_LARGE_MODULE:
                # As SSA values, those that live across blocks would be copied to a new place in memory in each
                # block: four times the code, from a pass whose time grows with the square of the kernel's size.
                passes.add_simplify_cfg_pass()
            elif stores:  # in quick code, other passes take longer than they save
                passes.add_sroa_pass()
                passes.add_sccp_pass()
                passes.add_simplify_cfg_pass()
            else:
                passes.add_sroa_pass()
                passes.add_simplify_cfg_pass()
                passes.add_instruction_combine_pass()
                passes.add_sccp_pass()
                passes.add_jump_threading_pass()
                passes.add_instruction_combine_pass()
                passes.add_simplify_cfg_pass()
                passes.add_aggressive_dce_pass()
        passes.run(module, builder)
        _allocate_registers(not stores)
        try:
            code: bytes = machine.emit_object(module)
        finally:
            _allocate_registers(True)
        return code


@functools.cache
def _linker() -> Any:
    """LLVM's JITLink: it places the sections of an object next to each other, so that position-independent code
    reaches its constants. (RuntimeDyld may put them gigabytes apart.)"""
    from llvmlite import binding as llvm

    return llvm.create_lljit_compiler(_new_machine(2), use_jit_link=True)


class LoadedCode:
    """Machine code in this process, as long as this object lives.

    Args:
        code: object files that refer to each other.
        names: the functions to find in them.

    Raises:
        InternalError: it does not link: a symbol is undefined.
    """

    _count = itertools.count()

    def __init__(self, code: Sequence[bytes], names: Sequence[str]) -> None:
        from llvmlite import binding as llvm

        builder = llvm.JITLibraryBuilder()
        for part in code:
            builder = builder.add_object_img(part)
        builder = builder.add_current_process()
        for name in names:
            builder.export_symbol(name)
        with _LOCK:
            try:
                self._library = builder.link(_linker(), f"kernel-{next(self._count)}")
            except RuntimeError as fault:
                raise InternalError(f"the machine code does not link: {fault}") from fault

    def address(self, name: str) -> int:
        """The address of one of the named functions."""
        address: int = self._library[name]
        return address
