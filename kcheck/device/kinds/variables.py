"""``variables:``: ``__device__`` and ``__constant__`` variables that are set before a launch and read after it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from kcheck.dataclass import dataclass
from kcheck.device.kinds.arguments import fitted, variable_fault, variable_value
from kcheck.device.kinds.base import Passed
from kcheck.device.modules import Form, Modules, Parameter, Unit, address, call
from kcheck.errors import SpecError
from kcheck.model import Fault, NameArg, OpSpec
from kcheck.nearest import did_you_mean

_DECLARED = re.compile(
    r"^[ \t]*(?:\.(?:visible|weak|common)\s+)*\.(global|const)\b[^;{=]*?\.([a-z]+\d+)\s+"
    r"([A-Za-z_$%][\w$]*)\s*((?:\[[^\]]*\]\s*)*)(?:=[^;]*)?;",
    re.MULTILINE,
)
_HIDDEN = re.compile(r"_GLOBAL__N|_INTERNAL")


@dataclass(frozen=True, slots=True)
class ModuleVariable:
    """A variable of a module: its name in the source and in the PTX, its type there, and its state space."""

    name: str
    symbol: str
    type: str
    is_array: bool
    space: str


@lru_cache(maxsize=256)
def module_variables(ptx: str) -> tuple[ModuleVariable, ...]:
    """The variables that a module declares in global and constant memory."""
    found = _DECLARED.findall(ptx)
    return tuple(
        ModuleVariable(plain_name(symbol), symbol, kind, bool(sizes), space)
        for space, kind, symbol, sizes in found
    )


def plain_name(symbol: str) -> str:
    """The name of a variable in its source: ``ns::table`` for ``_ZN2ns5tableE`` (Itanium C++ ABI, "Mangling")."""
    if not symbol.startswith("_Z"):
        return symbol
    parts, at = [], 2
    while at < len(symbol):
        digits = re.match(r"\d+", symbol[at:])
        if digits is None:
            at += 1
            continue
        begin = at + len(digits[0])
        part = symbol[begin : begin + int(digits[0])]
        if not _HIDDEN.match(part):
            parts.append(part)
        at = begin + int(digits[0])
    return "::".join(parts)


class LaunchVariables:
    """The variables that a spec gives to one launch.

    Raises:
        SpecError: the kernel's module has no such variable, or its size or type differs.
    """

    def __init__(self, spec: OpSpec, unit: Unit, modules: Modules, given: Sequence[tuple[str, Passed]]) -> None:
        self._unit, self._modules = unit, modules
        self._arrays: list[tuple[int, int, int]] = []  # addresses of variable and array, bytes
        self._scalars: list[tuple[int, bytes]] = []
        known = module_variables(unit.ptx)
        faults = []
        for name, passed in given:
            variable = find_variable(name, known)
            if variable is None:
                names = [each.name for each in known]
                fix = did_you_mean(name, names) or f"its variables: {', '.join(names) or 'none'}"
                what = f"the kernel {unit.instance!r} uses no variable {name!r}"
                faults.append(Fault(passed.argument.span, what, fix))
                continue
            fault = self._add(spec, variable, passed)
            faults += [fault] if fault is not None else []
        if faults:
            raise SpecError(faults)

    def _add(self, spec: OpSpec, variable: ModuleVariable, passed: Passed) -> Fault | None:
        place, size = self._modules.variable(self._unit, variable.symbol)
        self._modules.given.add(place)
        if passed.is_array:
            assert isinstance(passed.argument, NameArg)
            count = int(passed.value.size) * passed.value.dtype.itemsize
            if count > size:
                what = f"the array {passed.argument.name!r} has {count:,} bytes, {variable.name!r} has {size:,}"
                return Fault(passed.argument.span, what, "use smaller sizes, or add a constraint")
            self._arrays.append((place, address(passed.value), count))
            return None
        form, element = form_of(variable, size)
        parameter = Parameter(0, size, form, element, f"`{variable.name}`")
        (argument,) = fitted([parameter], [passed])
        fault = variable_fault(spec, variable.name, argument, parameter)
        if fault is None:
            self._scalars.append((place, variable_value(argument, parameter)))
        return fault

    def set(self) -> None:
        """Copy the values to the variables; an output's elements are then poison."""
        for place, array, count in self._arrays:
            call("cuMemcpyDtoD", place, array, count)
        for place, content in self._scalars:
            call("cuMemcpyHtoD", place, content, len(content))

    def read(self) -> None:
        """Copy the variables that arrays belong to back to these."""
        for place, array, count in self._arrays:
            call("cuMemcpyDtoD", array, place, count)


def find_variable(name: str, known: Sequence[ModuleVariable]) -> ModuleVariable | None:
    """The variable of a name, which may omit its namespaces."""
    named = [each for each in known if each.name == name or each.name.endswith(f"::{name}")]
    return next((each for each in named if each.name == name), named[0] if len(named) == 1 else None)


def form_of(variable: ModuleVariable, size: int) -> tuple[Form, str]:
    """The form of a scalar, and its dtype if the PTX shows it."""
    if variable.is_array:
        return "bytes", ""
    kind: Any = {"f32": ("float", "float32"), "f64": ("float", "float64")}.get(variable.type)
    if kind is not None:
        return kind[0], kind[1]
    return ("word", "") if size == 8 else ("integer", "")
