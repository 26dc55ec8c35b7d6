"""The parameters of a compiled kernel: which values they can take, and their bytes."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from kcheck.device.modules import Parameter
from kcheck.errors import SpecError
from kcheck.model import DTYPES, Fault, Span
from kcheck.ptx.analysis.kernel_facts import called_functions, operations, param_slots
from kcheck.ptx.lowering.calls import PROVIDED
from kcheck.ptx.syntax.ast import Address, Call, Function, Instruction, Label, Module, Operation, Symbol, Variable
from kcheck.ptx.syntax.grid_barrier import is_grid_barrier
from kcheck.ptx.syntax.raise_markers import is_marker
from kcheck.ptx.syntax.types import TYPES


def ptx_parameters(entry: Function) -> tuple[Parameter, ...]:
    """The parameters that the PTX declares (PTX ISA, "Kernel Function Parameters")."""
    slots, _ = param_slots(entry)
    return tuple(_declared(param, slot.offset, slot.size) for param, slot in zip(entry.params, slots, strict=True))


def _declared(param: Variable, offset: int, size: int) -> Parameter:
    kind = TYPES[param.type]
    told = f".{param.type} {param.name}" + (f"[{param.count}]" if param.count != 1 else "")
    if param.count != 1:
        return Parameter(offset, size, "bytes", "", told)
    if param.pointer is not None:
        return Parameter(offset, size, "pointer", "", told, param.pointer)
    if kind.kind == "float":
        return Parameter(offset, size, "float", f"float{kind.bits}", told)
    if param.type.startswith("b"):
        return Parameter(offset, size, "word" if size == 8 else "bits", "", told)
    return Parameter(offset, size, "word" if size == 8 else "integer", "", told)


def number_as(value: bool | int | float, parameter: Parameter) -> np.generic | None:
    """A number in the type of a parameter; None if that type cannot represent it."""
    if parameter.form == "float" or (parameter.form == "bits" and isinstance(value, float)):
        name = parameter.element or f"float{8 * parameter.size}"
        if name not in DTYPES:
            return None
        with np.errstate(over="ignore"):
            made: np.generic = DTYPES[name].numpy.type(value)
        return made if np.isfinite(made) or not math.isfinite(value) else None
    if parameter.form not in ("integer", "word", "bits") or isinstance(value, float):
        return None
    names = [parameter.element] if parameter.element else [f"{s}int{8 * parameter.size}" for s in ("", "u")]
    for name in names:
        dtype = DTYPES[name]
        if name == "bool" or dtype.min <= value <= dtype.max:
            found: np.generic = dtype.numpy.type(value)
            return found
    return None


def difference(dtype: str, is_array: bool, parameter: Parameter) -> str | None:
    """How an argument differs from a parameter, in one clause; None if they match."""
    form = parameter.form
    if is_array:
        if form not in ("pointer", "word"):
            return f"an array is passed as a pointer of 8 bytes, but this is {shape_told(parameter)}"
        if parameter.space not in ("", "global"):
            return f"it is a pointer to {parameter.space} memory, but arrays are in global memory"
        if form == "pointer" and parameter.element and not _same_element(dtype, parameter.element):
            return f"it is a pointer to {parameter.element}"
        return None
    if form == "pointer":
        return "it is a pointer, but a scalar is passed"
    size = DTYPES[dtype].itemsize
    if form == "class" and (size != parameter.size or not _may_be_class(dtype)):
        return f"it is {shape_told(parameter)}"
    if size != parameter.size:
        return f"it has {parameter.size} bytes, but {dtype} has {size}"
    if form in ("bits", "bytes", "class") and not parameter.element:
        return None
    if form == "bytes":
        return None if parameter.element == dtype else f"it is {parameter.element}"
    is_float = not (DTYPES[dtype].is_integer or dtype == "bool")
    if is_float != (form == "float"):
        return f"it is {shape_told(parameter)}"
    return f"it is {parameter.element}" if is_float and parameter.element not in ("", dtype) else None


def _may_be_class(dtype: str) -> bool:
    """Whether C++ has a class of a dtype: complex numbers, and floats of at most 16 bits."""
    kind = DTYPES[dtype]
    is_float = not (kind.is_integer or dtype == "bool")
    return dtype.startswith("complex") or (is_float and kind.itemsize <= 2)


def _same_element(dtype: str, element: str) -> bool:
    """Whether an array of a dtype can be accessed through a pointer to ``element``: same kind and size."""
    return _class_of(dtype) == _class_of(element)


def _class_of(dtype: str) -> tuple[str, int]:
    kind = DTYPES[dtype]
    if kind.is_integer:  # the kernel may treat integers as signed or unsigned
        return "integer", kind.itemsize
    return dtype, kind.itemsize


def shape_told(parameter: Parameter) -> str:
    """A parameter in messages: ``an integer of 4 bytes``."""
    noun = {
        "pointer": "a pointer",
        "integer": "an integer",
        "word": "an integer",
        "float": "a float",
        "bits": "a value",
    }
    return f"{noun.get(parameter.form, 'a struct')} of {parameter.size} byte{'s' * (parameter.size != 1)}"


def pack(parameters: Sequence[Parameter], values: Sequence[Any]) -> bytes:
    """The bytes of all parameters. A value is an address, a NumPy scalar of the parameter's size, or the bytes of
    a struct."""
    end = max((parameter.offset + parameter.size for parameter in parameters), default=0)
    content = bytearray(end)
    for parameter, value in zip(parameters, values, strict=True):
        content[parameter.offset : parameter.offset + parameter.size] = raw_bytes(value)
    return bytes(content)


def raw_bytes(value: Any) -> bytes:
    """The bytes of an address, of a NumPy scalar, or of a struct."""
    if isinstance(value, bytes):
        return value
    return value.tobytes() if isinstance(value, np.generic) else struct.pack("<Q", value)


def undefined(module: Module, entry: Function) -> dict[str, int]:
    """The functions and variables that a kernel uses but that the module only declares, with the line of a use.

    Functions of the CUDA runtime that the device provides are not included.
    """
    found: dict[str, int] = {}
    for operation in operations(called_functions(module, entry)):
        for name in _used(operation):
            function, variable = module.functions.get(name), module.variables.get(name)
            is_missing = variable is not None and variable.linkage == "extern" and variable.space != "shared"
            if function is not None and function.body is None and not is_grid_barrier(operation):
                is_missing = name not in PROVIDED and not is_marker(name)
            if is_missing:
                found.setdefault(name, operation.line)
    return found


def missing_labels(module: Module, entry: Function) -> tuple[tuple[str, Function, int], ...]:
    """Each undefined label that is the target of a branch in a kernel or in a function that it calls.

    Returns:
        (label, function, line of the branch), in the order of the lines; each label of a function once.
    """
    found: dict[tuple[str, str], tuple[str, Function, int]] = {}
    for function in called_functions(module, entry):
        labels = {statement.name for statement in function.body or () if isinstance(statement, Label)}
        for statement in function.body or ():
            if not isinstance(statement, Instruction) or statement.opcode not in ("bra", "brx"):
                continue
            target = statement.operands[-1] if statement.operands else None
            named: tuple[str, ...] = (target.name,) if isinstance(target, Symbol) else ()
            if statement.opcode == "brx" and named:
                named = function.branch_targets.get(named[0], ())
            for label in named:
                if label not in labels:
                    found.setdefault((function.name, label), (label, function, statement.line))
    return tuple(sorted(found.values(), key=lambda each: each[2]))


def _used(operation: Operation) -> list[str]:
    """The names of functions and variables in an operation."""
    operands = [operation.target] if isinstance(operation, Call) else operation.operands
    bases = [operand.base if isinstance(operand, Address) else operand for operand in operands]
    return [base.name for base in bases if isinstance(base, Symbol)]


def find_entry(module: Module, name: str, place: Span) -> Function:
    """The kernel of a module by its exact name.

    Raises:
        SpecError: there is no such kernel.
    """
    entry = next((entry for entry in module.entries if entry.name == name), None)
    if entry is None:
        names = ", ".join(entry.name for entry in module.entries) or "none"
        raise SpecError([Fault(place, f"kernel: the PTX has no entry {name!r}", f"its entries: {names}")])
    return entry
