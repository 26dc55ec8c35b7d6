"""Cases that reach what the planned ones do not: comparisons in the kernel that always have the same result.

The kernel is executed with terms instead of numbers, without questions to the solver, which takes a fraction of
the time of a proof. For each comparison, and each of its results, the planned cases are substituted. Where none of
them gives that result, the solver finds sizes and params that do. It stops after a number of steps, not
after a time, so that the cases depend only on the spec, the compiled kernel and the planned cases.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, product

from kcheck.cpu.cache import ObjectCache
from kcheck.dataclass import dataclass
from kcheck.device import Device
from kcheck.driver.install import settings
from kcheck.errors import KernelError, PtxError, SpecError
from kcheck.generator import Expander
from kcheck.generator.expand import is_sampled
from kcheck.generator.huge import HugeSizes
from kcheck.model import Case, Example, OpSpec, Range
from kcheck.prover.kernel import Question, execute
from kcheck.prover.model import Unsupported
from kcheck.prover.prover import Answer, ProofTimeout, Prover
from kcheck.prover.terms import UNIFORM, Atom, Formula, Poly, Terms
from kcheck.prover.variants import SpecVariant, variants, variants_of
from kcheck.ptx.syntax.ast import Operation
from kcheck.rng import derive
from kcheck.runner.options import REACH
from kcheck.version import __version__

_SECONDS = 60.0  # a guard against endless questions, never reached: what limits them is their number and steps
_STEPS = 40_000
_MOST_GOALS = 250
_MOST_QUESTIONS = 60
_SAMPLES = 48
_FORMAT = 1
_LIMITS = (64, 512, 4096, 1 << 16)
"""Sizes up to the first of these are tried first, because a case of them takes no time."""


@dataclass(frozen=True, slots=True)
class Reaches:
    """Sizes and params for which a kernel does what it does for no planned case.

    Attributes:
        file, line: where the kernel computes the condition that they meet; 0: unknown.
    """

    dims: Mapping[str, int]
    params: Mapping[str, int]
    dtypes: Mapping[str, str]
    file: str
    line: int


@dataclass(frozen=True, slots=True)
class ConditionReach:
    """Adds cases to the planned ones of a run (:attr:`kcheck.runner.Options.more`).

    Attributes:
        most: how many cases at most; ``kernels``: how many compiled kernels to look at; ``steps``: how many
            instructions of them to execute: a kernel that has more is left alone.
        any_dtypes: look at only one of the kernels that differ in dtypes and layouts.
        option: the option of ``kcheck run`` that has these limits.
    """

    most: int
    kernels: int
    steps: int
    any_dtypes: bool
    option: str = ""

    def __call__(
        self, spec: OpSpec, planned: Sequence[Case], master: int, device: Device
    ) -> tuple[Sequence[Case], str]:
        """Cases ``reach_0``, ``reach_1``, ... and a note about them. There are none for a kernel that cannot be
        executed with terms, and on other devices than cpu.

        Args:
            planned: the cases of a run with the master seed ``master``.
        """
        if device.name != "cpu" or spec.launch is None:
            return (), ""
        ordinary = [case for case in planned if not is_sampled(spec, case)]
        found: list[Case] = []
        lines: dict[tuple[str, int], None] = {}
        expander, huge, steps = Expander(spec), HugeSizes(spec), self.steps
        # The run itself reports a kernel that does not compile; one that has no model has no such cases.
        with contextlib.suppress(Unsupported, ProofTimeout, KernelError, PtxError, SpecError):
            for variant in islice(self._variants(spec, device, ordinary), self.kernels):
                taken, proposed = self._of_kernel(variant, [*ordinary, *found], steps)
                steps -= taken
                for sizes in proposed:
                    case = _case(spec, expander, sizes, master, len(found))
                    if case is None or huge.is_huge(case.dims) or len(found) >= self.most:
                        continue
                    found.append(case)
                    lines.setdefault((sizes.file, sizes.line))
        return found, _note(spec, found, list(lines))

    def _variants(self, spec: OpSpec, device: Device, planned: Sequence[Case]) -> Iterator[SpecVariant]:
        """The kernels of the planned cases; without ``any_dtypes``, then those of all other cases."""
        small = sorted(planned, key=lambda case: math.prod(max(size, 1) for size in case.dims.values()))
        yield from variants_of(spec, device, small, any_dtypes=self.any_dtypes)
        if not self.any_dtypes:
            yield from variants(spec, device)

    def _of_kernel(
        self, variant: SpecVariant, planned: Sequence[Case], steps: int
    ) -> tuple[int, Sequence[Reaches]]:
        """The steps that one kernel took, and sizes for it. They are kept on disk: they are the same in each run
        with the same kernel and planned cases."""
        known = [case for case in planned if _launches(variant, case)]
        parts = (self.most, steps, variant.launch.module.text, variant.dtypes, variant.layouts, repr(variant.spec))
        recipes = [(tuple(case.dims.items()), tuple(case.params.items())) for case in known]
        key = f"reach {_FORMAT} {__version__} {parts} {recipes}"
        cache = ObjectCache(settings(os.environ).cache / "reach")
        if not cache.has_value(key):
            cache.store(key, _searched(variant, known, steps, self.most))
        found: tuple[int, Sequence[Reaches]] = cache.load(key) or (0, ())
        return found


def _note(spec: OpSpec, found: Sequence[Case], places: Sequence[tuple[str, int]]) -> str:
    if not found:
        return ""
    by_file: dict[str, list[int]] = {}
    for file, line in places:
        if line:
            by_file.setdefault(os.path.relpath(file, spec.root) if file else "", []).append(line)
    shown = "; ".join(f"{file}:{', '.join(map(str, sorted(lines)))}" for file, lines in by_file.items())
    which = found[0].label if len(found) == 1 else f"{found[0].label} to {found[-1].label}"
    where = f" ({shown})" if shown else ""
    verb = "meets a condition" if len(found) == 1 else "meet conditions"
    return f"{which} {verb} that no planned case meets{where}"


def _case(spec: OpSpec, expander: Expander, sizes: Reaches, master: int, number: int) -> Case | None:
    label = f"{REACH}{number}"
    stated = Example(spec.span, dims=sizes.dims, params=sizes.params, dtypes=sizes.dtypes)
    try:
        return expander.case(derive(master, label), label, stated)
    except SpecError:  # they do not fit in memory, or a constraint that has no term excludes them
        return None


def _searched(variant: SpecVariant, known: Sequence[Case], steps: int, most: int) -> tuple[int, Sequence[Reaches]]:
    """The steps that it took to execute a kernel, and sizes."""
    terms = Terms()
    prover = Prover(terms, _SECONDS)
    prover.asks = False
    try:
        question = execute(variant, terms, prover, steps)
    except Unsupported:
        return 0, ()
    prover.asks = True
    search = _GoalSearch(variant, question, known)
    found: list[Reaches] = []
    for goal, operation in search.rarest_first(search.goals(), _drawn(variant)):
        if prover.questions > _MOST_QUESTIONS or len(found) == most:
            break
        if not search.is_reached(goal):
            sizes = search.solved(goal, operation)
            if sizes is not None:
                search.add(sizes)
                found.append(sizes)
    return question.steps, tuple(found)


def _drawn(variant: SpecVariant) -> Iterator[Case]:
    """Cases that a longer run might have."""
    expander = Expander(variant.spec)
    for number in range(_SAMPLES):
        with contextlib.suppress(SpecError):
            case = expander.case(derive(variant.spec.seed, f"{REACH}sample_{number}"), "sample")
            if _launches(variant, case):
                yield case


def _launches(variant: SpecVariant, case: Case) -> bool:
    """Whether a case has the constants that a kernel is compiled for. Its dtypes and layouts may differ."""
    constants = {**variant.params, **variant.sizes}
    known: dict[str, object] = {**case.params, **case.dims}
    return all(known.get(name) == value for name, value in constants.items()) and all(
        any(low <= case.dims[name] <= high for low, high in runs) for name, runs in variant.spans.items()
    )


class _GoalSearch:
    """The comparisons of one kernel, and the cases that are known.

    Args:
        planned: those that launch the kernel, or one that differs in dtypes or layouts only.
    """

    def __init__(self, variant: SpecVariant, question: Question, planned: Iterable[Case]) -> None:
        self._spec = variant.spec
        self._dtypes = variant.dtypes
        self._tree = variant.launch.module.tree
        self._q = question
        self._terms = question.terms
        self._known = [_Substitution.of(question, case) for case in planned]
        self._written = self._terms.any(one.path for one in question.trace.accesses if one.kind == "write")

    def goals(self) -> Sequence[tuple[Formula, Operation]]:
        """Each result of each comparison, with the condition to be there. Those of the most conditions come first,
        because a case that meets these meets others, too; then in the order of the code."""
        terms, trace = self._terms, self._q.trace
        found: dict[Formula, Operation] = {}
        computed = [(one.operation, one.condition, one.path) for one in trace.decisions]
        taken = [(one.operation, one.condition, one.path) for one in trace.branches]
        for operation, condition, path in (*computed, *taken):
            for way in (condition, terms.negated(condition)):
                goal = terms.all((path, way))
                if goal is not terms.false and len(found) < _MOST_GOALS:
                    found.setdefault(goal, operation)
        return sorted(found.items(), key=lambda item: -len(terms.conjuncts(item[0])))

    def rarest_first(
        self, goals: Sequence[tuple[Formula, Operation]], drawn: Iterable[Case]
    ) -> Sequence[tuple[Formula, Operation]]:
        """The goals that no known case reaches. Those that the fewest of other cases may reach come first."""
        left = [goal for goal in goals if not self.is_reached(goal[0])]
        if len(left) < 2:
            return left
        others = [_Substitution.of(self._q, case) for case in drawn]

        def frequency(goal: tuple[Formula, Operation]) -> int:
            uniform = [part for part in self._terms.conjuncts(goal[0]) if part.level <= UNIFORM]
            return sum(other.may_hold(uniform) for other in others)

        return sorted(left, key=frequency)

    def is_reached(self, goal: Formula) -> bool:
        """Whether a known case may have a thread for which the goal holds. What depends on contents of arrays
        may hold."""
        parts = self._terms.conjuncts(goal)
        uniform = [part for part in parts if part.level <= UNIFORM]
        near = [known for known in self._known if known.may_hold(uniform)]
        if len(uniform) == len(parts):
            return bool(near)
        chosen = near if len(near) < 4 else [near[0], near[len(near) // 2], near[-1]]
        if any(known.some_thread(parts) for known in chosen):
            return True
        cases = self._terms.any(known.condition for known in near)
        return bool(near) and self._q.prover.together((goal, cases), steps=_STEPS).kind != "no"

    def solved(self, goal: Formula, operation: Operation) -> Reaches | None:
        """Sizes for which the goal holds for some thread, if possible one that writes, and small ones if there are
        any."""
        for more in dict.fromkeys((self._written, self._terms.true)):
            for limit in (*_LIMITS, None):
                answer = self._q.prover.together((goal, more, self._up_to(limit)), steps=_STEPS)
                if answer.kind == "yes":
                    return self._reaches(answer, operation)
                if answer.kind == "unknown":
                    break
        return None

    def add(self, sizes: Reaches) -> None:
        self._known.append(_Substitution(self._q, {**sizes.dims, **sizes.params}))

    def _up_to(self, limit: int | None) -> Formula:
        terms = self._terms
        conditions = []
        for name, dim in self._spec.dims.items():
            if limit is not None and isinstance(dim.domain, Range):
                size = self._q.assumptions.names[name]
                conditions.append(terms.compare("le", size, terms.number(max(limit, dim.domain.low))))
        return terms.all(conditions)

    def _reaches(self, answer: Answer, operation: Operation) -> Reaches:
        spec, loc = self._spec, operation.loc
        free = {name for name, dim in spec.dims.items() if not hasattr(dim.domain, "text")}
        params = {name for name, param in spec.params.items() if param.expr is None}
        return Reaches(
            {name: value for name, value in answer.values.items() if name in free},
            {name: value for name, value in answer.values.items() if name in params},
            self._dtypes,
            "" if loc is None else self._tree.files.get(loc.file, ""),
            0 if loc is None else loc.line,
        )


class _Substitution:
    """The sizes and params of a case, in conditions."""

    def __init__(self, question: Question, values: Mapping[str, int]) -> None:
        self._q = question
        self._terms = question.terms
        self._values = values
        self._seen: dict[object, object] = {}
        self._corners: list[dict[Atom, Poly]] | None = None

    @classmethod
    def of(cls, question: Question, case: Case) -> _Substitution:
        """Those of a case."""
        numbers = {name: value for name, value in case.params.items() if isinstance(value, int)}
        return cls(question, {**case.dims, **numbers})

    @property
    def condition(self) -> Formula:
        """That the sizes and params are these."""
        terms, names = self._terms, self._q.assumptions.names
        return terms.all(
            terms.compare("eq", names[name], terms.number(value))
            for name, value in self._values.items()
            if name in names
        )

    def may_hold(self, conditions: Iterable[Formula]) -> bool:
        """Whether none of the conditions is false for the case."""
        return all(
            self._terms.replaced_condition(condition, self._value, self._seen) is not self._terms.false
            for condition in conditions
        )

    def some_thread(self, conditions: Sequence[Formula]) -> bool:
        """Whether none of them is false for the first or last thread of the first or last block."""
        for corner in self._thread_corners():
            seen: dict[object, object] = {}
            by = lambda atom, corner=corner: corner.get(atom) or self._value(atom)  # noqa: E731
            if all(
                self._terms.replaced_condition(condition, by, seen) is not self._terms.false
                for condition in conditions
            ):
                return True
        return False

    def _value(self, atom: Atom) -> Poly | None:
        if atom.kind != "var":
            return None
        value = self._values.get(str(atom.arguments[0]))
        return None if value is None else self._terms.number(value)

    def _thread_corners(self) -> list[dict[Atom, Poly]]:
        if self._corners is None:
            terms, assumed = self._terms, self._q.assumptions
            ranges = []
            for word, sizes in (("threadIdx", assumed.block), ("blockIdx", assumed.grid)):
                for axis, size in zip("xyz", sizes, strict=True):
                    count = terms.replaced(size, self._value, self._seen).constant
                    atoms = [a for a in (*self._q.threads, *self._q.blocks) if a.arguments[0] == f"{word}.{axis}"]
                    if atoms and count is not None:
                        ends = sorted({0, max(count - 1, 0)})
                        ranges.append([(atoms[0], terms.number(end)) for end in ends])
            self._corners = [dict(choice) for choice in islice(product(*ranges), 16)]
        return self._corners
