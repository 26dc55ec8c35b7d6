"""The interface of a device, and of what differs between devices: where memory is and how a launch ends."""

from __future__ import annotations

import io
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING, Any, Protocol

from kcheck.dataclass import dataclass
from kcheck.device.harvest import Bytes
from kcheck.generator import Allocation, CaseArrays
from kcheck.model import Finding, OpSpec, Outcome, Schedule
from kcheck.model.compiled import Launched
from kcheck.model.coverage import Reached
from kcheck.model.launch_facts import LaunchFacts
from kcheck.model.noise import Noise
from kcheck.model.watched import NearStore, StoreTarget, WatchedLaunch

if TYPE_CHECKING:
    from kcheck.device.modules import Modules
    from kcheck.model.outcome import Array


class Device(Protocol):
    """Runs cases.

    Attributes:
        name: ``gpu``, ``cpu`` or ``simulator``; ``description`` is for reports.
        lost: why this device cannot run anything else in this process; empty if it can.
        compiles_in_process: whether what it launches is compiled in this process, with the real ``numba.cuda`` and
            no GPU, so that the code can be examined without another compilation.
    """

    name: str
    description: str

    @property
    def compiles_in_process(self) -> bool:
        """Whether what it launches is compiled in this process, without a GPU."""

    @property
    def compiled(self) -> int:
        """How many kernels this process has compiled to machine code because they were not in the caches."""

    @property
    def lost(self) -> str:
        """Why this device cannot run anything else in this process; empty if it can."""

    def prepare(self, spec: OpSpec) -> None:
        """Load the spec's kernel or launcher and check it against the spec.

        Raises:
            KernelError: it cannot be loaded, is not a kernel, or its parameters do not match what the spec passes.
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
            instrument: the sanitizers among :attr:`instruments` that check this case, and COVERAGE to count what
                it reaches even if no sanitizer does; results stay bit-identical. With IF_COMPILED, a case whose
                instrumented code is not in the caches is not checked.
            timeout: seconds for the launch that is judged; each repeat may take as long, or twice as long as the
                launch took if that is more. None: no limit.
        """

    def watch(
        self,
        spec: OpSpec,
        arrays: CaseArrays,
        targets: Sequence[StoreTarget],
        *,
        wanted: Collection[str],
        timeout: float | None,
    ) -> WatchedLaunch | None:
        """Launch a case again, in code that records what explains its failure. None if this device has no such
        code, or if the launch did not finish.

        Args:
            targets: the bytes for which to find the stores.
            wanted: VALUES to record the operations that make a NaN or an infinity; GAPS and ``initcheck`` to find
                values from the gaps of arrays.
        """

    def with_noise(
        self, spec: OpSpec, arrays: CaseArrays, noise: Noise, *, timeout: float | None
    ) -> tuple[Mapping[str, Array], tuple[Finding, ...]] | None:
        """Launch a case again and round at random: its outputs, and findings of the rule ``noise`` for sums that
        lose most digits of terms with rounding errors. None if the device cannot, or the launch did not finish."""


@dataclass(frozen=True, slots=True)
class Staged:
    """An allocation on the device: the strided array there, and functions that copy bytes.

    Attributes:
        fetch: copies the bytes back.
        fill: copies new bytes there, for another launch with the same array; None if it must be staged again.
    """

    array: Any
    fetch: Callable[[], Bytes]
    fill: Callable[[Bytes], None] | None = None


