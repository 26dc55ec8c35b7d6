"""Finds loops whose registers may be affine at run time, although the analysis cannot prove it.

Indices often are: Numba's ``range`` counts in 64 bits, from a quotient that may differ between threads
as far as the compiler knows, and an index that may be negative is tested in every lane. If the lanes agree on the
signs, all of this can be computed with two scalars: the value of the first lane, and the step to the next lane.
This module finds which registers must be affine for a loop of one block to run this way;
:mod:`kcheck.ptx.lowering.loop_versioning` generates the code, which checks at run time whether they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set

from kcheck.ptx.analysis.cfg import BasicBlock, Cfg
from kcheck.ptx.analysis.liveness import Liveness, reads, writes
from kcheck.ptx.isa.access_form import form, is_of_elements
from kcheck.ptx.lowering.affine import AffineLoop
from kcheck.ptx.lowering.affine_values import evaluates, is_whole
from kcheck.ptx.lowering.function import FunctionLowering
from kcheck.ptx.syntax.ast import Address, Call, Instruction, Operand, Operation, Register
from kcheck.ptx.syntax.opcodes import COPIES, PLAIN_ACCESSES, SUMS
from kcheck.ptx.syntax.types import TYPES

LARGEST = 200
"""Loops with more instructions than this get no second version: it would take too long to compile."""

SHARE = 1 / 3
"""The share of a loop's instructions that must compute affine values to make a second version worthwhile."""


def find(
    cfg: Cfg,
    live: Liveness,
    fn: FunctionLowering,
    divergent: Callable[[str], bool],
    waits: Callable[[Operation], bool],
    spinning: Set[int],
) -> Mapping[int, AffineLoop]:
    """The loops that are worth a second version, by header. The remainders of unrolled loops are not.

    Args:
        divergent: whether the address of a symbol differs between lanes.
        waits: whether lanes may have to wait at an operation.
        spinning: headers of loops that may wait for other lanes.
    """
    found = {}
    for loop in cfg.loops:
        block = cfg.blocks[loop.header]
        if loop.header in spinning or any(o.line in fn.function.rests for o in block.body[:1]):
            continue
        if loop.single_entry and loop.blocks == {loop.header} and _is_plain(block, loop.header, waits):
            affine = _Iteration(block, fn, divergent).judge(live, loop.header)
            if affine is not None:
                found[loop.header] = affine
    return found


def _is_plain(block: BasicBlock, header: int, waits: Callable[[Operation], bool]) -> bool:
    """Whether a block ends with a branch to itself or out of the loop, and cannot be left elsewhere."""
    end = block.terminator
    if not isinstance(end, Instruction) or end.opcode != "bra" or end.guard is None or waits(end):
        return False
    if len(block.operations) > LARGEST or any(isinstance(o, Call) for o in block.body):
        return False
    return len(set(block.successors)) == 2 and header in block.successors


