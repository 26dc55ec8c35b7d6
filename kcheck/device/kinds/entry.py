"""The parameters of a compiled kernel, the arguments that a spec passes, and where the two differ."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from kcheck.dataclass import dataclass
from kcheck.device.kinds.base import Passed
from kcheck.device.plan import integer_argument
from kcheck.errors import SpecError
from kcheck.model import DTYPES, Argument, Fault, NameArg, NumelArg, OpSpec, Span, TextureArg
from kcheck.ptx.analysis.kernel_facts import called_functions, operations, param_slots
from kcheck.ptx.lowering.calls import PROVIDED
from kcheck.ptx.syntax.ast import Address, Call, Function, Instruction, Label, Module, Operation, Symbol, Variable
from kcheck.ptx.syntax.grid_barrier import is_grid_barrier
from kcheck.ptx.syntax.raise_markers import is_marker
from kcheck.ptx.syntax.types import TYPES


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a compiled kernel.

    Attributes:
        offset, size: in bytes.
        form: ``word`` is 8 bytes that may be a pointer or an integer; ``bits`` is of any type; ``bytes`` is an
            array of bytes, as PTX declares a struct and a 16-bit float; ``class`` is a class of C++.
        element: the dtype of a scalar, or of what a pointer points to; empty if it is unknown or not a dtype.
        told: the parameter in messages, such as ``const float* x`` or ``.u64 softmax_param_0``.
        space: the state space to which a pointer points; empty if it is not declared.
    """

    offset: int
    size: int
    form: Literal["pointer", "word", "integer", "float", "bits", "bytes", "class"]
    element: str
    told: str
    space: str = ""


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


def check(spec: OpSpec, name: str, parameters: Sequence[Parameter], passed: Sequence[Passed]) -> None:
    """Compare the arguments in a spec with the parameters of the compiled kernel.

    Args:
        name: the kernel's name in messages.

    Raises:
        SpecError: they differ in number, size, space or type; one fault for each argument that is wrong.
    """
    assert spec.launch is not None
    if len(passed) != len(parameters):
        takes = f"{len(parameters)} argument{'' if len(parameters) == 1 else 's'}"
        told = ", ".join(parameter.told for parameter in parameters)
        span = spec.launch.args[0].span if spec.launch.args else spec.launch.span
        what = f"kernel {name!r} takes {takes}, but args has {len(passed)}"
        raise SpecError([Fault(span, what, f"its parameters are {told}" if told else "it takes none")])
    faults = []
    for number, (argument, parameter) in enumerate(zip(passed, parameters, strict=True), 1):
        wrong = difference(argument.dtype, argument.is_array, parameter)
        if wrong is not None:
            what = (
                f"{called(argument)} does not match parameter {number} of kernel {name!r},"
                f" {parameter.told}: {wrong}"
            )
            faults.append(Fault(argument.argument.span, what, _fix(spec, argument, parameter)))
    if faults:
        raise SpecError(faults)


def fitted(parameters: Sequence[Parameter], passed: Sequence[Passed]) -> list[Passed]:
    """The arguments; each integer without a dtype in the spec is as wide as its parameter.

    Raises:
        LaunchFault: such an integer is too large for its parameter.
    """
    return [_fitted(*pair) for pair in zip(parameters, passed, strict=False)] + list(passed[len(parameters) :])


def _fitted(parameter: Parameter, passed: Passed) -> Passed:
    argument, wanted = passed.argument, _wanted(parameter)
    is_open = not passed.is_array and not passed.is_param and argument.dtype is None
    if not is_open or not wanted or not DTYPES[wanted].is_integer or wanted == passed.dtype:
        return passed
    what = called(passed).partition(" as ")[0].strip("'")
    return replace(passed, value=integer_argument(what, int(passed.value), wanted, argument.span), dtype=wanted)


