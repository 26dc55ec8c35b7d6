"""``kcheck prove`` as a function."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kcheck.api.spec import SpecLike, runnable
from kcheck.device import choose_for


@dataclass(frozen=True, eq=False)
class Proofs:
    """What is proved about a kernel, for every size, param, layout and block that its spec allows.

    Attributes:
        verdicts: ``proved``, ``refuted``, ``undecided`` or ``off``, by check.
        reasons: why a check is not proved, by check: each with its line and its fix, if there are any.
        assumptions: what the spec says, one line each.
        seconds: how long it took; what an earlier call decided takes none.
    """

    verdicts: Mapping[str, str]
    reasons: Mapping[str, tuple[str, ...]]
    assumptions: tuple[str, ...]
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether nothing is refuted."""
        return "refuted" not in self.verdicts.values()


def prove(spec: SpecLike) -> Proofs:
    """Prove what can be proved about the kernel of a spec, as ``kcheck prove`` does. Nothing is stored.

    >>> import kcheck
    >>> found = kcheck.prove("specs/matmul_naive.yaml")
    >>> found.verdicts["memcheck"], found.ok
    ('proved', True)

    Args:
        spec: a spec, or the path of a spec file.

    Raises:
        SpecError: the spec is invalid, or code that it names cannot be loaded.
        DeviceUnavailable: the cpu device is not available in this process.
        UserError: the solver is not installed.
    """
    from kcheck.prover.kept import KeptProofs
    from kcheck.prover.prover import require_solver
    from kcheck.prover.refute import refute
    from kcheck.prover.verdicts import decide

    require_solver()
    model = runnable(spec)
    device = choose_for([model], "cpu")
    found = refute(decide(model, device, kept=KeptProofs()), device).proved
    reasons = {}
    for proof in found.proofs:
        told = [proof.finding] if proof.finding else []
        for reason in proof.reasons:
            told.append(reason.text + (f"; {reason.fix}" if reason.fix else ""))
        reasons[proof.check] = tuple(told)
    words = {proof.check: str(proof.word) for proof in found.proofs}
    return Proofs(words, reasons, found.assumptions, found.seconds)
