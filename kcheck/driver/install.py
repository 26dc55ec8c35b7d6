"""Make unmodified numba-cuda run on the cpu device, in this process."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from kcheck.cpu.cache import ObjectCache
from kcheck.cpu.executor import Executor
from kcheck.cpu.memory import FAR_ROOM, Memory
from kcheck.dataclass import dataclass
from kcheck.driver import context, device, launch, library, link, memory, stream, textures
from kcheck.driver.call import Table
from kcheck.driver.cubin import assembler
from kcheck.driver.current import patch_devices
from kcheck.driver.machine import Machine
from kcheck.driver.repeats import Repeats
from kcheck.driver.stub import Stub, write_stub
from kcheck.errors import DeviceUnavailable
from kcheck.model import Finding
from kcheck.model.layouts import DEVICE_MEMORY

DEFAULT_CC = (8, 0)
_MEMORY_LIMIT, _MEMORY_LEAST = 16 << 30, 256 << 20


@dataclass(frozen=True)
class DeviceSettings:
    """The device's settings.

    Attributes:
        cc: the compute capability.
        cache: folder for the stub and machine code; created when needed.
        memory: bytes of device memory.
        processors: OS threads that run blocks.
        clock: seconds from any origin, for events and time limits.
    """

    cc: tuple[int, int]
    cache: Path
    memory: int
    processors: int
    clock: Callable[[], float] = time.perf_counter


def settings(environment: Mapping[str, str], cc: tuple[int, int] | None = None) -> DeviceSettings:
    """The settings for an environment.

    The compute capability is ``cc``, or if that is None, ``KCHECK_CC``. The cache folder is ``KCHECK_CACHE_DIR``,
    otherwise ``XDG_CACHE_HOME/kcheck``, otherwise ``~/.cache/kcheck``. The device has half of the machine's
    memory, at most 16 GiB, or ``KCHECK_DEVICE_MEMORY`` GiB, and as many processors as :func:`threads` returns.

    Raises:
        DeviceUnavailable: ``KCHECK_CC`` is not a compute capability.
    """
    folder = environment.get("KCHECK_CACHE_DIR")
    if folder is None:
        caches = environment.get("XDG_CACHE_HOME") or os.path.join(environment.get("HOME", os.sep), ".cache")
        folder = os.path.join(caches, "kcheck")
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    chosen = cc or read_cc(environment.get("KCHECK_CC", ""))
    wanted = environment.get(DEVICE_MEMORY, "")
    memory = int(wanted) << 30 if wanted.isdecimal() and int(wanted) else min(_MEMORY_LIMIT, physical // 2)
    return DeviceSettings(chosen, Path(folder), memory, threads(environment))


def threads(environment: Mapping[str, str]) -> int:
    """The threads that one process uses: the processors that it may use, at most ``KCHECK_THREADS``."""
    most, text = len(os.sched_getaffinity(0)), environment.get("KCHECK_THREADS", "")
    return min(most, max(1, int(text))) if text.isdecimal() else most


def read_cc(text: str, asked: str = "KCHECK_CC=") -> tuple[int, int]:
    """``8.0``, ``80`` or ``sm_80`` as (8, 0); the default for an empty text.

    Args:
        asked: what precedes the text in the user's input, for the message.

    Raises:
        DeviceUnavailable: the text is not a compute capability.
    """
    if not text:
        return DEFAULT_CC
    digits = text.removeprefix("sm_").rstrip("af").replace(".", "")
    if not digits.isascii() or not digits.isdigit() or not 50 <= int(digits) <= 129:
        raise DeviceUnavailable(f"{asked}{text!r} is not a compute capability; write it as 8.0, 9.0 or 12.0")
    return int(digits[:-1]), int(digits[-1])


@dataclass(frozen=True)
class Installed:
    """The device of this process; ``machine.executor`` runs its kernels."""

    machine: Machine
    stub: Stub


def install(
    chosen: DeviceSettings,
    report: Callable[[Finding], None],
    write: Callable[[bytes], None],
) -> Installed:
    """Load the stub driver, and patch numba-cuda when it is imported.

    Args:
        chosen: the device's settings.
        report: is called with each finding, on the thread that launched.
        write: is called with what kernels print.

    Raises:
        DeviceUnavailable: numba.cuda is already imported, the stub does not load, or this machine is not
            supported.
    """
    link.watch_imports()
    cache = ObjectCache(chosen.cache / "code")
    executor = Executor(reserve(chosen.memory), chosen.processors, cache, chosen.clock, report, write)
    machine = Machine(chosen.cc, executor, chosen.clock)
    patch_devices(machine)
    code, streams = library.LoadedLibraries(machine, assembler(machine.cc, cache)), stream.Streams()
    Repeats(code, streams.wait).patch()
    table = _calls(machine, code, streams)
    stub = Stub(write_stub(chosen.cache, table), table)

    def forsake() -> None:
        if machine.is_initialized and not machine.survives_fork:
            stub.forsake()

    os.register_at_fork(after_in_child=forsake)
    return Installed(machine, stub)


def reserve(size: int) -> Memory:
    """Device memory of ``size`` bytes, with room for arrays whose rows lie far apart; without that room, then of
    half, a quarter ... of the size, if a limit on address space allows no more.

    Raises:
        DeviceUnavailable: not even the minimum is available.
    """
    with contextlib.suppress(OSError):
        return Memory(size, FAR_ROOM)
    while True:
        try:
            return Memory(size)
        except OSError as fault:
            if size <= _MEMORY_LEAST:
                raise DeviceUnavailable(
                    f"the cpu device needs {_MEMORY_LEAST >> 20} MiB: {fault.strerror}; raise ulimit -v"
                ) from fault
            size //= 2


def calls(machine: Machine, cache: ObjectCache) -> Table:
    """Every implemented call, by its C name: the tables of all families.

    Args:
        cache: where the assembler's results are cached.
    """
    return _calls(machine, library.LoadedLibraries(machine, assembler(machine.cc, cache)), stream.Streams())


def _calls(machine: Machine, code: library.LoadedLibraries, streams: stream.Streams) -> Table:
    def reset() -> None:
        streams.wait(0)
        streams.reset()
        code.reset()
        machine.executor.reset()

    return {
        **device.calls(machine),
        **context.calls(machine, reset, lambda: streams.wait(0)),
        **memory.calls(machine, streams.wait),
        **textures.calls(machine, streams.wait),
        **stream.calls(machine, streams),
        **library.calls(code),
        **launch.calls(code, streams.wait),
    }
