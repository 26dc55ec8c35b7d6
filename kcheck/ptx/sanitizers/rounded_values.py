"""Which registers of a function may hold numbers with rounding errors: not inputs of the kernel, and no copies of
them."""

from __future__ import annotations

from collections import defaultdict

from kcheck.ptx.analysis.cfg import Cfg
from kcheck.ptx.analysis.liveness import registers, writes
from kcheck.ptx.syntax.ast import Call, Instruction, Operand, Operation
from kcheck.ptx.syntax.types import TYPES

_LOADS = frozenset(("ld", "ldu", "tex", "tld4"))
_OF_INPUTS = frozenset(("global", "param", "const", "nc"))
_COPIES = frozenset(("mov", "neg", "abs", "min", "max", "selp", "cvta", "copysign"))


class RoundedValues:
    """Answers for one function. A value that comes through shared memory, a shuffle or a call may have errors."""

    def __init__(self, cfg: Cfg) -> None:
        self._made: dict[str, list[Operation]] = defaultdict(list)
        self._known: dict[str, bool] = {}
        for number in cfg.order:
            for operation in cfg.blocks[number].operations:
                for register in writes(operation):
                    self._made[register.name].append(operation)

    def has(self, operand: Operand) -> bool:
        """Whether an operand may have rounding errors."""
        return any(self._of(register.name) for register in registers(operand))

    def _of(self, name: str) -> bool:
        if name not in self._known:
            self._known[name] = False  # in a loop, the other definitions decide
            self._known[name] = any(map(self._rounds, self._made[name]))
        return self._known[name]

    def _rounds(self, operation: Operation) -> bool:
        if isinstance(operation, Call):
            return True
        if operation.opcode in _LOADS:
            return operation.opcode.startswith("ld") and not _OF_INPUTS & {*operation.modifiers}
        if operation.opcode in _COPIES or _widens(operation):
            return any(map(self.has, operation.operands[1:]))
        return True


def _widens(i: Instruction) -> bool:
    """Whether a conversion is exact: to a wider float, or of a narrow integer."""
    if i.opcode != "cvt" or len(i.modifiers) < 2:
        return False
    target, source = (TYPES.get(name) for name in i.modifiers[-2:])
    return target is not None and source is not None and target.bits > source.bits
