"""The result of a launch, before it is judged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from kcheck.dataclass import dataclass
from kcheck.model.case import Case
from kcheck.model.coverage import Reached
from kcheck.model.levels import Level, Strict
from kcheck.model.tensor_sum import TensorSum
from kcheck.span import Span

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array: TypeAlias = npt.NDArray[Any]
    Mask: TypeAlias = npt.NDArray[np.bool_]

Index3: TypeAlias = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong. Checkers report everything to reporters as findings.

    Attributes:
        rule: ``memcheck``, ``racecheck``, ``initcheck``, ``synccheck``, ``unwritten``, ``mutated``, ``guard``,
            ``nondeterministic``, ``mismatch``, ``invariant``, ``vacuous``, ``timeout``, ``compile``, ``launch``,
            ``artifact`` ...
        message: what is wrong, in one sentence, without the place.
        fix: how to fix it, if known.
        array, index: the array by its name in the spec, and the element.
        kernel, block, thread: which thread did it; ``other`` is the second thread of a race as (block, thread).
        place: the line of the user's Python; ``other_place`` is that of the second thread.
        stack: if ``place`` is in an inlined function or calls one, the whole chain of calls, innermost first,
            ``place`` included; otherwise empty.
        count: how often it was seen, if only the first is reported.
        unit: what the kernel's language calls a block. A program of Triton has no threads.
        lenient: a warning by default, and an error if the level of its rule is set to error.
        note: a warning about something that may be right: reports show it once, as a note.
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

    def at_level(self, level: Level) -> Finding | None:
        """The finding at the level of its rule; None if that is off. Other warnings stay warnings."""
        if level == "off":
            return None
        if level == "warn":
            return replace(self, severity="warn")
        return replace(self, severity="error") if self.lenient and isinstance(level, Strict) else self

    @property
    def as_note(self) -> str:
        """One sentence without what differs from case to case, such as the element."""
        place = f"{self.place.short}: " if self.place is not None else ""
        return f"{self.rule}: {place}{self.message}"

    @property
    def callees(self) -> tuple[Span, ...]:
        """What ``place`` calls, outermost first: the part of ``stack`` that is in a library."""
        at = self.stack.index(self.place) if self.place in self.stack else 0
        return self.stack[:at][::-1]

    @property
    def callers(self) -> tuple[Span, ...]:
        """The calls that led to ``place``, innermost first."""
        return self.stack[self.stack.index(self.place) + 1 :] if self.place in self.stack else ()


@dataclass(frozen=True, eq=False, slots=True)
class Outcome:
    """The result of running a case on a device.

    Attributes:
        outputs: by name, new C-contiguous host arrays of the declared shape and dtype; empty if the launch
            did not finish.
        unwritten: by output, True at each element that was never written; only outputs that have such elements.
        findings: of the launch: exceptions, guard zones, modified inputs, unwritten elements, sanitizers.
        notes: what could not be checked on this device, one sentence each.
        checked: the sanitizers that checked this case, in the order of SANITIZERS.
        instrumented: seconds spent in instrumented code, including its compilation.
        device: ``gpu``, ``cpu`` or ``simulator``.
        narrow: the formats narrower than float32 to which the kernel rounds: ``16-bit`` by arithmetic, ``tf32`` by
            matrix products; None where the device cannot tell.
        reached: what the judged launch reached of the kernel's code, if it was instrumented.
        tensor_sums: the sums in float32 that tensor cores truncate; none where the device cannot tell.
        gradients: by input, what the function's framework says the derivatives of sum(output * c) are, of the
            input's shape and dtype.
        flushes: whether what ran may take subnormal numbers for 0, as JAX and TensorFlow do on a CPU.
    """

    case: Case
    device: str
    outputs: Mapping[str, Array]
    unwritten: Mapping[str, Mask]
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    checked: tuple[str, ...] = ()
    instrumented: float = 0.0
    narrow: frozenset[str] | None = None
    reached: tuple[Reached, ...] = ()
    tensor_sums: frozenset[TensorSum] = frozenset()
    gradients: Mapping[str, Array] = field(default_factory=dict)
    flushes: bool = False
