"""The cases of one spec in a run. A run may have 100,000, so those that passed are kept as numbers, in less than
100 bytes each, and made again when a report asks for them; those that failed share what they have in common."""

from __future__ import annotations

import re
import zlib
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, TypeVar, overload

from kcheck.dataclass import dataclass
from kcheck.model import CaseFinished, Comparison, SpecStarted, Status, Verdict

_NUMBERED = re.compile(r"(.*_)(0|[1-9]\d{0,17})")
_WHOLE = -1  # in CaseLog._form: the event itself is kept
_LIMIT = 1 << 63
_PAGE = 1024  # cases that are compressed together
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class _CaseForm:
    """What many passing cases have in common, and which numbers they differ in.

    Attributes:
        first: the first such verdict.
        label: the label; before its number, if ``numbered``.
        sizes: the names of the dims.
        integers, floats, others: the names of params, by the type of their values.
    """

    first: Verdict
    label: str
    numbered: bool
    sizes: tuple[str, ...]
    integers: tuple[str, ...]
    floats: tuple[str, ...]
    others: tuple[str, ...]

    @property
    def words(self) -> int:
        """How many values a case has of which only a few are known, such as layouts."""
        case = self.first.case
        return len(case.dtypes) + len(case.layouts) + len(case.values) + len(self.others)

    @property
    def widths(self) -> tuple[int, int]:
        """How many integers and floats a case has."""
        return self.numbered + len(self.sizes) + len(self.integers) + self.words, len(self.floats)


@dataclass(slots=True)
class _Page:
    """The numbers of up to _PAGE cases.

    Attributes:
        form: the number of each one's form, or _WHOLE.
        starts: where the integers and the floats of each one begin, in turn.
    """

    form: array[int] = field(default_factory=lambda: array("i"))
    seeds: array[int] = field(default_factory=lambda: array("Q"))
    integers: array[int] = field(default_factory=lambda: array("q"))
    floats: array[float] = field(default_factory=lambda: array("d"))
    starts: array[int] = field(default_factory=lambda: array("I"))

    @property
    def _columns(self) -> tuple[array[Any], ...]:
        return self.form, self.seeds, self.integers, self.floats, self.starts

    def packed(self) -> tuple[bytes, ...]:
        """The page in less memory."""
        return tuple(zlib.compress(column.tobytes(), 1) for column in self._columns)

    @staticmethod
    def unpacked(columns: tuple[bytes, ...]) -> _Page:
        """The page that :meth:`packed` made."""
        page = _Page()
        for column, packed in zip(page._columns, columns, strict=True):
            column.frombytes(zlib.decompress(packed))
        return page


