"""What a launch left behind, before anyone judges it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from kcheck.model.case import Case
from kcheck.model.span import Span

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array: TypeAlias = npt.NDArray[Any]
    Mask: TypeAlias = npt.NDArray[np.bool_]

Index3: TypeAlias = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing found wrong: the only currency between checkers and reporters.

    Attributes:
        rule: ``memcheck``, ``racecheck``, ``initcheck``, ``synccheck``, ``unwritten``, ``mutated``, ``guard``,
            ``nondeterministic``, ``mismatch``, ``invariant``, ``vacuous``, ``timeout``, ``compile``, ``launch``,
            ``artifact`` ...
        message: what is wrong, in one sentence, without the place.
        mend: what to do about it, where that is known.
        array, index: the array by its name in the spec, and the element.
        kernel, block, thread: who did it; ``other`` is the second party of a race as (block, thread).
        place: the line of the user's Python; ``other_place`` is the second party's.
        stack: if ``place`` is in an inlined function or calls one, the whole chain of calls, innermost first,
            ``place`` included; otherwise empty.
        count: how many times it was seen, where reporting is capped.
    """

    rule: str
    message: str
    severity: Literal["error", "warn"] = "error"
    mend: str = ""
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
    """What came back from a device.

    Attributes:
        outputs: by name, fresh C-contiguous host arrays of the declared shape and dtype; empty when the launch
            did not come to its end.
        unwritten: by output, True at each element that nobody wrote; outputs that are whole are left out.
        findings: of the launch itself: what raised, guards, mutated inputs, unwritten elements, sanitizers.
        notes: what could not be checked on this device, one sentence each.
        checked: the sanitizers that saw this case, in the order of SANITIZERS.
        instrumented: seconds spent in code with checks in it, and in compiling it.
        device: ``gpu``, ``cpu`` or ``simulator``.
        narrow: whether the kernel does arithmetic in 16-bit floats; None where the device cannot tell.
    """

    case: Case
    device: str
    outputs: Mapping[str, Array]
    unwritten: Mapping[str, Mask]
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    checked: tuple[str, ...] = ()
    instrumented: float = 0.0
    narrow: bool | None = None
