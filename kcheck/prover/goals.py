"""The conditions in a kernel that no known case meets, and sizes that meet them (:mod:`kcheck.prover.reach`)."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import islice, product

from kcheck.device import Device
from kcheck.errors import KernelError, PtxError, SpecError
from kcheck.generator import Expander
from kcheck.generator.distributions import ADVERSARIAL
from kcheck.generator.values import defaults
from kcheck.model import DTYPES, Case, Choices, Distribution, Input, OpSpec, Range
from kcheck.prover.kernel import Question, execute
from kcheck.prover.launched import launcher_variants
from kcheck.prover.model import Unsupported
from kcheck.prover.prover import Answer, ProofTimeout, Prover
from kcheck.prover.reached import CodeSize, ReachCases, Reaches, ReachLimits
from kcheck.prover.terms import UNIFORM, Atom, Formula, Poly, Terms, atoms_below
from kcheck.prover.variants import SpecVariant, variants, variants_of
from kcheck.ptx.syntax.ast import Operation
from kcheck.rng import derive

SECONDS = 60.0  # a guard against endless questions, never reached: what limits them is their number and steps
STEPS = 40_000
_MOST_GOALS = 250
_MOST_QUESTIONS = 120
_SAMPLES = 48
_LIMITS = (64, 512, 4096, 1 << 16)
"""Sizes up to the first of these are tried first, because a case of them takes no time."""
_VALUES = 4
"""Distributions of values with which a condition on contents is tried."""
_SHARE = 4
"""If a quarter of the planned cases has the sizes for a condition on contents, no other cases are added for it."""
_ELEMENTS = 8
"""The least size of each dim for a condition on contents, where it may be so large."""
_FIRST = ("normal", "large", "ties", "spikes")
"""The distributions that are tried first: the usual one, and those that differ most from it."""


def reached_sizes(
    limits: ReachLimits, spec: OpSpec, device: Device, planned: Sequence[Case], master: int
) -> tuple[list[Reaches], list[CodeSize]]:
    """Sizes and params that meet conditions which no planned case meets; and the sizes that the code has."""
    builder, steps = ReachCases(spec, master), limits.steps
    found: list[Reaches] = []
    code: dict[CodeSize, None] = {}
    cases: list[Case] = []
    # The run itself reports a kernel that does not compile; one that has no model has no such cases.
    with contextlib.suppress(Unsupported, ProofTimeout, KernelError, PtxError, SpecError):
        for variant in islice(_variants(limits, spec, device, planned), limits.kernels):
            if steps <= 0:
                break
            known = [case for case in (*planned, *cases) if variant.has_constants_of(case)]
            taken, proposed, sizes_in_code = _searched(variant, known, steps, limits.most)
            steps -= taken
            code |= dict.fromkeys(sizes_in_code)
            for sizes in proposed:
                case = builder.case(sizes, len(found))
                if case is not None and len(found) < limits.most:
                    found.append(sizes)
                    cases.append(case)
    return found, list(code)


def _variants(limits: ReachLimits, spec: OpSpec, device: Device, planned: Sequence[Case]) -> Iterator[SpecVariant]:
    """The kernels of the planned cases; without ``any_dtypes``, then those of all other cases."""
    if spec.launcher is not None:
        yield from launcher_variants(spec, device)
        return
    small = sorted(planned, key=lambda case: math.prod(max(size, 1) for size in case.dims.values()))
    yield from variants_of(spec, device, small, any_dtypes=limits.any_dtypes)
    if not limits.any_dtypes:
        yield from variants(spec, device)


def _searched(
    variant: SpecVariant, known: Sequence[Case], steps: int, most: int
) -> tuple[int, Sequence[Reaches], Sequence[CodeSize]]:
    """The steps that it took to execute a kernel, sizes, and those that the code has."""
    terms = Terms()
    prover = Prover(terms, SECONDS)
    prover.asks = False
    try:
        question = execute(variant, terms, prover, steps)
    except Unsupported:
        return steps, (), ()
    prover.asks = True
    search = GoalSearch(variant, question, known)
    left = search.rarest_first(search.goals(), _drawn(variant))
    found: list[Reaches] = []
    for turn in range(_VALUES + 1):  # other goals come before other values for the same one
        search.asks_for_values = turn > 0
        unsolved, left = left, []
        for goal, operation in unsolved:
            if len(found) == most or prover.questions > _MOST_QUESTIONS:
                break
            if not search.is_reached(goal):
                sizes = search.solved(goal, operation)
                if sizes is None:
                    continue
                search.add(sizes)
                found.append(sizes)
            left.append((goal, operation))
    return question.steps, tuple(found), tuple(_code_sizes(variant, question))


def _code_sizes(variant: SpecVariant, question: Question) -> Iterator[CodeSize]:
    """The constants that comparisons have for dims."""
    dims, files = variant.spec.dims, variant.launch.module.tree.files
    conditions = [(one.operation, one.condition) for one in question.trace.decisions]
    conditions += [(one.operation, one.condition) for one in question.trace.branches]
    for operation, condition in conditions:
        loc = operation.loc
        file, line = ("", 0) if loc is None else (files.get(loc.file, ""), loc.line)
        for comparison in _comparisons(condition):
            for name, word, size in _constants(question.terms, comparison):
                if name in dims:
                    yield CodeSize(name, word, size, file, line)


def _comparisons(condition: Formula) -> Iterator[Formula]:
    if condition.kind == "cmp":
        yield condition
    else:
        for part in condition.arguments:
            if isinstance(part, Formula):
                yield from _comparisons(part)


def _constants(terms: Terms, comparison: Formula) -> Iterator[tuple[str, str, int]]:
    """The variables of a comparison that have a constant, with what the constant is."""
    _, a, b = comparison.arguments
    assert isinstance(a, Poly)
    assert isinstance(b, Poly)
    rest, alone, others = 0, dict[str, int](), list[tuple[Atom, int]]()
    for monomial, factor in terms.minus(a, b).terms:
        if not monomial:
            rest = factor
        elif len(monomial) == 1 and monomial[0].kind == "var":
            alone[str(monomial[0].arguments[0])] = factor
        else:
            others += [(atom, factor) for atom in monomial]
    for name, factor in alone.items():
        if len(alone) == 1 and not others and rest % factor == 0:
            yield name, "compared with", -rest // factor
        elif abs(factor) > 1:
            yield name, "multiplied by", abs(factor)
        elif others and all(atom.kind == "div" and _only_variable(atom) == name for atom, _ in others):
            # A compiler divides by multiplication, and takes the multiple of the quotient for a remainder.
            yield from ((name, "divided by", abs(by)) for by in {by for _, by in others} if abs(by) > 1)
    for atom in atoms_below(comparison, set()):
        if atom.kind in ("div", "mod") and isinstance(atom.arguments[0], Poly):
            inner, divisor = atom.arguments[0].only_atom, atom.arguments[1]
            if inner is not None and inner.kind == "var" and isinstance(divisor, int):
                yield str(inner.arguments[0]), "divided by", divisor


def _only_variable(atom: Atom) -> str:
    """The variable on which alone a term depends; empty if there are several."""
    inner = [part for part in atom.arguments if isinstance(part, Poly)]
    names = {str(a.arguments[0]) for part in inner for a in atoms_below(part, set()) if a.kind == "var"}
    return next(iter(names)) if len(names) == 1 else ""


def _drawn(variant: SpecVariant) -> Iterator[Case]:
    """Cases that a longer run might have."""
    expander = Expander(variant.spec)
    for number in range(_SAMPLES):
        with contextlib.suppress(SpecError):
            case = expander.case(derive(variant.spec.seed, f"sample_{number}"), "sample")
            if variant.has_constants_of(case):
                yield case


class GoalSearch:
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
        self._launched = self._terms.true if question.launched is None else question.launched
        every = [_Substitution.of(question, case) for case in planned]
        self._known = [case for case in every if case.may_hold((self._launched,))]
        self._planned = tuple(self._known)
        self.asks_for_values = True
        self._values = {
            name: _options(array, variant.dtypes.get(array.dtype, array.dtype))
            for name, array in variant.spec.inputs.items()
        }
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
            uniform = [part for part in self.parts(goal[0]) if part.level <= UNIFORM]
            return sum(other.may_hold(uniform) for other in others)

        return sorted(left, key=frequency)

    def is_reached(self, goal: Formula) -> bool:
        """Whether known cases have a thread for which the goal holds. If contents of arrays decide, too, and
        ``asks_for_values``, the cases must have several distributions of them."""
        if not self.may_hold_at(goal, self._known):
            return False
        return not self.asks_for_values or self._other_values(goal) is None

    def _is_common(self, goal: Formula) -> bool:
        """Whether the sizes of many planned cases allow the goal: their distributions are enough."""
        uniform = [part for part in self.parts(goal) if not depends_on(_UNKNOWN, part) and part.level <= UNIFORM]
        return _SHARE * sum(case.may_hold(uniform) for case in self._planned) >= len(self._planned) > 0

    def is_known(self, goal: Formula) -> bool:
        """Whether the goal may hold for some thread of a known case, as far as sizes decide."""
        return self.may_hold_at(goal, self._known)

    def may_hold_at(self, goal: Formula, cases: Sequence[_Substitution]) -> bool:
        """Whether the goal may hold for some thread of one of these cases, as far as sizes decide."""
        parts = [part for part in self.parts(goal) if not depends_on(_UNKNOWN, part)]
        uniform = [part for part in parts if part.level <= UNIFORM]
        near = [case for case in cases if case.may_hold(uniform)]
        if len(uniform) == len(parts) or not near:
            return bool(near)
        chosen = near if len(near) < 4 else [near[0], near[len(near) // 2], near[-1]]
        if any(case.some_thread(parts) for case in chosen):
            return True
        asked = (*parts, self._terms.any(case.condition for case in near))
        return self._q.prover.together(asked, steps=STEPS).kind != "no"

    def is_never(self, goal: Formula) -> bool:
        """Whether there are no sizes and params for which the goal holds, whatever arrays contain."""
        known = [part for part in self.parts(goal) if not depends_on(CONTENTS, part)]
        return self._q.prover.together(known, steps=STEPS).kind == "no"

    def parts(self, goal: Formula) -> Iterator[Formula]:
        """The parts of a conjunction, also of one that is written as the opposite of a disjunction."""
        for part in self._terms.conjuncts(goal):
            inner = part.arguments[0] if part.kind == "not" else None
            if isinstance(inner, Formula) and inner.kind == "or":
                for one in inner.arguments:
                    assert isinstance(one, Formula)
                    yield from self.parts(self._terms.negated(one))
            else:
                yield part

    def _other_values(self, goal: Formula) -> Mapping[str, Distribution] | None:
        """Distributions of inputs with which no known case may meet a condition on contents.

        None if the cases have the distributions that matter most, or if contents do not decide.
        """
        if not depends_on(CONTENTS, goal) or self._is_common(goal):
            return None
        for n in range(min(_VALUES, max(map(len, self._values.values()), default=0))):
            proposed = {name: options[n % len(options)] for name, options in self._values.items()}
            for name, drawn in proposed.items():
                having = [known for known in self._known if known.values.get(name) == str(drawn)]
                if not self.may_hold_at(goal, having):
                    return proposed
        return None

    def solved(self, goal: Formula, operation: Operation) -> Reaches | None:
        """Sizes for which the goal holds for some thread, if possible one that writes, and small ones if there are
        any."""
        prover, found = self._q.prover, None
        if prover.together((goal,), steps=STEPS).kind == "no":
            return None
        # With more elements, it is more likely that one of them meets a condition on contents.
        least = (self._at_least(_ELEMENTS),) if depends_on(CONTENTS, goal) else ()
        for more, large in dict.fromkeys(product((self._written, self._terms.true), (*least, self._terms.true))):
            for limit in (*_LIMITS, None):
                answer = prover.together((goal, self._launched, more, large, self._up_to(limit)), steps=STEPS)
                if answer.kind == "yes":
                    found = answer
                if answer.kind != "no":
                    break
            if found is not None:
                return self._reaches(found, operation, self._other_values(goal) or {})
        return None

    def add(self, sizes: Reaches) -> None:
        self._known.append(
            _Substitution(
                self._q, {**sizes.dims, **sizes.params}, {name: str(drawn) for name, drawn in sizes.values.items()}
            )
        )

    def _ranges(self) -> Iterator[tuple[Poly, Range]]:
        """The dims that are ranges of sizes."""
        for name, dim in self._spec.dims.items():
            if isinstance(dim.domain, Range):
                yield self._q.assumptions.names[name], dim.domain

    def _up_to(self, limit: int | None) -> Formula:
        terms, ranges = self._terms, [] if limit is None else self._ranges()
        return terms.all(
            terms.compare("le", size, terms.number(max(limit or 0, domain.low))) for size, domain in ranges
        )

    def _at_least(self, size: int) -> Formula:
        terms = self._terms
        return terms.all(terms.compare("le", terms.number(min(size, r.high)), dim) for dim, r in self._ranges())

    def _reaches(self, answer: Answer, operation: Operation, values: Mapping[str, Distribution]) -> Reaches:
        spec, loc = self._spec, operation.loc
        free = {name for name, dim in spec.dims.items() if isinstance(dim.domain, Range | Choices)}
        params = {name for name, param in spec.params.items() if param.expr is None}
        return Reaches(
            {name: answer.values[name] for name in spec.dims if name in free & answer.values.keys()},
            {name: answer.values[name] for name in spec.params if name in params & answer.values.keys()},
            self._dtypes,
            values,
            "" if loc is None else self._tree.files.get(loc.file, ""),
            0 if loc is None else loc.line,
        )


def _options(array: Input, dtype: str) -> Sequence[Distribution]:
    """The distributions of an input, the most useful ones first."""
    options: list[Distribution] = []
    for drawn in array.values or defaults(DTYPES[dtype]):
        is_mix = drawn.name == "adversarial"
        options += [Distribution(name) for name in ADVERSARIAL] if is_mix else [drawn]
    rank = {name: n for n, name in enumerate(_FIRST)}
    return sorted(options, key=lambda drawn: rank.get(drawn.name, len(rank)))


CONTENTS = frozenset({"load", "flag"})
"""The kinds of terms that depend on contents of arrays: loads, and comparisons of floats."""
_UNKNOWN = CONTENTS | {"fresh"}
"""Those, and what a loop computes."""


def depends_on(kinds: Set[str], value: object) -> bool:
    """Whether a term of one of these kinds is in a value or a condition."""
    if isinstance(value, Poly):
        return any(depends_on(kinds, atom) for monomial, _ in value.terms for atom in monomial)
    if isinstance(value, Atom):
        is_fresh = value.kind == "var" and "#" in str(value.arguments[0])
        return ("fresh" if is_fresh else value.kind) in kinds or any(depends_on(kinds, a) for a in value.arguments)
    return isinstance(value, Formula) and (
        value.kind in kinds or any(depends_on(kinds, a) for a in value.arguments)
    )


class _Substitution:
    """The sizes and params of a case, in conditions.

    Args:
        numbers: the sizes and params.
        values: the distribution of each input, as text, as far as it is known.
    """

    def __init__(self, question: Question, numbers: Mapping[str, int], values: Mapping[str, str]) -> None:
        self._q = question
        self._terms = question.terms
        self._numbers = numbers
        self.values = values
        self._seen: dict[object, object] = {}
        self._corners: list[dict[Atom, Poly]] | None = None

    @classmethod
    def of(cls, question: Question, case: Case) -> _Substitution:
        """Those of a case."""
        numbers = {name: value for name, value in case.params.items() if isinstance(value, int)}
        return cls(question, {**case.dims, **numbers}, {name: str(drawn) for name, drawn in case.values.items()})

    @property
    def condition(self) -> Formula:
        """That the sizes and params are these."""
        terms, names = self._terms, self._q.assumptions.names
        return terms.all(
            terms.compare("eq", names[name], terms.number(value))
            for name, value in self._numbers.items()
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
        value = self._numbers.get(str(atom.arguments[0]))
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
