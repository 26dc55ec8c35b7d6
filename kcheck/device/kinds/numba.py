"""Kernels of numba.cuda, which Numba compiles for the argument types of each launch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

from kcheck.device.artifact import Compilation, compile_here
from kcheck.device.base import Backend
from kcheck.device.call import load_kernel
from kcheck.device.kinds.base import Called, WantedArtifact, Work
from kcheck.device.precompile import Precompile, begin
from kcheck.device.specialize import signatures
from kcheck.model import Case, OpSpec
from kcheck.model.compiled import CompiledKernel


class NumbaDeviceKind:
    """A :class:`kcheck.device.kinds.base.DeviceKind`."""

    note = ""
    elsewhere = "run this spec with --device gpu or --device simulator"

    def prepare(self, spec: OpSpec, backend: Backend) -> None:
        """Import the kernel's file."""
        load_kernel(spec, backend)

    def unsupported(self, dtype: str, backend: Backend) -> str:
        """The reason if Numba has no type for arrays of this dtype."""
        return backend.unsupported(dtype)

    def job(self, called: Called, backend: Backend) -> Callable[[], None]:
        """A function that launches the kernel; Numba compiles it during the launch."""
        kernel, shape = load_kernel(called.spec, backend), called.shape
        values = [passed.value for passed in called.arguments]

        return lambda: kernel[shape.grid, shape.block, 0, shape.shared](*values)

    def launching(self, spec: OpSpec, case: Case, backend: Backend) -> AbstractContextManager[None]:
        """An empty context: a launcher imports the kernels that it launches."""
        return nullcontext()

    def artifact(self, spec: OpSpec, cases: Sequence[Case], wanted: WantedArtifact) -> Work:
        """On the cpu device, compile in this process, which has already compiled most of it; otherwise in a child
        process with the real ``numba.cuda``."""
        assert spec.kernel is not None
        if wanted.in_process:
            ahead = None if spec.debug_code else begin(spec, cases, wanted.sanitizers)
            return _Here(spec, wanted.targets, wanted.sass, ahead)
        return Compilation(spec.root, spec.kernel, signatures(spec), wanted.targets, sass=wanted.sass)


class _Here:
    """A :class:`kcheck.device.kinds.base.Work` in the process of the cpu device, once the cases have run.

    Args:
        precompile: processes that compile some of it in advance.
    """

    def __init__(self, spec: OpSpec, targets: Sequence[str], sass: bool, precompile: Precompile | None) -> None:
        self._spec = spec
        self._targets = targets
        self._sass = sass
        self._precompile = precompile

    @property
    def running(self) -> bool:
        """True: all work is done in :meth:`result`."""
        return True

    def result(self) -> tuple[CompiledKernel, ...]:
        """The kernels; compiles those that the cases did not need."""
        spec = self._spec
        assert spec.kernel is not None
        return compile_here(spec.root, spec.kernel, signatures(spec), self._targets, sass=self._sass)

    def cancel(self) -> None:
        """End the processes that compile in advance."""
        if self._precompile is not None:
            self._precompile.cancel()


NUMBA = NumbaDeviceKind()
