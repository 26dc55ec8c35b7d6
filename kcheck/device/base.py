"""What a device is, and what differs between devices: where memory lies and how a launch comes to its end."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from typing import Any, Protocol

from kcheck.cases import Allocation, CaseArrays
from kcheck.device.harvest import Bytes
from kcheck.model import Finding, OpSpec, Outcome, Schedule
from kcheck.model.compiled import Launched


class Device(Protocol):
    """Runs cases.

    Attributes:
        name: ``gpu``, ``cpu`` or ``simulator``; ``description`` says more, for people.
        lost: why nothing more can be run on this device in this process; empty while it can.
    """

    name: str
    description: str

    @property
    def lost(self) -> str:
        """Why nothing more can be run."""

    def prepare(self, spec: OpSpec) -> None:
        """Load the spec's kernel or launcher and hold it against the spec.

        Raises:
            KernelError: it cannot be loaded, is no kernel, or takes other arguments than the spec gives it.
        """

    def launched(self, spec: OpSpec) -> tuple[Launched, ...]:
        """The kernels that the spec's cases have come to so far, each signature with each block once, in order."""

    @property
    def instruments(self) -> tuple[str, ...]:
        """The sanitizers of INSTRUMENTED that this device can run."""

    def run(
        self, spec: OpSpec, arrays: CaseArrays, *, timeout: float | None, instrument: Collection[str] = ()
    ) -> Outcome:
        """Launch one case and say what came of it. What the kernel does wrong is a finding, never an exception.

        Args:
            instrument: of :attr:`instruments`, those that are to see this case; the bits stay the same.
            timeout: seconds for the launch that is judged; each repeat of it may take as long, or twice as long as
                the launch took if that is more. None for no limit.
        """


@dataclass(frozen=True, slots=True)
class Staged:
    """An allocation on the device: the strided array there, and how to get its bytes back."""

    array: Any
    fetch: Callable[[], Bytes]


class Backend(Protocol):
    """One way to be under ``numba.cuda``.

    Attributes:
        orders_threads: whether it runs threads in the order that it is asked for.
        sanitizers: those that this device can run; of the rest, a note says that nobody does.
    """

    name: str
    description: str
    lost: str
    orders_threads: bool
    sanitizers: tuple[str, ...]

    def unsupported(self, dtype: str) -> str:
        """Why arrays of a dtype cannot be handed to a kernel here; empty if they can."""

    def instrument(self, sanitizers: Collection[str]) -> None:
        """Run the launches that follow in code with the checks of these, and without any other."""

    def instrumented(self) -> float:
        """Seconds in code with checks in it since :meth:`instrument` was called, compiling it included."""

    def stage(self, allocation: Allocation, buffer: Bytes) -> Staged:
        """Copy an allocation's bytes to the device and make the array that the kernel gets."""

    def launch(
        self, job: Callable[[], None], spec: OpSpec, deadline: float | None, schedule: Schedule
    ) -> list[Finding]:
        """Call ``job``, which launches, and wait for the device.

        Args:
            deadline: on the clock of ``time.monotonic``.
            schedule: the order of threads, where the device ``orders_threads``.

        Returns:
            Findings of a launch that came to its end.

        Raises:
            LaunchFault: it did not.
        """

    def launched(self) -> tuple[Launched, ...]:
        """The kernels that the last call of :meth:`launch` came to, each signature with each block once."""

    def float_atomics(self) -> bool | None:
        """Whether the kernels of the last :meth:`launch` add floats atomically, in an order that is left open.
        None where the device does not see it."""

    def narrow_floats(self) -> bool | None:
        """Whether the kernels of the last :meth:`launch` do arithmetic in 16-bit floats. None where the device
        cannot tell."""

    def is_kernel(self, function: Any) -> bool:
        """Whether an object is a ``@cuda.jit`` kernel (and not a device function)."""


@contextmanager
def unheard() -> Iterator[None]:
    """Launches made meanwhile are not the user's: what kernels and launchers print is dropped.

    Not so on a GPU, whose driver writes past Python's streams.
    """
    with open(os.devnull, "w", encoding="utf-8") as nowhere, redirect_stdout(nowhere):
        yield
