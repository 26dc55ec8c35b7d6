"""How far apart the lanes of a warp are in memory, if the PTX shows it.

A register is described by its value in lane 0 and a *stride*, the difference from lane to lane; 0 means that all
lanes hold the same value. Strides add, and a product with a known number scales them. A value that depends on
data, or on a size that is known only at launch, has no stride, and nothing is reported. Unlike the analysis for
code generation (:mod:`kcheck.ptx.analysis.affine`), this one assumes that sums do not wrap around, as in correct
indices: it is only used for advice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from kcheck.alignment import ceil_div
from kcheck.dataclass import dataclass
from kcheck.ptx.analysis import cfg as control
from kcheck.ptx.analysis import liveness, uniformity
from kcheck.ptx.analysis.inline import expand
from kcheck.ptx.analysis.liveness import reads, writes
from kcheck.ptx.syntax.ast import (
    Address,
    Call,
    Function,
    Instruction,
    Integer,
    Module,
    Operand,
    Register,
    Special,
    Symbol,
)
from kcheck.ptx.syntax.types import TYPES

_WARP = 32
_SAME_FOR_ALL = ("tid.y", "tid.z", "ntid", "ctaid", "nctaid", "warpid", "nwarpid", "WARP_SZ")
_VECTORS = {"v2": 2, "v4": 4, "v8": 8}


@dataclass(frozen=True, slots=True)
class LaneAccess:
    """A load, store or atomic whose lanes have known addresses relative to each other.

    Attributes:
        space: ``global`` or ``shared``.
        size: bytes that a lane reads or writes.
        stride: bytes from one lane's address to the next one's.
        filled: bytes of each stride that this access and those beside it cover, such as the two parts of a complex
            number: accesses with the same opcode, base and stride in the same basic block.
    """

    instruction: Instruction
    space: str
    size: int
    stride: int
    filled: int = 0


def accesses(module: Module, kernel: Function) -> list[LaneAccess]:
    """The accesses of a kernel whose stride the PTX shows, in the order of the PTX, if the lanes of a warp are
    neighbors along x.

    Raises:
        PtxError: control flow that cannot be analyzed.
    """
    whole = expand(module, kernel, control.is_barrier)
    graph = control.build(whole, module.file)
    live = liveness.analyze(graph)

    def divergent(name: str) -> bool:
        variable = whole.variables.get(name)
        return variable is not None and variable.space in ("local", "param")

    found = uniformity.analyze(graph, live, divergent, frozenset(), _WARP)
    strides = _Strides(graph, found.uniform, liveness.constants(graph), divergent).run()
    seen = []
    for block in graph.order:
        found_here = [
            access
            for operation in graph.blocks[block].operations
            if isinstance(operation, Instruction) and (access := _access(operation, strides)) is not None
        ]
        seen += _together(found_here)
    return sorted(seen, key=lambda access: access.instruction.line)


def _access(i: Instruction, strides: Callable[[Operand], int | None]) -> LaneAccess | None:
    space = next((m.split("::")[0] for m in i.modifiers if m.split("::")[0] in ("global", "shared")), None)
    if i.opcode not in ("ld", "ldu", "st", "atom", "red") or space is None:
        return None
    address = next((operand for operand in i.operands if isinstance(operand, Address)), None)
    kind = TYPES.get(i.modifiers[-1])
    if address is None or kind is None:
        return None
    stride = strides(address.base)
    many = next((_VECTORS[m] for m in i.modifiers if m in _VECTORS), 1)
    return None if stride is None else LaneAccess(i, space, kind.bytes * many, stride)


def _together(found: Sequence[LaneAccess]) -> list[LaneAccess]:
    """The accesses of a basic block, each with the bytes that it fills together with the others."""
    bytes_of: dict[tuple[str, Operand, int], set[int]] = {}
    keys = []
    for access in found:
        address = next(o for o in access.instruction.operands if isinstance(o, Address))
        keys.append((access.instruction.opcode, address.base, access.stride))
        if access.stride:
            covers = range(address.offset, address.offset + access.size)
            bytes_of.setdefault(keys[-1], set()).update(byte % abs(access.stride) for byte in covers)
    return [replace(access, filled=len(bytes_of.get(key, ()))) for access, key in zip(found, keys, strict=True)]


class _Strides:
    def __init__(
        self,
        graph: control.Cfg,
        uniform: frozenset[str],
        constants: Mapping[str, int],
        divergent: Callable[[str], bool],
    ) -> None:
        self.uniform = uniform
        self.constants = constants
        self.divergent = divergent
        self.known: dict[str, int] = {}
        self.unknown: set[str] = set()
        self.written: dict[str, int] = {}
        self.definitions: list[tuple[str, Instruction | Call]] = []
        for block in graph.order:
            for operation in graph.blocks[block].operations:
                for register in writes(operation):
                    if register.name not in uniform:
                        self.definitions.append((register.name, operation))
                        self.written[register.name] = self.written.get(register.name, 0) + 1

    def run(self) -> Callable[[Operand], int | None]:
        """Iterate to a fixed point: a register keeps its stride until a definition contradicts it."""
        changed = True
        while changed:
            changed = False
            for name, operation in self.definitions:
                if name in self.unknown or not all(self._visited(r) for r in reads(operation)):
                    continue
                stride = self._stride(operation)
                # If branches choose between two uniform values, the result may differ between lanes.
                is_mixed = stride == 0 and self.written[name] > 1
                if stride is None or is_mixed or self.known.get(name, stride) != stride:
                    self.unknown.add(name)
                    self.known.pop(name, None)
                    changed = True
                elif name not in self.known:
                    self.known[name] = stride
                    changed = True
        return self.of

    def _visited(self, register: Register) -> bool:
        name = register.name
        return name in self.known or name in self.unknown or name in self.uniform or name not in self.written

    def of(self, operand: Operand) -> int | None:
        """The stride of an operand; None if it has none."""
        if isinstance(operand, Register):
            return 0 if operand.name in self.uniform else self.known.get(operand.name)
        if isinstance(operand, Special):
            if operand.name in ("tid.x", "laneid"):
                return 1
            return 0 if operand.name.startswith(_SAME_FOR_ALL) else None
        if isinstance(operand, Symbol):
            return None if self.divergent(operand.name) else 0
        return 0 if isinstance(operand, Integer) else None

    def _number(self, operand: Operand) -> int | None:
        if isinstance(operand, Integer):
            return operand.value
        return self.constants.get(operand.name) if isinstance(operand, Register) else None

    def _stride(self, operation: Instruction | Call) -> int | None:
        if isinstance(operation, Call) or operation.guard is not None or len(writes(operation)) != 1:
            return None
        opcode, sources = operation.opcode, operation.operands[1:]
        if opcode == "selp":  # a negative index counts from the end: both choices have the same stride
            first, second = self.of(sources[0]), self.of(sources[1])
            return first if first == second else None
        strides = [self.of(source) for source in sources if not isinstance(source, Address)]
        if any(stride is None for stride in strides) or opcode in ("ld", "ldu", "atom", "shfl"):
            return None
        known = [stride for stride in strides if stride is not None]
        if not any(known):
            return 0
        if opcode in ("mov", "cvta", "cvt"):
            return known[0]
        if opcode in ("add", "sub") and len(known) == 2:
            return known[0] + (known[1] if opcode == "add" else -known[1])
        if opcode in ("mul", "mad"):
            return self._product(operation, known)
        if opcode == "shl" and not known[1] and (by := self._number(sources[1])) is not None:
            return known[0] << by if 0 <= by < 64 else None
        return self._of_bits(operation, known)

    def _product(self, i: Instruction, strides: list[int]) -> int | None:
        if "hi" in i.modifiers or (strides[0] and strides[1]):
            return None
        stride = 0
        for this, other in ((0, 1), (1, 0)):
            if strides[this]:
                by = self._number(i.operands[1 + other])
                if by is None:
                    return None
                stride = strides[this] * by
        return stride + (strides[2] if i.opcode == "mad" else 0)

    def _of_bits(self, i: Instruction, strides: list[int]) -> int | None:
        """``tid & 31`` and ``tid >> 5``, which have strides because a warp begins at a multiple of its size."""
        by = self._number(i.operands[2]) if len(i.operands) == 3 else None
        if by is None or strides != [1, 0]:
            return None
        if i.opcode == "and":
            lanes = by & (_WARP - 1)
            return {_WARP - 1: 1, 0: 0}.get(lanes)
        return 0 if i.opcode == "shr" and by >= 5 else None


def sectors(access: LaneAccess, lanes: int = _WARP) -> tuple[int, int]:
    """(sectors of 32 bytes that the lanes' access touches, sectors that their bytes would fill).

    Source: CUDA C++ Best Practices Guide, "Coalesced Access to Global Memory". The lowest address is assumed to be
    aligned. A sector is loaded once for all accesses beside this one, from the cache.
    """
    starts = {lane * abs(access.stride) for lane in range(lanes)}
    touched = {byte // 32 for start in starts for byte in (start, start + access.size - 1)}
    return len(touched), ceil_div(len(starts) * max(access.size, access.filled), 32)


def conflicts(access: LaneAccess, lanes: int = _WARP) -> int:
    """The most different words that are accessed in one bank of shared memory; 1 means no conflict.

    Source: CUDA C++ Programming Guide, "Shared Memory": 32 banks of 4 bytes; lanes that access
    the same word share it; accesses of 8 and 16 bytes are served to a half and a quarter of a warp at a time.
    """
    group = max(1, min(lanes, _WARP * 4 // max(access.size, 4)))
    banks: dict[int, set[int]] = {}
    for lane in range(group):
        first = lane * access.stride // 4
        for word in range(first, first + max(1, access.size // 4)):
            banks.setdefault(word % 32, set()).add(word)
    return max(len(words) for words in banks.values())
