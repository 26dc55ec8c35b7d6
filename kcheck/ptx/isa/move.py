"""``mov``, ``cvta``, ``isspacep``, ``createpolicy``, fences and hints.

Source: PTX ISA, "Data Movement and Conversion Instructions".
"""

from __future__ import annotations

from kcheck.ptx.abi import Launch, Worker
from kcheck.ptx.ir.builder import Value
from kcheck.ptx.isa.effects import effect, ordered
from kcheck.ptx.isa.surroundings import Surroundings
from kcheck.ptx.syntax.ast import Instruction, Operand, Sink, Symbol, Vector
from kcheck.ptx.syntax.opcodes import FENCES, HINTS
from kcheck.ptx.syntax.types import TYPES, PtxType

_MOVABLE = frozenset(
    [
        "pred",
        "b16",
        "u16",
        "s16",
        "f16",
        "bf16",
        "b32",
        "u32",
        "s32",
        "f32",
        "b64",
        "u64",
        "s64",
        "f64",
        "f16x2",
        "bf16x2",
        "b128",
    ]
)


@effect("mov")
def mov(fn: Surroundings, i: Instruction) -> None:
    """``mov.type d, a``; with a vector on one side it packs or unpacks bits, lowest first."""
    ordered(fn, i, 2)
    if len(i.modifiers) != 1 or i.modifiers[0] not in _MOVABLE or i.modifiers[0] == "b128":
        raise fn.fail(i, "not supported")
    kind = TYPES[i.modifiers[0]]
    target, source = i.operands
    for observer in fn.observers:
        observer.moves(i, target, source, kind)
    if isinstance(source, Vector):
        fn.write(i, target, kind, _pack(fn, i, source, kind), False)
    elif isinstance(target, Vector):
        value = fn.b.as_integer(fn.read(i, source, kind))
        _unpack(fn, i, target, value, kind)
    else:
        value = fn.read(i, source, kind)
        for observer in fn.observers:
            observer.moved(i, source, value)
        fn.write(i, target, kind, value, False)


def part_of(fn: Surroundings, i: Instruction, vector: Vector, kind: PtxType) -> PtxType:
    """The type of a part of a vector that is moved as one value of type ``kind``."""
    bits = kind.bits // len(vector.elements)
    if bits * len(vector.elements) != kind.bits or f"b{bits}" not in TYPES:
        raise fn.fail(i, f"{len(vector.elements)} parts do not make a .{kind.name}")
    return TYPES[f"b{bits}"]


def _pack(fn: Surroundings, i: Instruction, source: Vector, kind: PtxType) -> Value:
    part = part_of(fn, i, source, kind)
    whole = f"i{kind.bits}"
    result = fn.b.const(whole, 0)
    for n, element in enumerate(source.elements):
        value = fn.b.resize(fn.b.as_integer(fn.read(i, element, part)), whole)
        result = fn.b.lor(result, fn.b.shift("shl", value, n * part.bits))
    return result


def _unpack(fn: Surroundings, i: Instruction, target: Vector, value: Value, kind: PtxType) -> None:
    part = part_of(fn, i, target, kind)
    pieces: list[tuple[Operand, Value]] = []
    for n, element in enumerate(target.elements):
        if not isinstance(element, Sink):
            pieces.append((element, fn.b.resize(fn.b.shift("lshr", value, n * part.bits), part.llvm)))
    for element, piece in pieces:
        fn.write(i, element, part, piece, False)


@effect("cvta")
def cvta(fn: Surroundings, i: Instruction) -> None:
    """Converts between generic addresses and those of a window: the identity, since all are host addresses.

    A shared address that passed through a 32-bit register gets the upper half of the window's address back.
    """
    ordered(fn, i, 2)
    if i.modifiers[-1] == "u32":
        raise fn.fail(i, "32-bit addresses are not supported")
    for observer in fn.observers:
        observer.moves(i, i.operands[0], i.operands[1], TYPES["u64"])
    value = fn.read(i, i.operands[1], TYPES["u64"])
    for observer in fn.observers:
        observer.moved(i, i.operands[1], value)
    if i.modifiers[0].startswith("shared"):
        narrow = fn.b.compare("eq", fn.b.shift("lshr", value, 32), 0)
        value = fn.b.select(narrow, fn.shared_address(fn.b.resize(value, "i32")), value)
    fn.write(i, i.operands[0], TYPES["u64"], value, False)


@effect("isspacep")
def isspacep(fn: Surroundings, i: Instruction) -> None:
    """Whether a generic address is in a window. All that is neither shared nor local is global, even constants."""
    ordered(fn, i, 2)
    b = fn.b
    space = i.modifiers[0].partition("::")[0]
    for observer in fn.observers:
        observer.derives(i, i.operands[:1], i.operands[1:])
    address = fn.read(i, i.operands[1], TYPES["u64"])
    base = fn.field(Worker, Worker.shared)
    dynamic = b.resize(fn.field(Launch, Launch.dynamic_shared), "i64")
    shared = b.compare("ult", b.sub(address, base), b.add(dynamic, fn.unit.shared_bytes))
    local = b.compare("ult", b.sub(address, fn.local_address(0)), fn.unit.local_stride)
    if space == "shared":
        result = shared
    elif space == "local":
        result = local
    elif space == "global":
        result = b.invert(b.lor(shared, local))
    elif space == "param":
        if not fn.function.is_entry:
            raise fn.fail(i, ".param is supported in kernels only")
        sizes = {param.name: (param.count or 0) * TYPES[param.type].bytes for param in fn.function.params}
        size = max((offset + sizes[name] for name, offset in fn.param_offsets.items()), default=0)
        result = b.compare("ult", b.sub(address, fn.field(Launch, Launch.params)), size)
    elif space == "const":
        result = b.const("i1", 0)
        for name, variable in fn.unit.module.variables.items():
            if variable.space == "const" and variable.count is not None:
                size = variable.count * TYPES[variable.type].bytes
                start = fn.read(i, Symbol(name), TYPES["u64"])
                result = b.lor(result, b.compare("ult", b.sub(address, start), size))
    else:
        raise fn.fail(i, "not supported")
    fn.write(i, i.operands[0], TYPES["pred"], result, False)


@effect("createpolicy")
def createpolicy(fn: Surroundings, i: Instruction) -> None:
    """A cache policy, which only hints use, so any value will do."""
    for observer in fn.observers:
        observer.derives(i, i.operands[:1], i.operands[1:])
    fn.write(i, i.operands[0], TYPES["b64"], fn.b.const("i64", 0), False)


@effect(*sorted(HINTS))
def nothing(fn: Surroundings, i: Instruction) -> None:
    """Fences, waits and hints. A fence orders memory accesses between the OS threads of a launch.

    Within a block nothing has to be done: one OS thread runs it and accesses memory in program order.
    """
    if i.opcode in FENCES:
        fn.b.line("fence seq_cst")
        for observer in fn.observers:
            observer.fences(i)
