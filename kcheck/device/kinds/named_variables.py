"""``kcheck.kernels.variable("name")``: a ``__device__`` or ``__constant__`` variable, for a launcher.

Each kernel of a launcher has its own module. In a program, the kernels of a file share its variables, so a
value is copied to the module of a kernel before that is launched.
"""

from __future__ import annotations

import math
import os
import re
import sys
from collections.abc import Iterable
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from kcheck.dataclass import dataclass
from kcheck.device.kinds.entry import difference, number_as, shape_told
from kcheck.device.kinds.signature import dtype_of
from kcheck.device.kinds.variables import ModuleVariable, find_variable, form_of, module_variables
from kcheck.device.modules import Modules, Parameter, Unit, address, call, used_variables
from kcheck.errors import KernelError
from kcheck.model import DTYPES
from kcheck.nearest import did_you_mean
from kcheck.span import Span, as_typed
from kcheck.specfile.kinds.text import decoded, without_comments

_DECLARATION = re.compile(
    r"__(?:device|constant|managed)__\s+(?P<type>(?:\w+(?:::\w+)*\s+)+)(?P<name>\w+)\s*(?P<then>\[|=|;|\{)"
)
_QUALIFIERS = {"static", "const", "volatile", "extern", "inline", "constexpr"}


@dataclass(frozen=True, slots=True)
class Typed:
    """What is known about the elements of a variable.

    Attributes:
        element: their dtype; empty if that is unknown.
        is_array: whether it has several.
    """

    element: str
    is_array: bool


class NamedVariable:
    """A variable of the file of a running launcher. :meth:`set` changes it for all kernels of the file."""

    def __init__(self, variable: ModuleVariable, unit: Unit, modules: Modules) -> None:
        self._variable, self._unit, self._modules = variable, unit, modules

    @classmethod
    def find(cls, name: str, units: Iterable[Unit], modules: Modules) -> NamedVariable:
        """The variable of a name, which may omit its namespaces.

        Args:
            units: the kernels of the file.

        Raises:
            KernelError: none of them uses such a variable.
        """
        known: dict[str, None] = {}
        instance = ""
        for unit in units:
            variables = module_variables(unit.ptx)
            found = find_variable(name, variables)
            if found is not None:
                return cls(found, unit, modules)
            known |= dict.fromkeys(each.name for each in variables)
            instance = instance or str(unit.kernel.path)
        fix = did_you_mean(name, known) or f"its variables: {', '.join(known) or 'none'}"
        raise KernelError(caller(), f"no kernel of {instance} uses a variable {name!r}", fix)

    def __repr__(self) -> str:
        return f'kcheck.kernels.variable("{self._variable.name}")'

    def set(self, value: Any) -> None:
        """Set the variable: all elements of an array, or the first ones.

        Args:
            value: an array of the device or of NumPy, a number, or a NumPy scalar or record.

        Raises:
            KernelError: its dtype or size differs.
        """
        unit = self._holder()
        place, size = self._modules.change(unit, self._symbol(unit))
        self._modules.given.add(place)
        if hasattr(value, "__cuda_array_interface__"):
            count = self._checked(value, size)
            if not _is_contiguous(value):
                raise self._error("an array with gaps or other strides", "pass a contiguous array")
            call("cuMemcpyDtoD", place, address(value), count)
        else:
            content = self._bytes(value, size)
            call("cuMemcpyHtoD", place, content, len(content))
        self._modules.holders[self._variable.name] = unit

    def get(self, dtype: Any = None) -> Any:
        """The value: a NumPy scalar, or an array of one axis for an array.

        Args:
            dtype: that of its elements, if the declaration does not show it.

        Raises:
            KernelError: the dtype is unknown, or is not that of the variable.
        """
        import_module("numba.cuda").synchronize()
        unit = self._holder()
        place, size = self._modules.variable(unit, self._symbol(unit))
        typed = self._typed(size)
        if dtype is None and not typed.element:
            what = f"the type of the variable {self._variable.name!r} of {size:,} bytes is unknown here"
            raise KernelError(caller(), what, "pass the dtype of its elements, as in .get(np.float32)")
        wanted = DTYPES[typed.element].numpy if dtype is None else np.dtype(dtype)
        if typed.element and wanted != DTYPES[typed.element].numpy:
            raise KernelError(
                caller(), f"the variable {self._variable.name!r} is {typed.element}, not {wanted.name}"
            )
        if size % wanted.itemsize:
            what = f"the variable {self._variable.name!r} has {size:,} bytes, which {wanted.name} does not divide"
            raise KernelError(caller(), what)
        content = bytearray(size)
        call("cuMemcpyDtoH", content, place, size)
        made = np.frombuffer(content, wanted)
        return made if typed.is_array or made.size != 1 else made[0]

    def _holder(self) -> Unit:
        return self._modules.holders.get(self._variable.name, self._unit)

    def _symbol(self, unit: Unit) -> str:
        """The name in the PTX of a unit: that of a static variable may differ."""
        return next(each.symbol for each in module_variables(unit.ptx) if each.name == self._variable.name)

    def _typed(self, size: int) -> Typed:
        declared = declared_types(self._unit.place.file).get(self._variable.name.rpartition("::")[2])
        if declared is not None and declared.element:
            return declared if size % DTYPES[declared.element].itemsize == 0 else Typed("", declared.is_array)
        _, element = form_of(self._variable, size)
        if not element and self._variable.is_array and self._variable.type in ("f32", "f64"):
            element = f"float{self._variable.type[1:]}"
        return Typed(element, self._variable.is_array if declared is None else declared.is_array)

    def _checked(self, array: Any, size: int) -> int:
        """The bytes of an array that fits."""
        dtype, typed = np.dtype(array.dtype).name, self._typed(size)
        if typed.element and dtype != typed.element:
            raise self._error(f"an array of {dtype}", f"it is {typed.element}")
        count: int = math.prod(array.shape) * np.dtype(array.dtype).itemsize
        if count > size or (not typed.is_array and count != size):
            raise self._error(f"{count:,} bytes", f"it has {size:,}")
        return count

    def _bytes(self, value: Any, size: int) -> bytes:
        if isinstance(value, np.ndarray) and value.ndim:
            self._checked(value, size)
            return np.ascontiguousarray(value).tobytes()
        if isinstance(value, np.ndarray):
            value = value[()]
        if isinstance(value, np.void):
            if value.nbytes == size:
                return value.tobytes()
            raise self._error(f"a record of {value.nbytes:,} bytes", f"it has {size:,}")
        typed = self._typed(size)
        if typed.is_array:
            raise self._error(repr(value), f"it is an array of {size:,} bytes: pass an array")
        form, element = form_of(self._variable, size)
        if typed.element:
            kind = DTYPES[typed.element]
            form, element = ("integer" if kind.is_integer or kind.name == "bool" else "float"), typed.element
        parameter = Parameter(0, size, form, element, self._variable.name)
        made = number_as(value, parameter) if type(value) in (bool, int, float) else None
        if made is not None:
            return made.tobytes()
        if isinstance(value, np.generic) and value.dtype.name in DTYPES:
            wrong = difference(value.dtype.name, False, parameter)
            if wrong is None:
                return value.tobytes()
            raise self._error(f"a {value.dtype.name}", wrong)
        raise self._error(repr(value), f"it is {element or shape_told(parameter)}")

    def _error(self, got: str, why: str) -> KernelError:
        return KernelError(caller(), f"the variable {self._variable.name!r} cannot be set to {got}: {why}")


