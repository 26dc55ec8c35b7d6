"""Which local variable an access refers to, if the debug information shows where each one is.

NVVM merges the local variables of a function in one block of memory. In code without optimizations, the address
of an array is that of the block plus a constant, to which an index is added. As for shared arrays
(:mod:`.shared_arrays`), an address that was computed from one variable must stay inside it.
"""

from __future__ import annotations

from collections.abc import Mapping

from kcheck.dataclass import dataclass
from kcheck.ptx.analysis.liveness import writes
from kcheck.ptx.analysis.shared_arrays import SEVERAL, Pointers
from kcheck.ptx.syntax.ast import Address, Call, Function, Instruction, Integer, Label, Module, Register, Symbol
from kcheck.ptx.syntax.dwarf import DebugVariable
from kcheck.ptx.syntax.opcodes import ACCESSES, MOVES


def variables_of_accesses(module: Module, function: Function) -> dict[int, DebugVariable]:
    """By access (``id``), the variable that its address was computed from, if it is known."""
    frames = {v.frame for v in module.locals if v.frame in function.variables}
    variables = {f"{v.frame}+{v.offset} {v.name}": v for v in module.locals if v.frame in frames}
    if not variables:
        return {}
    pointers = _FramePointers(function, frozenset(), _frames(function), variables).registers()
    found = {}
    for statement in function.body or ():
        if isinstance(statement, Instruction) and statement.opcode in ACCESSES:
            address = next((o for o in statement.operands if isinstance(o, Address)), None)
            base = None if address is None else address.base
            known = variables.get(pointers.get(base.name, "")) if isinstance(base, Register) else None
            if known is not None and known.shape:
                found[id(statement)] = known
    return found


def _frames(function: Function) -> dict[str, str]:
    """The registers that hold the address of a frame, and nothing else."""
    found: dict[str, str] = {}
    writers: dict[str, int] = {}
    for statement in function.body or ():
        if isinstance(statement, Label):
            continue
        names = [register.name for register in writes(statement)]
        for name in names:
            writers[name] = writers.get(name, 0) + 1
        if isinstance(statement, Instruction) and statement.opcode in MOVES and len(names) == 1:
            source = statement.operands[1]
            if isinstance(source, Symbol) and source.name.startswith("__local_depot") and not source.offset:
                found[names[0]] = source.name
            elif isinstance(source, Register) and source.name in found:
                found[names[0]] = found[source.name]
    return {name: frame for name, frame in found.items() if writers[name] == 1}


@dataclass(frozen=True, slots=True)
class _FramePointers(Pointers):
    """The registers that may hold addresses in frames.

    Attributes:
        frames: the registers with the address of a frame.
        variables: by the key that stands for a variable.
    """

    frames: Mapping[str, str]
    variables: Mapping[str, DebugVariable]

    def result(self, writer: Instruction | Call, found: Mapping[str, str]) -> str | None:
        """See :meth:`Pointers.result`."""
        if isinstance(writer, Instruction):
            if any(register.name in self.frames for register in writes(writer)):
                return SEVERAL
            if writer.opcode == "add" and isinstance(base := writer.operands[1], Register):
                offset = writer.operands[2]
                if base.name in self.frames and isinstance(offset, Integer):
                    return self._variable(self.frames[base.name], offset.value)
        return Pointers.result(self, writer, found)  # super() does not know a class with slots

    def _variable(self, frame: str, offset: int) -> str:
        """The only variable that begins at an offset. Variables of different scopes may share memory."""
        keys = [key for key, v in self.variables.items() if v.frame == frame and v.offset == offset]
        others = [
            v
            for v in self.variables.values()
            if v.frame == frame and v.offset != offset and v.offset < offset < v.offset + v.size
        ]
        return keys[0] if len(keys) == 1 and not others else SEVERAL
