"""Analyzes a function before it is lowered, and prepares its versions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from kcheck.dataclass import dataclass
from kcheck.ptx.analysis import affine, halves, lane_limits, liveness, nans, skips, uniformity
from kcheck.ptx.analysis import cfg as control
from kcheck.ptx.analysis.spin import may_spin
from kcheck.ptx.lowering import affine_loops, convergent, interior, streams
from kcheck.ptx.lowering.control_facts import ControlFacts
from kcheck.ptx.lowering.convergent import ConvergentKernel
from kcheck.ptx.lowering.function import FunctionLowering
from kcheck.ptx.lowering.interior_version import InteriorVersion
from kcheck.ptx.lowering.module import ModuleLowering
from kcheck.ptx.lowering.sanitizer import Sanitizer
from kcheck.ptx.lowering.suspension import StateLayout
from kcheck.ptx.lowering.warp import WarpFunction
from kcheck.ptx.syntax.ast import Function, Operation


@dataclass(frozen=True, slots=True)
class LoweringContext:
    """What is needed to lower the functions of a kernel; ``graphs`` and ``frames`` are by name.

    Attributes:
        frames: the size of a function's local variables, and the offset of each.
        waits: whether a vector may have to wait at an operation.
        param_bytes: the size of the kernel's parameters.
    """

    unit: ModuleLowering
    sanitizers: Sequence[Sanitizer]
    graphs: Mapping[str, control.Cfg]
    frames: Mapping[str, tuple[int, dict[str, int]]]
    waits: Callable[[Operation], bool]
    param_bytes: int


def prepare(
    context: LoweringContext, function: Function, params: dict[str, int], state: StateLayout
) -> WarpFunction:
    """A function, ready to be lowered. ``params``: the offsets of a kernel's parameters."""
    fn, facts = _facts(context, function, context.graphs[function.name], params)
    known = convergent.find(fn, facts, _divergent(function))
    return WarpFunction(fn, state, facts) if known is None else ConvergentKernel(fn, state, facts, known)


def interior_version(context: LoweringContext, kernel: WarpFunction) -> InteriorVersion | None:
    """The version of a kernel for interior blocks, if it is worth its time to compile."""
    unit, fn = context.unit, kernel.fn
    if not unit.in_rows or unit.outlined or kernel.points or unit.copies is not None:
        return None
    if not all(sanitizer.sees_versions for sanitizer in context.sanitizers):
        return None
    found = interior.find(kernel.cfg, fn, _divergent(fn.function))
    if found is None:
        return None
    own, facts = _facts(context, fn.function, found.cfg, fn.param_offsets)
    return InteriorVersion(own, facts, found, kernel.cfg, unit.known_site)


def _divergent(function: Function) -> Callable[[str], bool]:
    """A function that returns whether the address of a symbol differs between lanes."""

    def differs(name: str) -> bool:
        variable = function.variables.get(name)
        if variable is not None:
            return variable.space in ("local", "param")
        return not function.is_entry and any(v.name == name for v in (*function.params, *function.returns))

    return differs


def _facts(
    context: LoweringContext, function: Function, graph: control.Cfg, params: dict[str, int]
) -> tuple[FunctionLowering, ControlFacts]:
    """The state for lowering a function with this control flow graph, with the results of its analyses."""
    unit, waits, sanitizers = context.unit, context.waits, context.sanitizers
    local, divergent = context.frames[function.name], _divergent(function)
    live = liveness.analyze(graph)
    spinning = may_spin(graph) if function.is_entry else frozenset()
    reached = (graph.blocks[n] for n in graph.order)
    ends = [(b.terminator, b.successors[0]) for b in reached if b.terminator is not None and waits(b.terminator)]
    guarded = {after for end, after in ends if end.guard is not None or control.is_collective(end)}
    found = uniformity.analyze(graph, live, divergent, spinning | guarded, unit.width)
    alike = found
    if function.is_entry and unit.width == 1:  # whether a lane skips a barrier must not depend on the width
        alike = uniformity.analyze(graph, live, divergent, spinning | guarded, 2)
    fn = FunctionLowering(unit, function, found.uniform, params)
    fn.local_bytes, fn.local_offsets = local
    fn.unread = liveness.unread(graph)
    fn.constants = liveness.constants(graph)
    fn.symbols = liveness.symbols(graph)
    fn.halves = halves.find(function.body or ())
    fn.nans = nans.analyze(graph)
    observers = (sanitizer.observe(fn, graph) for sanitizer in sanitizers)
    fn.watch(observer for observer in observers if observer is not None)
    if unit.in_rows:
        accompanied = frozenset(
            name for name, kind in live.types.items() if any(o.companions(name, kind) for o in fn.observers)
        )
        alone = replace(found, accompanied=accompanied)
        known = affine.analyze(graph, live, alone, fn.constants, divergent, unit.width, unit.axis)
        fn.strides = known.strides
        level = fn.uniform - accompanied
        fn.limits = lane_limits.find(graph, fn.strides, level, known.bounds, unit.width)
    has_versions = all(sanitizer.sees_versions for sanitizer in sanitizers)
    if unit.width > 1 and unit.sees_rows and not unit.outlined and has_versions:
        fn.affine_loops = affine_loops.find(graph, live, fn, divergent, waits, spinning)
        fn.streams = streams.find(graph, fn.strides, fn.uniform, spinning, unit.width)

    def keeps(block: int, register: str) -> bool:
        return bool(found.live_in_inactive_lanes[block] >> live.number[register] & 1)

    parts = skips.parting(graph, alike.uniform)
    return fn, ControlFacts(graph, live, spinning, keeps, waits, parts)
