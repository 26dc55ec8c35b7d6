"""Calls: of functions in the module, through registers, and of the few functions that the CUDA runtime provides.

Source: PTX ISA, "Control Flow Instructions: call"; CUDA C++ Programming Guide, "Formatted Output", "Dynamic
Global Memory Allocation".
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from kcheck.ptx.abi import FaultKind, Launch
from kcheck.ptx.ir.builder import Value, vector_type
from kcheck.ptx.ir.calls import call as call_function
from kcheck.ptx.lowering.function import FunctionLowering, function_signature
from kcheck.ptx.runtime.faults import report_fault
from kcheck.ptx.runtime.lookup import VECTOR
from kcheck.ptx.runtime.provided import MALLOC, PRINT, malloc_ir, print_ir
from kcheck.ptx.syntax.ast import Call, Function, Register, Symbol
from kcheck.ptx.syntax.grid_barrier import GRID_WORKSPACE, WORKSPACE
from kcheck.ptx.syntax.raise_markers import is_marker
from kcheck.ptx.syntax.types import TYPES


def call(fn: FunctionLowering, operation: Call) -> None:
    """Lower one call in the active lanes.

    Raises:
        PtxError: a function that is not defined and not provided, or arguments that do not match it.
    """
    b = fn.b
    if operation.guard is None:
        fn.exits = _call(fn, operation)
        return
    fn.exits = _where(fn, b.any(b.splat(fn.active)), lambda: _call(fn, operation))


def _call(fn: FunctionLowering, operation: Call) -> Value | None:
    """Lower the call; returns the lanes that exited in it, or None if no lane can exit."""
    if isinstance(operation.target, Register):
        return _indirect(fn, operation, operation.target)
    name = operation.target.name
    function = fn.unit.module.functions.get(name)
    if function is not None and function.body is not None:
        return _direct(fn, operation, function, fn.active_bits())
    if is_marker(name):
        return _raise(fn, operation)
    if name not in PROVIDED:
        raise fn.fail(operation, f"{name} is not defined")
    return PROVIDED[name](fn, operation)


def _where(fn: FunctionLowering, condition: Value, body: Callable[[], Value | None]) -> Value:
    """Emit ``body`` under a scalar condition; returns the lanes that exited in it, 0 if it did not run."""
    b = fn.b
    bits = f"i{fn.width}"
    keep = f"%{b.fresh('left')}"
    fn.prologue.line(f"{keep} = alloca {bits}")
    b.line(f"store {bits} 0, ptr {keep}")
    with b.when(condition):
        gone = body()
        if gone is not None:
            b.line(f"store {bits} {gone.text}, ptr {keep}")
    return b.value(f"load {bits}, ptr {keep}", bits)


def _names(fn: FunctionLowering, operation: Call) -> list[str]:
    found = []
    for operand in (*operation.arguments, *operation.returns):
        if not isinstance(operand, Symbol) or operand.offset:
            raise fn.fail(operation, "arguments and results must be .param variables")
        variable = fn.function.variables.get(operand.name)
        if variable is None or variable.space != "param":
            raise fn.fail(operation, f"{operand.name} is not a .param variable of this function")
        found.append(operand.name)
    return found


def _size(fn: FunctionLowering, name: str) -> int:
    variable = fn.function.variables[name]
    return (variable.count or 0) * TYPES[variable.type].bytes


def _fits(fn: FunctionLowering, operation: Call, function: Function) -> bool:
    names = _names(fn, operation)
    formal = (*function.params, *function.returns)
    counts = len(operation.arguments) == len(function.params) and len(operation.returns) == len(function.returns)
    return counts and all(
        _size(fn, name) == (v.count or 0) * TYPES[v.type].bytes for name, v in zip(names, formal, strict=True)
    )


def _direct(fn: FunctionLowering, operation: Call, function: Function, lanes: Value) -> Value:
    b = fn.b
    if function.is_entry:
        raise fn.fail(operation, f"{function.name} is a kernel")
    if not _fits(fn, operation, function):
        raise fn.fail(operation, f"the arguments or results do not match {function.name}")
    names = _names(fn, operation)
    pointers = {f"param{n}": fn.param_array(name) for n, name in enumerate(names)}
    if fn.carrier is not None:
        pointers |= {f"pshadow{n}": fn.param_companion(name) for n, name in enumerate(names)}
    own = b.const("i64", fn.local_bytes)
    if not fn.function.is_entry:
        own = b.add(Value("%frame", "i64"), own)
    callee = function_signature(symbol(fn, function), fn.width, function, carries=fn.carrier is not None)
    here = {name: Value(f"%{name}", kind) for name, kind in VECTOR.items()}
    arrays = {name: Value(pointer, "ptr") for name, pointer in pointers.items()}
    return call_function(b, callee, **here, mask=lanes, frame=own, **arrays)


def symbol(fn: FunctionLowering, function: Function) -> str:
    """The LLVM name of a lowered function."""
    return f"@kcheck.fn.{fn.unit.functions[function.name]}"


def _indirect(fn: FunctionLowering, operation: Call, target: Register) -> Value:
    """Call each possible target for the lanes that have its address; report any other address."""
    b, unit = fn.b, fn.unit
    for observer in fn.observers:
        observer.branches(operation, target)
    wanted = b.splat(fn.read(operation, target, TYPES["u64"]))
    left = fn.active_bits()
    exits = b.op("xor", left, left)
    for name in unit.functions:
        function = unit.module.functions[name]
        if not _fits(fn, operation, function):
            continue
        mine = b.land(left, b.mask_bits(b.compare("eq", wanted, unit.function_address(name))))
        left = b.xor(left, mine)
        gone = _where(fn, b.compare("ne", mine, 0), partial(_direct, fn, operation, function, mine))
        exits = b.op("or", exits, gone)

    def stray() -> Value:
        lane = b.const("i32", 0)
        if fn.width > 1:
            lane = b.resize(b.flagged_intrinsic("cttz", left, False), "i32")
        address = b.extract(wanted, lane)
        site = unit.site(operation, "")
        report_fault(b, FaultKind.INDIRECT_CALL, site, address=address, lane=lane)
        return left

    return b.op("or", exits, _where(fn, b.compare("ne", left, 0), stray))


# Functions of the CUDA runtime.


def _argument(fn: FunctionLowering, operation: Call, index: int, element: str) -> Value:
    name = _names(fn, operation)[index]
    kind = vector_type(element, fn.width)
    return fn.b.value(f"load {kind}, ptr {fn.param_array(name)}", element, fn.width)


def _result(fn: FunctionLowering, operation: Call, value: Value) -> None:
    if not operation.returns:
        return
    name = _names(fn, operation)[len(operation.arguments)]
    value = fn.b.splat(value)
    fn.b.line(f"store {fn.b.typed(value)}, ptr {fn.param_array(name)}")
    _returned(fn, name)


def _returned(fn: FunctionLowering, name: str) -> None:
    if fn.carrier is not None:
        fn.carrier.returns(name)


def _each_lane(fn: FunctionLowering, body: Callable[[Value], None]) -> None:
    """Run code once for each active lane; it gets the lane's number."""
    b = fn.b
    if fn.width == 1:
        with b.when(fn.active):
            body(b.const("i32", 0))
        return
    active = fn.active_bits()
    counter = f"%{b.fresh('lanes')}"
    fn.prologue.line(f"{counter} = alloca {active.type}")
    b.line(f"store {active.type} {active.text}, ptr {counter}")
    with b.loop():
        left = b.value(f"load {active.type}, ptr {counter}", active.type)
        with b.unless(b.compare("ne", left, 0)):
            b.break_()
        lane = b.resize(b.flagged_intrinsic("cttz", left, False), "i32")
        rest = b.land(left, b.sub(left, 1))
        b.line(f"store {active.type} {rest.text}, ptr {counter}")
        body(lane)


