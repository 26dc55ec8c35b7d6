"""Questions about terms: intervals first, then an SMT solver with a limit that does not depend on the machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any, TypeAlias

from kcheck.dataclass import dataclass
from kcheck.errors import UserError
from kcheck.prover.forms import Form, form_of, inside
from kcheck.prover.terms import Atom, Formula, Poly, Terms, atoms_below

_STEPS = 400_000
"""The resource limit of one question, in units of the solver: about a second."""
_EXACT = 3
"""How many times that a question about products of numbers may take."""
_MOST_SECONDS = 20.0
"""The limit of one question in seconds, for a slow or busy machine."""


class ProofTimeout(Exception):
    """The time of a kernel is over."""


def require_solver(what: str = "kcheck prove") -> None:
    """Check that the solver is installed.

    Args:
        what: what needs it.

    Raises:
        UserError: it is not.
    """
    if find_spec("z3") is None:
        raise UserError(f"{what} needs the solver z3, which is not installed; pip install 'kcheck[prove]'")


@dataclass(frozen=True, slots=True)
class Answer:
    """Whether conditions hold together.

    Attributes:
        kind: ``no`` (proved), ``yes`` or ``unknown``.
        values: for ``yes``, the variables by name.
    """

    kind: str
    values: Mapping[str, int]


NO = Answer("no", {})
UNKNOWN = Answer("unknown", {})


Answers: TypeAlias = dict[Form, tuple[Answer, int]]
"""By form of a question: the answer, with the variables by number, and the limit of steps that it had."""


class Prover:
    """Answers questions about the terms of one kernel.

    Args:
        facts: conditions that hold, by the atoms that they are about: they count where the atom occurs.
        seconds: for all questions together.
        answers: what is known from other kernels of the spec, which often ask the same.
    """

    def __init__(self, terms: Terms, seconds: float, answers: Answers | None = None) -> None:
        self.terms = terms
        self._answers: Answers = {} if answers is None else answers
        self.facts: dict[Atom, list[Formula]] = {}
        self._given: dict[Formula, None] = {}
        self._deadline = time.process_time() + seconds
        self._known: dict[tuple[Formula, ...], tuple[Answer, int]] = {}
        """By conditions: the answer, and the limit of steps that it was found with."""
        self._z3: Any = import_module("z3")
        # Of its own, so that the answers do not depend on what the process asked about other kernels.
        self._context = self._z3.Context()
        self._encoders = {linear: _Encoder(self._z3, self._context, linear) for linear in (True, False)}
        self.questions = 0
        self.was_stopped = False
        """Whether the clock left a question without an answer: with more time, or on another machine, there may be
        one."""
        self.asks = True
        """Whether the solver is asked; otherwise every question that intervals leave open is open."""
        self.pairs: Callable[[list[Atom]], list[Formula]] = lambda loads: []
        """What is known about pairs of the loads in a question."""

    @contextmanager
    def part_of_time(self, part: float, kept: float = 0.0) -> Iterator[None]:
        """Allow only a part of the time that is left, from 0 to 1, and keep some seconds."""
        whole, now = self._deadline, time.process_time()
        self._deadline = now + min(part * (whole - now), whole - now - kept)
        try:
            yield
        finally:
            self._deadline = whole

    def add(self, condition: Formula, about: Iterable[Atom] | None = None) -> None:
        """A condition that holds, whenever one of its variables occurs in a question.

        Args:
            about: only where one of these occurs.
        """
        if condition is self.terms.true or condition in self._given:
            return
        self._given[condition] = None
        owners = (
            about if about is not None else (a for a in atoms_below(condition, set()) if a.kind in ("var", "load"))
        )
        for atom in owners:
            self.facts.setdefault(atom, []).append(condition)

    def holds(self, path: Formula, goal: Formula, *, steps: int = _STEPS) -> bool:
        """Whether the goal holds wherever the path condition does. ``steps``: the limit of the question."""
        if goal is self.terms.true or path is self.terms.false:
            return True
        if goal.kind == "and":
            return all(self.holds(path, part, steps=steps) for part in self.terms.conjuncts(goal))
        if goal in self.terms.conjuncts(path):
            return True
        return self.together((path, self.terms.negated(goal)), steps=steps).kind == "no"

    def within(self, path: Formula, value: Poly, low: int, high: int, *, steps: int = _STEPS) -> bool:
        """Whether a value is in a range wherever the path condition holds."""
        least, most = value.bounds
        terms = self.terms
        if not (least is not None and least >= low) and not self.holds(
            path, terms.compare("ge", value, terms.number(low)), steps=steps
        ):
            return False
        return (most is not None and most <= high) or self.holds(
            path, terms.compare("le", value, terms.number(high)), steps=steps
        )

    def together(self, conditions: Iterable[Formula], *, steps: int = _STEPS) -> Answer:
        """Whether conditions can hold together.

        Raises:
            ProofTimeout: the time of the kernel is over.
        """
        whole = self.terms.all(conditions)
        if whole is self.terms.false:
            return NO
        parts = self.terms.conjuncts(whole)
        key = tuple(sorted(parts, key=id))
        known, limit = self._known.get(key, (UNKNOWN, -1))
        if known.kind == "no" or limit >= steps:
            return known
        if not self.asks:
            return UNKNOWN
        if time.process_time() > self._deadline:
            self.was_stopped = True
            raise ProofTimeout
        self.questions += 1
        found = self._answered(self.with_facts(parts), steps)
        self._known[key] = found, steps
        return found

    def _answered(self, asked: tuple[Formula, ...], steps: int) -> Answer:
        """The answer to a question with all that is known about it; that of a question of the same form, if there
        was one."""
        form, names = form_of(asked)
        known, limit = self._answers.get(form, (UNKNOWN, -1))
        if known.kind == "no" or limit >= steps:
            return Answer(known.kind, {names[int(n)]: value for n, value in known.values.items()})
        before, self.was_stopped = self.was_stopped, False
        found = self._solved(asked, steps)
        is_whole, self.was_stopped = not self.was_stopped, before or self.was_stopped
        if found.kind != "unknown" or is_whole:
            numbers = {name: str(n) for n, name in enumerate(names)}
            values = {numbers[name]: value for name, value in found.values.items() if name in numbers}
            self._answers[form] = Answer(found.kind, values), steps
        return found

    def _solved(self, asked: tuple[Formula, ...], steps: int) -> Answer:
        linear = self._ask(asked, True, steps)
        found = linear
        if linear.kind != "no" and steps >= _STEPS and any(_is_product(c) for c in asked):
            exact = self._ask(asked, False, _EXACT * steps)
            # A product that is only a variable in the linear form may have values that no factors have.
            found = exact if exact.kind != "unknown" else UNKNOWN
        return found

    def with_facts(self, parts: Iterable[Formula]) -> tuple[Formula, ...]:
        """The conditions, and what is known about their atoms."""
        found = dict.fromkeys(parts)
        seen: set[object] = set()
        pending = list(found)
        loads: list[Atom] = []
        while pending:
            condition = pending.pop()
            for atom in atoms_below(condition, seen):
                for fact in self.facts.get(atom, ()):
                    if fact not in found:
                        found[fact] = None
                        pending.append(fact)
                if atom.kind == "load":
                    loads.append(atom)
                    for fact in self.pairs(loads):
                        if fact not in found and fact is not self.terms.true:
                            found[fact] = None
                            pending.append(fact)
        return tuple(found)

    def _ask(self, conditions: tuple[Formula, ...], linear: bool, steps: int) -> Answer:
        z3, encoder = self._z3, self._encoders[linear]
        solver = z3.Solver(ctx=self._context) if linear else z3.SolverFor("QF_NIA", self._context)
        solver.set("rlimit", steps)
        seconds = min(self._deadline - time.process_time(), _MOST_SECONDS)
        solver.set("timeout", max(1, int(1000 * seconds)))
        formulas = [encoder.condition(condition) for condition in conditions]
        solver.add(*formulas, *encoder.definitions(conditions))
        begun = time.monotonic()
        result = solver.check()
        if result == z3.unsat:
            return NO
        if result != z3.sat:
            if solver.reason_unknown() == "timeout" or time.monotonic() - begun >= seconds:
                self.was_stopped = True
            return UNKNOWN
        model = solver.model()
        values = {}
        for declaration in model.decls():
            value = model[declaration]
            if z3.is_int_value(value):
                values[declaration.name()] = value.as_long()
        return Answer("yes", values)


def _is_product(condition: Formula) -> bool:
    polys = (one for one in inside((condition,)) if isinstance(one, Poly))
    return any(len(monomial) > 1 for one in polys for monomial, _ in one.terms)


class _Encoder:
    """Terms as formulas of the solver. With ``linear``, a product is a variable with the bounds of the product."""

    def __init__(self, z3: Any, context: Any, linear: bool) -> None:
        self._z3 = z3
        self._context = context
        self._linear = linear
        self._made: dict[object, Any] = {}
        self._about: dict[object, tuple[Any, ...]] = {}
        """What defines an atom or a product, as formulas."""

    def condition(self, condition: Formula) -> Any:
        if condition not in self._made:
            self._made[condition] = self._condition(condition)
        return self._made[condition]

    def _condition(self, condition: Formula) -> Any:
        z3, given = self._z3, condition.arguments
        match condition.kind:
            case "true" | "false":
                return z3.BoolVal(condition.kind == "true", self._context)
            case "cmp":
                operator, a, b = given
                x, y = self.poly(a), self.poly(b)  # type: ignore[arg-type]
                return {"lt": x < y, "le": x <= y, "eq": x == y}[str(operator)]
            case "not":
                return z3.Not(self.condition(given[0]))  # type: ignore[arg-type]
            case "and":
                return z3.And(*(self.condition(c) for c in given))  # type: ignore[arg-type]
            case "or":
                return z3.Or(*(self.condition(c) for c in given))  # type: ignore[arg-type]
            case _:
                return z3.Bool(f"flag {len(self._made)}", self._context)

    def poly(self, poly: Poly) -> Any:
        if poly not in self._made:
            z3 = self._z3
            parts = []
            for monomial, factor in poly.terms:
                if not monomial:
                    parts.append(z3.IntVal(factor, self._context))
                    continue
                value = self._monomial(monomial)
                parts.append(value if factor == 1 else factor * value)
            self._made[poly] = (
                z3.Sum(parts) if len(parts) > 1 else parts[0] if parts else z3.IntVal(0, self._context)
            )
        return self._made[poly]

    def _monomial(self, monomial: tuple[Atom, ...]) -> Any:
        if len(monomial) == 1:
            return self.atom(monomial[0])
        if monomial in self._made:
            return self._made[monomial]
        factors = [self.atom(atom) for atom in monomial]
        if self._linear:
            value = self._int(f"product {' '.join(str(atom.serial) for atom in monomial)}")
            poly = Poly(((monomial, 1),))
            self._about[monomial] = self._ranges(value, poly.bounds)
        else:
            value = self._z3.Product(factors)
        self._made[monomial] = value
        return value

    def _int(self, name: str) -> Any:
        return self._z3.Int(name, self._context)

    def _ranges(self, value: Any, bounds: tuple[int | None, int | None]) -> tuple[Any, ...]:
        low, high = bounds
        return (*(() if low is None else (value >= low,)), *(() if high is None else (value <= high,)))

    def atom(self, atom: Atom) -> Any:
        if atom not in self._made:
            name = str(atom.arguments[0]) if atom.kind == "var" else f"{atom.kind} {atom.serial}"
            value = self._made[atom] = self._int(name)
            self._about[atom] = (*self._ranges(value, atom.bounds), *self._meaning(atom, value))
        return self._made[atom]

    def _meaning(self, atom: Atom, value: Any) -> tuple[Any, ...]:
        z3, given = self._z3, atom.arguments
        match atom.kind:
            case "div":
                a, m = self.poly(given[0]), given[1]  # type: ignore[arg-type]
                return m * value <= a, a <= m * value + (m - 1)  # type: ignore[operator]
            case "mod":
                whole = self._int(f"whole {atom.serial}")
                return (self.poly(given[0]) == given[1] * whole + value,)  # type: ignore[arg-type]
            case "if":
                condition, a, b = given
                return (value == z3.If(self.condition(condition), self.poly(a), self.poly(b)),)  # type: ignore[arg-type]
            case "min" | "max":
                a, b = self.poly(given[0]), self.poly(given[1])  # type: ignore[arg-type]
                return (value == (z3.If(a < b, a, b) if atom.kind == "min" else z3.If(a < b, b, a)),)
            case "read":
                whole = self._int(f"whole {atom.serial}")
                return (value == self.poly(given[2]) + (1 << given[1]) * whole,)  # type: ignore[arg-type, operator]
            case _:
                return ()

    def definitions(self, conditions: Iterable[Formula]) -> list[Any]:
        """The meanings of all atoms and products in conditions."""
        found: dict[object, None] = {}
        for one in inside(conditions):
            if isinstance(one, Poly):
                found |= dict.fromkeys(monomial for monomial, _ in one.terms if len(monomial) > 1)
            elif isinstance(one, Atom):
                found[one] = None
        return [formula for each in found for formula in self._about.get(each, ())]
