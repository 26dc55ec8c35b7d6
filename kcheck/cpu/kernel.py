"""A compiled kernel, from the cache or from PTX, with what a launch needs to know about it."""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import math
from collections.abc import Callable

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


@dataclass(frozen=True)
class Kernel:
    """Machine code and its description.

    Attributes:
        program: without its IR.
        tier_up_after: seconds that quick code may run before better code pays off; infinite for better code.
        compile_seconds: an estimate of how long better code takes to compile.
        run: ``kcheck_run(launch, worker, first, last)``; releases the GIL. ``entry``: its address.
        run_block: ``kcheck_block(launch, worker, block, resume)``; releases the GIL.
        is_new: whether it was compiled now, and not found in the cache.
    """

    program: Program
    tier_up_after: float
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


@with_room
def compile_kernel(
    module: LoadedModule, variant: Variant, cache: ObjectCache, *, quick: bool, registers: bool = False
) -> Kernel:
    """The kernel, ready to run.

    Args:
        quick: if the kernel is not cached, compile it in a third of the time to code that is two to three times
            slower.
        registers: with ``quick``, compile it in half the time instead, to code that is nearly as fast.

    Raises:
        PtxError: an unsupported instruction, or invalid PTX.
        InternalError: LLVM rejects the lowered code.
    """
    key = "\0".join((version(), toolchain(), str(variant), module.file, module.text))
    stored = cache.load(key)
    is_quick = stored is None and quick
    if is_quick:
        key += "\0quick, in registers" if registers else "\0quick"
        stored = cache.load(key)
    is_new = False
    if stored is None:
        with cache.turn(key):
            stored = cache.load(key)
            is_new = stored is None
            stored = stored or _made(module, variant, cache, key, (is_quick, registers))
    program, code = stored
    seconds = sum(map(len, code)) * _SECONDS_PER_BYTE
    scheduler = _scheduler(program.scheduler, cache, quick=is_quick)
    loaded = LoadedCode((*code, scheduler), ("kcheck_run", "kcheck_block"))
    run, block = loaded.address("kcheck_run"), loaded.address("kcheck_block")
    left = seconds if is_quick else math.inf
    return Kernel(program, left, seconds, loaded, _RUN(run), run, _BLOCK(block), is_new)


def _made(
    module: LoadedModule, variant: Variant, cache: ObjectCache, key: str, quality: tuple[bool, bool]
) -> tuple[Program, tuple[bytes, ...]]:
    """Compile a kernel and store it; returns it with its object files. ``quality``: ``quick``, ``registers``."""
    # 0.2 s to import; a run from a full cache skips it
    from kcheck.ptx.compile import CodeChecks, lower_checked
    from kcheck.ptx.lowering.kernel import suitable_width

    quick, registers = quality
    with no_collection():  # the collector would visit all of Numba's objects
        entry, width, row = variant.entry, variant.width, variant.row
        if variant.widens:
            width = suitable_width(module.tree, entry, width, row)
        interiors = not quick or registers
        checks, axis = CodeChecks(variant.checks, variant.defined, module.entries[entry].use), variant.axis
        program = lower_checked(module.tree, entry, width, checks, row, axis, interiors)
        if quick and not registers:
            code = _quick(program.ir, width, cache)
        else:
            code = (compile_ir(program.ir.text, width, quick=quick, registers=registers),)
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
