"""Runs twins in a process on the cpu device with every check on, and says what was found."""

from __future__ import annotations

import functools
import importlib.util
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from pairs import Launch, Unwritten, buggy

FOLDER = Path(tempfile.mkdtemp(prefix="kcheck-twins-"))
LIMIT = 20.0


def answer(device: Any, request: dict[str, Any]) -> dict[str, Any]:
    """What became of one twin: its findings in their order, and the exception of the launch, if any.

    Args:
        request: ``module``, the path of a file of pairs; ``name``; ``buggy``, which twin; ``width``, lanes per
            vector, None for the device's own choice.
    """
    from kcheck.ptx.abi import Checks

    module = _load(request["module"], request["buggy"])
    executor = device.executor
    executor.checks = Checks(race=True, init=True, overflow=True)
    executor.limit = LIMIT
    executor.width = request["width"] or _width(device)
    device.told()
    raised = None
    try:
        _run(executor, getattr(module, request["name"]))
    except Exception as error:
        raised = f"{type(error).__name__}: {error}"
    return {"findings": device.told(), "raised": raised, "file": module.__file__}


@functools.cache
def _width(device: Any) -> int:
    """The width that the device has chosen."""
    return int(device.executor.width)


@functools.cache
def _load(path: str, is_buggy: bool) -> ModuleType:
    """A file of pairs, imported as it stands or with all its bugs in."""
    file = Path(path)
    if is_buggy:
        file = FOLDER / file.name
        file.write_text(buggy(Path(path).read_text(encoding="utf-8")), encoding="utf-8")
    spec = importlib.util.spec_from_file_location(f"{file.stem}_{'buggy' if is_buggy else 'clean'}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _run(executor: Any, launch: Launch) -> None:
    """Launch a kernel on fresh arguments, or call the function that launches; wait for the end."""
    from numba import cuda

    if launch.grid is None:
        launch.function()
    else:
        arguments = [_argument(executor, name, value) for name, value in launch.arguments.items()]
        launch.function[launch.grid, launch.block, 0, launch.shared](*arguments)
    cuda.synchronize()


def _argument(executor: Any, name: str, value: Any) -> Any:
    """What the kernel gets, an array under its parameter's name."""
    from numba import cuda

    from kcheck.cpu.memory import RangeLabel

    if isinstance(value, Unwritten):
        placed = cuda.device_array(value.shape, value.dtype)
    elif isinstance(value, np.ndarray):
        placed = cuda.to_device(value)
    else:
        return value
    base = placed.device_ctypes_pointer.value or 0
    label = RangeLabel(name, base, placed.shape, placed.strides, placed.dtype.itemsize, base, base + placed.nbytes)
    executor.memory.label(label, is_exclusive=True)
    return placed
