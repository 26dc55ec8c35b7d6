"""The interface of a device, and what differs between devices: where memory is and how a launch ends."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from kcheck.cases import Allocation, CaseArrays
from kcheck.device.harvest import Bytes
from kcheck.model import Finding, OpSpec, Outcome, Schedule
from kcheck.model.compiled import Launched

if TYPE_CHECKING:
    from kcheck.device.kinds.modules import Modules


class Device(Protocol):
    """Runs cases.

    Attributes:
        name: ``gpu``, ``cpu`` or ``simulator``; ``description`` is for people.
        lost: why this device can run nothing more in this process; empty while it can.
    """

    name: str
    description: str

    @property
    def lost(self) -> str:
        """Why this device can run nothing more."""

    def prepare(self, spec: OpSpec) -> None:
        """Load the spec's kernel or launcher and check it against the spec.

        Raises:
            KernelError: it cannot be loaded, is not a kernel, or takes other arguments than the spec passes.
        """

    def launched(self, spec: OpSpec) -> tuple[Launched, ...]:
        """The kernels that the spec's cases have launched so far, each signature with each block once, in
        order."""

    @property
    def instruments(self) -> tuple[str, ...]:
        """The sanitizers of INSTRUMENTED that this device can run."""

    def run(
        self, spec: OpSpec, arrays: CaseArrays, *, timeout: float | None, instrument: Collection[str] = ()
    ) -> Outcome:
        """Launch one case and return the outcome. What the kernel does wrong is a finding, never an exception.

        Args:
            instrument: the sanitizers among :attr:`instruments` that check this case; results stay bit-identical.
            timeout: seconds for the launch that is judged; each repeat may take as long, or twice as long as the
                launch took if that is more. None: no limit.
        """


@dataclass(frozen=True, slots=True)
class Staged:
    """An allocation on the device: the strided array there, and a function that copies its bytes back."""

    array: Any
    fetch: Callable[[], Bytes]


class Backend(Protocol):
    """One implementation under ``numba.cuda``.

    Attributes:
        orders_threads: whether it runs threads in a requested order.
        sanitizers: those that this device can run; a note lists the others as not checked.
        modules: where compiled kernels go that are not numba.cuda's; None: this device runs no others.
    """

    name: str
    description: str
    lost: str
    orders_threads: bool
    sanitizers: tuple[str, ...]
    modules: Modules | None

    def unsupported(self, dtype: str) -> str:
        """Why arrays of a dtype cannot be passed to kernels on this device; empty if they can."""

    def instrument(self, sanitizers: Collection[str]) -> None:
        """Run the following launches in code with the checks of these sanitizers and no others."""

    def instrumented(self) -> float:
        """Seconds spent in instrumented code since :meth:`instrument` was called, including its compilation."""

    def stage(self, allocation: Allocation, buffer: Bytes) -> Staged:
        """Copy an allocation's bytes to the device and make the array that is passed to the kernel."""

    def launch(
        self, job: Callable[[], None], spec: OpSpec, deadline: float | None, schedule: Schedule
    ) -> list[Finding]:
        """Call ``job``, which launches, and wait for the device.

        Args:
            deadline: on the clock of ``time.monotonic``.
            schedule: the order of threads, if the device ``orders_threads``.

        Returns:
            Findings of a launch that finished.

        Raises:
            LaunchFault: the launch did not finish.
        """

    def launched(self) -> tuple[Launched, ...]:
        """The kernels that the last call of :meth:`launch` launched, each signature with each block once."""

    def float_atomics(self) -> bool | None:
        """Whether the kernels of the last :meth:`launch` add floats atomically, in an unspecified order. None if
        the device cannot tell."""

    def narrow_floats(self) -> bool | None:
        """Whether the kernels of the last :meth:`launch` do arithmetic in 16-bit floats. None where the device
        cannot tell."""

    def is_kernel(self, function: Any) -> bool:
        """Whether an object is a ``@cuda.jit`` kernel (and not a device function)."""


@contextmanager
def unheard() -> Iterator[None]:
    """Drop what kernels and launchers print in the meantime, since the user did not ask for these launches. This
    has no effect on a GPU, whose driver bypasses Python's streams.
    """
    with open(os.devnull, "w", encoding="utf-8") as nowhere, redirect_stdout(nowhere):
        yield
