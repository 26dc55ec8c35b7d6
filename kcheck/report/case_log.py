"""The cases of one spec in a run. A run may have 100,000, so those that passed are kept as numbers, in less
than 150 bytes each, and made again when a report asks for them."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, overload

from kcheck.dataclass import dataclass
from kcheck.model import CaseFinished, SpecStarted, Status, Verdict

_NUMBERED = re.compile(r"(.*_)(0|[1-9]\d{0,17})")
_WHOLE = -1  # in CaseLog._form: the event itself is kept
_LIMIT = 1 << 63


@dataclass(frozen=True, slots=True)
class _CaseForm:
    """What many passing cases have in common, and which numbers they differ in.

    Attributes:
        first: the first such verdict.
        label: the label; before its number, if ``numbered``.
        sizes: the names of the dims.
        integers, floats: the names of params whose values are kept apart.
    """

    first: Verdict
    label: str
    numbered: bool
    sizes: tuple[str, ...]
    integers: tuple[str, ...]
    floats: tuple[str, ...]


class CaseLog(Sequence[CaseFinished]):
    """The finished cases of a spec, in order, without the error maps of their outputs. Of a passing case without
    findings it keeps the recipe and what was checked: the event has no comparisons, notes, seconds or time."""

    def __init__(self, started: SpecStarted) -> None:
        self._started = started
        self._whole: dict[int, CaseFinished] = {}
        self._forms: list[_CaseForm] = []
        self._known: dict[Any, int] = {}
        self._form = array("i")
        self._seeds = array("Q")
        self._integers, self._floats = array("q"), array("d")
        self._starts = array("I")  # where the integers and floats of each case begin, in turn

    def add(self, event: CaseFinished) -> None:
        """Add the next case."""
        verdict = event.verdict
        number = _WHOLE
        if verdict.status is Status.PASSED and not verdict.findings:
            number = self._form_of(verdict)
        self._starts.extend((len(self._integers), len(self._floats)))
        self._form.append(number)
        self._seeds.append(verdict.case.seed)
        if number == _WHOLE:
            self._whole[len(self._form) - 1] = _without_maps(event)
            return
        form, case = self._forms[number], verdict.case
        if form.numbered:
            self._integers.append(int(case.label[len(form.label) :]))
        self._integers.extend(case.dims.values())
        self._integers.extend(case.params[name] for name in form.integers)  # type: ignore[misc]
        self._floats.extend(case.params[name] for name in form.floats)

    @property
    def whole(self) -> Sequence[CaseFinished]:
        """The cases that did not pass, and those with findings, in order."""
        return tuple(self._whole.values())

    def __len__(self) -> int:
        return len(self._form)

    @overload
    def __getitem__(self, index: int) -> CaseFinished: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[CaseFinished]: ...
    def __getitem__(self, index: int | slice) -> CaseFinished | Sequence[CaseFinished]:
        if isinstance(index, slice):
            return [self[n] for n in range(*index.indices(len(self)))]
        place = range(len(self))[index]
        number = self._form[place]
        return self._whole[place] if number == _WHOLE else self._made(place, self._forms[number])

    def __iter__(self) -> Iterator[CaseFinished]:
        return map(self.__getitem__, range(len(self)))

    def _form_of(self, verdict: Verdict) -> int:
        """The number of the form of a passing case; _WHOLE if one of its numbers is too large."""
        case = verdict.case
        kinds = {name: type(value) for name, value in case.params.items()}
        integers = tuple(name for name, kind in kinds.items() if kind is int)
        floats = tuple(name for name, kind in kinds.items() if kind is float)
        if not all(
            -_LIMIT <= n < _LIMIT for n in (*case.dims.values(), *(case.params[name] for name in integers))
        ):
            return _WHOLE
        match = _NUMBERED.fullmatch(case.label)
        label = match[1] if match else case.label
        apart = {*integers, *floats}
        parts = (case.dtypes, case.layouts, case.values, verdict.levels)
        key = (
            (label, match is not None, *case.dims),
            tuple((name, kind, None if name in apart else case.params[name]) for name, kind in kinds.items()),
            *(tuple(part.items()) for part in parts),
            (verdict.device, verdict.checked),
        )
        number = self._known.setdefault(key, len(self._forms))
        if number == len(self._forms):
            first = Verdict(case, Status.PASSED, verdict.device, checked=verdict.checked, levels=verdict.levels)
            self._forms.append(_CaseForm(first, label, match is not None, tuple(case.dims), integers, floats))
        return number

    def _made(self, place: int, form: _CaseForm) -> CaseFinished:
        """The event of a passing case."""
        first, case = form.first, form.first.case
        integers = iter(self._integers[self._starts[2 * place] : self._end(2 * place)])
        floats = iter(self._floats[self._starts[2 * place + 1] : self._end(2 * place + 1)])
        made = replace(
            case,
            label=form.label + str(next(integers)) if form.numbered else form.label,
            seed=self._seeds[place],
            dims={name: next(integers) for name in form.sizes},
            params={
                **case.params,
                **{name: next(integers) for name in form.integers},
                **{name: next(floats) for name in form.floats},
            },
        )
        verdict = Verdict(made, Status.PASSED, first.device, checked=first.checked, levels=first.levels)
        return CaseFinished(self._started.path, self._started.line, verdict, "", self._started.started)

    def _end(self, start: int) -> int | None:
        """Where the numbers of the next case begin; None for the last case."""
        return self._starts[start + 2] if start + 2 < len(self._starts) else None


def _without_maps(event: CaseFinished) -> CaseFinished:
    """The event without error maps, which are most of its bytes."""
    verdict = event.verdict
    if all(comparison.error_map is None for comparison in verdict.comparisons):
        return event
    comparisons = tuple(replace(comparison, error_map=None) for comparison in verdict.comparisons)
    return replace(event, verdict=replace(verdict, comparisons=comparisons))
