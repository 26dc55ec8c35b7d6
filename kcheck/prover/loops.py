"""A loop for any number of iterations.

The body is executed twice. The first time, each register that the loop changes is a separate variable, which
shows how an iteration changes it:

- by a constant amount: the register is ``first + k * amount`` in iteration ``k``, modulo the width of the
register;
- computed from such registers only: in iteration ``k`` it is the first value, or what iteration ``k - 1``
computed;
- in another way: any number of its type, within limits that hold at first and that each iteration keeps.

The second time, with these values, what the body does is recorded. A comparison that leads to another iteration
holds in iteration ``k - 1``. If it is ``value < limit`` with a value that grows and a limit that stays, induction
shows that nothing wraps: the value was below the limit before it grew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from kcheck.dataclass import dataclass
from kcheck.prover.bits import type_range
from kcheck.prover.execute import STORED, Edge, Registers, SymbolicExecution, dominators
from kcheck.prover.forms import inside as inside_of
from kcheck.prover.instructions import Value
from kcheck.prover.simplify import Simplification, simplified_path
from kcheck.prover.terms import THREAD, UNIFORM, Atom, Formula, Poly, Terms, atoms_below
from kcheck.ptx.analysis.liveness import writes
from kcheck.ptx.syntax.ast import Instruction
from kcheck.ptx.syntax.types import TYPES

_TRIES = 4
_MOST_LIMITS = 4
_ROUNDS = 3
_RANGE_STEPS = 40_000


@dataclass(slots=True)
class _Body:
    """What one execution of the body found.

    Attributes:
        starts: the variables of the registers at the start of an iteration.
        ends: their values at its end, where another one follows.
        again: the condition for that; None: there is no other iteration.
        leaving: the edges that leave the loop.
    """

    starts: dict[str, Value]
    ends: Registers
    again: Formula | None
    leaving: list[Edge]


class LoopSummary:
    """Executes loops of one kernel."""

    def __init__(self, execution: SymbolicExecution) -> None:
        self._of = execution
        self._levels: dict[tuple[int, tuple[int, ...]], dict[str, int]] = {}
        self._count = 0
        self._dominators = dominators(execution.cfg)

    def execute(self, number: int, start: Edge, loops: tuple[int, ...]) -> list[Edge]:
        """Execute a loop from the state before it. Returns the edges that leave it."""
        of, loop = self._of, self._of.cfg.loops[number]
        inside = (*loops, number)
        outside = start
        changed = self._changed(number, start.registers)
        for name in [n for n in start.registers if n.startswith(STORED)]:
            del start.registers[name]  # of calls: written again before each use
        if of.recording:
            start = self._simplified(number, outside)
        was, of.recording = of.recording, False
        try:
            body, counter = self._discovered(number, start, changed, inside)
        finally:
            of.recording = was
        if counter.level == THREAD:
            of.divergent.add(number)
        ranges: dict[str, tuple[int, int]] = {}
        if was:
            body, ranges = self._ranged(number, start, body, changed, inside)
        values, left = self._resolved(start, body, counter, inside)
        if was:
            self._learn(start, body, counter, values, inside)
            self._learn_ranges(values, ranges, counter)
            for _ in range(2):
                before = len(left)
                left = self._saturating(start, body, counter, values, left, inside)
                if len(left) == before:
                    break
                self._learn(start, body, counter, values, inside)
                self._learn_ranges(values, ranges, counter)
        known = dict(values)
        for name in left:
            values[name] = self._any_value(name, known, start, body, inside, ranges.get(name))
        registers = {**start.registers, **values}
        order = [n for n in of.cfg.order if n in loop.blocks]
        header = type(start)(-1, loop.header, start.path, registers)
        found = of.region(order, loop.header, [header], inside)
        return [
            self._left(edge, start, outside, changed, counter) for edge in found if edge.target not in loop.blocks
        ]

    # --- before and after

    def _simplified(self, number: int, start: Edge) -> Edge:
        """The state before a loop, with terms that the condition to reach it makes simpler."""
        of = self._of
        path = simplified_path(of.terms, of.prover, start.path)
        simpler = Simplification(of.terms, of.prover, path)
        registers = dict(start.registers)
        for name in of.live.names(of.cfg.loops[number].header):
            value = registers.get(name)
            if isinstance(value, Poly):
                registers[name] = simpler.poly(value)
        return Edge(start.source, start.target, path, registers)

    def _left(self, edge: Edge, start: Edge, outside: Edge, changed: Mapping[str, str], counter: Atom) -> Edge:
        """An edge that leaves a loop, with the terms of the state before the loop where it changes nothing, and
        with the number of the last iteration where the path says which one it is."""
        terms = self._of.terms
        inner = set(terms.conjuncts(start.path))
        added = [part for part in terms.conjuncts(edge.path) if part not in inner]
        last = next((v for v in (self._solved(part, counter) for part in added) if v is not None), None)
        registers = dict(edge.registers)
        seen: dict[object, object] = {}
        for name, value in edge.registers.items():
            if name not in changed and value is start.registers.get(name) and name in outside.registers:
                registers[name] = outside.registers[name]
            elif last is not None and isinstance(value, Poly):
                registers[name] = terms.replaced(value, lambda atom: last if atom is counter else None, seen)
        return Edge(edge.source, edge.target, terms.all((outside.path, *added)), registers)

    def _solved(self, part: Formula, counter: Atom) -> Poly | None:
        """``k``, if a condition is an equation from which it follows."""
        terms = self._of.terms
        if part.kind != "cmp" or part.arguments[0] != "eq":
            return None
        _, left, right = part.arguments
        assert isinstance(left, Poly)
        assert isinstance(right, Poly)
        whole = terms.minus(left, right)
        factor = dict(whole.terms).get((counter,), 0)
        if factor not in (1, -1):
            return None
        rest = terms.minus(whole, terms.scaled(terms.of(counter), factor))
        if any(atom is counter for atom in atoms_below(rest, set())):
            return None
        return terms.scaled(rest, -factor)

    # --- ranges

    def _ranged(
        self, number: int, start: Edge, body: _Body, changed: dict[str, str], inside: tuple[int, ...]
    ) -> tuple[_Body, dict[str, tuple[int, int]]]:
        """The body again, with variables that have ranges: each register is in its range before the loop, and
        an iteration that another one follows keeps it there if all of them were.

        A number in such a range is far from the ends of its type, so adding a little to it does not wrap.
        """
        of = self._of
        deciding = self._deciding(body)
        guesses: dict[str, list[tuple[int, int]]] = {}
        for name, kind in changed.items():
            first, variable = start.registers.get(name), body.starts[name]
            if not isinstance(first, Poly) or not isinstance(variable, Poly) or body.ends.get(name) is variable:
                continue
            if next(variable.atoms()) in deciding and TYPES[kind].kind in ("signed", "unsigned", "bits"):
                most = 1 << TYPES[kind].bits - 2
                every = [(1, most), (0, most), (-most, -1), (-most, 0), (-most, most)]
                guesses[name] = [r for r in every if of.prover.within(start.path, first, *r, steps=_RANGE_STEPS)]
        levels = {name: variable.level for name, variable in body.starts.items()}
        for _ in range(_ROUNDS):
            ranges = {name: rows[0] for name, rows in guesses.items() if rows}
            if not ranges or body.again is None:
                break
            was, of.recording = of.recording, False
            try:
                tried = self._run(number, start, changed, levels, inside, ranges)
            finally:
                of.recording = was
            if not self._keeps_levels(tried, levels):
                break
            again, failed = tried.again, []
            for name, (low, high) in ranges.items():
                end = tried.ends.get(name)
                if (
                    again is None
                    or not isinstance(end, Poly)
                    or not of.prover.within(again, end, low, high, steps=_RANGE_STEPS)
                ):
                    failed.append(name)
            if not failed:
                return tried, ranges
            for name in failed:
                guesses[name] = guesses[name][1:]
        return body, {}

    def _keeps_levels(self, body: _Body, levels: Mapping[str, int]) -> bool:
        return all(end.level <= levels[name] for name, end in body.ends.items() if name in levels)

    def _deciding(self, body: _Body) -> set[Atom]:
        """The variables on which a condition of the body depends, or bits that are read as a number."""
        found: set[Atom] = set()
        seen: set[object] = set()
        terms: list[Poly | Formula] = [edge.path for edge in body.leaving]
        terms += [body.again] if body.again is not None else []
        for term in terms:
            found |= set(atoms_below(term, seen))
        for end in body.ends.values():
            for atom in atoms_below(end, seen):
                if atom.kind in ("if", "read", "min", "max", "div", "mod"):
                    for part in atom.arguments:
                        if isinstance(part, Poly | Formula):
                            found |= set(atoms_below(part, set()))
        return found

    def _learn_ranges(self, values: Registers, ranges: Mapping[str, tuple[int, int]], counter: Atom) -> None:
        """Note for iteration ``k`` that the registers are in their ranges."""
        terms = self._of.terms
        first = terms.compare("eq", terms.of(counter), terms.zero)
        for name, (low, high) in ranges.items():
            value = values.get(name)
            if isinstance(value, Poly):
                rule = terms.all(
                    (
                        terms.compare("ge", value, terms.number(low)),
                        terms.compare("le", value, terms.number(high)),
                    )
                )
                self._of.prover.add(terms.any((first, rule)), (counter,))

    def _changed(self, number: int, before: Registers) -> dict[str, str]:
        """The registers that the loop writes and that an iteration may read before, with their types."""
        of = self._of
        live = set(of.live.names(of.cfg.loops[number].header))
        found: dict[str, str] = {}
        for n in of.cfg.loops[number].blocks:
            for operation in of.cfg.blocks[n].operations:
                for register in writes(operation):
                    if register.name in live:
                        found[register.name] = register.type
        return dict(sorted(found.items()))

    def _counter(self, number: int, inside: tuple[int, ...], level: int) -> Atom:
        """The variable with the number of the iteration."""
        self._count += 1
        value = self._of.terms.var(f"iteration {number}#{self._count}", (0, None), level)
        atom = next(value.atoms())
        self._of.trace.scopes[atom] = inside
        self._of.trace.counters.setdefault(number, []).append(atom)
        return atom

    def _discovered(
        self, number: int, start: Edge, changed: dict[str, str], inside: tuple[int, ...]
    ) -> tuple[_Body, Atom]:
        """The body with variables for what it changes, whose levels hold, and the counter."""
        levels = {name: start.registers[name].level if name in start.registers else THREAD for name in changed}
        for _ in range(_TRIES):
            body = self._run(number, start, changed, levels, inside)
            uniform = self._exits_level(number, body, start)
            new = {}
            for name in changed:
                end = body.ends.get(name)
                new[name] = max(levels[name], end.level if end is not None else levels[name])
            if new == levels:
                counter = self._counter(number, inside, uniform)
                counter.needs_order = self._exit_needs_order(body)
                return body, counter
            levels = new
        levels = dict.fromkeys(changed, THREAD)
        return self._run(number, start, changed, levels, inside), self._counter(number, inside, THREAD)

    def _always_decides(self, number: int, body: _Body) -> bool:
        """Whether each iteration comes to each branch that leaves the loop, whatever it did before."""
        of, cfg = self._of, self._of.cfg
        loop = cfg.loops[number]
        inner = [other.blocks for k, other in enumerate(cfg.loops) if k != number and other.blocks < loop.blocks]
        ends = [cfg.blocks[n].terminator for n in loop.blocks]
        if any(isinstance(end, Instruction) and end.opcode in ("ret", "exit", "trap") for end in ends):
            return False
        back = [n for n in loop.blocks if loop.header in cfg.blocks[n].successors]
        for edge in body.leaving:
            n = edge.source
            if n not in of.decisions or any(n in blocks for blocks in inner):
                return False
            for at in back:
                while at not in (n, loop.header):
                    at = self._dominators[at]
                if at != n:
                    return False
        return True

    def _exit_needs_order(self, body: _Body) -> bool:
        """Whether the number of iterations is the same in all threads only if there are no races."""
        seen: set[object] = set()
        paths = [edge.path for edge in body.leaving] + ([] if body.again is None else [body.again])
        return any(atom.needs_order for path in paths for atom in atoms_below(path, seen))

    def _exits_level(self, number: int, body: _Body, start: Edge) -> int:
        """The level of what decides how many iterations there are."""
        if self._always_decides(number, body):
            return max((self._of.decisions[edge.source].level for edge in body.leaving), default=UNIFORM)
        before = set(self._of.terms.conjuncts(start.path))
        level = UNIFORM
        for edge in body.leaving:
            for part in self._of.terms.conjuncts(edge.path):
                if part not in before:
                    level = max(level, part.level)
        if body.again is not None:
            for part in self._of.terms.conjuncts(body.again):
                if part not in before:
                    level = max(level, part.level)
        return level

    def _run(
        self,
        number: int,
        start: Edge,
        changed: dict[str, str],
        levels: dict[str, int],
        inside: tuple[int, ...],
        ranges: Mapping[str, tuple[int, int]] = MappingProxyType({}),
    ) -> _Body:
        of, terms, loop = self._of, self._of.terms, self._of.cfg.loops[number]
        starts: dict[str, Value] = {}
        for name, kind in changed.items():
            if TYPES[kind].kind == "pred":
                starts[name] = terms.fresh_flag(name, levels[name])
                continue
            value = terms.fresh(name, ranges.get(name, (None, None)), levels[name])
            of.scoped(value, inside)
            starts[name] = value
        order = [n for n in of.cfg.order if n in loop.blocks]
        header = type(start)(-1, loop.header, start.path, {**start.registers, **starts})
        found = of.region(order, loop.header, [header], inside)
        back = [edge for edge in found if edge.target == loop.header]
        leaving = [edge for edge in found if edge.target not in loop.blocks]
        if not back:
            return _Body(starts, {}, None, leaving)
        merged = of.merged(back, loop.header)
        ends = {
            name: terms.decided(value, merged.path) if isinstance(value, Poly) else value
            for name, value in merged.registers.items()
        }
        return _Body(starts, ends, merged.path, leaving)

    # --- values in iteration k

    def _resolved(
        self, start: Edge, body: _Body, counter: Atom, inside: tuple[int, ...]
    ) -> tuple[Registers, list[str]]:
        """The value of each changed register in iteration ``counter``, and the registers that have another one."""
        terms = self._of.terms
        k = terms.of(counter)
        found: Registers = {}
        variables = {next(v.atoms()): name for name, v in body.starts.items() if isinstance(v, Poly)}
        left: dict[str, Value] = {}
        for name, variable in body.starts.items():
            first, end = start.registers.get(name), body.ends.get(name)
            if end is variable and first is not None:
                found[name] = first
                continue
            if isinstance(variable, Poly) and isinstance(end, Poly) and isinstance(first, Poly):
                amount = terms.minus(end, variable)
                if self._is_constant(amount, variables, inside):
                    found[name] = terms.sum(first, terms.product(k, amount))
                    continue
            left[name] = variable
        return found, self._delayed(start, body, counter, found, list(left), inside)

    def _delayed(
        self, start: Edge, body: _Body, counter: Atom, found: Registers, left: list[str], inside: tuple[int, ...]
    ) -> list[str]:
        """Find the registers that an iteration computes from known ones. Returns the other ones."""
        terms = self._of.terms
        k = terms.of(counter)
        variables = {next(v.atoms()): name for name, v in body.starts.items() if isinstance(v, Poly)}
        previous = terms.minus(k, terms.one)
        for _ in range(3):
            known = dict(found)
            for name in list(left):
                end, first = body.ends.get(name), start.registers.get(name)
                if not isinstance(end, Poly) or not isinstance(first, Poly):
                    continue
                before = self._earlier(end, known, variables, counter, previous, inside)
                if before is not None:
                    at_first = terms.replaced(before, lambda atom: terms.zero if atom is counter else None, {})
                    is_first = terms.compare("eq", k, terms.zero)
                    found[name] = before if at_first is first else terms.either(is_first, first, before)
                    left.remove(name)
        return left

    def _saturating(
        self, start: Edge, body: _Body, counter: Atom, found: Registers, left: list[str], inside: tuple[int, ...]
    ) -> list[str]:
        """Find the registers that would grow by a constant amount if they did not stop at a limit, as the counters
        of Numba's ``range`` do, and that do not come to it before the last iteration. Returns the other ones."""
        of, terms = self._of, self._of.terms
        if body.again is None:
            return left
        variables = {next(v.atoms()): name for name, v in body.starts.items() if isinstance(v, Poly)}
        k = terms.of(counter)
        following = terms.sum(k, terms.one)
        reached = [
            terms.replaced_condition(fact, lambda atom: following if atom is counter else None, {})
            for fact in of.prover.facts.get(counter, ())
        ]  # the back edge leads to iteration k + 1, so they hold for that one, too
        for name in list(left):
            variable, end, first = body.starts[name], body.ends.get(name), start.registers.get(name)
            if not (isinstance(variable, Poly) and isinstance(end, Poly) and isinstance(first, Poly)):
                continue
            amount = terms.minus(_FirstSides(terms).poly(end), variable)
            if not self._is_constant(amount, variables, inside):
                continue
            guess = {**found, name: terms.sum(first, terms.product(k, amount))}

            def by(atom: Atom, guess: Registers = guess) -> Poly | None:
                value = guess.get(variables.get(atom, ""))
                return value if isinstance(value, Poly) else None

            seen: dict[object, object] = {}
            path = terms.replaced_condition(body.again, by, seen)
            wanted = terms.sum(first, terms.product(following, amount))
            goal = terms.compare("eq", terms.replaced(end, by, seen), wanted)
            if of.prover.holds(terms.all((path, *reached)), goal):
                found[name] = guess[name]
                left.remove(name)
        return self._delayed(start, body, counter, found, left, inside)

    def _is_constant(self, term: Poly | Formula, variables: dict[Atom, str], inside: tuple[int, ...]) -> bool:
        """Whether a term is the same in each iteration."""
        scopes, number = self._of.trace.scopes, inside[-1]
        for atom in atoms_below(term, set()):
            if atom in variables or number in scopes.get(atom, ()):
                return False
        return not _has_inner_flag(term)

    def _earlier(
        self,
        end: Poly,
        known: Registers,
        variables: dict[Atom, str],
        counter: Atom,
        previous: Poly,
        inside: tuple[int, ...],
    ) -> Poly | None:
        """What an iteration computes, as a term of the iteration before ``counter``; None if that is unknown."""
        terms = self._of.terms

        def by(atom: Atom) -> Poly | None:
            name = variables.get(atom)
            value = known.get(name) if name is not None else None
            return value if isinstance(value, Poly) else None

        first = terms.replaced(end, by, {})
        if not self._is_constant_but(first, counter, variables, inside):
            return None
        return terms.replaced(first, lambda atom: previous if atom is counter else None, {})

    def _is_constant_but(
        self, term: Poly | Formula, counter: Atom, variables: dict[Atom, str], inside: tuple[int, ...]
    ) -> bool:
        scopes, number = self._of.trace.scopes, inside[-1]
        for atom in atoms_below(term, set()):
            if atom is not counter and (atom in variables or number in scopes.get(atom, ())):
                return False
        return not _has_inner_flag(term)

    def _any_value(
        self,
        name: str,
        known: Registers,
        start: Edge,
        body: _Body,
        inside: tuple[int, ...],
        span: tuple[int, int] | None,
    ) -> Value:
        """A register that changes in another way: any value within limits that each iteration keeps.

        Args:
            known: the values of other registers in iteration ``k``.
            span: the range that it is known to be in.
        """
        of, terms = self._of, self._of.terms
        variable = body.starts[name]
        end, first = body.ends.get(name), start.registers.get(name)
        level = THREAD if inside[-1] in of.divergent else variable.level  # threads leave in different iterations
        if isinstance(variable, Formula):
            if end is not None and any(atom.needs_order for atom in atoms_below(end, set())):
                level = THREAD  # a flag does not say that its level holds only without races
            return terms.fresh_flag(name, level)
        width = _width(of, name)
        found = terms.fresh(name, span or type_range(True, width), level)
        atom = next(found.atoms())
        atom.needs_order = any(a.needs_order for a in atoms_below(end, set())) if isinstance(end, Poly) else False
        of.scoped(found, inside)
        if isinstance(end, Poly) and isinstance(first, Poly) and body.again is not None:
            values = {
                next(v.atoms()): known[other]
                for other, v in body.starts.items()
                if isinstance(v, Poly) and other in known and isinstance(known[other], Poly)
            }
            if of.recording:
                changed = {**values, next(variable.atoms()): found}
                kept = self._limit(found, changed, first, end, start, body.again, width)
                found = self._tightened(found, kept, inside)
                outside = terms.negated(
                    start.path
                )  # where the loop is not reached, they may contradict each other
                for guess in kept:
                    own = next(found.atoms())
                    of.prover.add(terms.any((outside, self._at(guess, atom, found))), (own,))
        return found

    def _tightened(self, found: Poly, kept: Sequence[Formula], inside: tuple[int, ...]) -> Poly:
        """A variable for a register with the constants among its limits as bounds."""
        terms = self._of.terms
        low, high = found.bounds
        for guess in kept:
            if guess.kind != "cmp":
                continue
            _, left, right = guess.arguments
            assert isinstance(left, Poly)
            assert isinstance(right, Poly)
            if left is found and right.constant is not None:
                high = right.constant if high is None else min(high, right.constant)
            elif right is found and left.constant is not None:
                low = left.constant if low is None else max(low, left.constant)
        if (low, high) == found.bounds or (low is not None and high is not None and low > high):
            return found
        old = next(found.atoms())
        new = terms.fresh(str(old.arguments[0]).partition("#")[0], (low, high), old.level)
        next(new.atoms()).needs_order = old.needs_order
        self._of.scoped(new, inside)
        return new

    def _limit(
        self,
        found: Poly,
        values: Mapping[Atom, Value],
        first: Poly,
        end: Poly,
        start: Edge,
        again: Formula,
        width: int,
    ) -> list[Formula]:
        """Which of a few limits hold at first and are kept by each iteration."""
        of, terms = self._of, self._of.terms
        low, high = type_range(True, width)
        guesses = [
            terms.compare("ge", found, terms.one),
            terms.compare("ge", found, terms.zero),
            terms.compare("le", found, first),
            terms.compare("ge", found, first),
            *(terms.compare("le", found, terms.number(limit)) for limit in _limits(end)),
        ]
        own = next(found.atoms())

        def by(atom: Atom) -> Poly | None:
            value = values.get(atom)
            return value if isinstance(value, Poly) else None

        seen: dict[object, object] = {}
        new, path = terms.replaced(end, by, seen), terms.replaced_condition(again, by, seen)
        recording, of.recording = of.recording, True
        try:
            fits = of.bits(start.path).fits(first, True, width)
            kept = [g for g in guesses if fits and of.prover.holds(start.path, self._at(g, own, first))]
            while kept:
                whole = terms.all((path, *kept))
                inside = of.prover.within(whole, new, low, high)
                holding = [g for g in kept if inside and of.prover.holds(whole, self._at(g, own, new))]
                if len(holding) == len(kept):
                    break
                kept = holding
        finally:
            of.recording = recording
        return kept

    def _at(self, guess: Formula, own: Atom, value: Poly) -> Formula:
        return self._of.terms.replaced_condition(guess, lambda atom: value if atom is own else None, {})

    # --- what holds in iteration k

    def _learn(self, start: Edge, body: _Body, counter: Atom, values: Registers, inside: tuple[int, ...]) -> None:
        """Note what the comparisons at the end of iteration ``k - 1`` say about ``k``."""
        of, terms = self._of, self._of.terms
        k = terms.of(counter)
        if body.again is None:
            of.prover.add(terms.compare("eq", k, terms.zero), (counter,))
            return
        variables = {next(v.atoms()): name for name, v in body.starts.items() if isinstance(v, Poly)}

        def by(atom: Atom) -> Poly | None:
            name = variables.get(atom)
            value = values.get(name) if name is not None else None
            return value if isinstance(value, Poly) else None

        seen: dict[object, object] = {}
        before = set(terms.conjuncts(start.path))
        first = terms.compare("eq", k, terms.zero)
        for part in terms.conjuncts(body.again):
            if part in before:
                continue
            now = terms.replaced_condition(part, by, seen)
            if not self._is_constant_but(now, counter, variables, inside):
                continue
            held = [now]
            plain = _FirstSides(terms).condition(now)
            if plain is not now:  # counters that stop at a limit, and have not come to it
                path = terms.replaced_condition(body.again, by, seen)
                if of.prover.holds(path, plain):
                    held.append(plain)
            for rule in (rule for one in held for rule in self._rules(one, counter, start)):
                of.prover.add(terms.any((first, rule)), (counter,))

    def _rules(self, now: Formula, counter: Atom, start: Edge) -> Iterator[Formula]:
        """What a comparison that held at the end of each earlier iteration says about iteration ``k``."""
        terms = self._of.terms
        previous = terms.minus(terms.of(counter), terms.one)
        back = terms.replaced_condition(now, lambda atom: previous if atom is counter else None, {})
        yield back
        if now.kind == "not":
            inner = now.arguments[0]
            if isinstance(inner, Formula) and inner.kind == "cmp" and inner.arguments[0] == "eq":
                yield from self._count_to(inner, counter, start)
        if now.kind == "cmp" and now.arguments[0] in ("lt", "le"):
            yield from self._below(now, counter, start)

    def _line(self, term: object, counter: Atom) -> tuple[Poly, Poly, tuple[bool, int] | None] | None:
        """(value at k = 0, amount per iteration, type that it is read as) of a term that is linear in ``k``."""
        terms = self._of.terms
        if not isinstance(term, Poly):
            return None
        typed: tuple[bool, int] | None = None
        if len(term.terms) == 1 and term.terms[0][1] == 1 and len(term.terms[0][0]) == 1:
            atom = term.terms[0][0][0]
            if atom.kind == "read":
                signed, width, inner = atom.arguments
                assert isinstance(inner, Poly)
                typed, term = (bool(signed), int(str(width))), inner
        first = terms.replaced(term, lambda atom: terms.zero if atom is counter else None, {})
        second = terms.replaced(term, lambda atom: terms.one if atom is counter else None, {})
        amount = terms.minus(second, first)
        if terms.sum(first, terms.product(terms.of(counter), amount)) is not term:
            return None
        if any(atom is counter for atom in (*atoms_below(first, set()), *atoms_below(amount, set()))):
            return None
        return first, amount, typed

    def _below(self, now: Formula, counter: Atom, start: Edge) -> Iterator[Formula]:
        """``value < limit`` with a value that grows, or ``limit < value`` with one that shrinks, as integers."""
        terms = self._of.terms
        operator, left, right = now.arguments
        a, b = self._line(left, counter), self._line(right, counter)
        if a is None or b is None:
            return
        grows = b[1] is terms.zero
        if not grows and a[1] is not terms.zero:
            return
        moving = a if grows else b
        if moving[2] is None or moving[1] is terms.zero:
            return
        low, high = type_range(*moving[2])
        first, amount, _ = moving
        bound = right if grows else left
        assert isinstance(bound, Poly)
        bits = self._asking(start)
        if not bits.within(first, low, high):
            return
        last = terms.sum(bound, amount)  # the value after the last one within the limit is at most this
        if grows and not (bits.within(amount, 1, high) and bits.within(last, low, high)):
            return
        if not grows and not (bits.within(amount, low - high, -1) and bits.within(last, low, high)):
            return
        previous = terms.minus(terms.of(counter), terms.one)
        value = terms.sum(first, terms.product(previous, amount))
        yield terms.compare(str(operator), value, bound) if grows else terms.compare(str(operator), bound, value)

    def _asking(self, start: Edge):  # type: ignore[no-untyped-def]
        from kcheck.prover.bits import Bits

        return Bits(self._of.terms, self._of.prover, start.path, asks=True)

    def _count_to(self, equal: Formula, counter: Atom, start: Edge) -> Iterator[Formula]:
        """``value != limit`` with a value that reaches the limit exactly: ``k`` is at most the steps to it."""
        terms = self._of.terms
        _, left, right = equal.arguments
        a, b = self._line(left, counter), self._line(right, counter)
        if a is None or b is None:
            return
        moving, limit = (a, b) if b[1] is terms.zero else (b, a)
        step = moving[1].constant
        if limit[1] is not terms.zero or step is None or step == 0:
            return
        distance = terms.minus(limit[0], moving[0])
        if limit[2] is not None:
            distance = terms.minus(right if moving is a else left, moving[0])  # type: ignore[arg-type]
        steps = terms.exact_quotient(distance, abs(step))
        if steps is None:
            return
        steps = steps if step > 0 else terms.scaled(steps, -1)
        width = moving[2][1] if moving[2] is not None else 32
        bits = self._asking(start)
        if bits.within(steps, 0, ((1 << width) - 1) // abs(step)):
            yield terms.compare("le", terms.of(counter), steps)


class _FirstSides:
    """Replaces each ``if`` by its first side."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self._seen: dict[object, object] = {}

    def poly(self, term: Poly) -> Poly:
        return self._terms.replaced(term, self._by, self._seen)

    def condition(self, condition: Formula) -> Formula:
        return self._terms.replaced_condition(condition, self._by, self._seen)

    def _by(self, atom: Atom) -> Poly | None:
        if atom.kind != "if":
            return None
        side = atom.arguments[1]
        assert isinstance(side, Poly)
        return self.poly(side)


def _limits(end: Poly) -> list[int]:
    """The constants with which an iteration compares before it chooses a value, and the numbers before them: a
    counter that begins again at a limit does not go beyond it."""
    chosen = [c for atom in atoms_below(end, set()) if atom.kind == "if" for c in atom.arguments[:1]]
    found: dict[int, None] = {}
    for one in inside_of(c for c in chosen if isinstance(c, Formula)):
        if isinstance(one, Formula) and one.kind == "cmp":
            for side in one.arguments[1:]:
                if isinstance(side, Poly) and side.constant is not None:
                    found |= {side.constant - 1: None, side.constant: None}
    return list(found)[:_MOST_LIMITS]


def _has_inner_flag(term: Poly | Formula) -> bool:
    """Whether a term depends on a condition of which nothing is known: it may differ in each iteration."""
    seen: set[object] = set()
    pending: list[object] = [term]
    while pending:
        one = pending.pop()
        if one in seen:
            continue
        seen.add(one)
        if isinstance(one, Formula) and one.kind == "flag":
            return True
        if isinstance(one, Poly):
            pending.extend(one.atoms())
        elif isinstance(one, Atom | Formula):
            pending.extend(a for a in one.arguments if isinstance(a, Poly | Formula))
    return False


def _width(of: SymbolicExecution, name: str) -> int:
    return max(32, TYPES[of.live.types[name]].bits)
