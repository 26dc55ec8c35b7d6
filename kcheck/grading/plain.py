"""What a problem is, and what a candidate may know of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from pathlib import Path
from typing import Any

from kcheck.grading.candidate import Order
from kcheck.model import Case, OpSpec


class GradingProblem(ABC):
    """What candidates are judged against. It is pickled, for processes that grade.

    Attributes:
        name: for reports.
        kind: of its kernels, as in ``KernelRef.kind``; ``torch`` if PyTorch code calls candidates.
        asks_for_kernels: whether a result that no kernel computes is a cheat.
        has_checker: whether :meth:`checked` asks its own checker.
    """

    name: str
    kind: str
    asks_for_kernels: bool
    has_checker: bool = False

    @abstractmethod
    def spec(self) -> OpSpec:
        """The cases, the reference and the tolerance.

        Raises:
            SpecError, KernelError, UserError: the problem cannot be used.
        """

    @abstractmethod
    def order(self, candidate: Path) -> tuple[OpSpec, Order, tuple[str, ...]]:
        """The spec with this candidate as its kernel; what the candidate's process is for; what it reads.

        Raises:
            SpecError: the candidate's text shows that it cannot be launched.
        """

    def work(self, case: Case) -> int:
        """How much work the problem's operators do in a case; 0 if PyTorch's operators are not counted."""
        return 0

    def accepts(self, case: Case) -> bool:
        """Whether the problem accepts the sizes of a case."""
        return True

    def extra(self, case: Case) -> Any:
        """What a launch of a case needs besides its arrays."""
        return None

    def itself(self, case: Case, inputs: dict[str, Any]) -> dict[str, Any] | None:
        """The outputs of the problem's own code in its own dtypes, on copies of these inputs; None if it has no
        code but the reference. Where they are beyond the oracle's tolerance, no candidate can be judged.

        Raises:
            Exception: any, from the problem's own code.
        """
        return None

    def foreign(self, case: Case) -> list[str]:
        """The inputs whose values in a case are not from the problem's own generator."""
        return []

    def checked(self, case: Case, inputs: dict[str, Any], outputs: dict[str, Any]) -> str:
        """What the problem's own checker says against these outputs; empty if it accepts them or there is none."""
        return ""


def bare(spec: OpSpec) -> OpSpec:
    """The spec without everything that a candidate must not know: references, values, seeds, invariants, and
    functions, which belong to the grader's process."""
    nowhere = replace(spec.reference, path="", name="", given=None)
    inputs = {name: replace(each, values=()) for name, each in spec.inputs.items()}
    launcher = spec.launcher
    if launcher is not None and launcher.given is not None:
        launcher = replace(launcher, given=None)
    return replace(
        spec,
        reference=nowhere,
        launcher=launcher,
        judged=False,
        inputs=inputs,
        invariants=(),
        examples=(),
        seed=0,
        artifact=None,
    )
