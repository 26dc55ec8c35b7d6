"""Triton in this process, on a device of its own."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from kcheck.cpu.cache import ObjectCache
from kcheck.cpu.executor import Executor
from kcheck.cpu.memory import Memory
from kcheck.cpu.sanitizers import checks
from kcheck.driver.host_ranges import HostRanges
from kcheck.driver.machine import Machine
from kcheck.model import Finding
from kcheck.triton.session import patch_triton


@dataclass
class Device:
    """The device that Triton runs on, what it reported and printed, and the kernels of ``kernels.py``."""

    machine: Machine
    ranges: HostRanges
    found: list[Finding] = field(default_factory=list)
    printed: list[bytes] = field(default_factory=list)

    @property
    def kernels(self) -> ModuleType:
        """Imported when the device is there, since Triton looks for one."""
        from tests.triton import kernels

        return kernels

    @contextlib.contextmanager
    def held(self, array: np.ndarray) -> Iterator[None]:
        """Make an array accessible to kernels, as PyTorch's tensors on ``cuda`` are while they exist."""
        ticket = self.ranges.hold(array.ctypes.data, array.nbytes)
        try:
            yield
        finally:
            self.ranges.release(ticket)

    def check(self, *names: str) -> None:
        """Turn on sanitizers for the launches of a test."""
        self.machine.executor.checks = checks(names)


@pytest.fixture(scope="session")
def triton_device(tmp_path_factory: pytest.TempPathFactory) -> Device:
    folder = tmp_path_factory.mktemp("triton")
    os.environ["TRITON_CACHE_DIR"] = str(folder)
    cache = ObjectCache(Path(os.environ.get("KCHECK_CACHE_DIR", folder)) / "code")
    memory = Memory(1 << 30)
    device = Device(Machine((8, 0), None, time.perf_counter), HostRanges(memory))  # type: ignore[arg-type]
    executor = Executor(memory, 2, cache, time.perf_counter, device.found.append, device.printed.append)
    device.machine.executor = executor
    patch_triton(device.machine, device.ranges, cache, "cpu")
    return device


@pytest.fixture
def device(triton_device: Device) -> Iterator[Device]:
    """The device, with no findings and the checks that are always on."""
    triton_device.found.clear()
    triton_device.printed.clear()
    yield triton_device
    triton_device.check()
