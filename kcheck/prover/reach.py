"""Cases that reach what the planned ones do not: conditions in the kernel that always have the same result.

The kernel is executed with terms instead of numbers, without questions to the solver, which takes a fraction of
the time of a proof. For each comparison, and each of its results, the planned cases are substituted. Where none of
them gives that result, the solver finds sizes and params that do. It stops after a number of steps, not after a
time, so that the cases depend only on the spec, the compiled kernel and the planned cases.

Contents of arrays are unknown to it. Where they decide as well, the planned cases of the sizes must have several
distributions of values, or cases with other ones are added.

What was found is kept on disk, by the files of the spec, so that the next run imports nothing of this
(:mod:`kcheck.prover.goals` does the work).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec

from kcheck.cpu.cache import ObjectCache
from kcheck.dataclass import dataclass
from kcheck.device import Device
from kcheck.driver.install import settings
from kcheck.generator.expand import is_sampled
from kcheck.model import Case, OpSpec
from kcheck.prover.reached import ReachCases, Reaches, ReachFound, ReachLimits
from kcheck.runner.provenance import digests
from kcheck.version import __version__

_FORMAT = 7


EXPLICIT = ReachLimits(most=200, kernels=96, steps=200_000, any_dtypes=False)
"""If the user asks for it."""

DEFAULT = ReachLimits(most=5, kernels=8, steps=3_000, any_dtypes=True)
"""Of a run without an option."""


def has_solver() -> bool:
    """Whether the solver is installed."""
    return find_spec("z3") is not None


@dataclass(frozen=True, slots=True)
class ConditionReach:
    """Adds cases to the planned ones of a run (:attr:`kcheck.runner.Options.more`).

    Attributes:
        option: the option of ``kcheck run`` that has these limits.
    """

    limits: ReachLimits
    option: str = ""

    def __call__(
        self, spec: OpSpec, planned: Sequence[Case], master: int, device: Device
    ) -> tuple[Sequence[Case], str]:
        """Cases ``reach_0``, ``reach_1``, ... and a note about them. There are none for a kernel that cannot be
        executed with terms, on other devices than cpu, and if the user's code makes inputs, which may not end.

        Args:
            planned: the cases of a run with the master seed ``master``.
        """
        why_not = self._why_not(spec, device)
        if why_not:
            return (), f"{self.option} adds no cases to {spec.op}: {why_not}" if self.option else ""
        found = self.found(spec, planned, master, device)
        cases = [case for case, _ in reach_cases(spec, master, found)]
        where = [(sizes.file, sizes.line) for sizes in found.sizes]
        part = f"{self.option} did not examine all of {spec.op}: {found.why}" if found.why else ""
        notes = (_note(spec, cases, where), _never(spec, found.never), part)
        return cases, "; ".join(filter(None, notes))

    def found(self, spec: OpSpec, planned: Sequence[Case], master: int, device: Device) -> ReachFound:
        """What the cases are made from. Arguments: as for a call."""
        if self._why_not(spec, device):
            return ReachFound()
        ordinary = [case for case in planned if not is_sampled(spec, case)]
        recipes = [(case.dims, case.params, case.dtypes, case.layouts, case.values) for case in ordinary]
        files = sorted(digests(spec).items())
        key = f"reach {_FORMAT} {__version__} {self.limits} {self.option} {master} {files} {spec!r} {recipes}"
        cache = ObjectCache(settings(os.environ).cache / "reach")
        if not cache.has_value(key):
            cache.store(key, self._searched(spec, ordinary, master, device))
        found: ReachFound | None = cache.load(key)
        return found or ReachFound()

    def _why_not(self, spec: OpSpec, device: Device) -> str:
        called = any(drawn.name == "from" for array in spec.inputs.values() for drawn in array.values)
        return (
            "the device is not cpu"
            if device.name != "cpu"
            else "it is not a kernel"
            if spec.launch is None and spec.launcher is None
            else "its code knows what it launches; --reach reads it"
            if spec.launch is None and not self.option
            else "code of the project makes its inputs"
            if called
            else ""
        )

    def _searched(self, spec: OpSpec, planned: Sequence[Case], master: int, device: Device) -> ReachFound:
        """Sizes, and with the option, the branches that no size takes both ways."""
        from kcheck.prover.goals import reached_sizes  # lazy: imports the compiler of PTX
        from kcheck.prover.unreached import reach_answers

        sizes, code = reached_sizes(self.limits, spec, device, planned, master)
        found = ReachFound(tuple(sizes), tuple(code))
        if not self.option:
            return found
        known = [*planned, *(case for case, _ in reach_cases(spec, master, found))]
        answers, why = reach_answers(self.limits, spec, device, known)
        never = tuple((answer.place.file, answer.place.line) for answer in answers)
        return replace(found, never=never, why=why)


def reach_cases(spec: OpSpec, master: int, found: ReachFound) -> list[tuple[Case, Reaches]]:
    """The cases of a run with a master seed, and what each is for."""
    builder = ReachCases(spec, master)
    made = ((builder.case(sizes, number), sizes) for number, sizes in enumerate(found.sizes))
    return [(case, sizes) for case, sizes in made if case is not None]


def _note(spec: OpSpec, found: Sequence[Case], places: Sequence[tuple[str, int]]) -> str:
    if not found:
        return ""
    where = f" ({shown_places(spec, places)})" if any(line for _, line in places) else ""
    which = found[0].label if len(found) == 1 else f"{found[0].label} to {found[-1].label}"
    verb = "meets a condition" if len(found) == 1 else "meet conditions"
    return f"{which} {verb} that no planned case meets{where}"


def _never(spec: OpSpec, places: Sequence[tuple[str, int]]) -> str:
    if not places:
        return ""
    return f"no size takes both ways of the branch{'es' * (len(places) > 1)} at {shown_places(spec, places)}"


def shown_places(spec: OpSpec, places: Sequence[tuple[str, int]]) -> str:
    """Lines, by file."""
    by_file: dict[str, list[int]] = {}
    for file, line in dict.fromkeys(places):
        if line:
            by_file.setdefault(os.path.relpath(file, spec.root) if file else "", []).append(line)
    return "; ".join(f"{file}:{', '.join(map(str, sorted(lines)))}" for file, lines in by_file.items())
