"""``artifact:`` of a spec: compile its kernels as for a GPU, and compare the code with the thresholds."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Self, TypeAlias

from kcheck.dataclass import dataclass
from kcheck.device import Device
from kcheck.device.artifact import Compilation, compile_here, no_compiler
from kcheck.device.assembler import assembled, capability
from kcheck.device.kinds import KINDS, WantedArtifact, Work
from kcheck.device.kinds.base import NotCompiled
from kcheck.linter.check import check, unchecked
from kcheck.model import Case, Finding, FunctionRef, Index3, OpSpec
from kcheck.model.compiled import CompiledKernel, Launched, Signature


class ArtifactCheck:
    """The check of one spec's artifact.

    On the cpu device, the compiler is in this process, and has compiled the kernels when the cases are done; a
    child process may help (:mod:`kcheck.device.precompile`). On other devices a child process compiles, because
    the simulator has replaced the compiler, or this process links machine code for a GPU. The kernel of a
    ``launch:`` is known before the cases run, and compiles in parallel with them; kernels of a launcher are known
    only afterwards.

    Use it as a context manager: its exit stops compilations that are still running.

    Args:
        spec: the spec, with an ``artifact``.
        device: the device that runs the spec's cases.
        cases: the cases, in the order in which they will run.
    """

    def __init__(self, spec: OpSpec, device: Device, cases: Sequence[Case]) -> None:
        assert spec.artifact is not None
        self._spec = spec
        self._device = device
        self._artifact = spec.artifact
        self._begun: list[Work] = []
        self._why_not = no_compiler()
        if spec.kernel is None or spec.launch is None or self._why_not:
            return
        sanitizers = [name for name in device.instruments if spec.sanitize[name] != "off"]
        wanted = WantedArtifact(self._artifact.targets, device.compiles_in_process, self._wants_sass, sanitizers)
        self._begun.append(KINDS[spec.kernel.kind].artifact(replace(spec, debug_code=False), cases, wanted))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        for compilation in self._begun:
            compilation.cancel()

    @property
    def waits(self) -> bool:
        """Whether :meth:`result` will take some time."""
        if self._why_not:
            return False
        return not self._begun or any(compilation.running for compilation in self._begun)

    def result(self, launched: Iterable[Launched]) -> tuple[tuple[Finding, ...], tuple[str, ...]]:
        """(findings, notes), once the cases have run. Notes list what was declared but not checked.

        Args:
            launched: what the cases launched, from :meth:`kcheck.device.base.Device.launched`.

        Raises:
            KernelError: the compiler's process cannot load a kernel's file.
        """
        if self._why_not:
            return (), (f"artifact was not checked: {self._why_not}",)
        if self._spec.debug_code and self._spec.launch is None:
            return (), ("artifact was not checked: the launcher ran code without optimizations",)
        spec, notes = self._spec, list[str]()
        kernels: list[CompiledKernel] = []
        if spec.launch is None:
            for seen in kernels_launched(spec, launched, notes):
                targets = self._artifact.targets
                if seen.codes:
                    kernels += seen.assembled(targets, notes, sass=self._wants_sass)
                elif self._device.compiles_in_process:
                    kernels += compile_here(
                        spec.root, seen.function, seen.signatures, targets, sass=self._wants_sass
                    )
                elif seen.function.given is not None:
                    notes.append(not_found(seen.function))
                else:
                    self._begin(seen.function, seen.signatures)
        kernels += [kernel for compilation in self._begun for kernel in compilation.result()]
        notes += unchecked(self._artifact, kernels)
        return check(self._artifact, kernels), tuple(dict.fromkeys(notes))

    def _begin(self, kernel: FunctionRef, known: Sequence[Signature]) -> None:
        targets = self._artifact.targets
        self._begun.append(Compilation(self._spec.root, kernel, known, targets, sass=self._wants_sass))

    @property
    def _wants_sass(self) -> bool:
        return self._artifact.wants_sass


_Again: TypeAlias = Callable[[str], CompiledKernel] | None


@dataclass(frozen=True, slots=True)
class LaunchedKernel:
    """A kernel that a launcher launched.

    Attributes:
        signatures: the signatures of its launches, each once, in order.
        blocks: its threads per block and the bytes of dynamic shared memory, each pair once, in order.
        codes: the code that ran, for a kernel that is not Numba's, and what compiles it for another target.
    """

    function: FunctionRef
    signatures: tuple[Signature, ...]
    blocks: tuple[tuple[Index3, int], ...]
    codes: tuple[tuple[CompiledKernel, _Again], ...] = ()

    @property
    def largest(self) -> tuple[Index3, int]:
        """The block with the most threads, then with the most shared memory."""
        return max(self.blocks, key=lambda one: (math.prod(one[0]), one[1]))

    def assembled(self, targets: Sequence[str], notes: list[str], *, sass: bool) -> list[CompiledKernel]:
        """``codes``, assembled for each target: compiled again if the GPU ran code for a later one."""
        found = []
        for target in targets:
            for code, again in self.codes:
                if capability(code.target) <= capability(target):
                    found.append(assembled(code, target, sass=sass))
                elif again is None:
                    ran = f"{code.kernel} ran as code for {code.target}"
                    notes.append(f"artifact was not checked for {target}: {ran}; run it with --device cpu")
                else:
                    try:
                        found.append(assembled(again(target), target, sass=sass))
                    except NotCompiled as refused:
                        found.append(replace(code, target=target, entry="", ptx="", problem=str(refused)))
        return found


def kernels_launched(spec: OpSpec, launched: Iterable[Launched], notes: list[str]) -> tuple[LaunchedKernel, ...]:
    """The kernels that a launcher launched; adds to ``notes`` those that cannot be compiled again."""
    found: dict[tuple[FunctionRef, object], tuple[dict[Signature, None], dict[tuple[Index3, int], None]]] = {}
    others: dict[FunctionRef, tuple[dict[CompiledKernel, _Again], dict[tuple[Index3, int], None]]] = {}
    seen = tuple(launched)
    if not seen:
        notes.append(f"artifact was not checked: {spec.launcher} launched no kernel")
    for one in seen:
        if one.code is not None:
            codes, sizes = others.setdefault(FunctionRef(one.place.file, one.kernel, one.place), ({}, {}))
            codes[one.code] = one.again
            sizes[one.block, one.shared] = None
            continue
        path = os.path.relpath(os.path.realpath(one.place.file), os.path.realpath(spec.root))
        function = FunctionRef(path.replace(os.sep, "/"), one.kernel, one.place, one.given)
        if one.is_local and one.given is None:
            notes.append(not_found(function))
        elif one.signature is None:
            notes.append(f"artifact of {one.kernel} was not checked: an argument is neither an array nor a scalar")
        elif path.startswith(os.pardir):
            notes.append(f"artifact of {one.kernel} was not checked: its file is not in the project")
        else:
            signatures, blocks = found.setdefault((function, one.given), ({}, {}))
            signatures[one.signature] = None
            blocks[one.block, one.shared] = None
    return (
        *(
            LaunchedKernel(function, tuple(types), tuple(blocks))
            for (function, _), (types, blocks) in found.items()
        ),
        *(
            LaunchedKernel(function, (), tuple(sizes), tuple(codes.items()))
            for function, (codes, sizes) in others.items()
        ),
    )


def not_found(kernel: FunctionRef) -> str:
    """The note about a kernel that another process would have to load, but cannot."""
    fix = f"bind it to a name at the top level of {kernel.path}"
    return f"artifact of {kernel.name} was not checked: a function makes this kernel; {fix}"
