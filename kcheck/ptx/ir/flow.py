"""Structured control flow in LLVM IR: branches, loops, and a check that every basic block ends exactly once."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from kcheck.dataclass import dataclass
from kcheck.ptx.ir.builder import Builder, Value
from kcheck.ptx.ir.signature import Definition

UNLIKELY, LIKELY = "!2", "!0"
"""Branch weights, as metadata of the module: for conditions that are rarely true, or nearly always."""


class KnownValues:
    """The values of variables in memory, by name, where the code that was emitted so far determines them.

    Who emits a store to a variable must say so: :meth:`learn` or :meth:`forget`. Code that runs only on some paths
    to what follows is emitted within a :meth:`scope`.
    """

    def __init__(self) -> None:
        self._values: dict[str, Value] = {}
        self._changed: list[set[str]] = []  # the variables that the code in each open scope reads or changes

    def get(self, name: str) -> Value | None:
        """The value of a variable; None if it is not known."""
        return self._values.get(name)

    def learn(self, name: str, value: Value) -> None:
        """The variable has this value now: it was stored or loaded."""
        self._values[name] = value
        if self._changed:
            self._changed[-1].add(name)

    def forget(self, name: str) -> None:
        """The variable has another value now, which is not known."""
        self._values.pop(name, None)
        if self._changed:
            self._changed[-1].add(name)

    def clear(self) -> None:
        """Nothing is known, because other code leads here, too."""
        self._values.clear()

    @contextlib.contextmanager
    def scope(self) -> Iterator[None]:
        """Code that may not have run. After it, what is known from before is still known, unless the code has
        changed it."""
        self._changed.append(set())
        yield
        changed = self._changed.pop()
        for name in changed:
            self._values.pop(name, None)
        if self._changed:
            self._changed[-1] |= changed


@dataclass(slots=True)
class Branch:
    """The result of ``if_``: its ``else_`` may follow directly."""

    code: FlowBuilder
    otherwise: str
    end: str
    written: int = -1

    @contextlib.contextmanager
    def else_(self) -> Iterator[None]:
        """Emit code that runs if the condition does not hold."""
        assert len(self.code.lines) == self.written, "else_ must follow if_ directly"
        del self.code.lines[-2:]
        self.code.is_open = True
        with self.code.known.scope():
            yield
            self.code.jump(self.end)
        self.code.label_within(self.end)


@dataclass(frozen=True, slots=True)
class LoopLabels:
    """The labels of a loop that is being emitted, or of a block, which does not repeat."""

    again: str
    after: str


class FlowBuilder(Builder):
    """A builder that knows whether the current basic block has ended; arguments as for :class:`Builder`.

    Attributes:
        is_open: whether the current basic block still needs a terminator.
        known: what the code so far determines about variables. Builders that fill one function share it.
    """

    def __init__(
        self,
        width: int,
        declarations: dict[str, str] | None = None,
        definitions: dict[str, Definition] | None = None,
        prefix: str = "v",
        references: set[str] | None = None,
    ) -> None:
        super().__init__(width, declarations, definitions, prefix, references)
        self.is_open = True
        self.known = KnownValues()
        self._loops: list[LoopLabels] = []

    # --- basic blocks

    def line(self, text: str) -> None:
        """An instruction without a result."""
        assert self.is_open, text
        super().line(text)

    def value(self, text: str, element: str, lanes: int = 1) -> Value:
        """An instruction with a result."""
        assert self.is_open, text
        return super().value(text, element, lanes)

    def label(self, name: str) -> None:
        """Begin a basic block, in which nothing is known; the previous one must have ended."""
        assert not self.is_open or not self.lines, name
        super().label(name)
        self.is_open = True
        self.known.clear()

    def label_within(self, name: str) -> None:
        """Begin a basic block that only the code so far leads to, so that all that is known stays known."""
        assert not self.is_open or not self.lines, name
        super().label(name)
        self.is_open = True

    def take(self) -> list[str]:
        """Remove and return the lines so far; another part of the function follows."""
        lines, self.lines, self.is_open = self.lines, [], True
        self.known.clear()
        return lines

    def end(self, text: str) -> None:
        """Emit the terminator of a basic block."""
        self.line(text)
        self.is_open = False

    def jump(self, label: str) -> None:
        """Branch to a block, if the current one has not ended yet."""
        if self.is_open:
            self.end(f"br label %{label}")

    def branch(self, condition: Value, yes: str, no: str, weights: str = "") -> None:
        """Branch to one of two blocks. ``weights``: LIKELY, UNLIKELY or none."""
        known = f", !prof {weights}" if weights else ""
        self.end(f"br i1 {condition.text}, label %{yes}, label %{no}{known}")

    def switch(self, value: Value, otherwise: str, cases: Sequence[tuple[int, str]]) -> None:
        """Branch to the block of the case that an integer equals, or to ``otherwise``."""
        known = " ".join(f"{value.type} {number}, label %{label}" for number, label in cases)
        self.end(f"switch {self.typed(value)}, label %{otherwise} [{known}]")

    def leave(self, value: Value) -> None:
        """Return a value."""
        self.end(f"ret {self.typed(value)}")

    # --- what a condition guards

    @contextlib.contextmanager
    def if_(self, condition: Value, weights: str = "") -> Iterator[Branch]:
        """Emit code that runs if a condition holds."""
        then, branch = self.fresh("then"), Branch(self, self.fresh("else"), self.fresh("end"))
        self.branch(condition, then, branch.otherwise, weights)
        with self._one_side(then, branch):
            yield branch

    @contextlib.contextmanager
    def _one_side(self, then: str, branch: Branch) -> Iterator[None]:
        """The block of one side of a branch, and an empty other side, which ``else_`` may replace."""
        self.label_within(then)
        with self.known.scope():
            yield
            self.jump(branch.end)
        self.label_within(branch.otherwise)
        self.jump(branch.end)
        self.label_within(branch.end)
        branch.written = len(self.lines)

    @contextlib.contextmanager
    def when(self, condition: Value, weights: str = "") -> Iterator[None]:
        """Emit code that runs if a condition holds; without an ``else_``."""
        then, end = self.fresh("then"), self.fresh("end")
        self.branch(condition, then, end, weights)
        self.label_within(then)
        with self.known.scope():
            yield
            self.jump(end)
        self.label_within(end)

    @contextlib.contextmanager
    def unless(self, condition: Value, weights: str = "") -> Iterator[None]:
        """Emit code that runs if a condition does not hold. ``weights``: of the condition."""
        otherwise, end = self.fresh("unless"), self.fresh("end")
        self.branch(condition, end, otherwise, weights)
        self.label_within(otherwise)
        with self.known.scope():
            yield
            self.jump(end)
        self.label_within(end)

    @contextlib.contextmanager
    def if_among(self, value: Value, numbers: Sequence[int]) -> Iterator[Branch]:
        """Emit code that runs if an integer is one of these constants."""
        then, branch = self.fresh("then"), Branch(self, self.fresh("else"), self.fresh("end"))
        self.switch(value, branch.otherwise, [(number, then) for number in numbers])
        with self._one_side(then, branch):
            yield branch

    @contextlib.contextmanager
    def block(self) -> Iterator[None]:
        """A part of the function that ``break_`` leaves early."""
        after = self.fresh("after")
        self._loops.append(LoopLabels("", after))
        yield
        self._loops.pop()
        self.jump(after)
        self.label(after)

    @contextlib.contextmanager
    def loop(self) -> Iterator[None]:
        """Emit a loop, which runs until ``break_`` or ``ret``."""
        loop = LoopLabels(self.fresh("loop"), self.fresh("after"))
        self.jump(loop.again)
        self.label(loop.again)
        self._loops.append(loop)
        yield
        self._loops.pop()
        self.jump(loop.again)
        self.label(loop.after)

    def break_(self) -> None:
        """Leave the innermost loop or block."""
        self.jump(self._loops[-1].after)

    def continue_(self) -> None:
        """Continue with the next iteration of the innermost loop."""
        self.jump(self._loops[-1].again)
