"""Finds, before a function is lowered, which registers may hold undefined values. Only these get shadows.

Undefined values come from loads of global, shared and local memory, from calls, from lanes that have exited, and
from accumulators of matrix products that are never set. Values computed only from parameters, constants and
special registers are defined, such as most of a kernel's address arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from kcheck.dataclass import dataclass
from kcheck.ptx.analysis import liveness
from kcheck.ptx.analysis.cfg import Cfg
from kcheck.ptx.analysis.liveness import reads, registers, writes
from kcheck.ptx.syntax.ast import Address, Call, Instruction, Integer, Operation, Pair, Register, Symbol
from kcheck.ptx.syntax.opcodes import MEMORY

COPIED, COMPUTED = 1, 2
"""How an undefined value got into a register: copied from memory, or computed from such a value."""

MOVES = {"shl": 1, "shr": 1, "shf": 2, "bfe": 1, "bfi": 2, "prmt": 2, "brev": 1, "szext": 1}
"""Opcodes that move the bits of their first sources, and how many: the row, applied to the sources' shadows,
computes the result's."""

LOGIC = frozenset({"and", "or", "xor", "not", "lop3"})
"""Opcodes whose result bits each depend on the same bit of the operands."""

CHOICES = frozenset({"selp", "slct"})
"""Opcodes whose result is one of the first two operands."""

_HARMLESS = frozenset({"activemask", "bar", "barrier"})
_TEXELS = frozenset({"tex", "tld4", "suld", "sust", "txq", "suq"})
_MEMORY = MEMORY | _TEXELS
_UPDATES_TELL = "exch"


@dataclass(frozen=True, slots=True)
class Shadowed:
    """A register that may be undefined.

    Attributes:
        how: COPIED, COMPUTED, or both as bits.
        precise: its shadow shows which bits are undefined; otherwise any set bit means that all are.
    """

    how: int
    precise: bool


@dataclass(frozen=True, slots=True)
class Definedness:
    """The registers that may be undefined, and their sources.

    Attributes:
        registers: by name.
        loads: by register, the loads (ids) that its value may come from; None in the set: any load.
        unset: registers that are undefined from the start.
    """

    registers: Mapping[str, Shadowed]
    loads: Mapping[str, frozenset[int | None]]
    unset: frozenset[str]


def is_precise(instruction: Instruction) -> bool:
    """Whether the shadow of a row's result is computed bit by bit."""
    if instruction.opcode in MOVES or instruction.opcode in LOGIC or instruction.opcode in CHOICES:
        return True
    return instruction.opcode == "cvt" and is_resize(instruction)


def is_copy(instruction: Instruction, constants: Mapping[str, int]) -> bool | None:
    """Whether a row only moves bytes into place, which is not a use of them.

    None for ``or``, which packs bytes or sets bits, depending on the values.

    Args:
        constants: registers that hold a literal.
    """
    opcode = instruction.opcode
    if "pred" in instruction.modifiers:
        return False
    if opcode in CHOICES or opcode == "prmt":
        return True
    if opcode == "or":
        return None
    if opcode == "cvt":
        return is_resize(instruction)
    known = [
        constants.get(o.name) if isinstance(o, Register) else o.value if isinstance(o, Integer) else None
        for o in instruction.operands[1:]
    ]
    if opcode == "and":
        return any(mask is not None and _is_bytes(mask) for mask in known)
    if opcode in ("shl", "shr", "shf", "bfe", "bfi"):
        return all(amount is not None and amount % 8 == 0 for amount in known[MOVES[opcode] :])
    return False


def _is_bytes(mask: int) -> bool:
    return all(byte in (0, 0xFF) for byte in (mask & (1 << 64) - 1).to_bytes(8, "little"))


def is_resize(instruction: Instruction) -> bool:
    """Whether a ``cvt`` only truncates or extends an integer."""
    return len(instruction.modifiers) == 2 and all(m[0] in "su" for m in instruction.modifiers)


def brings(operation: Operation, is_param: Callable[[str], bool]) -> bool:
    """Whether an instruction loads values from memory that may be undefined.

    Args:
        is_param: whether a name is a parameter of the kernel, which is defined.
    """
    if isinstance(operation, Call):
        return False
    if operation.opcode == "wmma":
        return operation.modifiers[:1] == ("load",)
    if operation.opcode in ("tex", "tld4", "suld"):
        return True
    if operation.opcode not in ("ld", "ldu", "ldmatrix", "atom"):
        return False
    if operation.opcode == "atom":  # other atomics report at once, and their results count as defined
        return _UPDATES_TELL in operation.modifiers
    if any(m.partition("::")[0] == "const" for m in operation.modifiers):
        return False
    if "param" not in operation.modifiers:
        return True
    address = operation.operands[1]
    return not (isinstance(address, Address) and isinstance(address.base, Symbol) and is_param(address.base.name))


