"""The result of a launch, before it is judged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from kcheck.dataclass import dataclass
from kcheck.model.case import Case
from kcheck.model.coverage import Reached
from kcheck.model.launch_facts import UNKNOWN, LaunchFacts
from kcheck.model.levels import Level, Mild, Strict
from kcheck.span import Span

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array: TypeAlias = npt.NDArray[Any]
    Mask: TypeAlias = npt.NDArray[np.bool_]

Index3: TypeAlias = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class InGap:
    """A value was read from between the elements of an array."""


@dataclass(frozen=True, slots=True)
class SpecialValue:
    """An operation makes a NaN, otherwise an infinity. ``of_infinity``: an operand is infinite."""

    is_nan: bool
    of_infinity: bool


@dataclass(frozen=True, slots=True)
class KeptDigits:
    """How many of its bits a sum keeps, or its smaller term."""

    kept: int
    bits: int
    of_smaller_term: bool

    @property
    def part(self) -> float:
        return self.kept / self.bits


@dataclass(frozen=True, slots=True)
class NotCompiling:
    """What the compiler says."""

    problem: str


Seen: TypeAlias = InGap | SpecialValue | KeptDigits | NotCompiling


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong. Checkers report everything as findings.

    The text of ``message`` is for readers: no code looks into it. What other code needs is in other fields.

    Attributes:
        rule: ``memcheck``, ``racecheck``, ``initcheck``, ``synccheck``, ``unwritten``, ``mutated``, ``guard``,
            ``nondeterministic``, ``mismatch``, ``invariant``, ``vacuous``, ``timeout``, ``compile``, ``launch``,
            ``artifact`` ...
        message: what is wrong, in one sentence, without the place.
        fix: how to fix it, if known.
        array, index: the array by its name in the spec, and the element.
        kernel, block, thread: the thread that caused it; ``other`` is the second thread of a race as (block,
            thread).
        place: the line in the user's source; ``other_place`` is that of the second thread.
        stack: if ``place`` is in an inlined function or calls one, the whole chain of calls, innermost first,
            including ``place``; otherwise empty.
        count: how often it was found, if only the first one is reported.
        unit: the name for a block in the kernel's language. A Triton program has no threads.
        certain: an error although the level of its rule is ``warn`` by default: what it warns of has happened.
        lenient: a warning by default, and an error if the level of its rule is set to error.
        note: a warning about something that may be correct: reports show it once, as a note.
        seen: more of what was seen, for code that continues from there.
    """

    rule: str
    message: str
    severity: Literal["error", "warn"] = "error"
    fix: str = ""
    array: str | None = None
    index: tuple[int, ...] | None = None
    kernel: str | None = None
    block: Index3 | None = None
    thread: Index3 | None = None
    other: tuple[Index3, Index3] | None = None
    place: Span | None = None
    count: int = 1
    other_place: Span | None = None
    stack: tuple[Span, ...] = ()
    lenient: bool = False
    note: bool = False
    unit: Literal["block", "program"] = "block"
    certain: bool = False
    seen: Seen | None = None

    def at_level(self, level: Level) -> Finding | None:
        """The finding at the level of its rule; None if that is off. Other warnings stay warnings."""
        if level == "off":
            return None
        if level == "warn" and not (self.certain and isinstance(level, Mild)):
            return replace(self, severity="warn")
        return replace(self, severity="error") if self.lenient and isinstance(level, Strict) else self

    def adding(self, clause: str) -> Finding:
        """The finding with another clause at the end of its message."""
        return replace(self, message=f"{self.message}; {clause}")

    def names(self, thing: str) -> bool:
        """Whether the message names an element or a thread. Reports then do not repeat it."""
        return thing in self.message

    @property
    def as_note(self) -> str:
        """One sentence without details that vary between cases, such as the element."""
        place = f"{self.place.short}: " if self.place is not None else ""
        return f"{self.rule}: {place}{self.message}"

    @property
    def callees(self) -> tuple[Span, ...]:
        """The calls below ``place``, outermost first: the part of ``stack`` that is in a library."""
        at = self.stack.index(self.place) if self.place in self.stack else 0
        return self.stack[:at][::-1]

    @property
    def callers(self) -> tuple[Span, ...]:
        """The calls that led to ``place``, innermost first."""
        return self.stack[self.stack.index(self.place) + 1 :] if self.place in self.stack else ()


OF_ELEMENTS = frozenset({"guard", "mutated", "unwritten", "nondeterministic"})
"""The rules of findings about an element of an array after a launch. Their place is that of a store, which is
known for a few cases only, so cases are grouped by the array."""


@dataclass(frozen=True, eq=False, slots=True)
class Outcome:
    """The result of running a case on a device.

    Attributes:
        outputs: by name, new C-contiguous host arrays of the declared shape and dtype; empty if the launch
            did not finish.
        unwritten: by output, True for each element that was never written; only for outputs with such elements.
        findings: those of the launch: exceptions, guard zones, modified inputs, unwritten elements, sanitizers.
        notes: what could not be checked on this device, one sentence each.
        checked: the sanitizers that checked this case, in the order of SANITIZERS.
        instrumented: seconds spent in instrumented code, including its compilation.
        device: ``gpu``, ``cpu`` or ``simulator``.
        facts: what the launched kernels do that decides how results are judged.
        reached: the points of the kernel's code that the judged launch reached, if it was instrumented.
        gradients: by input, the derivatives of sum(output * c) as the function's framework computes them, with the
            input's shape and dtype.
        flushes: whether the op may flush subnormal numbers to 0, as JAX and TensorFlow do on a CPU.
    """

    case: Case
    device: str
    outputs: Mapping[str, Array]
    unwritten: Mapping[str, Mask]
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    checked: tuple[str, ...] = ()
    instrumented: float = 0.0
    facts: LaunchFacts = UNKNOWN
    reached: tuple[Reached, ...] = ()
    gradients: Mapping[str, Array] = field(default_factory=dict)
    flushes: bool = False
