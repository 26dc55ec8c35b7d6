"""Lowers a kernel of a PTX module to LLVM IR, with the requested sanitizers."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from kcheck.dataclass import dataclass
from kcheck.ptx.abi import Checks
from kcheck.ptx.analysis.kernel_facts import called_functions
from kcheck.ptx.lowering import kernel
from kcheck.ptx.lowering.sanitizer import Sanitizer
from kcheck.ptx.program import MemoryUse, Program, SchedulerVariant
from kcheck.ptx.runtime.block_scheduler import scheduler_ir
from kcheck.ptx.sanitizers.coverage import Coverage
from kcheck.ptx.sanitizers.init.marks import Marks
from kcheck.ptx.sanitizers.init.sanitizer import Initcheck
from kcheck.ptx.sanitizers.local_arrays import LocalArrays
from kcheck.ptx.sanitizers.memory_use import defined_loads, memory_use
from kcheck.ptx.sanitizers.noise import RandomRounding
from kcheck.ptx.sanitizers.origins import OriginLog
from kcheck.ptx.sanitizers.overflow.exact import Overflow
from kcheck.ptx.sanitizers.race.hooks import Racecheck
from kcheck.ptx.sanitizers.special_values import SpecialValues
from kcheck.ptx.sanitizers.store_watch import WatchedStores
from kcheck.ptx.syntax.ast import Module

NO_CHECKS, _NOTHING = Checks(), MemoryUse()


@dataclass(frozen=True, slots=True)
class CodeChecks:
    """The checks that code contains.

    Attributes:
        defined: bits for the groups of ``MemoryUse.reads`` that read initialized memory.
        use: the accesses of the kernel, if the caller knows them.
    """

    checks: Checks
    defined: int = 0
    use: MemoryUse | None = None


def lower(
    module: Module,
    entry: str,
    width: int,
    checks: Checks = NO_CHECKS,
    row: int = 1,
    axis: str = "x",
    interiors: bool = True,
) -> Program:
    """The kernel ``entry`` as LLVM IR, with ``width`` lanes per vector.

    A kernel in which the lanes of a warp cooperate (shuffles, votes …) is lowered with the whole warp as one
    vector, unless the requested width is 1; ``Program.width`` is the actual one.

    Args:
        checks: the sanitizers to subscribe.
        row: the code will run in blocks in which this many lanes, or any smaller power of two, are neighbors
            along the axis (:func:`kcheck.ptx.abi.row_of`); 1: in any block.
        axis: the axis along which threads are grouped into vectors: ``x``, or the result of
            :func:`kcheck.ptx.analysis.vector_axis.preferred_axis`.
        interiors: whether to add a version for interior blocks where that is worthwhile: it takes more time to
            compile, and less to run.

    Raises:
        PtxError: no such kernel, an unsupported instruction or directive, or invalid operands.
        ValueError: a width that is not one of WIDTHS.
    """
    return lower_checked(module, entry, width, CodeChecks(checks), row, axis, interiors)


def lower_checked(
    module: Module, entry: str, width: int, wanted: CodeChecks, row: int, axis: str, interiors: bool
) -> Program:
    """Like :func:`lower`, for launches in which some reads are known to be of initialized memory."""
    coverage = Coverage()
    checks = wanted.checks
    use = _NOTHING if not checks.init else _use(module, entry) if wanted.use is None else wanted.use
    subscribed = sanitizers(checks, use, wanted.defined)
    if checks.cover:
        subscribed = (*subscribed, coverage)
    if checks.values:
        subscribed = (*subscribed, SpecialValues())
    if checks.stores:
        subscribed = (*subscribed, WatchedStores())
    if checks.noise:
        subscribed = (*subscribed, RandomRounding())
    local_arrays = LocalArrays()
    if module.locals:
        subscribed = (*subscribed, local_arrays)
    program = kernel.lower(module, entry, width, subscribed, row, axis, interiors)
    return replace(program, checks=checks, points=tuple(coverage.points), arrays=local_arrays.found)


def _use(module: Module, entry: str) -> MemoryUse:
    function = module.functions.get(entry)
    if function is None or function.body is None:
        return MemoryUse()
    return memory_use(called_functions(module, function), module.file)


def sanitizers(checks: Checks, use: MemoryUse = _NOTHING, defined: int = 0) -> tuple[Sanitizer, ...]:
    """The sanitizers that look for errors, in the order in which events reach them.

    Args:
        use: what initcheck knows about the kernel's reads.
        defined: bits for the groups of them that read initialized memory.
    """
    origins = OriginLog()
    is_clean = use.is_clean(defined)
    found: list[Sanitizer] = []
    if checks.race:
        found.append(Racecheck())
    if checks.init:
        loads = partial(defined_loads, groups=use.reads, bits=defined)
        found.append(Marks() if is_clean else Initcheck(origins, loads))
    if checks.overflow:
        found.append(Overflow(origins))
    if checks.overflow or (checks.init and not is_clean):
        found.append(origins)
    return tuple(found)


def scheduler(variant: SchedulerVariant) -> str:
    """The LLVM IR of a scheduler, for the kernels whose ``Program.scheduler`` is this variant."""
    return scheduler_ir(variant)