def share_variables(unit: Unit, modules: Modules) -> None:
    """Copy the newest values of the variables that a kernel shares with earlier kernels of a launcher to its
    module. Call it before the kernel is launched."""
    for variable in _shared(unit.ptx):
        holder = modules.holders.get(variable.name)
        if holder is not None and holder.ptx != unit.ptx:
            theirs = next(each for each in module_variables(holder.ptx) if each.name == variable.name)
            source, size = modules.variable(holder, theirs.symbol)
            place, room = modules.change(unit, variable.symbol)
            if source in modules.given:
                modules.given.add(place)
            if size == room:
                call("cuMemcpyDtoD", place, source, size)
        if variable.space == "global":
            modules.holders[variable.name] = unit


@lru_cache(maxsize=256)
def _shared(ptx: str) -> tuple[ModuleVariable, ...]:
    """The variables of a module that its kernel uses, and all in constant memory."""
    used = {*used_variables(ptx)}
    return tuple(each for each in module_variables(ptx) if each.symbol in used or each.space == "const")


@lru_cache(maxsize=64)
def declared_types(file: str) -> dict[str, Typed]:
    """The types of the variables that a file in C++ declares, by name; not those that differ between branches of
    the preprocessor."""
    found: dict[str, set[Typed]] = {}
    for match in _DECLARATION.finditer(without_comments(decoded(Path(file).read_bytes()))):
        words = [word for word in match["type"].split() if word not in _QUALIFIERS]
        typed = Typed(dtype_of(" ".join(words)), match["then"] == "[")
        found.setdefault(match["name"], set()).add(typed)
    return {name: types.pop() for name, types in found.items() if len(types) == 1}


def caller() -> Span:
    """The line of the launcher that called a module of this folder."""
    frame = sys._getframe(1)
    folder = os.path.dirname(__file__)
    while frame.f_back is not None and os.path.dirname(frame.f_code.co_filename) == folder:
        frame = frame.f_back
    return Span(as_typed(frame.f_code.co_filename), frame.f_lineno)


def _is_contiguous(array: Any) -> bool:
    interface = array.__cuda_array_interface__
    strides = interface.get("strides")
    if strides is None:
        return True
    step = np.dtype(interface["typestr"]).itemsize
    for extent, stride in zip(reversed(interface["shape"]), reversed(strides), strict=True):
        if extent > 1 and stride != step:
            return False
        step *= extent
    return True