def _vprintf(fn: FunctionLowering, operation: Call) -> Value | None:
    """Store format and arguments in the print buffer; the host formats them after the launch."""
    b, unit = fn.b, fn.unit
    unit.prints = True
    formats = _argument(fn, operation, 0, "i64")
    arguments = _argument(fn, operation, 1, "i64")
    unit.definitions[PRINT.name] = print_ir(unit.local, unit.declarations)
    thread = {name: Value(f"%{name}", PRINT.parameters[name]) for name in ("launch", "block", "warp", "t0")}

    def keep(lane: Value) -> None:
        text, data = b.extract(formats, lane), b.extract(arguments, lane)
        call_function(b, PRINT, **thread, lane=lane, format=text, data=data)

    _each_lane(fn, keep)
    _result(fn, operation, b.const("i32", 0))
    return None


def _malloc(fn: FunctionLowering, operation: Call) -> Value | None:
    """Allocate from the device heap: 16-byte aligned, null if the heap is full. Memory is not reused."""
    b = fn.b
    sizes = _argument(fn, operation, 0, "i64")
    name = _names(fn, operation)[len(operation.arguments)]
    array = fn.param_array(name)
    fn.unit.definitions[MALLOC.name] = malloc_ir()

    def take(lane: Value) -> None:
        size = b.extract(sizes, lane)
        address = call_function(b, MALLOC, launch=Value("%launch", "ptr"), size=size)
        for observer in fn.observers:
            observer.allocates(address, size)
        pointer = b.value(f"getelementptr i64, ptr {array}, {b.typed(lane)}", "ptr")
        b.line(f"store {b.typed(address)}, ptr {pointer.text}")

    _each_lane(fn, take)
    _returned(fn, name)
    return None


