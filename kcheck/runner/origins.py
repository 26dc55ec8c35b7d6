"""Where a failure comes from, by another launch that watches: the stores to an element that is wrong or was not
written, and the operations that make the NaN or infinity of a wrong output.

Of the cases that fail in the same way, those are launched again that are simpler than all before, because a report
shows the simplest one.
"""

from __future__ import annotations

import cmath
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

from kcheck.device import Device
from kcheck.device.harvest import gap_offset, has_gaps
from kcheck.generator import Allocation, CaseArrays
from kcheck.model import GAPS, VALUES, Comparison, Finding, OpSpec, Status, Verdict
from kcheck.model.indexing import nearest_index, offset_of
from kcheck.model.listing import listed
from kcheck.model.outcome import OF_ELEMENTS, SpecialValue
from kcheck.model.watched import NearStore, StoreTarget
from kcheck.report.causes import simplicity
from kcheck.report.wording import element

_PLACES = 3
"""The most operations to name. Of more, the first ones are, because a NaN makes others."""

Failure: TypeAlias = Finding | Comparison


class FailureOrigins:
    """Explains the failures of one spec."""

    def __init__(self) -> None:
        self._simplest: dict[
            tuple[str, str], tuple[float, int, int, int]
        ] = {}  # the cases that were launched again
        self._noted: set[tuple[str, str]] = set()

    def explained(
        self, spec: OpSpec, device: Device, arrays: CaseArrays, verdict: Verdict, timeout: float | None
    ) -> Verdict:
        """The verdict with the lines of the stores, and a note for each output with a NaN or an infinity that the
        reference does not have."""
        checks_gaps = spec.sanitize["initcheck"] != "off" and any(map(has_gaps, arrays.allocations.values()))
        failures = list(self._unexplained(verdict, checks_gaps=checks_gaps))
        if not failures:
            return verdict
        special = [one for one in failures if isinstance(one, Comparison) and self._is_new(one)]
        sought = [(one, target) for one in failures if (target := _target(spec, arrays, one)) is not None]
        targets = [target for _, target in sought]
        wrong = [one for one in failures if isinstance(one, Comparison) and checks_gaps]
        wanted = {*([VALUES] if special else ()), *(["initcheck", GAPS] if wrong else ())}
        seen = device.watch(spec, arrays, targets, wanted=wanted, timeout=timeout)
        if seen is None:
            return verdict
        notes = [note(spec, comparison, seen.values) for comparison in special]
        notes += [self._of_gap(spec, gap) for gap in seen.gaps]
        told = {
            id(failure): _told(failure, arrays, stores)
            for (failure, _), stores in zip(sought, seen.stores, strict=True)
        }
        findings = [told.get(id(finding), finding) for finding in verdict.findings]
        comparisons = [told.get(id(comparison), comparison) for comparison in verdict.comparisons]
        return replace(
            verdict,
            notes=(*verdict.notes, *filter(None, notes)),
            findings=tuple(one for one in findings if isinstance(one, Finding)),
            comparisons=tuple(one for one in comparisons if isinstance(one, Comparison)),
        )

    def _is_new(self, comparison: Comparison) -> bool:
        """Whether an output has a NaN or an infinity that the reference does not have, for the first time."""
        key = comparison.output, comparison.why
        if not comparison.why or not (_is_nan(comparison) or _is_infinite(comparison)) or key in self._noted:
            return False
        self._noted.add(key)
        return True

    def _of_gap(self, spec: OpSpec, gap: Finding) -> str:
        """The note about a value from a gap between elements of an array; empty if there was one for its line."""
        key = gap.array or "", str(gap.place)
        if gap.place is None or key in self._noted:
            return ""
        self._noted.add(key)
        return f"{spec.op}: {gap.place.short}: {gap.message}"

    def _unexplained(self, verdict: Verdict, *, checks_gaps: bool) -> Iterator[Failure]:
        """What is wrong with an element, unless another finding explains it or a simpler case showed it before.

        Args:
            checks_gaps: the case also shows whether values come from gaps in arrays.
        """
        errors = {finding.rule for finding in verdict.findings if finding.severity == "error"}
        if verdict.status is not Status.FAILED or not errors <= {*OF_ELEMENTS, "invariant"}:
            return
        found: dict[tuple[str, str], Failure] = {}
        for finding in verdict.findings:
            if finding.rule in OF_ELEMENTS and finding.array is not None and finding.index is not None:
                found.setdefault((finding.rule, finding.array), finding)
        for comparison in verdict.comparisons:
            if not comparison.passed and comparison.worst is not None:
                found["mismatch " + comparison.why, comparison.output] = comparison
        simple = simplicity(verdict)
        keys = [*found, *((f"{rule}, {GAPS}", array) for rule, array in found if checks_gaps)]
        if all(key in self._simplest and self._simplest[key] <= simple for key in keys):
            return
        self._simplest.update(dict.fromkeys(keys, simple))
        yield from found.values()


