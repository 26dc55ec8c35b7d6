"""Group the failing cases of a spec by cause, so that each bug is reported once.

A case has a symptom for each finding, and one bug often causes several: a missing barrier also leaves shared
memory uninitialized, makes values wrong, and makes results vary. So the rules are ordered such that earlier ones
explain later ones, and a case belongs to the first cause that it shows. Its other symptoms are counted in one
line.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, TypeAlias

from kcheck.dataclass import dataclass
from kcheck.model import INSTRUMENTED, CaseFinished, Comparison, Finding, Verdict
from kcheck.model.outcome import OF_ELEMENTS
from kcheck.rules import symptom

_RULES = (
    *("spec", "compile", "unsupported", "reference", "calibration"),  # the kernel could not be checked
    *("launch", "timeout", "memcheck", "guard", "mutated"),  # faults
    *("synccheck", "racecheck"),
    *("initcheck", "unwritten"),
    "overflow",
    *("mismatch", "invariant", "nondeterministic", "unchecked"),  # values
)
"""The rules; each may explain those after it. A rule that is not listed comes before the rules about values."""
VALUES = ("mismatch", "invariant", "nondeterministic")

Key: TypeAlias = tuple[str, str, str]
"""One symptom: rule, kernel, and where: source lines, or an array if no line is known."""
_ARRAY = "array "
_MORE = "more"


@dataclass(frozen=True, slots=True)
class Cause:
    """The failing cases of a spec that fail for the same reason.

    Attributes:
        rule: such as ``racecheck``.
        cases: the cases that show it and that no earlier rule explains, in the order of the run. Two causes with
            the same rule may have cases in common.
        simplest: the simplest of these cases.
        unseen: cases with wrong values that this cause's sanitizer did not check; probably the same bug.
        found: the findings of the simplest case that belong to this cause; empty for a mismatch.
        also: the other symptoms of these cases and the unseen ones, each with the number of cases.
    """

    rule: str
    cases: tuple[CaseFinished, ...]
    simplest: CaseFinished
    unseen: tuple[CaseFinished, ...]
    found: tuple[Finding, ...]
    also: tuple[tuple[str, int], ...]


def simplicity(verdict: Verdict) -> tuple[float, int, int, int]:
    """Sorts simpler cases first: smaller sizes, plainer layouts, plainer values, fewer findings."""
    case = verdict.case
    return (
        sum(math.log2(1 + abs(size)) for size in case.dims.values()),
        sum(layout != "contiguous" for layout in case.layouts.values()),
        sum(drawn.name not in ("normal", "uniform") for drawn in case.values.values()),
        len(verdict.findings),
    )


def causes(failures: Sequence[CaseFinished]) -> list[Cause]:
    """The causes that explain the failing cases of one spec, in the order in which they explain them."""
    known: dict[tuple[Key, ...], tuple[Key, ...]] = {}  # most of 1,000 failing cases have the same symptoms
    shown = [known.setdefault(keys, keys) for keys in (_symptoms(event.verdict) for event in failures)]
    root = _merged(tuple(known))
    causes_of = {keys: frozenset(root[key] for key in keys) for keys in known}
    sets = [causes_of[keys] for keys in shown]
    counts = Counter(key for keys in sets for key in keys)
    ranks = {
        key: _CORRUPTED if all(_is_corrupted(key, keys) for keys in sets if key in keys) else _rank(key)
        for key in counts
    }
    ranks |= {key: _STRAYED for keys in sets for key in keys if _is_of_wrapped_index(key, keys)}
    order = sorted(counts, key=lambda key: (ranks[key], -counts[key], _by_line(key)))
    place = {key: number for number, key in enumerate(order)}
    owner = [min(keys, key=place.__getitem__) for keys in sets]
    first = min(owner, key=place.__getitem__, default=None)
    unseen = _unseen(failures, owner, first)
    left_out = set(unseen)
    mine, same = defaultdict[Key, list[int]](list), defaultdict[Key, list[int]](list)
    for n, (keys, owning) in enumerate(zip(sets, owner, strict=True)):
        if n not in left_out:
            mine[owning].append(n)
        for key in keys:
            if owning[0] == key[0]:
                same[key].append(n)
    return [
        _Making(failures, shown, root, key, mine[key], same[key], unseen if key == first else []).cause()
        for key in order
        if key in mine
    ]


def split_at_values(found: Sequence[Finding]) -> tuple[list[Finding], list[Finding]]:
    """The findings of a case that may explain a mismatch, and the others; each list is ordered causes first."""
    keys = [_key(finding) for finding in found]
    ordered = sorted(found, key=lambda f: _rank_beside(_key(f), keys))
    first = _order("mismatch")
    return [f for f in ordered if _order(f.rule) < first], [f for f in ordered if _order(f.rule) >= first]


def _order(rule: str) -> int:
    return _RULES.index(rule) if rule in _RULES else _RULES.index("mismatch") - 1


_CORRUPTED = _RULES.index("initcheck") + 0.5
"""The rank of a memcheck finding whose address another finding explains."""


_STRAYED = _RULES.index("overflow") + 0.5
"""The rank of a memcheck finding in a kernel with an error of overflow: the index of the access wrapped around."""


def _is_of_wrapped_index(key: Key, shown: Collection[Key]) -> bool:
    return key[0] == "memcheck" and any(other[0] == "overflow" and other[1] == key[1] for other in shown)


def _rank_beside(key: Key, shown: Collection[Key]) -> float:
    return (
        _STRAYED if _is_of_wrapped_index(key, shown) else _CORRUPTED if _is_corrupted(key, shown) else _rank(key)
    )


def _is_corrupted(key: Key, shown: Collection[Key]) -> bool:
    """Whether a symptom is an access outside an array whose index a race of other lines may have changed, or that
    was computed from uninitialized memory. If it is itself one side of the race, it is the cause of the race."""
    if key[0] != "memcheck":
        return False
    lines, races = _lines(key), [other for other in shown if other[0] == "racecheck" and other[2] != _MORE]
    is_raced = bool(races) and all(lines.isdisjoint(_lines(race)) for race in races)
    return is_raced or any(other[0] == "initcheck" and lines & _lines(other) for other in shown)


def _rank(key: Key) -> int:
    return _order(key[0])


def _by_line(key: Key) -> Any:
    """Sorts line 9 of a file before line 10: the first error of a compiler is often the cause of the others."""
    rule, kernel, where = key
    return rule, kernel, [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", where)]


def _symptoms(verdict: Verdict) -> tuple[Key, ...]:
    """The symptoms of a failing case, without duplicates. They have no indices, threads and counts, which vary for
    one bug.

    A finding that only counts other races is ignored if there is a race with its lines.
    """
    errors = [finding for finding in verdict.findings if finding.severity == "error"]
    located = {finding.rule for finding in errors if not _is_number(finding)}
    found = [_key(finding) for finding in errors if not _is_number(finding) or finding.rule not in located]
    found += [_mismatch(comparison) for comparison in verdict.comparisons if not comparison.passed]
    return tuple(dict.fromkeys(found)) or (("mismatch", "", ""),)


def _is_number(finding: Finding) -> bool:
    """Whether a finding only counts other races (``346 more races on other lines``), and so has no block."""
    return finding.rule == "racecheck" and finding.block is None


def _key(finding: Finding) -> Key:
    if _is_number(finding):
        return finding.rule, finding.kernel or "", _MORE
    if finding.array and finding.rule in OF_ELEMENTS:
        return finding.rule, "", _ARRAY + finding.array
    lines = sorted({f"{place.file}:{place.line}" for place in (finding.place, finding.other_place) if place})
    where = "\n".join(lines) if lines else _ARRAY + finding.array if finding.array else finding.message
    return finding.rule, finding.kernel or "", where


def _mismatch(comparison: Comparison) -> Key:
    return "mismatch", "", _ARRAY + comparison.output


def _has_no_line(key: Key) -> bool:
    return key[0] in VALUES or key[2].startswith(_ARRAY)


def _is_located(key: Key) -> bool:
    return all(line.rpartition(":")[2].isdigit() for line in key[2].split("\n"))


def _merged(shown: Sequence[Sequence[Key]]) -> dict[Key, Key]:
    """Map each symptom to the one that represents its cause.

    Two findings of a rule have the same cause if they share a source line. Two symptoms without a line (an output
    that differs, one that is not written) have the same cause if a case shows both.
    """
    root = {key: key for keys in shown for key in keys}

    def find(key: Key) -> Key:
        while root[key] != key:
            key = root[key]
        return key

    def union(one: Key, other: Key) -> None:
        kept, merged = sorted((find(one), find(other)), key=lambda key: (_rank(key), _by_line(key)))
        root[merged] = kept

    at_line: dict[tuple[str, str, str], Key] = {}
    for key in root:
        rule, kernel, where = key
        for line in () if _has_no_line(key) else where.split("\n"):
            union(key, at_line.setdefault((rule, kernel, line), key))
    placed = {(key[0], key[1]): key for key in root if not _has_no_line(key) and _is_located(key)}
    for key in root:
        if key[2] == _MORE:
            union(key, placed.get((key[0], key[1]), key))
    for keys in shown:
        together: dict[str, Key] = {}
        for key in filter(_has_no_line, keys):
            union(key, together.setdefault("values" if key[0] in VALUES else key[0], key))
    return {key: find(key) for key in root}


def _unseen(failures: Sequence[CaseFinished], owner: Sequence[Key], first: Key | None) -> list[int]:
    """Cases with wrong values that the sanitizer of the first cause did not check."""
    if first is None or first[0] not in INSTRUMENTED:
        return []
    return [
        number
        for number, (event, key) in enumerate(zip(failures, owner, strict=True))
        if key[0] in VALUES and first[0] not in event.verdict.checked
    ]


@dataclass(slots=True)
class Warned:
    """A warning of a spec: the first finding of its kind, and the cases that show it.

    Attributes:
        also: other warnings of the same rule with the same fix that share source lines with it, directly or
            through each other, because a missing barrier causes several races; and warnings without a line that
            count others.
    """

    finding: Finding
    cases: list[CaseFinished]
    also: list[Warned] = field(default_factory=list)

    def is_alike(self, other: Warned) -> bool:
        """Whether both have the same rule and fix, and share a source line."""
        mine, its = _key(self.finding), _key(other.finding)
        alike = mine[0] == its[0] and self.finding.fix == other.finding.fix
        return alike and not _lines(mine).isdisjoint(_lines(its))


def warned(cases: Sequence[CaseFinished]) -> list[Warned]:
    """The warnings of the cases of one spec, without duplicates."""
    found: dict[tuple[str, str, str, str], Warned] = {}
    for event in cases:
        for finding in event.verdict.findings:
            if finding.severity == "warn":
                key = (finding.rule, finding.array or "", finding.kernel or "", str(finding.place or ""))
                shown = found.setdefault(key, Warned(finding, [])).cases
                if not shown or shown[-1] is not event:  # one case may have several such findings
                    shown.append(event)
    return list(found.values())


def explained(found: Sequence[Cause], warnings: Sequence[Warned]) -> tuple[list[Cause], list[Warned]]:
    """Causes with the warnings that follow from them in ``also``, and the other warnings.

    A warning follows from a cause if it has the same rule and shares a source line with it, or if only cases of
    the cause show it and its rule is one that the cause explains: a race that happens to be harmless is not a
    second bug.
    """
    causes, left = list(found), []
    for warning in warnings:
        for number, cause in enumerate(causes):
            if _follows(warning, cause):
                words = f"{warning.finding.rule} warnings"
                counts = dict(cause.also)
                cases = len({event.verdict.case.id for event in warning.cases} & _ids(cause))
                if cases:
                    counts[words] = max(counts.get(words, 0), cases)
                causes[number] = replace(cause, also=tuple(counts.items()))
                break
        else:
            left.append(warning)
    return causes, _grouped(left)


def _grouped(warnings: Sequence[Warned]) -> list[Warned]:
    """Combine warnings that share source lines into one, with the others in its ``also``."""
    groups: list[Warned] = []
    for warning in sorted(warnings, key=lambda warning: _is_number(warning.finding)):
        mine = [group for group in groups if any(one.is_alike(warning) for one in (group, *group.also))]
        if _is_number(warning.finding):
            mine = [group for group in groups if group.finding.rule == warning.finding.rule][:1]
        if not mine:
            groups.append(Warned(warning.finding, warning.cases))
            continue
        first, *others = mine
        for group in others:
            groups.remove(group)
            first.also += [Warned(group.finding, group.cases), *group.also]
        first.also.append(warning)
    return groups


def place_words(finding: Finding) -> str:
    """What a rule finds, and on which lines: ``races at lines 28 and 31``."""
    rule, _, where = _key(finding)
    words = symptom(rule)
    return _at_lines(words, where) if _is_located(_key(finding)) else f"more {words}"


def _at_lines(words: str, where: str) -> str:
    lines = [line.rpartition(":")[2] for line in where.split("\n")]
    return f"{words} at line{'s' * (len(lines) > 1)} {' and '.join(lines)}"


def _follows(warning: Warned, cause: Cause) -> bool:
    key = _key(warning.finding)
    if key[0] == cause.rule:
        lines = {line for one in cause.found for line in _lines(_key(one))}
        if _lines(key) & lines or key[2] == _MORE:
            return True
    is_later = _rank((cause.rule, "", "")) <= _rank(key)
    return is_later and {event.verdict.case.id for event in warning.cases} <= _ids(cause)


def _ids(cause: Cause) -> set[str]:
    return {event.verdict.case.id for event in (*cause.cases, *cause.unseen)}


def _lines(key: Key) -> set[tuple[str, str]]:
    """Kernel and source line of a symptom; empty if no line is known."""
    return set() if _has_no_line(key) else {(key[1], line) for line in key[2].split("\n")}


@dataclass(frozen=True, slots=True)
class _Making:
    """A cause under construction.

    Attributes:
        mine: the indices of the cases that belong to it.
        same: the indices of all cases that show it.
    """

    failures: Sequence[CaseFinished]
    shown: Sequence[Sequence[Key]]
    root: Mapping[Key, Key]
    key: Key
    mine: Sequence[int]
    same: Sequence[int]
    unseen: Sequence[int]

    def cause(self) -> Cause:
        """The cause, represented by the simplest case with its rule, preferably one with a source line."""
        rule = self.key[0]
        of_rule = [n for n in self.mine if any(key[0] == rule for key in self._own(n))]
        located = [n for n in of_rule if any(_is_located(key) for key in self._own(n))]
        number = min(located or of_rule, key=lambda n: simplicity(self.failures[n].verdict))
        verdict = self.failures[number].verdict
        errors = [finding for finding in verdict.findings if finding.severity == "error"]
        found = {_key(f): f for f in reversed(errors) if f.rule == rule and self.root.get(_key(f)) == self.key}
        compared = [_mismatch(c) for c in verdict.comparisons if not c.passed and rule == "mismatch"]
        told = {*list(reversed(found))[:1], *compared[:1]}
        return Cause(
            rule,
            tuple(self.failures[n] for n in self.same),
            self.failures[number],
            tuple(self.failures[n] for n in self.unseen),
            tuple(reversed(found.values())),
            tuple(self._also(told)),
        )

    def _own(self, number: int) -> list[Key]:
        return [key for key in self.shown[number] if self.root[key] == self.key]

    def _also(self, told: Collection[Key]) -> Iterator[tuple[str, int]]:
        counts: dict[tuple[int, str], int] = {}
        for number in (*self.same, *self.unseen):
            shown = self.shown[number]
            # Wrong values break invariants.
            dull = "invariant" if self.key[0] != "invariant" and any(key[0] == "mismatch" for key in shown) else ""
            others = (key for key in shown if key not in told and key[0] != dull)
            for other in {(_rank(key), self._words(key)) for key in others}:
                counts[other] = counts.get(other, 0) + 1
        for (_, words), number in sorted(counts.items()):
            yield words, number

    def _words(self, key: Key) -> str:
        """A symptom in words: ``races at lines 28 and 31``; without the lines if the rule is not this cause's."""
        rule, _, where = key
        words = symptom(rule)
        if rule != self.key[0]:
            return words
        if where.startswith(_ARRAY):
            return f"{words} of {where.removeprefix(_ARRAY)}"
        return _at_lines(words, where) if _is_located(key) else f"more {words}"
