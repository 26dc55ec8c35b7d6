"""``kcheck.kernels``: the kernels of a spec's file by name, for a launcher.

::

    kcheck.kernels["softmax"][grid, block, shared](x, y, n)
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from kcheck.device.kinds.entry import Parameter, difference, number_as, pack
from kcheck.device.kinds.modules import Modules, Unit, UnitRun, address
from kcheck.device.launched import signature_of_launch
from kcheck.device.plan import MOST_BLOCKS, MOST_THREADS, Geometry
from kcheck.errors import KernelError
from kcheck.model import DTYPES, Index3
from kcheck.span import Span, as_typed

if TYPE_CHECKING:
    from kcheck.device.kinds.modules import Unit

_NUMBERS = (bool, int, float)


class UnknownKernel(Exception):
    """A name that no kernel of the file has.

    Attributes:
        what: the name, and the file.
        fix: the nearest name, or all of them.
    """

    def __init__(self, what: str, fix: str) -> None:
        self.what, self.fix = what, fix
        super().__init__(what, fix)


class Kernels:
    """The kernels that can be launched now: those of the spec whose launcher is running.

    >>> import kcheck
    >>> kcheck.kernels
    kcheck.kernels
    """

    def __init__(self) -> None:
        self._open: tuple[Callable[[str], Unit], Modules] | None = None

    @contextmanager
    def opened(self, unit: Callable[[str], Unit], modules: Modules) -> Iterator[None]:
        """Make the kernels of a spec available while its launcher runs.

        Args:
            unit: compiles a kernel by the name that the launcher uses.
            modules: launches the kernels.
        """
        before, self._open = self._open, (unit, modules)
        try:
            yield
        finally:
            self._open = before

    def __getitem__(self, name: str) -> NamedKernel:
        """A kernel by its name; for a template, with its arguments, as in ``softmax<float, 4>``.

        Raises:
            KernelError: no launcher is running, or the file in its spec has no such kernel.
        """
        if self._open is None:
            raise KernelError(
                _caller(),
                f'kcheck.kernels["{name}"] is available only in the launcher of a spec, whose'
                " `kernel:` names a .cu, .hip or .ptx file",
            )
        unit, modules = self._open
        begun = time.monotonic()
        try:
            return NamedKernel(unit(name), modules)
        except UnknownKernel as error:
            raise KernelError(_caller(), error.what, error.fix) from None
        finally:
            modules.took(time.monotonic() - begun)

    def __repr__(self) -> str:
        return "kcheck.kernels"


class NamedKernel:
    """A compiled kernel; ``kernel[grid, block]`` or ``kernel[grid, block, shared]`` launches it."""

    def __init__(self, unit: Unit, modules: Modules, *, cooperative: bool = False) -> None:
        self._unit = unit
        self._modules = modules
        self._cooperative = cooperative

    @property
    def cooperative(self) -> NamedKernel:
        """The same kernel for cooperative launches, in which its blocks may wait for one another."""
        return NamedKernel(self._unit, self._modules, cooperative=True)

    def __getitem__(self, sizes: tuple[Any, ...]) -> Callable[..., None]:
        """A function that launches the kernel.

        Args:
            sizes: blocks and threads per block, each a number or up to three, and bytes of dynamic shared memory.

        Raises:
            KernelError: these are not valid sizes of a launch.
        """
        if not isinstance(sizes, tuple) or len(sizes) not in (2, 3):
            raise KernelError(_caller(), "write kernel[grid, block] or kernel[grid, block, shared]")
        grid, block = _index3(sizes[0], "grid", MOST_BLOCKS), _index3(sizes[1], "block", MOST_THREADS)
        shared = int(sizes[2]) if len(sizes) == 3 else 0
        shape = Geometry(grid, block, shared)

        def launch(*arguments: Any) -> None:
            values = self._values(arguments)
            run = UnitRun(self._unit, block, shared, signature_of_launch(arguments, self._unit.parameters))
            if not shape.empty:
                content = pack(self._unit.parameters, values)
                self._modules.launch(run, shape, content, cooperative=self._cooperative)

        return launch

    def _values(self, arguments: tuple[Any, ...]) -> list[Any]:
        """The arguments for :func:`kcheck.device.kinds.entry.pack`."""
        parameters, name = self._unit.parameters, self._unit.instance
        if len(arguments) != len(parameters):
            takes = ", ".join(parameter.told for parameter in parameters) or "none"
            count = f"{len(parameters)} argument{'s' * (len(parameters) != 1)}"
            what = f"kernel {name!r} takes {count}, not {len(arguments)}"
            raise KernelError(_caller(), what, f"they are {takes}")
        return [
            _value(value, parameter, f"argument {number} of {name!r}, {parameter.told}")
            for number, (value, parameter) in enumerate(zip(arguments, parameters, strict=True), 1)
        ]


def _value(value: Any, parameter: Parameter, who: str) -> Any:
    if hasattr(value, "__cuda_array_interface__"):
        dtype = np.dtype(value.dtype).name
        wrong = difference(dtype, True, parameter)
        if wrong is not None:
            raise KernelError(_caller(), f"{who}, got a {dtype} array: {wrong}")
        return address(value)
    if isinstance(value, np.ndarray):
        raise KernelError(_caller(), f"{who}, got an array in host memory", "copy it with cuda.to_device()")
    if value is None and parameter.form in ("pointer", "word"):
        return 0
    if isinstance(value, np.void) and parameter.form in ("class", "bytes"):
        if value.nbytes == parameter.size:
            return value
        raise KernelError(_caller(), f"{who}, got {value.nbytes} bytes, but it has {parameter.size}")
    if type(value) in _NUMBERS:
        made = number_as(value, parameter)
        if made is not None:
            return made
    if isinstance(value, np.generic) and value.dtype.name in DTYPES:
        wrong = difference(value.dtype.name, False, parameter)
        if wrong is None:
            return value
        raise KernelError(_caller(), f"{who}, got a {value.dtype.name}: {wrong}")
    raise KernelError(_caller(), f"{who}, got {value!r}, which its type cannot represent")


def _index3(value: Any, what: str, most: Index3) -> Index3:
    sizes = value if isinstance(value, tuple | list) else (value,)
    try:
        x, y, z = (*(int(size) for size in sizes), 1, 1, 1)[:3]
    except (TypeError, ValueError):
        x = y = z = -1
    if len(sizes) > 3 or any(not 0 <= size <= limit for size, limit in zip((x, y, z), most, strict=True)):
        raise KernelError(
            _caller(), f"the {what} {value!r} is not valid: CUDA allows 1 to 3 sizes, at most {list(most)}"
        )
    return (x, y, z)


def _caller() -> Span:
    """The line of the launcher that called this module."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    return Span(as_typed(frame.f_code.co_filename), frame.f_lineno)


kernels = Kernels()