def _target(spec: OpSpec, arrays: CaseArrays, failure: Failure) -> StoreTarget | None:
    """The element of a failure; None if it is not one."""
    if isinstance(failure, Comparison):
        name, index = failure.output, failure.worst
    else:
        name, index = failure.array or "", failure.index
    memory = _memory(arrays, name)
    if memory is None or index is None or len(index) != len(memory.shape):
        return None
    if isinstance(failure, Finding) and failure.rule == "guard":
        return StoreTarget(spec.passed_name(memory.name), gap_offset(memory, index), 1)
    return StoreTarget(spec.passed_name(memory.name), offset_of(index, memory.strides), memory.dtype.itemsize)


def _memory(arrays: CaseArrays, name: str) -> Allocation | None:
    try:
        return arrays.allocation(name)
    except KeyError:
        return None


def _told(failure: Failure, arrays: CaseArrays, stores: Sequence[NearStore]) -> Failure:
    """A failure with the place of a store: the last one to the element; of an unwritten element, the nearest."""
    if isinstance(failure, Finding) and failure.rule == "unwritten":
        return _with_nearest(failure, arrays, stores)
    if not stores or stores[0].distance != 0:
        return failure
    last = stores[0]
    if isinstance(failure, Comparison):
        return replace(failure, place=last.place)
    told = replace(failure, kernel=last.kernel, place=last.place, stack=last.stack)
    if failure.rule != "guard":
        return told
    unit: Literal["program", "block"] = "program" if last.thread is None else "block"
    return replace(told, block=last.block, thread=last.thread, unit=unit)


def _with_nearest(finding: Finding, arrays: CaseArrays, stores: Sequence[NearStore]) -> Finding:
    memory = _memory(arrays, finding.array or "")
    if memory is None or finding.index is None:
        return finding
    if not stores:
        return finding.adding(f"no thread stores to {finding.array}")
    nearest = stores[0]
    if nearest.distance is None:
        lines = sorted({store.place.line for store in stores if store.place is not None})
        where = f" at line{'s' * (len(lines) > 1)} {listed(lines)}" if lines else ""
        told = finding.adding(f"no thread executes the store{'s' * (len(lines) > 1)} to {finding.array}{where}")
        return replace(told, kernel=nearest.kernel, place=nearest.place, stack=nearest.stack)
    if not nearest.distance:  # the kernel wrote the bytes with which kcheck marks unwritten elements
        return finding
    index, _ = nearest_index(nearest.offset, memory.shape, memory.strides)
    stored, sought = (element(finding.array or "", i) for i in (index, finding.index))
    who = "the nearest store is" if nearest.place is None else f"line {nearest.place.line} stores"
    told = finding.adding(f"{who} to {stored}, but never to {sought}")
    return replace(told, kernel=nearest.kernel, place=nearest.place, stack=nearest.stack)


def _is_nan(comparison: Comparison) -> bool:
    """Whether the worst element is NaN."""
    return comparison.actual is not None and cmath.isnan(comparison.actual)


def _is_infinite(comparison: Comparison) -> bool:
    return comparison.actual is not None and cmath.isinf(comparison.actual)


def note(spec: OpSpec, comparison: Comparison, made: Sequence[Finding]) -> str:
    """One sentence with the operations that make the special values of an output; empty if they are not known.

    Args:
        made: :attr:`kcheck.model.watched.WatchedLaunch.values`.
    """
    seen = [
        (finding, finding.seen) for finding in made if isinstance(finding.seen, SpecialValue) and finding.place
    ]
    nans = [finding for finding, special in seen if special.is_nan]
    infinities = [finding for finding, special in seen if not special.is_nan]
    origins = nans if _is_nan(comparison) else infinities
    if _is_nan(comparison) and any(special.is_nan and special.of_infinity for _, special in seen):
        origins = [*infinities, *nans]
    if not origins:
        return ""
    told = _texts(origins)
    which = ""
    if len(told) > _PLACES:
        which = f"the first of {len(told)} operations that make NaN or infinities: "
        told = _texts(_first(made, origins, nans))
    what = f"{element(comparison.output, comparison.worst)} is {comparison.why}"
    return f"{spec.op}: {what}; {which}{', then '.join(told)}"


def _texts(origins: Iterable[Finding]) -> list[str]:
    """Line and operands of the operations, each text once."""
    return list(dict.fromkeys(f"{finding.place.short}: {finding.message}" for finding in origins if finding.place))


def _first(made: Sequence[Finding], origins: Sequence[Finding], nans: Sequence[Finding]) -> Sequence[Finding]:
    """The first operation that makes a NaN, and those that make an infinity before it.

    Args:
        made: all operations, in the order in which they do so first.
        origins: those that explain the output.
        nans: those that make a NaN; if none of them explains the output, the first infinity does.
    """
    ordered = [finding for finding in made if finding in origins]
    end = next((n for n, finding in enumerate(ordered) if finding in nans), 0)
    return [*ordered[:end][: _PLACES - 1], ordered[end]]
