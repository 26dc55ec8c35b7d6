"""The answer for one kernel of a spec: proved, refuted or undecided, for each check."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Literal

from kcheck.dataclass import dataclass
from kcheck.device import Device
from kcheck.errors import KernelError, PtxError
from kcheck.model import OpSpec, Span
from kcheck.prover.checks import Doubt, ProofChecks
from kcheck.prover.kernel import execute, missing_class
from kcheck.prover.model import Unsupported
from kcheck.prover.prover import Answers, ProofTimeout, Prover
from kcheck.prover.terms import Formula, Poly, Terms, atoms_below
from kcheck.prover.variants import SpecVariant, variants
from kcheck.ptx.syntax.ast import Loc, Operation

CHECKS = ("memcheck", "racecheck", "synccheck", "overflow")
SECONDS = 30.0
"""The time for one kernel, in seconds."""

Word = Literal["proved", "refuted", "undecided", "off"]


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a check is not proved.

    Attributes:
        message: in plain words; ``fix``: what in the spec would decide it, or empty.
        place: the line in the source; None: the whole kernel.
        values: the sizes and params that the solver proposes.
    """

    message: str
    fix: str = ""
    place: Span | None = None
    values: Mapping[str, int] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class Proof:
    """The verdict of one check.

    Attributes:
        seed: of the case that refutes it; None if no case does.
        finding: what that case showed.
    """

    check: str
    word: Word
    reasons: tuple[Reason, ...] = ()
    seed: int | None = None
    finding: str = ""


@dataclass(frozen=True, slots=True)
class Proved:
    """The verdicts of one spec.

    Attributes:
        kernels: how many compiled kernels there are: one for each choice of dtypes, layouts and constants.
        seconds: how long it took, without the compiler of the kernel.
    """

    spec: OpSpec
    proofs: tuple[Proof, ...]
    assumptions: tuple[str, ...]
    kernels: int
    seconds: float


def decide(spec: OpSpec, device: Device, seconds: float = SECONDS) -> Proved:
    """Prove what can be proved about the kernel of a spec. No case is run.

    Raises:
        KernelError, SpecError: the kernel cannot be loaded, or does not match the spec.
    """
    from kcheck.prover.assumptions import told

    reasons: dict[str, list[Reason]] = {name: [] for name in CHECKS}
    count, spent = 0, 0.0
    groups: dict[tuple[object, ...], list[SpecVariant]] = {}
    answers: Answers = {}
    try:
        for variant in variants(spec, device):
            count += 1
            parts = (variant.dtypes, variant.layouts, variant.params, variant.sizes, variant.spans)
            groups.setdefault(tuple(tuple(part.items()) for part in parts), []).append(variant)
            started = time.process_time()  # what the compiler of the kernel takes does not count
            for name, found in _of_variant(variant, max(seconds - spent, 0.0), seconds, answers).items():
                reasons[name] += found
            spent += time.process_time() - started
            if all(reasons[name] for name in CHECKS):
                break
        else:
            for group in groups.values():
                if missing := missing_class(group):
                    raise Unsupported(f"no case was drawn for which Triton compiles the kernel where {missing}")
    except Unsupported as stopped:
        for name in CHECKS:
            reasons[name].append(Reason(stopped.reason, place=_place(stopped.operation)))
    proofs = []
    for name in CHECKS:
        if spec.sanitize[name] == "off":
            proofs.append(Proof(name, "off"))
        else:
            told_reasons = tuple(dict.fromkeys(reasons[name]))
            proofs.append(Proof(name, "undecided" if told_reasons else "proved", told_reasons))
    return Proved(spec, tuple(proofs), told(spec), count, spent)


def _of_variant(variant: SpecVariant, seconds: float, limit: float, answers: Answers) -> dict[str, list[Reason]]:
    """The reasons why checks of one compiled kernel are not proved.

    Args:
        seconds: what is left of the limit of all kernels of the spec.
    """
    terms = Terms()
    prover = Prover(terms, seconds, answers)
    late = {name: [Reason(f"it takes longer than {limit:g} s")] for name in CHECKS}
    try:
        q = execute(variant, terms, prover)
    except Unsupported as stopped:
        return {name: [Reason(stopped.reason, place=_place(stopped.operation))] for name in CHECKS}
    except PtxError as fault:
        return {name: [Reason(f"the PTX is not understood: {fault}")] for name in CHECKS}
    except ProofTimeout:
        return late
    checks = ProofChecks(q, variant.spec.allow_races)
    found = dict(late)
    try:
        found["synccheck"] = _reasons(checks.synccheck())
        found["overflow"] = _reasons(checks.overflow())
        found["memcheck"] = _reasons(checks.memcheck())
        found["racecheck"] = _reasons(checks.racecheck())
    except ProofTimeout:
        pass  # what has no answer keeps its reason
    if found["memcheck"]:
        # An access outside its array may be anywhere, and load anything.
        outside = Reason("memcheck is not proved, so an access may be in another array")
        found["racecheck"] = found["racecheck"] or [outside]
        if q.loads:
            for name in ("synccheck", "overflow"):
                found[name] = found[name] or [outside]
    if found["racecheck"] and not found["synccheck"] and _assumes_order(checks):
        q.ordered = False
        try:
            found["synccheck"] = _reasons(checks.synccheck())
        except ProofTimeout:
            found["synccheck"] = late["synccheck"]
    return found


def _assumes_order(checks: ProofChecks) -> bool:
    trace = checks.q.trace
    seen: set[object] = set()
    terms: list[Poly | Formula] = [branch.condition for branch in trace.branches]
    for access in trace.accesses:
        terms += [access.path, access.address]
    return any(atom.needs_order for term in terms for atom in atoms_below(term, seen))


def _reasons(doubts: Iterable[Doubt]) -> list[Reason]:
    """The doubts as reasons, a few of them, each line once."""
    found: dict[tuple[object, str], Reason] = {}
    for doubt in doubts:
        place = _place(doubt.operation)
        found.setdefault((place, doubt.reason), Reason(doubt.reason, doubt.fix, place, doubt.values))
        if len(found) >= _MOST_REASONS:
            break
    return list(found.values())


_MOST_REASONS = 3


def _place(operation: Operation | None) -> Span | None:
    loc: Loc | None = None if operation is None else operation.loc
    return None if loc is None else Span("", loc.line, loc.column)


def words(proofs: Sequence[Proof]) -> dict[str, str]:
    """The verdict of each check by its name."""
    return {proof.check: proof.word for proof in proofs}


__all__ = ["CHECKS", "KernelError", "Proof", "Proved", "Reason", "decide", "words"]
