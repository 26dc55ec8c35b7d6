"""Atomics on 8 or 16 bits, which LLVM performs on the 32-bit word around them: it loads the word at
``address & -4`` and replaces some of its bits with a compare-and-swap, and repeats this if another thread has
changed the word. The other bits do not change, and may be outside all allocations.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kcheck.ptx.analysis.cfg import is_barrier, is_collective
from kcheck.ptx.analysis.liveness import writes
from kcheck.ptx.syntax.ast import Address, Call, Instruction, Integer, Label, Operation, Register, Statement

_WORD = -4
_MASK = (1 << 64) - 1


def find(body: Iterable[Statement]) -> Mapping[str, Register]:
    """By register with the address of a word: the register with the address of the bits within the word.

    Both are written once, and no lane waits between the first write and the last use.
    """
    operations = [statement for statement in body if not isinstance(statement, Label)]
    writers: dict[str, list[int]] = {}
    swapped: dict[str, int] = {}  # the last use
    for n, operation in enumerate(operations):
        for register in writes(operation):
            writers.setdefault(register.name, []).append(n)
        word = _swapped(operation)
        if word:
            swapped[word] = n
    found: dict[str, Register] = {}
    for word, last in swapped.items():
        if len(writers.get(word, ())) != 1:
            continue
        (first,) = writers[word]
        narrow = _rounded(operations[first])
        if narrow is None or len(writers.get(narrow.name, ())) != 1 or first > last:
            continue
        if not any(isinstance(o, Call) or is_barrier(o) or is_collective(o) for o in operations[first:last]):
            found[word] = narrow
    return found


def _swapped(operation: Operation) -> str:
    """The register with the address of a 32-bit compare-and-swap; empty for others."""
    if not isinstance(operation, Instruction) or operation.opcode != "atom":
        return ""
    if "cas" not in operation.modifiers or operation.modifiers[-1] != "b32":
        return ""
    address = operation.operands[1]
    if not isinstance(address, Address) or not isinstance(address.base, Register) or address.offset:
        return ""
    return address.base.name


def _rounded(operation: Operation) -> Register | None:
    """The source of ``and.b64 d, a, -4``."""
    if not isinstance(operation, Instruction) or operation.mnemonic != "and.b64" or operation.guard is not None:
        return None
    source, mask = operation.operands[1:]
    if isinstance(source, Register) and isinstance(mask, Integer) and mask.value & _MASK == _WORD & _MASK:
        return source
    return None
