"""The conditions in a kernel that no known case meets, and sizes that meet them (:mod:`kcheck.prover.reach`)."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, product

from kcheck.device import Device
from kcheck.errors import KernelError, PtxError, SpecError
from kcheck.generator import Expander
from kcheck.model import Case, Choices, OpSpec, Range
from kcheck.prover.kernel import Question, execute
from kcheck.prover.model import Unsupported
from kcheck.prover.prover import Answer, ProofTimeout, Prover
from kcheck.prover.reached import ReachCases, Reaches, ReachLimits
from kcheck.prover.terms import UNIFORM, Atom, Formula, Poly, Terms
from kcheck.prover.variants import SpecVariant, variants, variants_of
from kcheck.ptx.syntax.ast import Operation
from kcheck.rng import derive

_SECONDS = 60.0  # a guard against endless questions, never reached: what limits them is their number and steps
_STEPS = 40_000
_MOST_GOALS = 250
_MOST_QUESTIONS = 60
_SAMPLES = 48
_LIMITS = (64, 512, 4096, 1 << 16)
"""Sizes up to the first of these are tried first, because a case of them takes no time."""


def reached_sizes(
    limits: ReachLimits, spec: OpSpec, device: Device, planned: Sequence[Case], master: int
) -> list[Reaches]:
    """Sizes and params that meet conditions which no planned case meets."""
    builder, steps = ReachCases(spec, master), limits.steps
    found: list[Reaches] = []
    cases: list[Case] = []
    # The run itself reports a kernel that does not compile; one that has no model has no such cases.
    with contextlib.suppress(Unsupported, ProofTimeout, KernelError, PtxError, SpecError):
        for variant in islice(_variants(limits, spec, device, planned), limits.kernels):
            if steps <= 0:
                break
            known = [case for case in (*planned, *cases) if variant.has_constants_of(case)]
            taken, proposed = _searched(variant, known, steps, limits.most)
            steps -= taken
            for sizes in proposed:
                case = builder.case(sizes, len(found))
                if case is not None and len(found) < limits.most:
                    found.append(sizes)
                    cases.append(case)
    return found


def _variants(limits: ReachLimits, spec: OpSpec, device: Device, planned: Sequence[Case]) -> Iterator[SpecVariant]:
    """The kernels of the planned cases; without ``any_dtypes``, then those of all other cases."""
    small = sorted(planned, key=lambda case: math.prod(max(size, 1) for size in case.dims.values()))
    yield from variants_of(spec, device, small, any_dtypes=limits.any_dtypes)
    if not limits.any_dtypes:
        yield from variants(spec, device)


def _searched(variant: SpecVariant, known: Sequence[Case], steps: int, most: int) -> tuple[int, Sequence[Reaches]]:
    """The steps that it took to execute a kernel, and sizes."""
    terms = Terms()
    prover = Prover(terms, _SECONDS)
    prover.asks = False
    try:
        question = execute(variant, terms, prover, steps)
    except Unsupported:
        return steps, ()
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
            case = expander.case(derive(variant.spec.seed, f"sample_{number}"), "sample")
            if variant.has_constants_of(case):
                yield case


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
        free = {name for name, dim in spec.dims.items() if isinstance(dim.domain, Range | Choices)}
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