class _Iteration:
    def __init__(self, block: BasicBlock, fn: FunctionLowering, divergent: Callable[[str], bool]) -> None:
        self.block = block
        self.fn = fn
        self.divergent = divergent
        self.settled: Set[int] = frozenset()
        self.bad: set[str] = set() if fn.nans is None else set(fn.nans.made)
        self.accesses: dict[int, tuple[Register, int]] = {}

    def judge(self, live: Liveness, header: int) -> AffineLoop | None:
        """What must be affine; None if a second version would not be faster."""
        while not self._settle():
            pass
        end = self.block.terminator
        assert end is not None
        assert end.guard is not None
        if not self.accesses or not self._may_decide(end.guard):
            return None
        needed = self._needed({end.guard.name, *(r.name for r, _ in self.accesses.values())})
        evaluated = frozenset(
            id(o) for o in self.block.body if id(o) in self.settled and writes(o)[0].name in needed
        )
        varying = sum(id(o) in evaluated and not self._is_static(writes(o)[0].name) for o in self.block.body)
        if varying < SHARE * len(self.block.body):
            return None
        carried = {
            name: live.types[name] for name in live.names(header) if name in needed and not self._is_static(name)
        }
        if any(TYPES[kind].kind == "pred" for kind in carried.values()):
            return None
        sizes = {where: size for where, (_, size) in self.accesses.items()}
        wanted = self._wanted()
        return AffineLoop(carried, {name: wanted.get(name, 0) for name in carried}, evaluated, sizes)

    def _is_static(self, name: str) -> bool:
        return self.fn.is_scalar(name)

    def _settle(self) -> bool:
        """Assume that all registers are affine except those in ``bad``; return whether ``bad`` did not grow."""
        before = len(self.bad)
        here: dict[str, bool] = {}
        settled = set()
        self.accesses.clear()

        def fine(register: Register) -> bool:
            if register.name in self.bad or not is_whole(TYPES[register.type]):
                return False
            return here.get(register.name, True)

        for operation in self.block.body:
            if isinstance(operation, Instruction) and operation.opcode in PLAIN_ACCESSES:
                base = self._address(operation)
                if base is not None and fine(base) and not self._is_static(base.name):
                    self.accesses[id(operation)] = base, form(self.fn, operation).kind.bytes
            good = (
                isinstance(operation, Instruction)
                and evaluates(operation, self.divergent)
                and all(fine(r) for r in reads(operation))
            )
            if good:
                settled.add(id(operation))
            for register in writes(operation):
                here[register.name] = good
                if not good and not self._is_static(register.name):
                    self.bad.add(register.name)
        self.settled = settled
        self.here = here
        return len(self.bad) == before

    def _address(self, i: Instruction) -> Register | None:
        """The register that holds the address of an access of elements."""
        operand = i.operands[1 if i.opcode == "ld" else 0]
        base = operand.base if isinstance(operand, Address) else None
        return base if isinstance(base, Register) and is_of_elements(form(self.fn, i)) else None

    def _may_decide(self, guard: Register) -> bool:
        """Whether all lanes branch the same way at the end if the registers are affine."""
        if self._is_static(guard.name):
            return True
        return guard.name not in self.bad and self.here.get(guard.name, False)

    def _needed(self, names: set[str]) -> set[str]:
        """These registers, and those that they are computed from, in this iteration or earlier ones."""
        again = True
        while again:
            again = False
            for operation in self.block.body:
                if id(operation) in self.settled and writes(operation)[0].name in names:
                    more = {r.name for r in reads(operation)} - names
                    names |= more
                    again = again or bool(more)
        return names

    def _wanted(self) -> Mapping[str, int | None]:
        """The steps that the accesses require of registers, directly or not; None if no single step is known."""
        wanted: dict[str, int | None] = {}
        pending: list[str] = []

        def want(operand: Operand, step: int | None) -> None:
            if not isinstance(operand, Register) or self._is_static(operand.name):
                return
            old = wanted.get(operand.name, step)
            new = step if old == step else None
            if operand.name not in wanted or wanted[operand.name] != new:
                wanted[operand.name] = new
                pending.append(operand.name)

        for register, size in self.accesses.values():
            want(register, size)
        while pending:
            name = pending.pop()
            for operation in self.block.body:
                if isinstance(operation, Instruction) and any(r.name == name for r in writes(operation)):
                    self._pass_on(operation, wanted[name], want)
        return wanted

    def _pass_on(self, i: Instruction, step: int | None, want: Callable[[Operand, int | None], None]) -> None:
        """Compute which steps of the sources give the result this step, and pass them to ``want``."""
        sources = i.operands[1:]
        if i.opcode in COPIES:
            want(sources[0], step)
        elif i.opcode == "selp":
            for source in sources[:2]:
                want(source, step)
        elif i.opcode in SUMS:
            for this, other in ((0, 1), (1, 0)):
                fixed = self._fixed(sources[other])
                rest = None
                if step is not None and fixed is not None:
                    rest = step - fixed if i.opcode == "add" or this == 0 else fixed - step
                want(sources[this], rest)
        elif i.opcode in ("shl", "mul"):
            by = self.fn.constant(sources[1])
            if by is not None and i.opcode == "shl":
                by = 1 << by if 0 <= by < 32 else None
            want(sources[0], step // by if step is not None and by and step % by == 0 else None)
        elif i.opcode == "mad":
            for source in sources:
                want(source, None)

    def _fixed(self, operand: Operand) -> int | None:
        """The step of an operand if it is known at compile time, else None."""
        if not isinstance(operand, Register):
            return 0
        if self._is_static(operand.name):
            return self.fn.strides.get(operand.name, 0)
        made = [o for o in self.block.body if any(r.name == operand.name for r in writes(o))]
        level = ("and", "or", "xor", "shr", "min", "max", "setp")
        if made and all(isinstance(o, Instruction) and o.opcode in level for o in made):
            return 0
        if made and all(
            isinstance(o, Instruction) and o.opcode == "selp" and all(self._fixed(x) == 0 for x in o.operands[1:3])
            for o in made
        ):
            return 0
        return None
