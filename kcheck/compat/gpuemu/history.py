"""The results of this process, instead of the daemon's database."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kcheck import api
from kcheck.compat.gpuemu.fuzzing import Array
from kcheck.compat.gpuemu.results import ValidationResult
from kcheck.model import OpSpec

MOST = 10_000


@dataclass(frozen=True, eq=False)
class GpuemuRecord:
    """A result, and what is needed to run its case again.

    Attributes:
        spec: None for a call with inputs of the caller, which cannot be run again.
        run: the op; None if the spec names a kernel or function.
        inputs: copies of the inputs; empty if it passed.
    """

    result: ValidationResult
    spec: OpSpec | None
    run: Callable[..., object] | None
    inputs: Mapping[str, Array]


@dataclass(frozen=True, eq=False)
class WaitingRecord:
    """A case that was returned to the caller, and whose output has not been submitted yet."""

    case: api.Case
    spec: OpSpec


class History:
    """The newest results by seed, and the cases whose outputs have not been submitted yet."""

    def __init__(self) -> None:
        self.records: OrderedDict[int, GpuemuRecord] = OrderedDict()
        self.waiting: OrderedDict[tuple[str, int], WaitingRecord] = OrderedDict()

    def add(self, record: GpuemuRecord) -> ValidationResult:
        """Store a result. If there are more than MOST, the oldest is deleted."""
        self.records.pop(record.result.seed, None)
        self.records[record.result.seed] = record
        if len(self.records) > MOST:
            self.records.popitem(last=False)
        return record.result

    def hand_out(self, op: str, case: api.Case, spec: OpSpec) -> None:
        """Remember a case until its output is submitted."""
        self.waiting[op, case.seed] = WaitingRecord(case, spec)
        if len(self.waiting) > MOST:
            self.waiting.popitem(last=False)

    def newest(self, limit: int, *, failed: bool = False) -> list[ValidationResult]:
        """Results, the newest first."""
        found = [each.result for each in reversed(self.records.values()) if not (failed and each.result.passed)]
        return found[:limit]


HISTORY = History()
"""Shared by all clients, as the daemon's database is."""