def analyze(
    cfg: Cfg,
    is_param: Callable[[str], bool],
    constants: Mapping[str, int],
    defined: frozenset[int] = frozenset(),
) -> Definedness:
    """Propagate forward over the reachable blocks until nothing changes, whatever the order of execution.

    Args:
        is_param: whether a name is a parameter of the kernel.
        constants: registers that hold a literal.
        defined: accesses (by ``id``) that are known to read initialized memory.
    """
    how: dict[str, int] = {}
    exact: set[str] = set()
    loads: dict[str, set[int | None]] = {}
    operations = [o for n in cfg.order for o in cfg.blocks[n].operations if not isinstance(o, Call)]
    unset = _unset_accumulators(cfg, operations)
    for name in unset:
        how[name] = COPIED
        exact.add(name)
        loads[name] = set()
    for operation in operations:
        if id(operation) not in defined and brings(operation, is_param):
            through_call = "param" in operation.modifiers
            for register in writes(operation):
                how[register.name] = how.get(register.name, 0) | COPIED | (COMPUTED if through_call else 0)
                exact.add(register.name)
                loads.setdefault(register.name, set()).add(None if through_call else id(operation))
        elif operation.opcode == "shfl" and "sync" in operation.modifiers:  # may read a lane that has exited
            pair = operation.operands[0]
            for register in registers(pair.first if isinstance(pair, Pair) else pair):
                how[register.name] = how.get(register.name, 0) | COMPUTED
                exact.add(register.name)
                loads.setdefault(register.name, set()).add(id(operation))
    again = True
    while again:
        again = False
        for operation in operations:
            moves = operation.opcode in ("mov", "cvta", "shfl", "movmatrix")
            copies = True if moves else is_copy(operation, constants)
            for target, source, is_data in _flows(operation):
                if source not in how:
                    continue
                new = how[source] if copies is not False and is_data else COMPUTED
                new |= COMPUTED if copies is None else 0
                before = how.get(target, 0)
                found = loads.setdefault(target, set())
                if new | before != before or not loads[source] <= found:
                    how[target] = before | new
                    found |= loads[source]
                    again = True
                if moves or is_precise(operation):
                    exact.add(target)
    shadowed = {name: Shadowed(bits, name in exact) for name, bits in how.items()}
    return Definedness(shadowed, {name: frozenset(found) for name, found in loads.items()}, unset)


def _unset_accumulators(cfg: Cfg, operations: Sequence[Instruction]) -> frozenset[str]:
    """Registers that may be accumulators of a matrix product, perhaps through ``mov``, before they are set.

    Other registers that are read before they are set do not count: compilers leave values undefined that have no
    effect. But an element of an accumulator is part of the result.
    """
    products = [o for o in operations if o.opcode == "mma" or (o.opcode == "wmma" and "mma" in o.modifiers)]
    added = {r.name for o in products for r in registers(o.operands[3])}
    if not added:
        return frozenset()
    moves = [o for o in operations if o.opcode == "mov"]
    before = -1
    while len(added) > before:
        before = len(added)
        for move in moves:
            if any(target.name in added for target in writes(move)):
                added |= {source.name for source in registers(move.operands[1])}
    return frozenset(added & set(liveness.analyze(cfg).names(cfg.order[0])))


def _flows(operation: Instruction) -> Iterator[tuple[str, str, bool]]:
    """(register written, register read, whether its bits may pass through) for each result and source."""
    if operation.opcode in _MEMORY or operation.opcode in _HARMLESS:
        return  # addresses, operands of atomics and predicates of reductions are reported where they are used
    if operation.opcode == "wmma" and operation.modifiers[:1] != ("mma",):
        return
    results = writes(operation)
    if not results:
        return
    data = 1 if operation.opcode in ("shfl", "movmatrix") else MOVES.get(operation.opcode, len(operation.operands))
    found = [(r.name, k < data) for k, o in enumerate(operation.operands[1:]) for r in registers(o)]
    guard = operation.guard.name if operation.guard is not None else ""
    named = {name for name, _ in found}
    found += [
        (r.name, False) for r in reads(operation) if r.name not in named and r.name != guard
    ]  # the carry flag
    for target in results:
        for source, is_data in found:
            yield target.name, source, is_data
