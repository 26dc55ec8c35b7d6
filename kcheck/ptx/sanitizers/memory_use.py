"""Finds how a kernel's accesses depend on its parameters, so that sanitizers can skip checks of a launch.

Most kernels compute global addresses only from parameters and the thread's indices. With the parameters of a
launch, such an address is known for all threads (:mod:`kcheck.cpu.thread_values`): if no two threads touch a byte
that one of them stores to, there is no race. And a load through a parameter does not return uninitialized values
if the memory that the parameter points to is initialized.

This analysis runs once for each kernel. Each launch evaluates its result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kcheck.ptx.analysis import cfg as control
from kcheck.ptx.analysis import liveness
from kcheck.ptx.analysis.cfg import Cfg
from kcheck.ptx.analysis.kernel_facts import param_slots
from kcheck.ptx.analysis.liveness import writes
from kcheck.ptx.isa.rows import ROWS
from kcheck.ptx.program import GlobalAccess, MemoryUse, ValueNode
from kcheck.ptx.sanitizers.init import definedness
from kcheck.ptx.sanitizers.race.facts import kind_of, space_of
from kcheck.ptx.sanitizers.race.layout import READ, WRITE
from kcheck.ptx.sanitizers.race.pointers import MOST_LOADS, OTHER_STORES, PointerOrigins
from kcheck.ptx.syntax.ast import (
    Address,
    Call,
    Function,
    Instruction,
    Integer,
    Label,
    Operand,
    Register,
    Special,
    Symbol,
    Vector,
)
from kcheck.ptx.syntax.opcodes import ATOMICS, BARRIERS, HINTS, LOADS, MOVES, RETURNS
from kcheck.ptx.syntax.types import TYPES

LARGEST = 2000
"""Kernels with more instructions are not analyzed."""

_EVALUATED = frozenset(
    {
        "add",
        "sub",
        "neg",
        "mul",
        "mad",
        "shl",
        "shr",
        "and",
        "or",
        "not",
        "xor",
        "cvt",
        "setp",
        "selp",
        "min",
        "max",
    }
)
_INDICES = ("tid.", "ntid.", "ctaid.", "nctaid.")
_GLOBAL = frozenset({"global", "generic"})
_ELSEWHERE = frozenset({"shared", "local", "sat", "cc"})
"""Modifiers of a ``cvta`` that may restore the upper half of an address, and of arithmetic that is not modular."""

_QUIET = RETURNS | HINTS | {"bra", "brx", "shfl", "vote", "activemask", "match", "redux"}
"""They do not access memory."""


def memory_use(functions: Sequence[Function], file: str) -> MemoryUse:
    """What is known about a kernel (the first of the functions); nothing if it calls any function."""
    kernel = functions[0]
    body = [s for s in kernel.body or () if not isinstance(s, Label)]
    if len(functions) > 1 or len(body) > LARGEST or any(isinstance(s, Call) for s in body):
        return MemoryUse()
    operations = [s for s in body if isinstance(s, Instruction)]
    if any(i.opcode in OTHER_STORES for i in operations) or not all(map(_has_its_address, operations)):
        return MemoryUse()
    cfg = control.build(kernel, file)
    values = _Values(kernel, cfg)
    found = tuple(_accesses(operations, cfg, PointerOrigins(kernel), values))
    groups = read_groups(found)
    return MemoryUse(
        is_known=True,
        values=tuple(values.nodes),
        accesses=found,
        reads=groups,
        is_own=all(map(_is_plain, operations)),
        states=_states(cfg, operations, found, groups),
    )


def read_groups(accesses: Sequence[GlobalAccess]) -> tuple[tuple[int, ...], ...]:
    """The sets of parameters (offsets) from which the addresses of reads are computed."""
    return tuple(dict.fromkeys(a.origins for a in accesses if a.reads and a.origins))[:MOST_LOADS]


def defined_loads(functions: Sequence[Function], groups: Sequence[tuple[int, ...]], bits: int) -> frozenset[int]:
    """The accesses (by ``id``) that read only initialized memory. ``bits``: the groups that do."""
    if not bits:
        return frozenset()
    origins = PointerOrigins(functions[0])
    chosen = {group for n, group in enumerate(groups) if bits >> n & 1}
    return frozenset(
        id(i)
        for i in functions[0].body or ()
        if isinstance(i, Instruction) and _reads(i) and space_of(i) in _GLOBAL and _origins(i, origins) in chosen
    )


def _reads(i: Instruction) -> bool:
    return i.opcode in LOADS or i.opcode in ATOMICS


def _origins(i: Instruction, origins: PointerOrigins) -> tuple[int, ...]:
    return tuple(sorted(origins.of(_address(i).base, frozenset()) or ()))


def _address(i: Instruction) -> Address:
    return next(o for o in i.operands if isinstance(o, Address))


def _has_its_address(i: Instruction) -> bool:
    """Whether an access has an address. Without one, the kernel is refused when it is compiled."""
    accesses = _reads(i) or i.opcode == "st"
    return not accesses or any(isinstance(o, Address) for o in i.operands)


def _is_plain(i: Instruction) -> bool:
    """Whether racecheck needs to check at most an access to global memory for an instruction."""
    if i.opcode in LOADS or i.opcode == "st":
        return kind_of(i) in (READ, WRITE) and space_of(i) != "shared"
    if i.opcode in BARRIERS:
        return "warp" in i.modifiers or (len(i.operands) == 1 and isinstance(i.operands[0], Integer))
    return i.opcode in _QUIET or i.opcode in ROWS or i.opcode in MOVES


def _accesses(
    operations: Sequence[Instruction], cfg: Cfg, origins: PointerOrigins, values: _Values
) -> Iterator[GlobalAccess]:
    """The accesses to memory that is, or may be, global."""
    block_of = {id(o): n for n in cfg.order for o in cfg.blocks[n].operations}
    held = _HeldGuards(cfg, values)
    for i in operations:
        is_store = i.opcode == "st" or i.opcode in ATOMICS
        if not (is_store or _reads(i)) or space_of(i) not in _GLOBAL or id(i) not in block_of:
            continue
        address = _address(i)
        node = values.of(address.base)
        guards = held.at(block_of[id(i)])
        if i.guard is not None and isinstance(known := values.of(i.guard), int):
            guards = (*guards, (known, not i.negated))
        count = next((int(m[1]) for m in i.modifiers if m in ("v2", "v4", "v8")), 1)
        size = TYPES[i.modifiers[-1]].bytes * count if i.modifiers[-1] in TYPES else 0
        is_address = isinstance(node, int) and size and isinstance(address.base, Register)
        yield GlobalAccess(
            is_store,
            _reads(i),
            node if is_address and isinstance(node, int) else -1,
            address.offset,
            size,
            _origins(i, origins),
            guards,
        )


def _states(
    cfg: Cfg,
    operations: Sequence[Instruction],
    accesses: Sequence[GlobalAccess],
    groups: Sequence[tuple[int, ...]],
) -> tuple[bool, bool]:
    """``MemoryUse.states``: if all groups of reads are of initialized memory, whether no value is uninitialized,
    and whether no stored value is."""
    is_read = [a for a in accesses if a.reads]
    if not all(a.origins in groups for a in is_read):
        return False, False
    reading = {id(i) for i in operations if _reads(i) and space_of(i) in _GLOBAL}
    found = definedness.analyze(cfg, lambda name: True, liveness.constants(cfg), frozenset(reading))
    copied = {name for name, shadowed in found.registers.items() if shadowed.how & definedness.COPIED}
    stored = [
        r.name
        for i in operations
        if (i.opcode == "st" and space_of(i) in _GLOBAL) or "exch" in i.modifiers
        for o in i.operands[1:]
        for r in (o.elements if isinstance(o, Vector) else (o,))
        if isinstance(r, Register)
    ]
    return not found.registers, copied.isdisjoint(stored)


class _Values:
    """Registers as functions of parameters and the thread's indices.

    Attributes:
        nodes: the results of instructions, each after those that it is computed from.
    """

    def __init__(self, kernel: Function, cfg: Cfg) -> None:
        self.nodes: list[ValueNode] = []
        self._offsets = {slot.name: slot.offset for slot in param_slots(kernel)[0]}
        writers: dict[str, list[Instruction]] = {}
        for n in cfg.order:
            for o in cfg.blocks[n].operations:
                if isinstance(o, Instruction):
                    for register in writes(o):
                        writers.setdefault(register.name, []).append(o)
        unset = set(liveness.analyze(cfg).names(cfg.order[0]))  # read before they are written
        self._writer: Mapping[str, Instruction] = {
            name: found[0]
            for name, found in writers.items()
            if len(found) == 1 and found[0].guard is None and name not in unset
        }
        self._known: dict[str, int | str | None] = {}

    def of(self, operand: Operand) -> int | str | None:
        """The number of a node, the name of an index, or ``=`` and a constant; None: unknown."""
        if isinstance(operand, Integer):
            return f"={operand.value}"
        if isinstance(operand, Special):
            return operand.name if operand.name.startswith(_INDICES) else None
        if not isinstance(operand, Register):
            return None
        if operand.name not in self._known:
            self._known[operand.name] = None
            writer = self._writer.get(operand.name)
            if writer is not None:
                self._known[operand.name] = self._result(writer, operand)
        return self._known[operand.name]

    def _result(self, i: Instruction, target: Register) -> int | str | None:
        if i.opcode == "ld" and "param" in i.modifiers:
            return self._parameter(i, target)
        if i.operands[0] != target or not _ELSEWHERE.isdisjoint(i.modifiers):
            return None
        if i.opcode in MOVES and len(i.operands) == 2:
            return self.of(i.operands[1])
        if i.opcode not in _EVALUATED:
            return None
        sources = [self.of(operand) for operand in i.operands[1:]]
        if any(source is None for source in sources):
            return None
        return self._node(ValueNode(i.opcode, i.modifiers, tuple(s for s in sources if s is not None)))

    def _parameter(self, i: Instruction, target: Register) -> int | None:
        address, kind = i.operands[1], TYPES.get(i.modifiers[-1])
        base = address.base if isinstance(address, Address) else None
        if not isinstance(base, Symbol) or base.name not in self._offsets or kind is None:
            return None
        if kind.kind not in ("signed", "unsigned", "bits") or i.operands[0] != target:
            return None
        assert isinstance(address, Address)
        at = self._offsets[base.name] + base.offset + address.offset
        return self._node(ValueNode("param", (kind.name,), (f"={at}",)))

    def _node(self, node: ValueNode) -> int:
        self.nodes.append(node)
        return len(self.nodes) - 1


class _HeldGuards:
    """The guards of the branches that decide whether a block is reached."""

    def __init__(self, cfg: Cfg, values: _Values) -> None:
        self._cfg = cfg
        self._values = values
        everything = (1 << len(cfg.blocks)) - 1
        self._dominators = {n: 1 << n if n == cfg.order[0] else everything for n in cfg.order}
        again = True
        while again:
            again = False
            for n in cfg.order[1:]:
                common = everything
                for before in cfg.predecessors[n]:
                    common &= self._dominators[before]
                if common | 1 << n != self._dominators[n]:
                    self._dominators[n] = common | 1 << n
                    again = True

    def at(self, block: int) -> tuple[tuple[int, bool], ...]:
        """The predicates (nodes) whose values are known in a block, with these values."""
        found: list[tuple[int, bool]] = []
        for n in self._cfg.order:
            end = self._cfg.blocks[n].terminator
            ways = self._cfg.blocks[n].successors
            if end is None or end.guard is None or len(ways) != 2 or ways[0] == ways[1]:
                continue
            if not isinstance(end, Instruction) or end.opcode != "bra":
                continue
            guard = self._values.of(end.guard)
            for k, way in enumerate(ways):
                is_only = self._cfg.predecessors[way] == (n,)
                if isinstance(guard, int) and is_only and self._dominators[block] >> way & 1:
                    found.append((guard, (k == 0) != end.negated))
        return tuple(found)
