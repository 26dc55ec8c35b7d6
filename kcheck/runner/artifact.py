"""``artifact:`` of a spec: compile its kernels as a GPU would get them, and hold that against the thresholds."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Self

from kcheck.device import Device
from kcheck.device.artifact import Compilation
from kcheck.device.specialise import signatures
from kcheck.lint import check
from kcheck.model import Finding, Function, OpSpec
from kcheck.model.compiled import Launched, Signature


class ArtifactCheck:
    """The check of one spec's artifact. The kernel of a ``launch:`` is known before the cases are run and compiles
    beside them; those of a launcher are known after.

    Use it as a context: what still compiles at its end is ended.

    Args:
        spec: with an ``artifact``.
    """

    def __init__(self, spec: OpSpec) -> None:
        assert spec.artifact is not None
        self._spec = spec
        self._artifact = spec.artifact
        self._begun: list[Compilation] = []
        if spec.kernel is not None and spec.launch is not None:
            self._begin(spec.kernel, signatures(spec))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        for compilation in self._begun:
            compilation.cancel()

    @property
    def waits(self) -> bool:
        """Whether :meth:`result` will take its time."""
        return self._spec.launch is None or any(compilation.running for compilation in self._begun)

    def result(self, device: Device) -> tuple[tuple[Finding, ...], tuple[str, ...]]:
        """(findings, notes). Notes say what was declared and not checked.

        Args:
            device: that has run the spec's cases, for the kernels of a launcher.

        Raises:
            KernelError: a kernel's file cannot be loaded by the compiler's process.
        """
        notes: list[str] = []
        if self._spec.launch is None:
            for function, known in _launched(self._spec, device.launched(self._spec), notes):
                self._begin(function, known)
        kernels = [kernel for compilation in self._begun for kernel in compilation.result()]
        return check(self._artifact, kernels), tuple(notes)

    def _begin(self, kernel: Function, known: Sequence[Signature]) -> None:
        self._begun.append(Compilation(self._spec.root, kernel, known, self._artifact.targets))


def _launched(
    spec: OpSpec, launched: Iterable[Launched], notes: list[str]
) -> Iterable[tuple[Function, tuple[Signature, ...]]]:
    """The kernels that a launcher launched, with their signatures."""
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