class CaseLog(Sequence[CaseFinished]):
    """The finished cases of a spec, in order, without the error maps of their outputs. Of a passing case without
    findings it keeps the recipe and what was checked: the event has no comparisons, notes, seconds or time."""

    def __init__(self, started: SpecStarted) -> None:
        self._started = started
        self._whole: dict[int, CaseFinished] = {}
        self._forms: list[_CaseForm] = []
        self._known: dict[Any, int] = {}
        self._page = _Page()
        self._packed: list[tuple[bytes, ...]] = []  # the pages before it
        self._read: tuple[int, _Page] = (-1, self._page)  # the number of the page that was unpacked last
        self._shared: dict[Any, Any] = {}
        self._words: list[Any] = []  # dtypes, layouts, distributions, and params that are not numbers
        self._numbers: dict[tuple[type, Any], int] = {}  # their indices

    def add(self, event: CaseFinished) -> None:
        """Add the next case."""
        if len(self._page.form) == _PAGE:
            self._packed.append(self._page.packed())
            self._page = _Page()
        page, verdict = self._page, event.verdict
        number = _WHOLE
        if verdict.status is Status.PASSED and not verdict.findings:
            number = self._form_of(verdict)
        page.starts.extend((len(page.integers), len(page.floats)))
        page.form.append(number)
        page.seeds.append(verdict.case.seed)
        if number == _WHOLE:
            self._whole[len(self) - 1] = self._slim(event)
            return
        form, case = self._forms[number], verdict.case
        if form.numbered:
            page.integers.append(int(case.label[len(form.label) :]))
        page.integers.extend(case.dims.values())
        page.integers.extend(case.params[name] for name in form.integers)  # type: ignore[misc]
        for part in (case.dtypes, case.layouts, case.values):
            page.integers.extend(map(self._number_of, part.values()))
        page.integers.extend(self._number_of(case.params[name]) for name in form.others)
        page.floats.extend(case.params[name] for name in form.floats)

    @property
    def whole(self) -> Sequence[CaseFinished]:
        """The cases that did not pass, and those with findings, in order."""
        return tuple(self._whole.values())

    def __len__(self) -> int:
        return len(self._packed) * _PAGE + len(self._page.form)

    @overload
    def __getitem__(self, index: int) -> CaseFinished: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[CaseFinished]: ...
    def __getitem__(self, index: int | slice) -> CaseFinished | Sequence[CaseFinished]:
        if isinstance(index, slice):
            return [self[n] for n in range(*index.indices(len(self)))]
        place = range(len(self))[index]
        if place in self._whole:
            return self._whole[place]
        number, row = divmod(place, _PAGE)
        return self._made(self._page_of(number), row)

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
        key = (
            (label, match is not None, tuple(kinds.items())),
            *(tuple(part) for part in (case.dims, case.dtypes, case.layouts, case.values)),
            (verdict.device, verdict.checked, tuple(verdict.levels.items())),
        )
        number = self._known.setdefault(key, len(self._forms))
        if number == len(self._forms):
            first = Verdict(case, Status.PASSED, verdict.device, checked=verdict.checked, levels=verdict.levels)
            others = tuple(name for name, kind in kinds.items() if kind not in (int, float))
            dims = tuple(case.dims)
            self._forms.append(_CaseForm(first, label, match is not None, dims, integers, floats, others))
        return number

    def _number_of(self, word: Any) -> int:
        """The index of a value in ``_words``."""
        number = self._numbers.setdefault((type(word), word), len(self._words))
        if number == len(self._words):
            self._words.append(word)
        return number

    def _page_of(self, number: int) -> _Page:
        if number == len(self._packed):
            return self._page
        if self._read[0] != number:
            self._read = (number, _Page.unpacked(self._packed[number]))
        return self._read[1]

    def _made(self, page: _Page, row: int) -> CaseFinished:
        """The event of a passing case."""
        form = self._forms[page.form[row]]
        first, case = form.first, form.first.case
        (begin, begin_floats), (width, width_floats) = page.starts[2 * row : 2 * row + 2], form.widths
        integers = iter(page.integers[begin : begin + width])
        floats = iter(page.floats[begin_floats : begin_floats + width_floats])
        label = form.label + str(next(integers)) if form.numbered else form.label
        dims = {name: next(integers) for name in form.sizes}
        params = {
            **case.params,  # for their order
            **{name: next(integers) for name in form.integers},
            **{name: next(floats) for name in form.floats},
        }
        words = map(self._words.__getitem__, integers)
        made = replace(
            case,
            label=label,
            seed=page.seeds[row],
            dims=dims,
            dtypes={name: next(words) for name in case.dtypes},
            layouts={name: next(words) for name in case.layouts},
            values={name: next(words) for name in case.values},
            params=params | {name: next(words) for name in form.others},
        )
        verdict = Verdict(made, Status.PASSED, first.device, checked=first.checked, levels=first.levels)
        return CaseFinished(self._started.path, self._started.line, verdict, "", self._started.started)

    def _slim(self, event: CaseFinished) -> CaseFinished:
        """The event without error maps, which are most of its bytes; and what equals a part of an earlier event
        is that part: events of a cluster are read from messages, so they share no objects."""
        verdict, case, one = event.verdict, event.verdict.case, self._one
        case = replace(
            case,
            spec=one(case.spec),
            op=one(case.op),
            dims=one(case.dims),
            dtypes=one(case.dtypes),
            layouts=one(case.layouts),
            values=one(case.values),
        )
        verdict = replace(
            verdict,
            case=case,
            device=one(verdict.device),
            comparisons=tuple(map(self._slim_comparison, verdict.comparisons)),
            notes=one(verdict.notes),
            checked=one(verdict.checked),
            levels=one(verdict.levels),
        )
        return replace(event, path=one(event.path), verdict=verdict)

    def _slim_comparison(self, made: Comparison) -> Comparison:
        one = self._one
        words = {name: one(getattr(made, name)) for name in ("output", "dtype", "method", "why")}
        return replace(made, **words, shape=one(made.shape), error_map=None)

    def _one(self, part: _T) -> _T:
        """The first of the equal parts."""
        key = (type(part), tuple(part.items())) if isinstance(part, Mapping) else (type(part), part)
        known: _T = self._shared.setdefault(key, part)
        return known
