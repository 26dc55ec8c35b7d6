"""The common part of kernels that are loaded as PTX, not through numba.cuda: launch, arguments, `artifact:`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from importlib import import_module
from typing import Protocol

from kcheck.device.assembler import assembled
from kcheck.device.base import Backend
from kcheck.device.kinds.arguments import check, fitted, packed
from kcheck.device.kinds.base import Called, NotCompiled, WantedArtifact, Work
from kcheck.device.kinds.named import UnknownKernel
from kcheck.device.kinds.named import kernels as open_kernels
from kcheck.device.kinds.variables import LaunchVariables
from kcheck.device.modules import Parameter, Unit, UnitRun
from kcheck.device.plan import LaunchFault
from kcheck.device.specialize import signature_of_case
from kcheck.errors import KernelError
from kcheck.model import Case, Finding, OpSpec
from kcheck.model.compiled import CompiledKernel, Signature
from kcheck.nearest import did_you_mean
from kcheck.specfile.kinds import KINDS as SPEC_KINDS


class Compiler(Protocol):
    """What differs between these kinds: where the PTX comes from."""

    def load(self, spec: OpSpec, target: str = "") -> None:
        """Check what does not depend on a case. Raises KernelError or SpecError.

        Args:
            target: the target of the device; empty if the kernel is only compiled.
        """

    def known(self, spec: OpSpec) -> tuple[Collection[str], Collection[str]]:
        """The kernels of the spec's file, and all other names that could be kernels."""

    def unit(self, spec: OpSpec, case: Case, target: str, name: str = "") -> Unit:
        """The kernel, compiled for a case; the same object for cases that need the same code.

        Args:
            name: another kernel in the same file, with its template arguments; empty for the spec's.

        Raises:
            NotCompiled: the compiler rejects it.
            KernelError, SpecError: it cannot be compiled for another reason.
        """


