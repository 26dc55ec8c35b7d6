"""A compiled kernel, from the cache or from PTX, with what a launch needs to know about it."""

from __future__ import annotations

import ctypes
import dataclasses
import functools
from collections.abc import Callable
from enum import StrEnum

from kcheck.cpu.cache import ObjectCache
from kcheck.cpu.jit import LoadedCode, compile_ir, toolchain
from kcheck.cpu.module import LoadedModule, version
from kcheck.dataclass import dataclass
from kcheck.interpreter import no_collection, with_room
from kcheck.ptx.abi import Checks
from kcheck.ptx.ir.module import LlvmModule
from kcheck.ptx.program import Program, SchedulerVariant

_SECONDS_PER_BYTE = 5e-6
"""An estimate, per byte of quick code, of the time to compile better code for the same kernel."""

_RUN = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
_BLOCK = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32)


class Tier(StrEnum):
    """How much time is spent on compiling a kernel: a part of the key of its code.

    QUICK code is compiled in a third of the time, and is two to three times slower than BETTER code. REGISTERS is
    quick code that keeps values in registers: it is compiled in half the time, and nearly as fast.
    """

    QUICK = "quick"
    REGISTERS = "quick, in registers"
    BETTER = "better"


@dataclass(frozen=True)
class Kernel:
    """Machine code and its description.

    Attributes:
        program: without its IR.
        compile_seconds: an estimate of how long better code takes to compile.
        run: ``kcheck_run(launch, worker, first, last)``; releases the GIL. ``entry``: its address.
        run_block: ``kcheck_block(launch, worker, block, resume)``; releases the GIL.
        is_new: whether it was compiled now, and not found in the cache.
    """

    program: Program
    tier: Tier
    compile_seconds: float
    code: LoadedCode
    run: Callable[[int, int, int, int], int]
    entry: int
    run_block: Callable[[int, int, int, int], int]
    is_new: bool


@dataclass(frozen=True, slots=True)
class Variant:
    """Identifies the code for a kernel of a module.

    Attributes:
        width: lanes per vector; ``widens``: whether to use more if they suit the kernel.
        row: how many lanes are neighbors along the axis in its blocks: see :func:`kcheck.ptx.abi.row_of`.
        axis: the axis along which threads are grouped into vectors.
        defined: bits for the groups of ``MemoryUse.reads`` that read initialized memory. initcheck skips them.
    """

    entry: str
    width: int
    checks: Checks
    row: int
    widens: bool
    axis: str = "x"
    defined: int = 0


def code_key(module: LoadedModule, variant: Variant) -> str:
    """The key of a kernel's code, without its tier."""
    return "\0".join((version(), toolchain(), str(variant), module.file, module.text))


def is_stored(module: LoadedModule, variant: Variant, cache: ObjectCache) -> bool:
    """Whether there is code of any tier in the cache."""
    key = code_key(module, variant)
    return any(cache.has_value(_of_tier(key, tier)) for tier in Tier)


@with_room
def stored_kernel(module: LoadedModule, variant: Variant, cache: ObjectCache, tier: Tier) -> Kernel | None:
    """The kernel, ready to run, if its code is in the cache."""
    stored = cache.load(_of_tier(code_key(module, variant), tier))
    return None if stored is None else _loaded(stored, cache, tier, is_new=False)


@with_room
def compile_kernel(module: LoadedModule, variant: Variant, cache: ObjectCache, tier: Tier) -> Kernel:
    """The kernel, ready to run. It is compiled if its code is not in the cache.

    Raises:
        PtxError: an unsupported instruction, or invalid PTX.
        InternalError: LLVM rejects the lowered code.
    """
    key = _of_tier(code_key(module, variant), tier)
    stored = cache.load(key)
    is_new = False
    if stored is None:
        with cache.turn(key):
            stored = cache.load(key)
            is_new = stored is None
            stored = stored or _made(module, variant, cache, key, tier)
    return _loaded(stored, cache, tier, is_new=is_new)


def _of_tier(key: str, tier: Tier) -> str:
    return f"{key}\0{tier}"


def _loaded(stored: tuple[Program, tuple[bytes, ...]], cache: ObjectCache, tier: Tier, *, is_new: bool) -> Kernel:
    program, code = stored
    scheduler = _scheduler(program.scheduler, cache, quick=tier is not Tier.BETTER)
    loaded = LoadedCode((*code, scheduler), ("kcheck_run", "kcheck_block"))
    run, block = loaded.address("kcheck_run"), loaded.address("kcheck_block")
    seconds = sum(map(len, code)) * _SECONDS_PER_BYTE
    return Kernel(program, tier, seconds, loaded, _RUN(run), run, _BLOCK(block), is_new)


def _made(
    module: LoadedModule, variant: Variant, cache: ObjectCache, key: str, tier: Tier
) -> tuple[Program, tuple[bytes, ...]]:
    """Compile a kernel and store it; returns it with its object files."""
    # 0.2 s to import; a run from a full cache skips it
    from kcheck.ptx.compile import CodeChecks, lower_checked
    from kcheck.ptx.lowering.kernel import suitable_width

    with no_collection():  # the collector would visit all of Numba's objects
        entry, width, row = variant.entry, variant.width, variant.row
        if variant.widens:
            width = suitable_width(module.tree, entry, width, row)
        interiors = tier is not Tier.QUICK
        checks, axis = CodeChecks(variant.checks, variant.defined, module.entries[entry].use), variant.axis
        program = lower_checked(module.tree, entry, width, checks, row, axis, interiors)
        if tier is Tier.QUICK:
            code = _quick(program.ir, width, cache)
        else:
            is_quick = tier is Tier.REGISTERS
            code = (compile_ir(program.ir.text, width, quick=is_quick, registers=is_quick),)
    made = dataclasses.replace(program, ir=LlvmModule()), code
    cache.store(key, made)
    return made


def _quick(module: LlvmModule, width: int, cache: ObjectCache) -> tuple[bytes, ...]:
    """Quick code: the kernel's own, and that of its checks, which may be in the cache from another kernel."""
    own, checks = module.divided()
    if not checks.definitions:
        return (compile_ir(own.text, width, quick=True),)
    text = checks.text
    key = "\0".join((version(), toolchain(), str(width), "checks", text))
    compiled = cache.get(key)
    if compiled is None:
        compiled = compile_ir(text, width, quick=True)
        cache.put(key, compiled)
    return compile_ir(own.text, width, quick=True), compiled


def _scheduler(variant: SchedulerVariant, cache: ObjectCache, *, quick: bool) -> bytes:
    """The object file of a scheduler, which all kernels of a variant share."""
    key = "\0".join((version(), toolchain(), str(variant), str(quick)))
    code = cache.get(key)
    if code is None:
        code = _compiled_scheduler(variant, quick)
        cache.put(key, code)
    return code


@functools.cache
def _compiled_scheduler(variant: SchedulerVariant, quick: bool) -> bytes:
    from kcheck.ptx.compile import scheduler

    return compile_ir(scheduler(variant), 32, quick=quick)  # -O2, for a width of 1, gains nothing here
