"""Finds loads of a word whose value is changed and stored back to the word: the read of a read-modify-write.

If two threads do this to one word, an update may be lost. A barrier between the read and the write does not help,
but an atomic does, so such a race has a different fix.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from kcheck.ptx.analysis.liveness import reads, writes
from kcheck.ptx.sanitizers.race.facts import kind_of
from kcheck.ptx.sanitizers.race.layout import READ, WRITE
from kcheck.ptx.syntax.ast import Address, Function, Instruction, Operand, Register, Vector

_MOST = 64  # the most registers to follow back from one store


def updating_loads(functions: Iterable[Function]) -> frozenset[int]:
    """The loads, by ``id``, whose value is changed and stored back.

    Two accesses use the same word if their address operands are equal: PTX as LLVM emits it sets a register once.
    """
    found: set[int] = set()
    for function in functions:
        body = [s for s in function.body or () if isinstance(s, Instruction)]
        stores = [s for s in body if s.opcode == "st" and kind_of(s) == WRITE]
        loaded = {address_of(s) for s in body if s.opcode == "ld" and kind_of(s) == READ}
        stores = [s for s in stores if address_of(s) in loaded]
        if stores:
            setters = setters_of(body)
            found.update(id(load) for store in stores for load in _sources(store, setters))
    return frozenset(found)


def setters_of(body: Iterable[Instruction]) -> Mapping[str, Sequence[Instruction]]:
    """The instructions that set each register."""
    setters: dict[str, list[Instruction]] = {}
    for instruction in body:
        for register in writes(instruction):
            setters.setdefault(register.name, []).append(instruction)
    return setters


def _sources(store: Instruction, setters: Mapping[str, Sequence[Instruction]]) -> Iterable[Instruction]:
    """The loads of the stored word from which the stored value is computed."""
    address = address_of(store)
    value = store.operands[1]
    values = value.elements if isinstance(value, Vector) else (value,)
    left = deque(register.name for register in values if isinstance(register, Register))
    seen = set(left)
    while left and len(seen) < _MOST:  # in the order of the text: the same in every process
        for operation in setters.get(left.popleft(), ()):
            if operation.opcode in ("atom", "shfl"):
                continue
            if operation.opcode != "ld":
                for register in reads(operation):
                    if register.name not in seen:
                        seen.add(register.name)
                        left.append(register.name)
            elif address_of(operation) == address:
                yield operation


def address_of(access: Instruction) -> Operand | None:
    """The address operand of an access."""
    return next((operand for operand in access.operands if isinstance(operand, Address)), None)
