"""Coverage: records which basic blocks were reached and which outcomes branches had, with a byte for each.

It reports no errors, but it observes functions as a sanitizer does. Bytes are only set and never cleared, so
threads need no lock.
"""

from __future__ import annotations

from collections.abc import Sequence

from kcheck.model.coverage import CodePoint, Place
from kcheck.ptx.abi import Launch
from kcheck.ptx.analysis.cfg import Cfg
from kcheck.ptx.ir.builder import Value
from kcheck.ptx.isa.events import Observer
from kcheck.ptx.lowering.function import FunctionLowering
from kcheck.ptx.lowering.sanitizer import Sanitizer
from kcheck.ptx.syntax.ast import Instruction, Operand, Operation, Register
from kcheck.ptx.syntax.types import TYPES
from kcheck.span import is_users

_NOWHERE = 0
"""The byte that is set where a branch did not have an outcome, so that no other branch is needed."""


class Points:
    """The points of a kernel's code: one for each block and each outcome of a branch, shared by all versions.

    Attributes:
        found: the meaning of each byte at ``Launch.coverage``; the first one has none.
    """

    def __init__(self) -> None:
        self.found = [CodePoint()]
        self._numbers: dict[object, int] = {}

    def number(self, point: CodePoint, key: tuple[int | None, int | None]) -> int:
        """The number of a point. ``key``: the first operation of a block, or a branch (``id``) and its outcome."""
        if key[0] is None or key not in self._numbers:
            self._numbers[key] = len(self.found)
            self.found.append(point)
        return self._numbers[key]


class CoverageObserver(Observer):
    """Records what is reached in one function."""

    def __init__(self, fn: FunctionLowering, cfg: Cfg, points: Points) -> None:
        self.fn = fn
        self._ways = {id(block.terminator): len(block.successors) for block in cfg.blocks}
        self._points = points

    def begins(self, operations: Sequence[Operation]) -> None:
        """The lines of a block are reached, except those of instructions under a predicate."""
        lines = [place for o in operations if not self._is_conditional(o) for place in self._places(o)]
        first = id(operations[0]) if operations else None
        self._note(self._points.number(CodePoint(tuple(dict.fromkeys(lines))), (first, None)))

    def groups(self, load: Instruction) -> bool:
        """Loads are not recorded."""
        return True

    def branches(self, operation: Operation, condition: Operand) -> None:
        """Record each outcome of a branch that any active lane has."""
        b = self.fn.b
        if isinstance(operation, Instruction) and operation.opcode == "brx":
            index = b.splat(self.fn.read(operation, condition, TYPES["u32"]))
            ways = self._ways[id(operation)]
            for way in range(ways):
                name = "uge" if way == ways - 1 else "eq"  # an index past the end takes the last target
                self._way(operation, way, b.splat(b.compare(name, index, way)))
        elif operation.guard is not None and condition == operation.guard and not self._is_always(operation):
            holds = b.splat(self.fn.load(operation.guard.name, "pred"))
            for way, taken in enumerate(
                (b.invert(holds), holds) if operation.negated else (holds, b.invert(holds))
            ):
                self._way(operation, way, taken)

    def goes(self, operation: Operation, way: int) -> None:
        """Record the outcome of a branch that is the same for all lanes."""
        if not self._is_always(operation):
            self._way(operation, way, Value("splat (i1 true)", "i1", self.fn.width))

    def _way(self, operation: Operation, way: int, taken: Value) -> None:
        b = self.fn.b
        places = self._places(operation)
        if not places:
            return
        lines = places if way == 0 and self._is_conditional(operation) else ()
        number = self._points.number(CodePoint(lines, places[0], operation.line, way), (id(operation), way))
        here = b.any(b.land(b.splat(self.fn.active), taken))
        self._note(b.select(here, b.const("i64", number), b.const("i64", _NOWHERE)))

    def _is_conditional(self, operation: Operation) -> bool:
        """Whether only the lanes for which its predicate holds execute it. All lanes execute a branch."""
        is_branch = isinstance(operation, Instruction) and operation.opcode == "bra"
        return operation.guard is not None and not is_branch and not self._is_always(operation)

    def _is_always(self, operation: Operation) -> bool:
        """Whether the predicate is a constant, as in Triton's loads and stores without a mask."""
        return isinstance(operation.guard, Register) and operation.guard.name in self.fn.constants

    def _places(self, operation: Operation) -> tuple[Place, ...]:
        """The lines of the user's source that an operation belongs to, innermost first."""
        return tuple((file, line) for file, line, _ in self.fn.unit.places(operation) if is_users(file) and line)

    def _note(self, number: Value | int) -> None:
        """Set a byte."""
        b = self.fn.b
        index = b.const("i64", number) if isinstance(number, int) else number
        table = self.fn.field(Launch, Launch.coverage, element="ptr")
        pointer = b.value(f"getelementptr i8, ptr {table.text}, {b.typed(index)}", "ptr")
        b.line(f"store atomic i8 1, ptr {pointer.text} monotonic, align 1")


class Coverage(Sanitizer):
    """Counts for one kernel."""

    sees_rows = sees_versions = True

    def __init__(self) -> None:
        self._points = Points()

    @property
    def points(self) -> list[CodePoint]:
        """The meaning of each byte at ``Launch.coverage``."""
        return self._points.found

    def observe(self, fn: FunctionLowering, cfg: Cfg) -> Observer:
        """Watch every function."""
        return CoverageObserver(fn, cfg, self._points)
