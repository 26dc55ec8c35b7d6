"""Finds loops in which the lanes of a vector may each read a row of an array, word after word.

Their loads share a *stream* (:mod:`kcheck.ptx.runtime.streams`) if they add an offset to one uniform register,
which usually is the address of the array: compilers unroll loops, so that other instructions load the next words.
If they read different rows after all, the stream is of no use, but does no harm: at run time it is used only for
addresses that follow each other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import field

from kcheck.dataclass import dataclass
from kcheck.ptx.analysis.cfg import Cfg, Loop
from kcheck.ptx.analysis.liveness import reads, writes
from kcheck.ptx.ir.builder import Builder
from kcheck.ptx.isa.effects import EFFECTS
from kcheck.ptx.runtime.streams import WORD, lanes_offset, room_bytes
from kcheck.ptx.syntax.ast import Address, Instruction, Integer, Operation, Register
from kcheck.ptx.syntax.opcodes import LOADS, MOVES, PRODUCTS
from kcheck.ptx.syntax.types import TYPES

NARROWEST = 8
"""Lanes of the narrowest vectors that have streams."""

_MODIFIERS = frozenset({"global", "weak", "nc", "ca", "cg", "cs", "lu"})
"""Those of a load that may run early. Others, such as ``volatile``, wait for other threads."""


@dataclass(frozen=True, slots=True)
class RowStreams:
    """The streams of a function.

    Attributes:
        loads: the number of the stream of each load (by ``id``) that has one.
        begins: the streams of each loop, by header.
    """

    loads: Mapping[int, int] = field(default_factory=dict)
    begins: Mapping[int, tuple[int, ...]] = field(default_factory=dict)


def room(number: int) -> str:
    """The pointer to a stream, in the code of a vector."""
    return f"%stream{number}"


def find(cfg: Cfg, strides: Mapping[str, int], uniform: Set[str], spinning: Set[int], width: int) -> RowStreams:
    """The streams of a function.

    Args:
        strides: registers that grow by a constant from lane to lane, with this constant.
        uniform: registers that have the same value in all lanes; also those with a stride of 0.
        spinning: headers of loops that may wait for other lanes.
    """

    def is_uniform(name: str) -> bool:
        return name in uniform or strides.get(name) == 0

    loads: dict[int, int] = {}
    begins: dict[int, tuple[int, ...]] = {}
    numbers: dict[tuple[int, str, str], int] = {}
    rows: Set[str] | None = None
    for n, loop in enumerate(cfg.loops):
        is_innermost = all(other.parent != n for other in cfg.loops)
        if width < NARROWEST or not is_innermost or not loop.single_entry or loop.header in spinning:
            continue
        operations = [o for block in sorted(loop.blocks) for o in cfg.blocks[block].operations]
        if not all(map(_only_reads, operations)):
            continue
        rows = _rows(cfg, is_uniform) if rows is None else rows
        for operation in operations:
            base = _base(operation)
            if (
                isinstance(operation, Instruction)
                and base is not None
                and base.name in rows
                and base.name not in strides
            ):
                key = loop.header, _array(cfg, loop, base, is_uniform), operation.modifiers[-1]
                loads[id(operation)] = numbers.setdefault(key, len(numbers))
        begins[loop.header] = tuple(number for key, number in numbers.items() if key[0] == loop.header)
    return RowStreams(loads, begins)


def _rows(cfg: Cfg, is_uniform: Callable[[str], bool]) -> Set[str]:
    """Registers whose values may be far apart: they depend on what each lane loaded, or on the product of a number
    that differs between lanes and one that may exceed the size of a word."""
    operations = [o for n in cfg.order for o in cfg.blocks[n].operations if isinstance(o, Instruction)]
    found: set[str] = set()
    size = -1
    while size != len(found):
        size = len(found)
        for operation in operations:
            loads, sources = operation.opcode in LOADS, [r.name for r in reads(operation)]
            if (not loads and any(name in found for name in sources)) or _spreads(operation, is_uniform):
                found.update(r.name for r in writes(operation) if not is_uniform(r.name))
    return found


def _spreads(i: Instruction, is_uniform: Callable[[str], bool]) -> bool:
    """Whether an instruction loads, or multiplies a number that differs between lanes by more than 4."""
    if i.opcode in LOADS:
        return "param" not in i.modifiers
    if i.opcode not in PRODUCTS and i.opcode != "shl":
        return False
    factors = i.operands[1:3]
    if all(not isinstance(x, Register) or is_uniform(x.name) for x in factors):
        return False
    most = WORD.bit_length() - 1 if i.opcode == "shl" else WORD
    return not any(isinstance(x, Integer) and x.value <= most for x in factors)


def _only_reads(operation: Operation) -> bool:
    """Whether an operation neither writes memory nor waits, nor reads what other threads write."""
    if not isinstance(operation, Instruction):
        return False
    if operation.opcode == "ld":
        return "volatile" not in operation.modifiers and not {"relaxed", "acquire", "mmio"} & set(
            operation.modifiers
        )
    return operation.opcode in MOVES or operation.opcode == "bra" or operation.opcode not in EFFECTS


def _base(operation: Operation) -> Register | None:
    """The register with the address of a load that may belong to a stream."""
    if not isinstance(operation, Instruction) or operation.opcode != "ld" or operation.guard is not None:
        return None
    *modifiers, last = operation.modifiers
    kind = TYPES.get(last)
    if "global" not in modifiers or not _MODIFIERS.issuperset(modifiers) or kind is None or kind.bytes != WORD:
        return None
    address = operation.operands[1]
    return address.base if isinstance(address, Address) and isinstance(address.base, Register) else None


def _array(cfg: Cfg, loop: Loop, base: Register, is_uniform: Callable[[str], bool]) -> str:
    """The register that is the same in all lanes, to which an address adds an offset; else the address itself."""
    for block in loop.blocks:
        for operation in cfg.blocks[block].operations:
            if isinstance(operation, Instruction) and any(r.name == base.name for r in writes(operation)):
                for source in operation.operands[1:]:
                    if isinstance(source, Register) and is_uniform(source.name):
                        return source.name
    return base.name


def allocate(prologue: Builder, each: Builder, streams: RowStreams, width: int) -> None:
    """Emit the memory of the streams, and what makes them empty for each vector."""
    for number in sorted(set(streams.loads.values())):
        prologue.line(f"{room(number)} = alloca [{room_bytes(width)} x i8], align 64")
        empty(each, number, width)


def empty(b: Builder, number: int, width: int) -> None:
    """Emit what makes a stream empty."""
    lanes = b.value(f"getelementptr i8, ptr {room(number)}, i64 {lanes_offset(width)}", "ptr")
    b.line(f"store i32 0, ptr {lanes.text}")
