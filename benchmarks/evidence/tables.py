"""Counts over the measurements: recall, false alarms, cases to the first catch."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import mean, median, stdev
from typing import Any, TypeAlias

from benchmarks.evidence.corpus import Twin
from benchmarks.evidence.trial import Seen

Decide: TypeAlias = Callable[[Seen], bool]
Answers: TypeAlias = Mapping[str, Mapping[str, Any]]


def by_default(seen: Seen) -> bool:
    """kcheck with its defaults."""
    return seen.fails()


def without_sanitizers(seen: Seen) -> bool:
    """kcheck with every sanitizer off."""
    return seen.fails(sanitizers=False)


def by_allclose(seen: Seen) -> bool:
    """A test that only compares values. It also notices a launch that does not end."""
    return seen.fatal or seen.off.get("benchmark", False)


def by_values(policy: str) -> Decide:
    """One rule of closeness, and nothing else."""
    return lambda seen: seen.fatal or seen.off.get(policy, False)


@dataclass(frozen=True, slots=True)
class Share:
    """Shares by master seed, of ``of`` kernels."""

    by_seed: tuple[float, ...]
    of: int

    def __str__(self) -> str:
        """Mean, and if the seeds differ their least and most: ``97.3% (96.6 to 98.9)``."""
        if not self.of:
            return "-"
        low, high = min(self.by_seed), max(self.by_seed)
        spread = "" if low == high else f" ({_percent(low)} to {_percent(high)})"
        return f"{_percent(self.mean)}%{spread}"

    @property
    def mean(self) -> float:
        return mean(self.by_seed)

    @property
    def deviation(self) -> float:
        """Standard deviation over the seeds, in percent."""
        return 100 * stdev(self.by_seed) if len(self.by_seed) > 1 else 0.0


def _percent(share: float) -> str:
    """Never 100 for less than all."""
    return f"{math.floor(1000 * share) / 10:.1f}".removesuffix(".0") if share < 1 else "100"


@dataclass(frozen=True)
class Evidence:
    """The measurements.

    Attributes:
        clean, buggy: answers of ``measure`` by name; for a process that died they hold ``died``.
        planted: the twins, in the order of the manifest.
        seeds: the master seeds; ``cases``: how many cases were drawn in a run.
    """

    clean: Answers
    buggy: Answers
    planted: Sequence[Twin]
    seeds: tuple[int, ...]
    cases: int

    @cached_property
    def classes(self) -> dict[str, list[Twin]]:
        """The twins by class, in order of first appearance."""
        found: dict[str, list[Twin]] = {}
        for twin in self.planted:
            found.setdefault(twin.kind, []).append(twin)
        return found

    def run(self, answers: Answers, name: str, strategy: str, seed: int) -> list[Seen]:
        """The cases of a run; none for a kernel that could not be measured."""
        rows = answers[name].get("runs", {}).get(strategy, {}).get(str(seed), [])
        return [Seen.from_json(row) for row in rows]

    def recall(self, strategy: str, decide: Decide, twins: Sequence[Twin] | None = None) -> Share:
        """Of the twins that a strategy has cases for, the share that was caught, by seed."""
        chosen = [t for t in (self.planted if twins is None else twins) if self._has(t, strategy)]
        shares = tuple(
            sum(any(map(decide, self.run(self.buggy, t.name, strategy, seed))) for t in chosen)
            / max(1, len(chosen))
            for seed in self.seeds
        )
        return Share(shares, len(chosen))

    def _has(self, twin: Twin, strategy: str) -> bool:
        answer = self.buggy[twin.name]
        return "died" in answer or any(answer["runs"].get(strategy, {}).values())

    def alarms(self, strategy: str, decide: Decide) -> tuple[int, int, int, int]:
        """(controls that fail, controls, cases that fail, cases) of a strategy, all seeds together."""
        kernels, wrong, cases = 0, 0, 0
        for name in self.clean:
            seen = [one for seed in self.seeds for one in self.run(self.clean, name, strategy, seed)]
            failing = sum(map(decide, seen))
            kernels, wrong, cases = kernels + (failing > 0), wrong + failing, cases + len(seen)
        return kernels, len(self.clean), wrong, cases

    def firsts(self, decide: Decide, planted: Sequence[Twin] | None = None) -> list[float]:
        """The number of the first case that catches, from 1, of twins at every seed; infinite if none does."""
        found = []
        for twin in self.planted if planted is None else planted:
            for seed in self.seeds:
                run = self.run(self.buggy, twin.name, "mix", seed)
                found.append(next((float(n) for n, one in enumerate(run, 1) if decide(one)), math.inf))
        return sorted(found)

    def misses(self) -> Iterator[tuple[Twin, list[int]]]:
        """The twins that the default misses at some seed, with those seeds."""
        for twin in self.planted:
            seeds = [s for s in self.seeds if not any(map(by_default, self.run(self.buggy, twin.name, "mix", s)))]
            if seeds and not self.artifact_catches(twin):
                yield twin, seeds

    def artifact_catches(self, twin: Twin) -> bool:
        """Whether the compiled kernel violates the spec's ``artifact``, which needs no case."""
        return bool(self.buggy[twin.name].get("artifact"))

    def false_alarms(self) -> Iterator[str]:
        """Every case of a control that fails by default, or could not be checked; one line each."""
        for name, answer in self.clean.items():
            for message in answer.get("artifact", ()):
                yield f"{name}: artifact: {message}"
            for strategy in ("mix", *_longer(answer)):
                for seed in self.seeds:
                    for one in self.run(self.clean, name, strategy, seed):
                        if one.fails() or one.problem:
                            told = one.problem or ", ".join(sorted(one.rules()))
                            yield f"{name}, seed {seed}, {one.label} {_dims(one)}: {told}"

    def beyond_harmless(self) -> Iterator[str]:
        """Cases of a twin that fail, or cannot be judged, although its manifest says that it is as correct as the
        control: either the manifest is wrong, or it is a false alarm."""
        for twin in self.planted:
            runs = self.buggy[twin.name].get("runs", {})
            for strategy in ("mix", *_longer(self.buggy[twin.name])):  # what the spec itself draws
                for seed in runs.get(strategy, ()):
                    for one in self.run(self.buggy, twin.name, strategy, int(seed)):
                        if one.problem:
                            yield f"{twin.name}, {strategy}, seed {seed}, {one.label}: {one.problem}"
                        elif one.fails() and twin.is_harmless(one.dims):
                            rules = ", ".join(sorted(one.rules()))
                            yield f"{twin.name}, {strategy}, seed {seed}, {one.label} {_dims(one)}: {rules}"

    def expected(self) -> Share:
        """Of the twins that are caught, the share that is caught by a rule that the manifest expects."""
        shares = []
        for seed in self.seeds:
            told = [
                (set(twin.caught_by), frozenset[str]().union(*(one.rules() for one in run)))
                for twin in self.planted
                if any(map(by_default, run := self.run(self.buggy, twin.name, "mix", seed)))
            ]
            shares.append(sum(bool(wanted & found) for wanted, found in told) / max(1, len(told)))
        return Share(tuple(shares), len(self.planted))

    def died(self) -> list[str]:
        """Kernels that could not be measured."""
        return [
            f"{n}: {a['died']}" for answers in (self.clean, self.buggy) for n, a in answers.items() if "died" in a
        ]


def _longer(answer: Mapping[str, Any]) -> list[str]:
    return [strategy for strategy in answer.get("runs", {}) if strategy.startswith("mix ")]


def _dims(seen: Seen) -> str:
    return " ".join(f"{name}={size}" for name, size in seen.dims.items())


def quantile(ordered: Sequence[float], share: float) -> float:
    """The smallest value that at least this share does not exceed."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def middle(ordered: Sequence[float]) -> float:
    """The median."""
    return median(ordered)
