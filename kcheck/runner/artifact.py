"""``artifact:`` of a spec: compile its kernels as a GPU would get them, and hold that against the thresholds."""

from __future__ import annotations

import os
from collections.abc import Iterable

from kcheck.device import Device
from kcheck.device.artifact import compile_here, compile_in_child
from kcheck.device.specialise import signatures
from kcheck.lint import check
from kcheck.model import Finding, Function, OpSpec
from kcheck.model.compiled import CompiledKernel, Launched, Signature


def check_artifact(spec: OpSpec, device: Device) -> tuple[tuple[Finding, ...], tuple[str, ...]]:
    """(findings, notes). Notes say what was declared and not checked.

    Args:
        device: that has run the spec's cases, for the kernels of a launcher.

    Raises:
        KernelError: a kernel's file cannot be loaded by the compiler's process.
    """
    if spec.artifact is None:
        return (), ()
    # Under the simulator there is no compiler; a GPU's process has been linked for machine code.
    compile_kernels = compile_here if device.name == "cpu" else compile_in_child
    notes: list[str] = []
    kernels: list[CompiledKernel] = []
    for function, known in _kernels(spec, device.launched(spec), notes):
        kernels += compile_kernels(spec.root, function, known, spec.artifact.targets)
    return check(spec.artifact, kernels), tuple(notes)


def _kernels(
    spec: OpSpec, launched: Iterable[Launched], notes: list[str]
) -> Iterable[tuple[Function, tuple[Signature, ...]]]:
    """The kernels with their signatures: ``kernel`` of a ``launch:``, else all that the launcher launched."""
    if spec.kernel is not None and spec.launch is not None:
        yield spec.kernel, signatures(spec)
        return
    found: dict[Function, list[Signature]] = {}
    for one in launched:
        path = os.path.relpath(os.path.realpath(one.place.file), os.path.realpath(spec.root))
        if one.signature is None:
            notes.append(f"artifact of {one.kernel} was not checked: it takes what is no array and no scalar")
        elif path.startswith(os.pardir):
            notes.append(f"artifact of {one.kernel} was not checked: its file is not in the project")
        else:
            function = Function(path.replace(os.sep, "/"), one.kernel, one.place)
            found.setdefault(function, []).append(one.signature)
    yield from ((function, tuple(known)) for function, known in found.items())
