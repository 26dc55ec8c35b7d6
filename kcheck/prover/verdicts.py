"""The answer for one kernel of a spec: proved, refuted or undecided, for each check."""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterable, Iterator, Sequence

from kcheck.device import Device
from kcheck.errors import KernelError, PtxError
from kcheck.model import OpSpec, Span
from kcheck.prover.checks import Doubt, ProofChecks
from kcheck.prover.kept import KeptProofs
from kcheck.prover.kernel import execute, missing_class
from kcheck.prover.launched import launcher_variants
from kcheck.prover.model import Unsupported
from kcheck.prover.proofs import CHECKS, Proof, Proved, Reason
from kcheck.prover.prover import Answers, ProofTimeout, Prover
from kcheck.prover.terms import Formula, Poly, Terms, atoms_below
from kcheck.prover.variants import SpecVariant, of_classes, variants
from kcheck.ptx.syntax.ast import Loc, Operation

SECONDS = 30.0
"""The time for one kernel, in seconds."""

_KEPT = 0.25
"""The part of the time that is for synccheck and overflow only, which are quick."""


def decide(spec: OpSpec, device: Device, seconds: float = SECONDS, kept: KeptProofs | None = None) -> Proved:
    """Prove what can be proved about the kernel of a spec. No case is run.

    Args:
        kept: what earlier processes decided, to which answers are added; None: everything is decided again.

    Raises:
        KernelError, SpecError: the kernel cannot be loaded, or does not match the spec.
    """
    from kcheck.prover.assumptions import told

    reasons: dict[str, list[Reason]] = {name: [] for name in CHECKS}
    count, spent = 0, 0.0
    answers: Answers = {}
    late = Reason(f"it takes longer than {seconds:g} s")
    try:
        for variant in _every(spec, device):
            count += 1
            started = time.process_time()  # what the compiler of the kernel takes does not count
            failed = [name for name in CHECKS if reasons[name]]
            key = "" if kept is None else kept.key(variant, failed)
            found = None if kept is None else kept.load(key)
            if found is None:
                prover = Prover(Terms(), max(seconds - spent, 0.0), answers)
                found = _of_variant(variant, failed, prover, late, _KEPT * seconds)
                if kept is not None and not (prover.was_stopped and any(found.values())):
                    kept.store(key, found)
            for name in CHECKS:
                reasons[name] += found[name]
            spent += time.process_time() - started
            if all(reasons[name] for name in CHECKS):
                break
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


def _every(spec: OpSpec, device: Device) -> Iterator[SpecVariant]:
    """Every kernel that the cases may launch; for Triton, of each combination of classes of integers that the spec
    allows.

    Raises:
        Unsupported: as :func:`variants`; no case was found for a combination.
    """
    groups: dict[tuple[object, ...], list[SpecVariant]] = {}
    every = variants if spec.launcher is None else launcher_variants
    for variant in every(spec, device):
        parts = (variant.dtypes, variant.layouts, variant.params, variant.sizes, variant.spans)
        groups.setdefault(tuple(tuple(part.items()) for part in parts), []).append(variant)
        yield variant
    for group in groups.values():
        while (missing := missing_class(group)) is not None:
            found = of_classes(group[0], device, missing.classes, missing.values)
            if found is None:
                raise Unsupported(f"no case was drawn for which Triton compiles the kernel where {missing}")
            group.append(found)
            yield found


def _of_variant(
    variant: SpecVariant, failed: Container[str], prover: Prover, late: Reason, left: float
) -> dict[str, list[Reason]]:
    """The reasons why checks of one compiled kernel are not proved.

    Args:
        failed: the checks that another kernel of the spec fails, which have no reason here.
        late: the reason of a check without an answer in time.
        left: the seconds that memcheck and racecheck leave for the kernels that follow.
    """
    try:
        q = execute(variant, prover.terms, prover)
    except Unsupported as stopped:
        return {name: [Reason(stopped.reason, place=_place(stopped.operation))] for name in CHECKS}
    except PtxError as fault:
        return {name: [Reason(f"the PTX is not understood: {fault}")] for name in CHECKS}
    except ProofTimeout:
        return {name: [late] for name in CHECKS}
    checks = ProofChecks(q, variant.spec.allow_races)
    if changed := _reasons(checks.changed_inputs, late):
        return dict.fromkeys(CHECKS, changed)
    found: dict[str, list[Reason]] = {}
    ways: dict[str, Callable[[], Iterable[Doubt]]] = {
        "synccheck": checks.synccheck,
        "overflow": checks.overflow,
        "memcheck": checks.memcheck,
        "racecheck": checks.racecheck,
    }
    assumes_order = _assumes_order(checks)
    needed = {"racecheck"} if assumes_order else set()
    if any(name not in failed and checks.depends_on_loads(name) for name in ("synccheck", "overflow")):
        needed.add("memcheck")  # its answer decides whether the loads count
    for name, way in ways.items():
        # The first two are quick. The others leave time for the next kernel.
        is_quick = name in ("synccheck", "overflow")
        with prover.part_of_time(1.0 if is_quick else 0.5, 0.0 if is_quick else left):
            skips = name in failed and name not in needed
            found[name] = [] if skips else _reasons(way, late)
    is_inside = not found["memcheck"] and "memcheck" not in failed
    if not is_inside:
        # An access outside its array may be anywhere, and load anything.
        outside = Reason("memcheck is not proved, so an access may be in another array")
        found["racecheck"] = found["racecheck"] or [outside]
        for name in ("synccheck", "overflow"):
            if not found[name] and checks.depends_on_loads(name):
                found[name] = [outside]
    if assumes_order and not found["synccheck"] and not (is_inside and checks.shared_is_ordered):
        q.ordered = False
        found["synccheck"] = _reasons(checks.synccheck, late)
        if found["synccheck"] and not found["racecheck"]:
            found["racecheck"] = [Reason("synccheck is not proved, so barriers may not order accesses")]
    return found


def _assumes_order(checks: ProofChecks) -> bool:
    trace = checks.q.trace
    seen: set[object] = set()
    terms: list[Poly | Formula] = [branch.condition for branch in trace.branches]
    for access in trace.accesses:
        terms += [access.path, access.address]
    return any(atom.needs_order for term in terms for atom in atoms_below(term, seen))


def _reasons(check: Callable[[], Iterable[Doubt]], late: Reason) -> list[Reason]:
    """The doubts of a check as reasons, a few of them, each line once."""
    found: dict[tuple[object, str], Reason] = {}
    try:
        for doubt in check():
            place = _place(doubt.operation)
            found.setdefault((place, doubt.reason), Reason(doubt.reason, doubt.fix, place, doubt.values))
            if len(found) >= _MOST_REASONS:
                break
    except ProofTimeout:
        return [*found.values(), late]
    return list(found.values())


_MOST_REASONS = 3


def _place(operation: Operation | None) -> Span | None:
    loc: Loc | None = None if operation is None else operation.loc
    return None if loc is None else Span("", loc.line, loc.column)


def words(proofs: Sequence[Proof]) -> dict[str, str]:
    """The verdict of each check by its name."""
    return {proof.check: proof.word for proof in proofs}


__all__ = ["CHECKS", "KernelError", "Proof", "Proved", "Reason", "decide", "words"]
