"""Lowers a kernel of a PTX module to LLVM IR: calls, layout, lowering, and assembly of the module."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kcheck.alignment import align_up
from kcheck.errors import PtxError
from kcheck.model.launch_facts import LaunchFacts
from kcheck.ptx.abi import AXES, RESERVED, RESERVED_BYTES, Checks
from kcheck.ptx.analysis import cfg as control
from kcheck.ptx.analysis.convergence import may_come_apart, meeting, waits_for_lanes
from kcheck.ptx.analysis.inline import expand
from kcheck.ptx.analysis.kernel_facts import (
    adds_floats_atomically,
    called_functions,
    function_numbers,
    narrow_floats,
    operations,
    param_slots,
    tensor_sums,
)
from kcheck.ptx.analysis.ragged import cooperates, is_ragged
from kcheck.ptx.analysis.shared_arrays import access_bytes, arrays_of_accesses
from kcheck.ptx.ir.module import LlvmModule
from kcheck.ptx.ir.records import constant
from kcheck.ptx.ir.signature import Definition
from kcheck.ptx.isa.mma import capability
from kcheck.ptx.isa.verify import verify_function
from kcheck.ptx.lowering.interior_version import no_interior
from kcheck.ptx.lowering.local_memory import local_align, local_bytes, local_frame, local_variables
from kcheck.ptx.lowering.module import (
    ModuleLowering,
    module_variables,
    open_size,
    shared_layout,
    shared_variables,
)
from kcheck.ptx.lowering.sanitizer import Sanitizer
from kcheck.ptx.lowering.suspension import StateLayout, SuspensionPoint
from kcheck.ptx.lowering.versions import LoweringContext, interior_version, prepare
from kcheck.ptx.lowering.warp import WarpFunction
from kcheck.ptx.lowering.warp_emulation import POSTED, TAKEN, posted_bytes, posted_columns
from kcheck.ptx.program import Program, SharedVariable
from kcheck.ptx.runtime import copies, faults
from kcheck.ptx.runtime.block_scheduler import Fresh
from kcheck.ptx.runtime.copy_queue import CopyQueue, capacity, is_copy
from kcheck.ptx.runtime.layout import (
    ALIGNED_TABLE,
    HEAD_BYTES,
    INTERIOR,
    KIND_TABLE,
    KINDS,
    MEETING_TABLE,
    ORDERS_TABLE,
    PLAIN_TABLE,
    POINT_BYTES,
    SHAPE,
    SITE_TABLE,
    STRICT_TABLE,
    VECTOR_BYTES,
    KernelShape,
    kernel_signature,
    table_ir,
    vector_bytes_ir,
)
from kcheck.ptx.runtime.lookup import BOUNDS, LocalLayout, bounds_ir, resolve_ir
from kcheck.ptx.syntax.ast import Function, Instruction, Label, Module, Operation
from kcheck.ptx.syntax.opcodes import BARRIERS, PLAIN_ACCESSES

WIDTHS = (1, 2, 4, 8, 16, 32)

_METADATA = """
!0 = !{!"branch_weights", i32 1000000, i32 1}
!1 = !{}
!2 = !{!"branch_weights", i32 1, i32 1000000}
"""


def lower(
    module: Module,
    entry: str,
    width: int,
    sanitizers: Sequence[Sanitizer] = (),
    row: int = 1,
    axis: str = "x",
    interiors: bool = True,
) -> Program:
    """The kernel ``entry`` as LLVM IR, with ``width`` lanes per vector.

    A kernel in which the lanes of a warp cooperate (shuffles, votes …) is lowered with the whole warp as one
    vector, unless the requested width is 1; ``Program.width`` is the actual one.

    Args:
        sanitizers: the checks beyond memory and barriers, in the order in which they receive events.
        row: the code will run in blocks in which this many lanes, or any smaller power of two, are neighbors
            along the axis (:func:`kcheck.ptx.abi.row_of`); 1: in any block.
        axis: the axis along which threads are grouped into vectors: ``x``, or :func:`.preferred_axis`.
        interiors: whether to add a version for interior blocks (:mod:`.interior`) where that is worthwhile.

    Raises:
        PtxError: no such kernel, an unsupported instruction or directive, or invalid operands.
        ValueError: a width that is not one of WIDTHS.
    """
    if width not in WIDTHS:
        raise ValueError(f"width {width} is not one of {WIDTHS}")
    kernel = module.functions.get(entry)
    if kernel is None or not kernel.is_entry or kernel.body is None:
        raise PtxError(f"no kernel {entry}", module.file, 1)
    functions = called_functions(module, kernel)
    if width > 1 and any(map(control.is_collective, operations(functions))):
        width = 32
    kernel, functions, waits = _expanded(module, functions, width)
    for function in functions:
        verify_function(module, function)
    unit = _unit(module, width, functions, row, sanitizers)
    unit.axis, unit.has_versions = axis, interiors
    slots, param_bytes = param_slots(kernel)
    align = local_align(functions)
    frames = {f.name: local_frame(f, align) for f in functions}
    stride = align_up(local_bytes(module, functions, frames), align)
    graphs = {f.name: control.build(f, module.file, waits) for f in functions}
    context = LoweringContext(unit, sanitizers, graphs, frames, waits, param_bytes)
    state = StateLayout(0)
    entry_warp = prepare(context, kernel, {slot.name: slot.offset for slot in slots}, state)
    # Vectors begin HEAD_BYTES after the start of a page, at a stride that is a multiple of the largest alignment.
    local = align_up(HEAD_BYTES + len(entry_warp.points) * POINT_BYTES, max(align, 64)) - HEAD_BYTES
    everyone = align_up(stride * width, 64) if unit.companion_memory is not None else 0
    unit.local = LocalLayout(local, stride, everyone)
    state.size = align_up(local + everyone + stride * width, 64)
    _queue_copies(unit, sanitizers, functions, state)
    lowered, joins = _lowered(context, functions, entry_warp, interiors)
    vector_bytes = align_up(max(state.size, 64), max(align, 64))
    ir, fresh = _module(context, entry_warp, state, (vector_bytes, joins), lowered)
    return Program(
        ir=ir,
        entry=entry,
        width=width,
        checks=Checks(),
        params=slots,
        param_bytes=param_bytes,
        globals=tuple(unit.globals),
        shared_bytes=unit.shared_bytes,
        local_bytes=stride,
        warp_state_bytes=vector_bytes,
        block_state_bytes=HEAD_BYTES,
        sites=tuple(unit.sites),
        cooperative=any(s.arrival.kind == "grid" for s in entry_warp.points),
        prints=unit.prints,
        shared=shared_variables(module, functions, unit.shared),
        local=tuple(local_variables(kernel, frames[entry][1])),
        local_offset=local,
        facts=LaunchFacts(
            adds_floats_atomically(functions),
            narrow_floats(functions),
            tensor_sums(functions, capability(module.target)),
        ),
        pointers=unit.pointers,
        fresh=fresh,
    )


def _unit(
    module: Module, width: int, functions: list[Function], row: int, sanitizers: Sequence[Sanitizer]
) -> ModuleLowering:
    """The state shared by a kernel (the first of the functions) and the functions that it calls."""
    shared, shared_bytes = shared_layout(module, functions)
    numbers = function_numbers(module)
    unit = ModuleLowering(
        module,
        width,
        shared,
        shared_bytes,
        LocalLayout(0, 0),
        {v.name: i for i, v in enumerate(module_variables(module))},
        {f.name: numbers[f.name] for f in functions if not f.is_entry},
    )
    for sanitizer in sanitizers:
        sanitizer.begin(unit, functions)
    unit.array_of = _array_of(module, functions, unit)
    unit.sees_rows = all(sanitizer.sees_rows for sanitizer in sanitizers)
    unit.in_rows = 1 < width <= row and unit.sees_rows
    scopes = [module.variables, *(f.variables for f in functions)]
    unit.dynamic_shared = any(v.space == "shared" and open_size(v) for scope in scopes for v in scope.values())
    accesses = _memory_accesses(functions)
    unit.outlined, unit.is_short = accesses > INLINED_ACCESSES, accesses <= FEW_ACCESSES
    unit.posted_columns = posted_columns(s for f in functions for s in f.body or () if not isinstance(s, Label))
    return unit


def _array_of(module: Module, functions: list[Function], unit: ModuleLowering) -> dict[int, SharedVariable]:
    """The accesses (by ``id``) that are checked against one shared array of fixed size, and that array.

    Empty if one array is the whole window. Quick checks of alignment use the offset from the start of the array,
    so an array that is not aligned for an access is not in the result.
    """
    arrays = {v.symbol: v for v in shared_variables(module, functions, unit.shared) if v.size is not None}
    if not arrays or [v.size for v in arrays.values()] == [unit.shared_bytes]:
        return {}
    return {
        id(access): arrays[name]
        for access, name in arrays_of_accesses(functions, arrays)
        if arrays[name].offset % access_bytes(access) == 0
    }


def _lowered(
    context: LoweringContext, functions: Sequence[Function], kernel: WarpFunction, interiors: bool
) -> tuple[list[Definition], bool]:
    """The functions, the kernel and INTERIOR, and whether INTERIOR joins blocks."""
    lowered = [_called(context, function) for function in functions if not function.is_entry]
    second = interior_version(context, kernel) if interiors else None
    kernel.has_interior = second is not None
    lowered.append(kernel.definition(kernel_signature(context.unit.width).name))
    lowered.append(no_interior() if second is None else second.definition(INTERIOR.name))
    return lowered, second is not None and second.interior.joins


def _called(context: LoweringContext, function: Function) -> Definition:
    """Lower a function that the kernel calls."""
    unit, graph = context.unit, context.graphs[function.name]
    if any(b.terminator is not None and context.waits(b.terminator) for b in graph.blocks):
        raise unit.fail(function.line, "a barrier in a function that is called is not supported")
    return prepare(context, function, {}, StateLayout(0)).definition(f"@kcheck.fn.{unit.functions[function.name]}")


def _module(
    context: LoweringContext,
    kernel: WarpFunction,
    state: StateLayout,
    sizes: tuple[int, bool],
    lowered: Sequence[Definition],
) -> tuple[LlvmModule, bool]:
    """The module: the functions, what they call, and the tables that describe the kernel to the scheduler; and
    whether sanitizers have something to do when a block begins."""
    unit, points = context.unit, kernel.points
    vector_bytes, joins = sizes
    sites = [
        kernel.loop_site(point.block) if point.operation is None else unit.site(point.operation, "")
        for point in points
    ]
    has_bounds = bool(unit.bounds)
    found = resolve_ir(unit.local, unit.shared_bytes, context.param_bytes, unit.width, has_bounds)
    unit.definitions.update(found)
    for name, kinds in (("memset", "ptr, i8"), ("memcpy", "ptr, ptr")):
        mangled = f"@llvm.{name}.p0.{'p0.' if name == 'memcpy' else ''}i64"
        unit.declarations[mangled] = f"declare void {mangled}({kinds}, i64, i1 immarg)"
    unit.definitions[VECTOR_BYTES.name] = vector_bytes_ir(vector_bytes)
    fresh = Fresh()
    for sanitizer in context.sanitizers:
        fresh = sanitizer.finish(unit, fresh)
    shape = KernelShape(
        points=len(points),
        vector_bytes=vector_bytes,
        posted=state.offsets.get(POSTED, 0),
        taken=state.offsets.get(TAKEN, 0),
        posted_bytes=posted_bytes(unit),
        unwritten=fresh.unwritten[0],
        unwritten_bytes=fresh.unwritten[1],
        axis=AXES.index(unit.axis),
        reserved=RESERVED_BYTES if RESERVED in unit.shared else 0,
        joins=joins,
    )
    for signature in (faults.FAULT, faults.RUNNING):
        unit.declarations[signature.name] = signature.declaration
    tables = {**unit.tables, SHAPE: constant(SHAPE, shape), **_tables(points, sites)}
    if unit.bounds:
        tables[BOUNDS] = bounds_ir([unit.bounds.get(site, (0, 0)) for site in range(len(unit.sites))])
    functions = {**unit.definitions, **{function.name: function for function in lowered}}
    return LlvmModule(unit.declarations, functions, tables, _METADATA), fresh.block


def _queue_copies(
    unit: ModuleLowering, sanitizers: Sequence[Sanitizer], functions: list[Function], state: StateLayout
) -> None:
    """Give a kernel with asynchronous copies its queue in the state of a vector, and the functions to use it."""
    operations = [s for f in functions for s in f.body or () if isinstance(s, Instruction) and s.opcode == "cp"]
    if not operations:
        return
    unit.copies = CopyQueue(state.size, unit.width, capacity(max(sum(map(is_copy, operations)), 1)))
    state.size += unit.copies.size
    found = (sanitizer.watch_copies(unit, unit.copies) for sanitizer in sanitizers)
    watchers = [watcher for watcher in found if watcher is not None]
    unit.definitions.update(copies.definitions(unit.copies, watchers, unit.declarations))


def _is_barrier(operation: Operation | None) -> bool:
    return isinstance(operation, Instruction) and operation.opcode in BARRIERS


def _tables(points: Sequence[SuspensionPoint], sites: Sequence[int]) -> dict[str, str]:
    """The tables that describe the suspension points to the scheduler. ``sites``: of the points."""
    arrivals = [point.arrival for point in points]
    tables = {
        PLAIN_TABLE: [int(a.plain) for a in arrivals],
        STRICT_TABLE: [int(a.aligned and a.threads is None) for a in arrivals],
        ALIGNED_TABLE: [int(a.aligned) for a in arrivals],
        MEETING_TABLE: meeting([point.operation for point in points]),
        ORDERS_TABLE: [int(_is_barrier(point.operation)) for point in points],
        KIND_TABLE: [KINDS[a.kind] for a in arrivals],
        SITE_TABLE: sites,
    }
    return {name: table_ir(name, numbers) for name, numbers in tables.items()}


def suitable_width(module: Module, entry: str, width: int, row: int) -> int:
    """The lanes per vector for a kernel on a processor with vectors of ``width`` lanes.

    For a small kernel this is a whole warp, if its threads are neighbors along the axis (``row``): the overhead of
    a vector, mostly at barriers, is paid half as often. Large code would take too long to compile. The vectors
    of a ragged kernel (:mod:`kcheck.ptx.analysis.ragged`) have one lane.
    """
    kernel = module.functions.get(entry)
    if kernel is None:
        return width
    everything = list(operations(called_functions(module, kernel)))
    if not any(map(cooperates, everything)) and is_ragged(control.build(kernel, module.file)):
        return 1
    if width != WIDENED or row < 32:
        return width
    return 32 if len(everything) <= WIDENED_SIZE else width


WIDENED, WIDENED_SIZE = 16, 700
"""The width that :func:`suitable_width` replaces by a whole warp, and the most instructions of such a kernel."""


def _expanded(
    module: Module, functions: list[Function], width: int
) -> tuple[Function, list[Function], Callable[[Operation], bool]]:
    """The kernel with functions inlined; the kernel and the functions that it still calls; and a function that
    returns whether a vector of lanes may have to wait at an operation.

    Args:
        functions: the kernel, and the functions that it may call.
    """
    kernel = functions[0]

    def of_threads(operation: Operation) -> bool:
        return control.is_barrier(operation) or (width < 32 and control.is_collective(operation))

    def of_lanes(operation: Operation) -> bool:
        return of_threads(operation) or waits_for_lanes(operation)

    if width == 32 and may_come_apart(functions, module.file):
        try:
            whole = expand(module, kernel, of_lanes)
        except PtxError:  # recursion: its lanes continue without waiting
            pass
        else:
            called = called_functions(module, whole)
            if not any(map(of_lanes, operations(called[1:]))):
                return whole, called, of_lanes
    whole = expand(module, kernel, of_threads)
    return whole, functions if whole is kernel else called_functions(module, whole), of_threads


INLINED_ACCESSES = 256
"""More loads and stores (unoptimized code: a thousand) are lowered to calls, which compile 10 times faster."""


FEW_ACCESSES = 16
"""With more loads and stores, the code for elements that are far apart is called, not inlined: it was most of the
code of a scan. With few, a call would cost a tenth of the time of a transpose."""


def _memory_accesses(functions: list[Function]) -> int:
    return sum(
        isinstance(s, Instruction) and s.opcode in PLAIN_ACCESSES and "param" not in s.modifiers
        for f in functions
        for s in f.body or ()
    )
