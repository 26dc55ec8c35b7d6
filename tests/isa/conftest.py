"""The machines that the tests of instructions run on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kcheck.device.cuda import driver_answers
from tests.isa.machines import Cpu, Gpu


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
