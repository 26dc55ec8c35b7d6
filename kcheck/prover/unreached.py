"""Lines and branches of a kernel that no known case reaches, and what reaches them (:mod:`kcheck.prover.goals`).

An answer is about every kernel that the cases of a spec may launch. ``never`` is a proof for each of them: the
solver has found that the conditions cannot hold together, and all of the kernels were executed to the end.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Literal, TypeAlias

from kcheck.dataclass import dataclass
from kcheck.device import Device
from kcheck.errors import KernelError, PtxError, SpecError
from kcheck.model import Case, OpSpec
from kcheck.prover.goals import CONTENTS, SECONDS, GoalSearch, depends_on
from kcheck.prover.kernel import execute
from kcheck.prover.launched import launcher_variants
from kcheck.prover.model import Unsupported, Visit
from kcheck.prover.prover import ProofTimeout, Prover
from kcheck.prover.reached import Reaches, ReachLimits
from kcheck.prover.terms import Formula, Terms
from kcheck.prover.variants import SpecVariant, variants
from kcheck.ptx.syntax.ast import Instruction, Module, Operation
from kcheck.span import is_users

_MOST_QUESTIONS = 400  # of the solver, about one compiled kernel

_Visits: TypeAlias = dict[tuple[str, int], list[Visit]]

Word: TypeAlias = Literal["sizes", "never", "undecided"]


@dataclass(frozen=True, slots=True)
class UnreachedPlace:
    """A line that no case reached, or with ``branch``, a branch of which every case took the same way.

    Attributes:
        file: an absolute path.
    """

    file: str
    line: int
    branch: bool


@dataclass(frozen=True, slots=True)
class ReachAnswer:
    """What reaches a place.

    Attributes:
        word: ``sizes``: they do, or may do so if contents of arrays decide, too (``by_contents``); ``never``: no
            sizes and params that the spec allows do, whatever arrays contain; ``undecided``.
        reason: why it is undecided.
    """

    place: UnreachedPlace
    word: Word
    sizes: Reaches | None = None
    by_contents: bool = False
    reason: str = ""


def reach_answers(
    limits: ReachLimits,
    spec: OpSpec,
    device: Device,
    known: Sequence[Case],
    places: Sequence[UnreachedPlace] | None = None,
) -> tuple[list[ReachAnswer], str]:
    """What reaches places that no known case reached, and why not all of the kernels were looked at to the end
    (empty if they were).

    Args:
        places: None: the branches of which one way is impossible at any size, and nothing else.
    """
    asked = _Answers(spec, places)
    steps, why = limits.steps, ""
    try:
        every = variants(spec, device) if spec.launcher is None else launcher_variants(spec, device)
        for number, variant in enumerate(islice(every, limits.kernels + 1)):
            if number == limits.kernels or steps <= 0:
                why = "the spec has more compiled kernels than kcheck examines"
                break
            steps -= asked.add(variant, [case for case in known if variant.has_constants_of(case)], steps)
    except Unsupported as error:
        where = "" if error.operation is None else _where(error.operation)
        why = f"{where}{error.reason}"
    except ProofTimeout:
        why = "it takes too long"
    except (KernelError, PtxError, SpecError) as error:
        why = str(error)
    return list(asked.answers(why)), why


def _where(operation: Operation) -> str:
    return "" if operation.loc is None else f"line {operation.loc.line}: "


class _Answers:
    """The answers so far, for the kernels that were looked at."""

    def __init__(self, spec: OpSpec, places: Sequence[UnreachedPlace] | None) -> None:
        self._spec = spec
        self._places = places
        self._sizes: dict[UnreachedPlace, ReachAnswer] = {}
        self._open: dict[UnreachedPlace, str] = {}
        """The places that something may reach, and why that is not known."""
        self._seen: dict[UnreachedPlace, None] = {}

    def add(self, variant: SpecVariant, known: Sequence[Case], steps: int) -> int:
        """Look at a kernel. Returns how many instructions were executed.

        Args:
            known: the cases that launch it, or one that differs in dtypes or layouts only.

        Raises:
            Unsupported, ProofTimeout: it was not looked at to the end.
        """
        terms = Terms()
        prover = Prover(terms, SECONDS)
        prover.asks = False
        question = execute(variant, terms, prover, steps)
        prover.asks = True
        search = GoalSearch(variant, question, known)
        lines, branches = _by_place(question.trace.visits, variant.launch.module.tree)
        every = [UnreachedPlace(file, line, True) for file, line in branches]
        for place in every if self._places is None else self._places:
            here = (branches if place.branch else lines).get((place.file, place.line), ())
            if place in self._sizes or place in self._open or not here:
                continue
            if prover.questions > _MOST_QUESTIONS:
                raise Unsupported("the kernel has more conditions than the solver is asked about")
            if place.branch:
                self._add_branch(place, here, search, terms)
            else:
                self._add_line(place, here, search, terms)
        return question.steps

    def _add_line(self, place: UnreachedPlace, here: Sequence[Visit], search: GoalSearch, terms: Terms) -> None:
        self._seen[place] = None
        for visit in here:
            is_guard = visit.condition is not None and not _is_jump(visit.operation)
            goal = terms.all((visit.path, visit.condition)) if is_guard and visit.condition else visit.path
            if not search.is_never(goal):
                self._note(place, goal, visit.operation, search)

    def _add_branch(self, place: UnreachedPlace, here: Sequence[Visit], search: GoalSearch, terms: Terms) -> None:
        """A branch of a function that is called at several places is one branch, which each of them may take."""
        copies: dict[int, list[Visit]] = {}
        for visit in here:
            copies.setdefault(visit.operation.line, []).append(visit)
        for copy in copies.values():
            self._seen[place] = None
            ways: list[list[tuple[Formula, Operation]]] = [[], []]
            for visit in copy:
                assert visit.condition is not None
                for way, taken in enumerate((visit.condition, terms.negated(visit.condition))):
                    goal = terms.all((visit.path, taken))
                    if goal is not terms.false:
                        ways[way].append((goal, visit.operation))
            missing = [way for way in ways if not any(search.is_known(goal) for goal, _ in way)]
            if any(all(search.is_never(goal) for goal, _ in way) for way in missing):
                continue
            if self._places is None or not missing:
                goals = [goal for way in ways for goal, _ in way]
                by_contents = any(depends_on(CONTENTS, goal) for goal in goals)
                self._open.setdefault(place, _CONTENTS_DECIDE if by_contents else _IN_VAIN)
                continue
            for goal, operation in (pair for way in missing for pair in way):
                self._note(place, goal, operation, search)

    def _note(self, place: UnreachedPlace, goal: Formula, operation: Operation, search: GoalSearch) -> None:
        """Note what may reach a place."""
        if place in self._sizes:
            return
        by_contents, is_known = depends_on(CONTENTS, goal), search.is_reached(goal)
        sizes = None if is_known else search.solved(goal, operation)
        if sizes is not None:
            self._sizes[place] = ReachAnswer(place, "sizes", sizes, by_contents)
        else:
            why = _CONTENTS_DECIDE if by_contents else _IN_VAIN if is_known else _NO_ANSWER
            self._open.setdefault(place, why)

    def answers(self, why: str) -> Iterator[ReachAnswer]:
        """The answers.

        Args:
            why: a kernel was not looked at to the end; empty if all were.
        """
        for place in self._seen if self._places is None else self._places:
            if place in self._sizes:
                yield self._sizes[place]
            elif place in self._open:
                if self._places is not None:
                    yield ReachAnswer(place, "undecided", reason=self._open[place])
            elif why:
                if self._places is not None:
                    yield ReachAnswer(place, "undecided", reason=why)
            elif place in self._seen or not place.branch:
                yield ReachAnswer(place, "never")
            else:
                yield ReachAnswer(place, "undecided", reason="the compiled code has no branch there")


_CONTENTS_DECIDE = "what arrays contain decides"
_IN_VAIN = "cases had sizes that seem to reach it, but did not"
_NO_ANSWER = "the solver finds no answer"


def _is_jump(operation: Operation) -> bool:
    """Whether all lanes execute an operation that has a predicate."""
    return isinstance(operation, Instruction) and operation.opcode == "bra"


def _by_place(visits: Sequence[Visit], tree: Module) -> tuple[_Visits, _Visits]:
    """The instructions of each line of the user's code, also those of functions that it calls; and those that have
    a predicate, by the innermost line, as where branches are counted."""
    lines: _Visits = {}
    branches: _Visits = {}
    for visit in visits:
        loc = visit.operation.loc
        if loc is None:
            places = [(tree.file, visit.operation.line)] if os.path.isabs(tree.file) else []
        else:
            places = [(tree.files.get(one.file, ""), one.line) for one in loc.chain]
        users = [(file, line) for file, line in places if is_users(file) and line]
        for place in users:
            lines.setdefault(place, []).append(visit)
        for place in users[:1] if visit.condition is not None else ():
            branches.setdefault(place, []).append(visit)
    return lines, branches