def _free(fn: FunctionLowering, operation: Call) -> Value | None:
    """No code: the whole heap is freed when the launch ends."""
    return None


def _assert_fail(fn: FunctionLowering, operation: Call) -> Value | None:
    """``__assertfail(message, file, line, function, size)``: a trap, reported at the call."""
    b = fn.b
    site = fn.unit.site(operation, "")
    message = _argument(fn, operation, 0, "i64")
    lane = fn.first_active()
    text = b.extract(message, lane)
    report_fault(b, FaultKind.TRAP, site, address=text, lane=lane)
    return fn.active_bits()


def _raise(fn: FunctionLowering, operation: Call) -> Value | None:
    """Record that each active thread is about to raise an exception. The kernel's own code then returns."""
    b = fn.b
    site = fn.unit.site(operation, "")

    def record(lane: Value) -> None:
        report_fault(b, FaultKind.RAISED, site, lane=lane)

    _each_lane(fn, record)
    return None


def _grid_handle(fn: FunctionLowering, operation: Call) -> Value | None:
    """``cudaCGGetIntrinsicHandle``: any number but 0, which means that the launch is not cooperative."""
    _result(fn, operation, fn.b.const("i64", 1))
    return None


def _grid_workspace(fn: FunctionLowering, operation: Call) -> Value | None:
    """``kcheck_grid_workspace``: an address that nothing accesses; 0 if the launch is not cooperative."""
    is_cooperative = fn.b.compare("ne", fn.field(Launch, Launch.cooperative), 0)
    _result(fn, operation, fn.b.select(is_cooperative, fn.b.const("i64", WORKSPACE), fn.b.const("i64", 0)))
    return None


PROVIDED: dict[str, Callable[[FunctionLowering, Call], Value | None]] = {
    "vprintf": _vprintf,
    "malloc": _malloc,
    "free": _free,
    "__assertfail": _assert_fail,
    "cudaCGGetIntrinsicHandle": _grid_handle,
    GRID_WORKSPACE: _grid_workspace,
}
"""External functions that kernels may call."""