def called(passed: Passed) -> str:
    """An argument in messages: ``the float32 array x``, ``N as int64``."""
    argument = passed.argument
    if passed.is_array:
        assert isinstance(argument, NameArg)
        return f"the {passed.dtype} array {argument.name!r}"
    if isinstance(argument, NameArg):
        return f"{argument.name!r} as {passed.dtype}"
    if isinstance(argument, NumelArg):
        return f"the number of elements of {argument.array!r} as {passed.dtype}"
    if isinstance(argument, TextureArg):
        return f"the {'surface' if argument.is_surface else 'texture'} of {argument.array!r}, a {passed.dtype}"
    return f"the stride of {argument.array!r} as {passed.dtype}"


def difference(dtype: str, is_array: bool, parameter: Parameter) -> str | None:
    """How an argument differs from a parameter, in one clause; None if they match."""
    form = parameter.form
    if is_array:
        if form not in ("pointer", "word"):
            return f"an array is passed as a pointer of 8 bytes, but this is {_shape(parameter)}"
        if parameter.space not in ("", "global"):
            return f"it is a pointer to {parameter.space} memory, but arrays are in global memory"
        if form == "pointer" and parameter.element and not _same_element(dtype, parameter.element):
            return f"it is a pointer to {parameter.element}"
        return None
    if form == "pointer":
        return "it is a pointer, but a scalar is passed"
    size = DTYPES[dtype].itemsize
    if form == "class" and (size != parameter.size or not _may_be_class(dtype)):
        return f"it is {_shape(parameter)}"
    if size != parameter.size:
        return f"it has {parameter.size} bytes, but {dtype} has {size}"
    if form in ("bits", "bytes", "class") and not parameter.element:
        return None
    if form == "bytes":
        return None if parameter.element == dtype else f"it is {parameter.element}"
    is_float = not (DTYPES[dtype].is_integer or dtype == "bool")
    if is_float != (form == "float"):
        return f"it is {_shape(parameter)}"
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


def _shape(parameter: Parameter) -> str:
    noun = {"integer": "an integer", "word": "an integer", "float": "a float", "bits": "a value"}
    return f"{noun.get(parameter.form, 'a struct')} of {parameter.size} bytes"


def _fix(spec: OpSpec, passed: Passed, parameter: Parameter) -> str:
    """The fix for an argument that does not match its parameter."""
    argument = passed.argument
    wanted = _wanted(parameter)
    if isinstance(argument, TextureArg):
        return "declare the parameter as cudaTextureObject_t or cudaSurfaceObject_t"
    if passed.is_array:
        if parameter.form == "pointer" and parameter.element and not parameter.space:
            return f"declare {_named(argument)!r} with dtype {parameter.element}, or change the kernel"
        return "pass a dim, a param or {stride: [x, 0]} here, or change the kernel"
    if parameter.form == "pointer" or (parameter.form == "word" and not DTYPES[passed.dtype].is_integer):
        return "pass an array here, or change the kernel"
    if not wanted:
        return "change the kernel: a spec passes arrays and scalars"
    if isinstance(argument, NameArg) and argument.name in spec.dims:
        return f"write {{{argument.name}: {wanted}}}"
    if isinstance(argument, NameArg):
        return f"declare {argument.name!r} with dtype {wanted}, or change the kernel"
    return f"add dtype: {wanted}"


def _named(argument: Argument) -> str:
    return argument.name if isinstance(argument, NameArg) else argument.array


def _wanted(parameter: Parameter) -> str:
    """The dtype that matches a scalar parameter; empty if there is no such dtype."""
    if parameter.element:
        return parameter.element
    by_size = {1: "int8", 2: "int16", 4: "int32", 8: "int64"}
    return by_size.get(parameter.size, "") if parameter.form in ("integer", "word", "bits") else ""


def pack(parameters: Sequence[Parameter], values: Sequence[Any]) -> bytes:
    """The bytes of all parameters. A value is an address, or a NumPy scalar of the parameter's size."""
    end = max((parameter.offset + parameter.size for parameter in parameters), default=0)
    content = bytearray(end)
    for parameter, value in zip(parameters, values, strict=True):
        raw = value.tobytes() if isinstance(value, np.generic) else struct.pack("<Q", value)
        content[parameter.offset : parameter.offset + parameter.size] = raw
    return bytes(content)


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
