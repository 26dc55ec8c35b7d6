"""``kcheck.kernels``: the kernels of a spec's file by name, for a launcher.

::

    kcheck.kernels["softmax"][grid, block, shared](x, y, n)
    kcheck.kernels.variable("table").set(x)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from kcheck.dataclass import dataclass
from kcheck.device.kinds.entry import difference, number_as, pack
from kcheck.device.kinds.named_variables import NamedVariable, caller, share_variables
from kcheck.device.launched import signature_of_launch
from kcheck.device.modules import Modules, Parameter, Unit, UnitRun, address
from kcheck.device.plan import MOST_BLOCKS, MOST_THREADS, Geometry, LaunchFault
from kcheck.errors import KernelError, SpecError
from kcheck.model import DTYPES, Index3

if TYPE_CHECKING:
    from kcheck.device.modules import Unit

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


@dataclass(frozen=True, slots=True)
class _Open:
    """The spec whose launcher is running; as the arguments of :meth:`Kernels.opened`."""

    unit: Callable[[str], Unit]
    modules: Modules
    names: Callable[[], Iterable[str]]

    def compiled(self, name: str) -> Unit:
        """A kernel by its name. The time that its compilation takes does not count."""
        begun = time.monotonic()
        try:
            return self.unit(name)
        finally:
            self.modules.took(time.monotonic() - begun)

    def units(self) -> Iterator[Unit]:
        """The kernels of the file, compiled as they are needed; without those that need template arguments."""
        for number, name in enumerate(self.names()):
            try:
                yield self.compiled(name)
            except (LaunchFault, KernelError, SpecError):
                if not number:
                    raise


class Kernels:
    """The kernels that can be launched now: those of the spec whose launcher is running.

    >>> import kcheck
    >>> kcheck.kernels
    kcheck.kernels
    """

    def __init__(self) -> None:
        self._open: _Open | None = None

    @contextmanager
    def opened(
        self, unit: Callable[[str], Unit], modules: Modules, names: Callable[[], Iterable[str]]
    ) -> Iterator[None]:
        """Make the kernels of a spec available while its launcher runs.

        Args:
            unit: compiles a kernel by the name that the launcher uses.
            modules: launches the kernels.
            names: the kernels of the file, that of the spec first.
        """
        before, self._open = self._open, _Open(unit, modules, names)
        try:
            yield
        finally:
            self._open = before

    def __getitem__(self, name: str) -> NamedKernel:
        """A kernel by its name; for a template, with its arguments, as in ``softmax<float, 4>``.

        Raises:
            KernelError: no launcher is running, or the file in its spec has no such kernel.
        """
        opened = self._opened(f'kcheck.kernels["{name}"]')
        try:
            return NamedKernel(opened.compiled(name), opened.modules)
        except UnknownKernel as error:
            raise KernelError(caller(), error.what, error.fix) from None

    def variable(self, name: str) -> NamedVariable:
        """A ``__device__`` or ``__constant__`` variable of the spec's file, by its name in C++ or PTX.

        Raises:
            KernelError: no launcher is running, or no kernel of the file uses such a variable.
        """
        opened = self._opened(f'kcheck.kernels.variable("{name}")')
        return NamedVariable.find(name, opened.units(), opened.modules)

    def _opened(self, what: str) -> _Open:
        if self._open is None:
            raise KernelError(
                caller(),
                f"{what} is available only in the launcher of a spec, whose"
                " `kernel:` names a .cu, .hip or .ptx file",
            )
        return self._open

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
            raise KernelError(caller(), "write kernel[grid, block] or kernel[grid, block, shared]")
        grid, block = _index3(sizes[0], "grid", MOST_BLOCKS), _index3(sizes[1], "block", MOST_THREADS)
        shared = int(sizes[2]) if len(sizes) == 3 else 0
        shape = Geometry(grid, block, shared)

        def launch(*arguments: Any) -> None:
            values = self._values(arguments)
            run = UnitRun(self._unit, block, shared, signature_of_launch(arguments, self._unit.parameters))
            if not shape.empty:
                content = pack(self._unit.parameters, values)
                share_variables(self._unit, self._modules)
                self._modules.launch(run, shape, content, cooperative=self._cooperative)

        return launch

    def _values(self, arguments: tuple[Any, ...]) -> list[Any]:
        """The arguments for :func:`kcheck.device.kinds.entry.pack`."""
        parameters, name = self._unit.parameters, self._unit.instance
        if len(arguments) != len(parameters):
            takes = ", ".join(parameter.told for parameter in parameters) or "none"
            count = f"{len(parameters)} argument{'s' * (len(parameters) != 1)}"
            what = f"kernel {name!r} takes {count}, not {len(arguments)}"
            raise KernelError(caller(), what, f"they are {takes}")
        return [
            _value(value, parameter, f"argument {number} of {name!r}, {parameter.told}")
            for number, (value, parameter) in enumerate(zip(arguments, parameters, strict=True), 1)
        ]


def _value(value: Any, parameter: Parameter, who: str) -> Any:
    if hasattr(value, "__cuda_array_interface__"):
        dtype = np.dtype(value.dtype).name
        wrong = difference(dtype, True, parameter)
        if wrong is not None:
            raise KernelError(caller(), f"{who}, got a {dtype} array: {wrong}")
        return address(value)
    if isinstance(value, np.ndarray):
        raise KernelError(caller(), f"{who}, got an array in host memory", "copy it with cuda.to_device()")
    if value is None and parameter.form in ("pointer", "word"):
        return 0
    if isinstance(value, np.void) and parameter.form in ("class", "bytes"):
        if value.nbytes == parameter.size:
            return value
        raise KernelError(caller(), f"{who}, got {value.nbytes} bytes, but it has {parameter.size}")
    if type(value) in _NUMBERS:
        made = number_as(value, parameter)
        if made is not None:
            return made
    if isinstance(value, np.generic) and value.dtype.name in DTYPES:
        wrong = difference(value.dtype.name, False, parameter)
        if wrong is None:
            return value
        raise KernelError(caller(), f"{who}, got a {value.dtype.name}: {wrong}")
    raise KernelError(caller(), f"{who}, got {value!r}, which its type cannot represent")


def _index3(value: Any, what: str, most: Index3) -> Index3:
    sizes = value if isinstance(value, tuple | list) else (value,)
    try:
        x, y, z = (*(int(size) for size in sizes), 1, 1, 1)[:3]
    except (TypeError, ValueError):
        x = y = z = -1
    if len(sizes) > 3 or any(not 0 <= size <= limit for size, limit in zip((x, y, z), most, strict=True)):
        raise KernelError(
            caller(), f"the {what} {value!r} is not valid: CUDA allows 1 to 3 sizes, at most {list(most)}"
        )
    return (x, y, z)


kernels = Kernels()
