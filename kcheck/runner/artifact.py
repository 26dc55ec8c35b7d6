"""``artifact:`` of a spec: compile its kernel as a GPU would get it, and hold that against the thresholds."""

from __future__ import annotations

from kcheck.device.artifact import compile_in_child
from kcheck.device.specialise import signatures
from kcheck.lint.check import check
from kcheck.model import Finding, OpSpec


def check_artifact(spec: OpSpec) -> tuple[tuple[Finding, ...], tuple[str, ...]]:
    """(findings, notes). Notes say what was declared and not checked.

    Raises:
        KernelError: the kernel's file cannot be loaded by the compiler's process.
    """
    if spec.artifact is None:
        return (), ()
    if spec.kernel is None or spec.launch is None:
        return (), ("artifact was not checked: kernels of a launcher are not compiled apart in this version",)
    kernels = compile_in_child(spec.root, spec.kernel, signatures(spec), spec.artifact.targets)
    return check(spec.artifact, kernels), ()
