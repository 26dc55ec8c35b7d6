"""The machines that the tests of instructions run on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kcheck.device.cuda import driver_answers
from tests.isa import texture_machine
from tests.isa.machines import DEVICE, ON_THE_DEVICE, WIDTHS, Cpu, Gpu, Machine


@pytest.fixture(scope="session")
def cpu(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Cpu]:
    """kcheck's cpu by lane width, made once."""
    folder: Path = tmp_path_factory.mktemp("objects")
    made: dict[int, Cpu] = {}

    def of_width(width: int) -> Cpu:
        if width not in made:
            made[width] = Cpu(width, folder)
        return made[width]

    return of_width


@pytest.fixture(scope="session")
def gpu() -> Gpu:
    """The CUDA device of this machine."""
    if not driver_answers():
        pytest.skip("no CUDA device")
    return Gpu()


@pytest.fixture
def machine(cpu: Callable[[int], Cpu], request: pytest.FixtureRequest) -> Callable[[int], Machine]:
    """kcheck's cpu by lane width, or the CUDA device."""
    return lambda width: request.getfixturevalue("gpu") if width == DEVICE else cpu(width)


@pytest.fixture(scope="module", params=WIDTHS)
def cpu_device(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> texture_machine.Device:
    """A device; objects can be of any kind, the compiled kernels are shared."""
    return texture_machine.Device(tmp_path_factory.mktemp("cache"), request.param)


@pytest.fixture(scope="module", params=[*WIDTHS, ON_THE_DEVICE])
def device(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> texture_machine.Device:
    """Likewise, or the CUDA device of this computer."""
    if request.param != DEVICE:
        return texture_machine.Device(tmp_path_factory.mktemp("cache"), request.param)
    if not driver_answers():
        pytest.skip("no CUDA device")
    return texture_machine.Gpu()