class CompiledKind:
    """A :class:`kcheck.device.kinds.base.DeviceKind` that uses a :class:`Compiler`.

    Args:
        name: its key in ``kcheck.specfile.kinds.KINDS``.
        note: a note for every spec with such a kernel.
    """

    elsewhere = "run this spec with --device gpu"

    def __init__(self, name: str, compiler: Compiler, note: str = "") -> None:
        self.note = note
        self._title = SPEC_KINDS[name].title
        self._compiler = compiler

    def prepare(self, spec: OpSpec, backend: Backend) -> None:
        """Check the device, and what does not depend on a case."""
        assert spec.kernel is not None
        if backend.modules is None:
            what = f"{spec.kernel} is {self._title}, which the {backend.name} cannot run"
            raise KernelError(spec.kernel.span, what, "use --device cpu or --device gpu")
        self._compiler.load(spec, current_target())

    def unsupported(self, dtype: str, backend: Backend) -> str:
        """Empty: arrays are passed as pointers, regardless of their elements."""
        return ""

    def job(self, called: Called, backend: Backend) -> Callable[[], None]:
        """Compile the kernel, compare its parameters with the arguments, and lay out the arguments."""
        spec, modules = called.spec, backend.modules
        assert spec.launch is not None
        assert modules is not None
        try:
            unit = self._compiler.unit(spec, called.case, current_target())
        except NotCompiled as refused:
            raise LaunchFault(*refused.findings) from None
        _check_shared(spec, called.shape.shared)
        arguments = fitted(unit.parameters, called.arguments)
        check(spec, unit.instance, unit.parameters, arguments)
        content = packed(unit.parameters, arguments)
        signature = signature_of_case(spec, called.case)
        run = UnitRun(unit, called.shape.block, called.shape.shared, signature)
        cooperative = spec.launch.cooperative

        def launch() -> None:
            modules.launch(run, called.shape, content, cooperative=cooperative)

        if not called.variables:
            return launch

        def launch_with_variables() -> None:
            variables = LaunchVariables(spec, unit, modules, called.variables)
            variables.set()
            launch()
            import_module("numba.cuda").synchronize()
            variables.read()

        return launch_with_variables

    def members(self, spec: OpSpec, case: Case, number: int) -> Mapping[str, Parameter]:
        """Where the compiler puts the members of a struct among the arguments, with offsets in the struct: by
        path, such as ``inner.sizes[1]``; empty for code that does not tell.

        Args:
            number: of the argument.

        Raises:
            NotCompiled, KernelError, SpecError: the kernel cannot be compiled.
        """
        found = self._compiler.unit(spec, case, current_target()).parameters[number].members or {}
        return {path: member for path, member in found.items() if member is not None}

    def launching(self, spec: OpSpec, case: Case, backend: Backend) -> AbstractContextManager[None]:
        """In this context, ``kcheck.kernels`` has the kernels of the spec's file."""
        modules = backend.modules
        assert modules is not None

        def unit(name: str) -> Unit:
            assert spec.kernel is not None
            own = name in (spec.kernel.name, f"{spec.kernel.name}<{spec.kernel.arguments}>")
            kernels, others = self._compiler.known(spec)
            last = name.partition("<")[0].rpartition("::")[2].strip()
            if last not in kernels and last not in others:
                fix = did_you_mean(last, kernels) or f"its kernels: {', '.join(kernels) or 'none'}"
                raise UnknownKernel(f"{spec.kernel.path} has no kernel {last!r}", fix)
            try:
                return self._compiler.unit(spec, case, current_target(), "" if own else name)
            except NotCompiled as refused:
                raise LaunchFault(*refused.findings) from None

        def names() -> Iterator[str]:
            assert spec.kernel is not None
            yield spec.kernel.name
            yield from (name for name in self._compiler.known(spec)[0] if name != spec.kernel.name)

        return open_kernels.opened(unit, modules, names)

    def artifact(self, spec: OpSpec, cases: Sequence[Case], wanted: WantedArtifact) -> Work:
        """In this process, once the cases have run."""
        return AsNeeded(lambda: self._all(spec, cases, wanted))

    def _all(self, spec: OpSpec, cases: Sequence[Case], wanted: WantedArtifact) -> tuple[CompiledKernel, ...]:
        self._compiler.load(spec)
        made: dict[tuple[str, str, Signature], CompiledKernel] = {}
        for target in wanted.targets:
            for case in cases:
                signature = signature_of_case(spec, case)
                try:
                    unit = self._compiler.unit(spec, case, target)
                except NotCompiled as refused:
                    made.setdefault(("", target, signature), not_compiled(spec, refused, signature, target))
                    continue
                key = (unit.instance, target, signature)
                if key not in made:
                    made[key] = assembled(unit.code(signature), target, sass=wanted.sass)
        return tuple(made.values())


class AsNeeded:
    """A :class:`kcheck.device.kinds.base.Work` that runs when its result is requested."""

    def __init__(self, work: Callable[[], tuple[CompiledKernel, ...]]) -> None:
        self.result = work
        self.running = True

    def cancel(self) -> None:
        """No effect: nothing is running."""


def not_compiled(spec: OpSpec, refused: NotCompiled, signature: Signature, target: str) -> CompiledKernel:
    """The record of a kernel that the compiler rejects."""
    assert spec.kernel is not None
    first = refused.findings[0]
    return CompiledKernel(
        spec.kernel.name, first.place or spec.kernel.span, signature, target, problem=str(refused)
    )


def _check_shared(spec: OpSpec, shared: int) -> None:
    """Raises LaunchFault if a block of the device cannot have so much dynamic shared memory."""
    assert spec.launch is not None
    if shared <= _ALWAYS or spec.launch.shared is None:
        return
    device = import_module("numba.cuda").get_current_device()
    most = int(device.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)
    if shared > most:
        major, minor = device.compute_capability
        what = f"launch.shared is {shared:,} bytes; compute capability {major}.{minor} allows at most {most:,}"
        fix = "reduce launch.shared, or check for a newer device (artifact: {targets: [sm_90]}, KCHECK_CC)"
        raise LaunchFault(Finding("launch", what, fix=fix, place=spec.launch.shared.span))


_ALWAYS = 48 << 10
"""Bytes of shared memory that a block of every device has."""


def current_target() -> str:
    """The target of the device of this process, such as ``sm_80``."""
    major, minor = import_module("numba.cuda").get_current_device().compute_capability
    return f"sm_{major}{minor}"
