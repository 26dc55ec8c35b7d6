"""The interface of a kind of kernel on a device: how its kernels are compiled, launched, and made ready for
`artifact:`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np

from kcheck.dataclass import dataclass
from kcheck.device.base import Backend
from kcheck.device.plan import Geometry
from kcheck.model import Argument, Case, Finding, OpSpec
from kcheck.model.compiled import CompiledKernel


class NotCompiled(Exception):
    """A compiler's errors, which are findings of the case."""

    def __init__(self, *findings: Finding) -> None:
        self.findings = findings
        super().__init__("; ".join(finding.message for finding in findings))


@dataclass(frozen=True, eq=False, slots=True)
class Passed:
    """One argument of a launch.

    Attributes:
        argument: the argument in the spec.
        value: the array on the device, or a scalar of the dtype in the spec; None for null and for a struct.
        dtype: the name of its dtype in DTYPES; for an array, that of its elements.
        is_param: whether it is a param, whose dtype the spec declares.
        fields: the members of a struct in order; for an accessor, the array, then its sizes and strides.
    """

    argument: Argument
    value: Any
    dtype: str
    is_array: bool
    is_param: bool = False
    fields: tuple[Passed, ...] = ()


@dataclass(frozen=True, eq=False, slots=True)
class Called:
    """A launch of a ``launch:``.

    Attributes:
        params: the spec's params, rounded to their dtypes.
        variables: the values of the module's variables, by name.
    """

    spec: OpSpec
    case: Case
    params: dict[str, np.generic]
    shape: Geometry
    arguments: tuple[Passed, ...]
    variables: tuple[tuple[str, Passed], ...] = ()


class Work(Protocol):
    """A compilation for ``artifact:``, which may run in parallel with the cases."""

    @property
    def running(self) -> bool:
        """Whether :meth:`result` would have to wait."""

    def result(self) -> tuple[CompiledKernel, ...]:
        """The kernels: one for each target and specialization.

        Raises:
            KernelError: the kernel's file cannot be loaded.
        """

    def cancel(self) -> None:
        """Stop it, whether it is finished or not."""


@dataclass(frozen=True, slots=True)
class WantedArtifact:
    """How a kernel is compiled as for a GPU.

    Attributes:
        targets: such as ``sm_80``.
        in_process: whether the device that runs the cases compiles them in this process.
        sass: include the machine code.
        sanitizers: the sanitizers of the cases, for code that is compiled before they run.
    """

    targets: Sequence[str]
    in_process: bool
    sass: bool = False
    sanitizers: Collection[str] = ()


class DeviceKind(Protocol):
    """One kind of kernel.

    Attributes:
        note: a note for every spec with such a kernel; usually empty.
        elsewhere: the fix for what the cpu device does not support.
    """

    note: str
    elsewhere: str

    def prepare(self, spec: OpSpec, backend: Backend) -> None:
        """Load the spec's kernel, and check what can be checked before the cases.

        Raises:
            KernelError: its file cannot be loaded, has no such kernel, or the device cannot run it.
            SpecError: its arguments do not match the spec.
        """

    def unsupported(self, dtype: str, backend: Backend) -> str:
        """Why arrays of a dtype cannot be passed to kernels of this kind; empty if they can."""

    def job(self, called: Called, backend: Backend) -> Callable[[], None]:
        """Compile the kernel for a case, or take it from a cache, and return a function that launches it.

        Raises:
            LaunchFault: the kernel does not compile.
            SpecError: its parameters differ from what the spec passes.
            KernelError: the kernel cannot be used for another reason.
        """

    def launching(self, spec: OpSpec, case: Case, backend: Backend) -> AbstractContextManager[None]:
        """The context in which the spec's launcher runs a case."""

    def artifact(self, spec: OpSpec, cases: Sequence[Case], wanted: WantedArtifact) -> Work:
        """Compile the kernel of a ``launch:`` as for a GPU, in every specialization that the cases may need."""
