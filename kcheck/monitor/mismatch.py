"""A mismatch, as it is passed to ``on_mismatch``, logged or raised."""

from __future__ import annotations

import os
import shlex
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, TypeAlias

from kcheck.errors import KcheckError
from kcheck.monitor.lifetime import IMPORTING

if TYPE_CHECKING:
    from kcheck.api import Verdict
    from kcheck.model import Comparison

Frames: TypeAlias = tuple[tuple[CodeType, int], ...]
DEPTH = 32
"""The maximum number of frames of a caller's stack."""


@dataclass(frozen=True, eq=False)
class Mismatch:
    """A call whose result differs from that of the reference.

    Attributes:
        function: the module and qualified name of the monitored function.
        number: the number of the call, counted per function from 1 since its checker started.
        args, kwargs: the arguments as they were before the call.
        original_result: the result of the function, detached; if it returned None, a tuple of its array arguments
            as they were after the call.
        ground_truth_result: the result of the reference for the same arguments.
        comparisons: one for each array that differs: the worst elements, their errors, and what is allowed.
        differences: other differences, one sentence each: a shape, a missing output.
        stack: where the function was called, the innermost call last.
        verdict: kcheck's verdict, for a function with a spec; otherwise None.
        kcase: the file that the policy ``save`` wrote.
    """

    function: str
    number: int
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    original_result: Any
    ground_truth_result: Any
    comparisons: tuple[Comparison, ...]
    differences: tuple[str, ...]
    stack: traceback.StackSummary
    verdict: Verdict | None = None
    kcase: Path | None = None
    size: int = field(default=0, repr=False)

    @property
    def inputs(self) -> tuple[Any, ...]:
        """All arguments in order, as they were before the call."""
        return (*self.args, *self.kwargs.values())

    @property
    def comparison(self) -> Comparison | None:
        """The first array that differs; None if only a shape or a structure differs."""
        return self.comparisons[0] if self.comparisons else None

    def __str__(self) -> str:
        with IMPORTING:
            from kcheck.api.verdict import comparison_text, text_lines, verdict_rows

        place = f"{self.stack[-1].filename}:{self.stack[-1].lineno}: " if self.stack else ""
        lines = [f"{place}call {self.number:,} of {self.function} differs from the reference"]
        if self.verdict is not None:
            lines += text_lines(verdict_rows(self.verdict._model), 2)
        else:
            lines += [f"  {what}" for what in self.differences]
            lines += [comparison_text(found, {}) for found in self.comparisons]
        if self.kcase is not None:
            lines.append(f"  replay     kcheck reproduce {shlex.quote(str(self.kcase))}")
        return "\n".join(lines)


FailureCallbackArgs = Mismatch
"""cuda-kernel-verifier's name."""


class MismatchError(KcheckError, AssertionError):
    """Raised by the policy ``raise``, at the next call of a monitored function or when the checker stops.

    Attributes:
        mismatches: those that have not been raised yet.
    """

    def __init__(self, mismatches: tuple[Mismatch, ...]) -> None:
        self.mismatches = mismatches
        more = len(mismatches) - 1
        super().__init__(str(mismatches[0]) + (f"\nand {more:,} more" if more else ""))


_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep


def frames(frame: FrameType | None) -> Frames:
    """The calls that led to a frame, the innermost first, without those of the monitor, and of torch below it."""
    found: list[tuple[CodeType, int]] = []
    while frame is not None and len(found) < DEPTH:
        library = not found and frame.f_globals.get("__name__", "").startswith("torch.")
        if not library and not frame.f_code.co_filename.startswith(_HERE):
            found.append((frame.f_code, frame.f_lineno))
        frame = frame.f_back
    return tuple(found)


def stack_of(found: Frames) -> traceback.StackSummary:
    """The frames as a traceback shows them."""
    summaries = [traceback.FrameSummary(code.co_filename, line, code.co_name) for code, line in reversed(found)]
    return traceback.StackSummary.from_list(summaries)
