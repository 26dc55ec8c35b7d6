"""Chooses the device and installs it before ``numba.cuda`` is first imported."""

from __future__ import annotations

import importlib.util
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import cast

from kcheck import children
from kcheck.dataclass import dataclass
from kcheck.device.base import Device
from kcheck.device.cuda import CudaBackend, driver_answers
from kcheck.device.host import HOST
from kcheck.device.launching import LaunchingDevice
from kcheck.errors import DeviceUnavailable
from kcheck.model import OpSpec

_MODE = "NUMBA_ENABLE_CUDASIM"


def choose(name: str, targets: Sequence[str] = ()) -> Device:
    """The device with this name, ready to run.

    Args:
        name: ``auto``, ``gpu``, ``cpu`` or ``simulator``. ``auto`` is gpu if a driver and a device answer,
            otherwise cpu if it can run, otherwise simulator.
        targets: the targets of the specs, such as ``sm_80``, from which the cpu device's is chosen.

    Raises:
        DeviceUnavailable: the device is unknown or does not answer, or ``numba.cuda`` was already imported for
            another one.
    """
    make = DEVICES.get(name)
    if make is None:
        raise DeviceUnavailable(f"unknown device {name!r}; use one of {', '.join(DEVICES)}")
    return make(targets)


def choose_for(
    specs: Iterable[OpSpec], name: str, targets: Sequence[str] = (), *, any_stride: bool = False
) -> Device:
    """Like :func:`choose`, for a run of some specs: array functions run in this process and do not need a device.

    Args:
        any_stride: as for :meth:`kcheck.device.launching.LaunchingDevice.take_any_stride`.
    """
    if all(spec.function is not None for spec in specs):
        return HOST
    device = choose(name, targets)
    if any_stride and isinstance(device, LaunchingDevice):
        device.take_any_stride()
    return device


def warm(name: str, targets: Sequence[str] = (), *, compiles: bool = True) -> None:
    """Import what launches on the device need, for processes that are forked from this one.

    Nothing is initialized and no thread is started. Only the cpu device has much to import; for other devices, or
    if the device is not available, this does nothing. ``compiles``: as for :func:`kcheck.device.cpu.warm`.
    """
    if name == "auto":
        name = "gpu" if _driver_answers_in_child() else _automatic(driver_answers=False)[0]
    if name != "cpu":
        return
    from kcheck.device import cpu

    if cpu.missing():
        return
    _set_mode("cpu", simulated=False)
    cpu.warm(targets, compiles=compiles)


def _driver_answers_in_child() -> bool:
    """Like :func:`driver_answers`, in a child: it initializes the driver, which does not survive a fork."""
    return children.wait(children.fork(lambda: 0 if driver_answers() else 1)) == 0


def unused(name: str) -> Device:
    """The device with this name for a run without launches (every spec was refused). Does not import Numba."""
    if name == "auto":
        name = _automatic(driver_answers())[0]
    return cast(Device, _Unused(name))


@dataclass(frozen=True, slots=True)
class _Unused:
    """A device that only has a name; using it is an internal error."""

    name: str

    @property
    def description(self) -> str:
        return self.name


def _automatic(driver_answers: bool) -> tuple[str, str]:
    """The device that ``auto`` selects here, and if it is the simulator, why the cpu device cannot run."""
    if driver_answers:
        return "gpu", ""
    from kcheck.device.cpu import missing

    why_not = missing()
    return ("simulator", why_not) if why_not else ("cpu", "")


def _auto(targets: Sequence[str]) -> Device:
    name, why_not = _automatic(driver_answers())
    return _simulator(targets, f"; not the cpu device: {why_not}") if why_not else DEVICES[name](targets)


def _gpu(targets: Sequence[str]) -> Device:
    if not driver_answers():
        raise DeviceUnavailable(
            "--device gpu: no CUDA driver with a device was found; install one, or use --device cpu"
        )
    _set_mode("gpu", simulated=False)
    return LaunchingDevice(CudaBackend())


def _cpu(targets: Sequence[str]) -> Device:
    from kcheck.device.cpu import CpuBackend, missing

    why_not = missing()
    if why_not:
        raise DeviceUnavailable(f"--device cpu: {why_not}")
    _set_mode("cpu", simulated=False)
    return LaunchingDevice(CpuBackend(targets))


def _simulator(targets: Sequence[str], why: str = "") -> Device:
    _set_mode("simulator", simulated=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Numba's deprecation warnings do not concern the user
        from kcheck.device.simulator.backend import SimulatorBackend

        return LaunchingDevice(SimulatorBackend(why))


DEVICES: dict[str, Callable[[Sequence[str]], Device]] = {
    "auto": _auto,
    "gpu": _gpu,
    "cpu": _cpu,
    "simulator": _simulator,
}
"""Every value of ``--device``, with the function that makes the device."""


def _set_mode(name: str, *, simulated: bool) -> None:
    """Make the next import of ``numba.cuda`` import the real one or the simulator."""
    if importlib.util.find_spec("numba_cuda") is None:
        raise DeviceUnavailable(f"--device {name}: numba-cuda is not installed; pip install 'kcheck[cu13]'")
    config = sys.modules.get("numba.cuda.core.config")
    if config is None:
        os.environ[_MODE] = "1" if simulated else "0"
        # Numba may have read the variable already, and numba.cuda uses the value that Numba read.
        if read := sys.modules.get("numba.core.config"):
            read.ENABLE_CUDASIM = int(simulated)  # type: ignore[attr-defined]
    elif bool(config.ENABLE_CUDASIM) != simulated:
        raise DeviceUnavailable(
            f"--device {name}: numba.cuda was already imported {'without' if simulated else 'with'} its simulator;"
            f" start a new process, with {_MODE}={int(simulated)} in its environment if something imports it early"
        )