class Backend(Protocol):
    """One implementation under ``numba.cuda``.

    Attributes:
        orders_threads: whether it runs threads in a requested order.
        compiles_in_process: as in :class:`Device`.
        sanitizers: the sanitizers that this device can run; a note lists the others as not checked.
        watches: whether :meth:`instrument` takes VALUES, STORES and NOISE.
        samples: whether it can run some blocks of a launch.
        any_stride: whether Numba's kernels are compiled for arrays of any stride
            (:mod:`kcheck.device.any_stride`).
        modules: launches compiled kernels of other kinds than numba.cuda; None if this device cannot run them.
    """

    name: str
    description: str
    lost: str
    orders_threads: bool
    compiles_in_process: bool
    sanitizers: tuple[str, ...]
    watches: bool
    any_stride: bool
    samples: bool
    modules: Modules | None

    @property
    def unfinished(self) -> int:
        """The blocks of the last sampled launch that took too long."""

    def unsupported(self, dtype: str) -> str:
        """Why arrays of a dtype cannot be passed to kernels on this device; empty if they can."""

    @property
    def compiled(self) -> int:
        """As :attr:`Device.compiled`."""

    def instrument(self, sanitizers: Collection[str]) -> None:
        """Run the following launches in code with the checks of these sanitizers only; with IF_COMPILED, those
        whose code is not in the caches without the checks."""

    @property
    def left_out(self) -> bool:
        """Whether a launch since :meth:`instrument` ran without the checks because its code was not in the
        caches."""

    def near_stores(self, targets: Sequence[StoreTarget]) -> Callable[[], tuple[tuple[NearStore, ...], ...]]:
        """Watch the stores of the next launch, which is instrumented for STORES. Returns a function for its stores
        (:attr:`kcheck.model.watched.WatchedLaunch.stores`)."""

    def set_noise(self, noise: Noise) -> None:
        """How launches of code for NOISE round."""

    def reached(self) -> tuple[Reached, ...]:
        """What launches of instrumented code have reached since the last call."""

    def instrumented(self) -> float:
        """Seconds spent in instrumented code since :meth:`instrument` was called, including its compilation."""

    def stage(self, allocation: Allocation, buffer: Bytes) -> Staged:
        """Copy an allocation's bytes to the device and make the array that is passed to the kernel."""

    def unstage(self) -> None:
        """Called at the end of a case: no launch will use its staged arrays."""

    def launch(
        self, job: Callable[[], None], spec: OpSpec, deadline: float | None, schedule: Schedule
    ) -> list[Finding]:
        """Call ``job``, which launches, and wait for the device.

        Args:
            job: if it is the job of the last call, and that launched a single kernel, the launch may be repeated
                without calling ``job``.
            deadline: a time of ``time.monotonic``; None for no limit.
            schedule: the order of threads, if the device ``orders_threads``.

        Returns:
            Findings of a launch that finished.

        Raises:
            LaunchFault: the launch did not finish.
        """

    def time_left(self) -> float | None:
        """Seconds until the deadline of the running :meth:`launch`, without the time that compilers took. None: it
        has no deadline, or :meth:`launch` also stops a job that launches nothing."""

    def launched(self) -> tuple[Launched, ...]:
        """The kernels that the last call of :meth:`launch` launched, each signature with each block once."""

    def facts(self) -> LaunchFacts:
        """What the kernels of the last :meth:`launch` do that decides how results are judged."""

    def is_kernel(self, function: Any) -> bool:
        """Whether an object is a ``@cuda.jit`` kernel (and not a device function)."""


class Uninstrumented:
    """The base class of every :class:`Backend` that cannot instrument code."""

    def instrument(self, sanitizers: Collection[str]) -> None:
        """No effect."""

    samples = False

    @property
    def left_out(self) -> bool:
        """False: there is no instrumented code."""
        return False

    @property
    def unfinished(self) -> int:
        """0: no launch is sampled."""
        return 0

    def set_noise(self, noise: Noise) -> None:
        """No effect."""

    def instrumented(self) -> float:
        """0: nothing was instrumented."""
        return 0.0

    def near_stores(self, targets: Sequence[StoreTarget]) -> Callable[[], tuple[tuple[NearStore, ...], ...]]:
        """Nothing is watched."""
        return lambda: ()

    def reached(self) -> tuple[Reached, ...]:
        """Empty: nothing was counted."""
        return ()


@contextmanager
def unheard() -> Iterator[None]:
    """Discard what kernels and launchers print, because the user did not request these launches. This has no
    effect on a GPU, whose driver bypasses Python's streams.
    """
    with redirect_stdout(_Nowhere()):
        yield


class _Nowhere(io.TextIOBase):
    """A stream that discards what is written."""

    def write(self, text: str) -> int:
        return len(text)
