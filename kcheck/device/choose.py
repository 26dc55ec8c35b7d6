"""Which device runs, decided and put in place before ``numba.cuda`` is first imported."""

from __future__ import annotations

import importlib.util
import os
import sys
import warnings
from collections.abc import Callable

from kcheck.device.base import Device
from kcheck.device.cuda import CudaBackend, driver_answers
from kcheck.device.launching import LaunchingDevice
from kcheck.errors import DeviceUnavailable

_MODE = "NUMBA_ENABLE_CUDASIM"


def choose(name: str) -> Device:
    """The device of that name, ready to run.

    Args:
        name: ``auto``, ``gpu``, ``cpu`` or ``simulator``. ``auto`` is gpu where a driver and a device answer,
            else simulator.

    Raises:
        DeviceUnavailable: no such device, or it does not answer; or ``numba.cuda`` was imported for another one.
    """
    make = DEVICES.get(name)
    if make is None:
        raise DeviceUnavailable(f"there is no device {name!r}; choose one of {', '.join(DEVICES)}")
    return make()


def _auto() -> Device:
    return _gpu() if driver_answers() else _simulator()


def _gpu() -> Device:
    if not driver_answers():
        raise DeviceUnavailable(
            "--device gpu: no CUDA driver with a device answers here; install one, or run --device simulator"
        )
    _set_mode("gpu", simulated=False)
    return LaunchingDevice(CudaBackend())


def _cpu() -> Device:
    _set_mode("cpu", simulated=False)
    from kcheck.device.cpu import CpuBackend

    return LaunchingDevice(CpuBackend())


def _simulator() -> Device:
    _set_mode("simulator", simulated=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what Numba deprecates is not ours to repeat
        from kcheck.device.simulator.backend import SimulatorBackend

        return LaunchingDevice(SimulatorBackend())


DEVICES: dict[str, Callable[[], Device]] = {"auto": _auto, "gpu": _gpu, "cpu": _cpu, "simulator": _simulator}
"""Every value of ``--device``, with what makes it."""


def _set_mode(name: str, *, simulated: bool) -> None:
    """Make the next import of ``numba.cuda`` the real one or the simulator."""
    if importlib.util.find_spec("numba_cuda") is None:
        raise DeviceUnavailable(f"--device {name}: numba-cuda is not installed; pip install 'kcheck[cu13]'")
    config = sys.modules.get("numba.cuda.core.config")
    if config is None:
        os.environ[_MODE] = "1" if simulated else "0"
    elif bool(config.ENABLE_CUDASIM) != simulated:
        raise DeviceUnavailable(
            f"--device {name}: numba.cuda was already imported {'without' if simulated else 'with'} its simulator;"
            f" start a new process, with {_MODE}={int(simulated)} in its environment if something imports it early"
        )
