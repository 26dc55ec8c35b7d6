"""A second thread: the terms of an access as another thread has them, and what both have in common.

Two accesses of threads of one block are in no order if the last barrier before them is the same, in the same
iteration of the loops around that barrier. From there, each thread may have gone on to the next iteration of a
loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kcheck.dataclass import dataclass
from kcheck.prover.kernel import Question
from kcheck.prover.model import SymbolicAccess
from kcheck.prover.terms import BLOCK, THREAD, Atom, Formula, Poly
from kcheck.ptx.syntax.ast import Instruction
from kcheck.ptx.syntax.opcodes import BARRIERS


@dataclass(frozen=True, eq=False, slots=True)
class Sharing:
    """What two threads have in common.

    Attributes:
        ahead: by loop, how many iterations the second thread is ahead of the first one: 0, 1 or -1. A loop that is
            not here may be in any iteration.
        all_loops: whether both are in the same iteration of every loop.
        left: the loops that both have left in the same iteration, if they leave it together.
    """

    ahead: Mapping[int, int]
    all_loops: bool = False
    left: frozenset[int] = frozenset()


class Renaming:
    """The terms of another thread."""

    def __init__(self, q: Question, sharing: Sharing, *, same_block: bool) -> None:
        self._q = q
        self._sharing = sharing
        self._same_block = same_block
        self._level = THREAD if same_block else BLOCK
        self._seen: dict[object, object] = {"flags": "'"}
        self._facts: list[Formula] = []
        self._loops = {atom: loop for loop, atoms in q.trace.counters.items() for atom in atoms}

    def poly(self, term: Poly) -> Poly:
        """A term as the second thread has it."""
        return self._q.terms.replaced(term, self._by, self._seen)

    def condition(self, condition: Formula) -> Formula:
        """A condition as the second thread has it."""
        return self._q.terms.replaced_condition(condition, self._by, self._seen)

    def facts(self) -> list[Formula]:
        """What holds for the terms of the second thread, as it does for those of the first one."""
        done: set[Atom] = set()
        while True:
            known = self._q.prover.facts
            left = [atom for atom in self._seen if isinstance(atom, Atom) and atom not in done and atom in known]
            if not left:
                return self._facts
            for atom in left:
                done.add(atom)
                if self._seen[atom] is not self._q.terms.of(atom):
                    self._facts += [self.condition(fact) for fact in known[atom]]

    def differ(self) -> Formula:
        """That it is another thread."""
        terms = self._q.terms
        ids = self._q.threads if self._same_block else self._q.blocks
        return terms.any(terms.compare("ne", terms.of(atom), self.poly(terms.of(atom))) for atom in ids)

    def _by(self, atom: Atom) -> Poly | None:
        return self._renamed(atom) if atom.kind == "var" else None

    def _renamed(self, atom: Atom) -> Poly | None:
        q, terms = self._q, self._q.terms
        name = str(atom.arguments[0])
        scopes = q.trace.scopes.get(atom)
        if scopes is None:
            if atom.level < self._level:
                return None
            return terms.var(f"{name}'", atom.bounds, atom.level)
        if atom.needs_order and not q.ordered:
            return terms.var(f"{name}'", atom.bounds, atom.level)
        own = self._loops.get(atom)
        if own is not None and own in self._sharing.ahead and self._are_shared(scopes[:-1]):
            return terms.sum(terms.of(atom), terms.number(self._sharing.ahead[own]))
        if atom.level < self._level and self._are_shared(scopes):
            return None
        return terms.var(f"{name}'", atom.bounds, atom.level)

    def _are_shared(self, loops: tuple[int, ...]) -> bool:
        """Whether both threads are in the same iteration of these loops."""
        if self._sharing.all_loops:
            return True
        if not self._same_block and loops:
            return False
        return all(self._sharing.ahead.get(loop) == 0 or loop in self._sharing.left for loop in loops)


def sharings(q: Question, a: SymbolicAccess, b: SymbolicAccess) -> Iterator[Sharing]:
    """The ways in which an access of one thread and one of another may be in no order, if barriers converge."""
    found: set[tuple[object, ...]] = set()
    starts = [-1, *(n for n in q.cfg.order if _is_barrier(q, n))]
    for start in starts:
        ways = _ways(q, start)
        for one in ways.get(a.block, ()):
            for two in ways.get(b.block, ()):
                around = _loops_of(q, start) if start != -1 else ()
                ahead: dict[int, int] = {}
                exact = True
                for loop in around:
                    inside = [loop in x.loops for x in (a, b)]
                    if all(inside) and exact and _advances_once(q, loop):
                        ahead[loop] = (loop in two) - (loop in one)
                        # In another iteration of this loop, an inner one has begun again.
                        exact = ahead[loop] == 0 and loop not in one
                    elif not all(inside):
                        exact = False
                    else:
                        exact = False
                left = frozenset(
                    n
                    for n in range(len(q.cfg.loops))
                    if n not in a.loops and n not in b.loops and _is_uniform(q, n)
                )
                # A loop that only one of them has left, or that leads on to another iteration
                # of an outer one, is not shared.
                shared = all(ahead.get(loop) == 0 for loop in around)
                kept = left if shared else frozenset(n for n in left if not _inside_any(q, n, around))
                key = (tuple(sorted(ahead.items())), kept)
                if key not in found:
                    found.add(key)
                    yield Sharing(ahead, left=kept)


def _is_uniform(q: Question, loop: int) -> bool:
    return loop not in q.trace.divergent


def _inside_any(q: Question, loop: int, around: tuple[int, ...]) -> bool:
    return any(q.cfg.loops[loop].blocks <= q.cfg.loops[outer].blocks for outer in around)


def _is_barrier(q: Question, n: int) -> bool:
    end = q.cfg.blocks[n].terminator
    return isinstance(end, Instruction) and end.opcode in BARRIERS


def _loops_of(q: Question, n: int) -> tuple[int, ...]:
    """The loops around a block, outermost first."""
    return tuple(k for k, loop in enumerate(q.cfg.loops) if n in loop.blocks)


def _ways(q: Question, start: int) -> dict[int, set[frozenset[int]]]:
    """By block that is reached from a barrier (-1: from the beginning) before another one: the sets of loops
    around the barrier whose next iteration has begun on the way."""
    around = _loops_of(q, start) if start != -1 else ()
    first = q.cfg.order[0]
    pending = [(first, frozenset[int]())] if start == -1 else []
    if start != -1:
        pending = [(s, _crossed(q, start, s, around, frozenset())) for s in q.cfg.blocks[start].successors]
    found: dict[int, set[frozenset[int]]] = {}
    while pending:
        n, crossed = pending.pop()
        if crossed in found.setdefault(n, set()):
            continue
        found[n].add(crossed)
        if _is_barrier(q, n):
            continue  # accesses before it in the block are reached, and nothing after it
        pending.extend((s, _crossed(q, n, s, around, crossed)) for s in q.cfg.blocks[n].successors)
    return found


def _crossed(q: Question, n: int, to: int, around: tuple[int, ...], crossed: frozenset[int]) -> frozenset[int]:
    more = {k for k in around if q.cfg.loops[k].header == to and n in q.cfg.loops[k].blocks}
    return crossed | more


def _advances_once(q: Question, loop: int) -> bool:
    """Whether each iteration of a loop has a barrier on every way."""
    blocks, header = q.cfg.loops[loop].blocks, q.cfg.loops[loop].header
    seen: set[int] = set()
    pending = [header]
    while pending:
        n = pending.pop()
        if n in seen or _is_barrier(q, n):
            continue
        seen.add(n)
        for s in q.cfg.blocks[n].successors:
            if s == header:
                return False
            if s in blocks:
                pending.append(s)
    return True
