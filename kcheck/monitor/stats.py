"""The counts of a checker, as values and as text for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

PREFIX = "kcheck_monitor"

COUNTERS = {
    "calls": "Calls of monitored functions.",
    "sampled": "Calls chosen by chance.",
    "outliers": "Calls chosen because their inputs are unusual.",
    "checked": "Calls compared with the reference.",
    "mismatches": "Calls whose result differs from the reference.",
    "reference_errors": "Calls that could not be compared: the reference raised an exception.",
    "copy_errors": "Calls that could not be copied.",
    "callback_errors": "Exceptions raised by on_mismatch.",
    "raised": "Chosen calls that ended with an exception of the monitored function.",
}


@dataclass(frozen=True)
class FunctionStats:
    """The counts of one function.

    Each chosen call ends up in exactly one of ``checked``, ``reference_errors``, ``copy_errors``, ``raised``,
    ``dropped`` and the calls that are still pending.

    Attributes:
        calls: while the checker ran.
        sampled, outliers: chosen by chance, and chosen only by the detector.
        checked: compared with the reference; ``mismatches`` of these differ.
        reference_errors, copy_errors, callback_errors: exceptions of the reference, of copying, of
            ``on_mismatch``.
        raised: chosen calls whose function raised an exception.
        dropped: by reason: ``full``, ``too large``, ``stopped``; ``traced``: a transformation of JAX or torch.func
            ran the function, so the arrays have no values; and ``screening``: calls with inputs on a device that
            were not chosen by chance, and for which there was no room until a detector could examine them.
    """

    calls: int = 0
    sampled: int = 0
    outliers: int = 0
    checked: int = 0
    mismatches: int = 0
    reference_errors: int = 0
    copy_errors: int = 0
    callback_errors: int = 0
    raised: int = 0
    dropped: Mapping[str, int] = field(default_factory=dict)

    def __add__(self, other: FunctionStats) -> FunctionStats:
        counts = {name: getattr(self, name) + getattr(other, name) for name in COUNTERS}
        reasons = {**self.dropped, **other.dropped}
        dropped = {reason: self.dropped.get(reason, 0) + other.dropped.get(reason, 0) for reason in reasons}
        return FunctionStats(**counts, dropped=dropped)


@dataclass(frozen=True)
class Stats(FunctionStats):
    """The counts of a checker since it started: totals, and ``functions`` by name.

    Attributes:
        pending: calls that wait or are being checked.
        queue_bytes, peak_queue_bytes: the memory of the copies now, and its maximum.
    """

    pending: int = 0
    queue_bytes: int = 0
    peak_queue_bytes: int = 0
    functions: Mapping[str, FunctionStats] = field(default_factory=dict)

    def prometheus(self) -> str:
        """The counts in Prometheus' text format, with a label ``function``."""
        return "".join(f"{line}\n" for line in self._lines())

    def _lines(self) -> Iterator[str]:
        for name, what in COUNTERS.items():
            yield f"# HELP {PREFIX}_{name}_total {what}"
            yield f"# TYPE {PREFIX}_{name}_total counter"
            for function, counts in self.functions.items():
                yield f'{PREFIX}_{name}_total{{function="{_label(function)}"}} {getattr(counts, name)}'
        yield f"# HELP {PREFIX}_dropped_total Calls dropped before they were checked."
        yield f"# TYPE {PREFIX}_dropped_total counter"
        for function, counts in self.functions.items():
            for reason, count in counts.dropped.items():
                yield f'{PREFIX}_dropped_total{{function="{_label(function)}",reason="{reason}"}} {count}'
        for name, what, value in self.gauges():
            yield f"# HELP {PREFIX}_{name} {what}"
            yield f"# TYPE {PREFIX}_{name} gauge"
            yield f"{PREFIX}_{name} {value}"

    def gauges(self) -> Iterator[tuple[str, str, int]]:
        """(name, description, value) of the values that can decrease."""
        yield "pending", "Calls that wait to be checked.", self.pending
        yield "queue_bytes", "Bytes of the copies of these calls.", self.queue_bytes


def _label(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
