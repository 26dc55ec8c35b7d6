"""Runs the cases that the solver proposes. Only a case that fails refutes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from kcheck.dataclass import dataclass
from kcheck.device import Device
from kcheck.errors import KernelError, SpecError
from kcheck.generator import Expander
from kcheck.generator.corners import corner_seed
from kcheck.generator.huge import HUGE, HugeSizes
from kcheck.model import Case, Choices, Event, Example, OpSpec, Range, Status
from kcheck.model.event import CaseFinished
from kcheck.model.levels import STRICT
from kcheck.prover.proofs import Proof, Proved
from kcheck.rng import derive
from kcheck.runner import Options, Recalled, run

_MOST_CASES = 4
_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Refuted:
    """Verdicts after the proposed cases have run, and the events of those that failed, for the store."""

    proved: Proved
    events: tuple[Event, ...] = ()


def refute(proved: Proved, device: Device) -> Refuted:
    """Run the cases that the solver proposes for what is not proved.

    Raises:
        InternalError: an error in kcheck itself.
    """
    undecided = [proof for proof in proved.proofs if proof.word == "undecided"]
    spec = proved.spec
    if not undecided or spec.function is not None:
        return Refuted(proved)
    events: list[Event] = []
    found: dict[str, tuple[Case, str]] = {}
    try:
        cases = list(_cases(spec, undecided))
    except (SpecError, KernelError):
        return Refuted(proved)
    if cases:
        options = Options(
            command="kcheck prove",
            count=0,
            capture=True,
            timeout=_SECONDS,
            only_failed=True,
            lint=False,
            huge=False,
            sanitize={proof.check: STRICT for proof in undecided},
            recalled={(spec.root, spec.path): [Recalled(case, None) for case in cases]},
        )
        events = list(run([replace(spec, artifact=None)], options, device))
        for event in events:
            if isinstance(event, CaseFinished) and event.verdict.status is Status.FAILED:
                for finding in event.verdict.findings:
                    check = "memcheck" if finding.rule == "trap" else finding.rule
                    if check in {proof.check for proof in undecided}:
                        found.setdefault(check, (event.verdict.case, finding.message))
    proofs = tuple(
        replace(proof, word="refuted", seed=found[proof.check][0].seed, finding=_told(*found[proof.check]))
        if proof.check in found
        else proof
        for proof in proved.proofs
    )
    return Refuted(replace(proved, proofs=proofs), tuple(events) if found else ())


def _told(case: Case, message: str) -> str:
    sizes = " ".join(f"{name}={size}" for name, size in case.dims.items())
    return f"{sizes}: {message}" if sizes else message


def _cases(spec: OpSpec, undecided: list[Proof]) -> Iterator[Case]:
    """The cases with the proposed sizes and params, each once. Sizes that do not fit in memory are sampled."""
    expander, beyond = Expander(spec), HugeSizes(spec)
    seen: list[Mapping[str, int]] = []
    for n, values in enumerate(_proposals(spec, undecided)):
        dims = {name: values[name] for name in values if _allows(spec, name, values[name])}
        params = {
            name: values[name]
            for name, param in spec.params.items()
            if name in values and param.expr is None and values[name] in param.values
        }
        wanted = {**dims, **params}
        if wanted in seen or len(seen) >= _MOST_CASES:
            continue
        seen.append(wanted)
        seed = derive(spec.seed, f"proposed_{n}")
        try:
            case = expander.case(seed, "proposed", Example(spec.span, dims=dims, params=params))
        except SpecError:
            continue
        if not beyond.is_huge(case.dims):
            yield case
        elif beyond.is_possible:
            layouts = dict.fromkeys(case.layouts, "contiguous")
            yield replace(case, seed=corner_seed(seed, HUGE[0]), layouts=layouts)


def _proposals(spec: OpSpec, undecided: list[Proof]) -> Iterator[Mapping[str, int]]:
    """The values that the solver proposes. If none are of sizes or params, the kernel may fail for any. Where the
    spec draws no sizes, there is nothing to propose."""
    for proof in undecided:
        for reason in proof.reasons:
            if reason.values:
                yield reason.values
    if not any(isinstance(dim.domain, Range | Choices) for dim in spec.dims.values()):
        yield {}


def _allows(spec: OpSpec, name: str, size: int) -> bool:
    """Whether a dim is drawn, and may have this size."""
    dim = spec.dims.get(name)
    if dim is None:
        return False
    domain = dim.domain
    if isinstance(domain, Range):
        return domain.low <= size <= domain.high
    return isinstance(domain, Choices) and size in domain.values
