"""The arguments that a spec passes: where they differ from the compiled kernel's parameters, and their bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from kcheck.device.kinds.base import Passed
from kcheck.device.kinds.entry import difference, number_as, pack, raw_bytes, shape_told
from kcheck.device.kinds.structs import layout_faults, placed
from kcheck.device.modules import Parameter, address
from kcheck.device.plan import integer_argument, stride_argument
from kcheck.errors import SpecError
from kcheck.model import (
    DTYPES,
    AccessorArg,
    Argument,
    Fault,
    NameArg,
    NumberArg,
    NumelArg,
    OpSpec,
    StrideArg,
    StructArg,
    TextureArg,
)


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
    faults: list[Fault] = []
    for number, (argument, parameter) in enumerate(zip(passed, parameters, strict=True), 1):
        if argument.fields:
            faults += struct_faults(spec, name, number, argument, parameter)
            continue
        wrong = _difference(argument, parameter)
        if wrong is not None:
            what = (
                f"{called(argument)} does not match parameter {number} of kernel {name!r},"
                f" {parameter.told}: {wrong}"
            )
            faults.append(Fault(argument.argument.span, what, _fix(spec, argument, parameter)))
    if faults:
        raise SpecError(faults)


def struct_faults(spec: OpSpec, name: str, number: int, argument: Passed, parameter: Parameter) -> Iterator[Fault]:
    """Where a struct or an accessor differs from parameter ``number`` of a kernel."""
    where = f"parameter {number} of kernel {name!r}, {parameter.told}"
    layout = layout_faults(argument, parameter)
    fix = "name its members as the kernel declares them, in order, with their dtypes"
    if isinstance(argument.argument, AccessorArg):
        fix = "declare the parameter as a PackedTensorAccessor of as many axes, or pass the array"
    for wrong in layout:
        yield Fault(argument.argument.span, f"{called(argument)} does not match {where}: {wrong}", fix)
    for one in () if layout else placed(argument, parameter):
        member = _fitted(one.parameter, one.passed)
        wrong_member = _difference(member, one.parameter)
        if wrong_member is not None:
            what = f"{called(member)} does not match the member {one.path!r} of {where}: {wrong_member}"
            yield Fault(member.argument.span, what, _fix(spec, member, one.parameter))


def variable_fault(spec: OpSpec, name: str, argument: Passed, parameter: Parameter) -> Fault | None:
    """Where a value differs from a variable of the module."""
    if argument.fields:
        wrong = [*layout_faults(argument, parameter)]
        fix = "name its members in order, with their dtypes"
        return (
            Fault(argument.argument.span, f"the struct does not match {name!r}: {wrong[0]}", fix)
            if wrong
            else None
        )
    difference = _difference(argument, parameter)
    if difference is None:
        return None
    what = f"{called(argument)} does not match the variable {name!r}: {difference}"
    return Fault(argument.argument.span, what, _fix(spec, argument, parameter))


def variable_value(argument: Passed, parameter: Parameter) -> bytes:
    """The bytes of a value that matches a variable."""
    return raw_bytes(_value(argument, parameter))


def packed(parameters: Sequence[Parameter], passed: Sequence[Passed]) -> bytes:
    """The bytes of all parameters, for arguments that match them."""
    return pack(parameters, [_value(one, parameter) for one, parameter in zip(passed, parameters, strict=True)])


def _value(passed: Passed, parameter: Parameter) -> Any:
    """The address of an array, a scalar, or the bytes of a struct."""
    if passed.fields:
        content = bytearray(parameter.size)
        for one in placed(passed, parameter):
            raw = raw_bytes(_value(_fitted(one.parameter, one.passed), one.parameter))
            content[one.parameter.offset : one.parameter.offset + one.parameter.size] = raw
        return bytes(content)
    if passed.is_array:
        return address(passed.value)
    return 0 if passed.value is None else passed.value


def fitted(parameters: Sequence[Parameter], passed: Sequence[Passed]) -> list[Passed]:
    """The arguments; each integer without a dtype in the spec is as wide as its parameter.

    Raises:
        LaunchFault: such an integer is too large for its parameter.
        LayoutLeftOut: such a stride is.
    """
    return [_fitted(*pair) for pair in zip(parameters, passed, strict=False)] + list(passed[len(parameters) :])


def _fitted(parameter: Parameter, passed: Passed) -> Passed:
    argument, wanted = passed.argument, _wanted(parameter)
    if isinstance(argument, NumberArg):
        made = None if argument.dtype or argument.value is None else number_as(argument.value, parameter)
        return passed if made is None else replace(passed, value=made, dtype=made.dtype.name)
    is_open = not passed.is_array and not passed.is_param and argument.dtype is None
    if not is_open or not wanted or not DTYPES[wanted].is_integer or wanted == passed.dtype:
        return passed
    if isinstance(argument, StrideArg):
        value = stride_argument(argument.array, argument, int(passed.value), wanted)
        return replace(passed, value=value, dtype=wanted)
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
    if isinstance(argument, NumberArg):
        told = "null" if argument.value is None else f"the number {_written(argument.value)}"
        return f"{told} as {argument.dtype}" if argument.dtype else told
    if isinstance(argument, StructArg | AccessorArg):
        return "the struct" if isinstance(argument, StructArg) else f"the accessor of {argument.array!r}"
    if isinstance(argument, TextureArg):
        return f"the {'surface' if argument.is_surface else 'texture'} of {argument.array!r}, a {passed.dtype}"
    return f"the stride of {argument.array!r} as {passed.dtype}"


def _written(value: float) -> str:
    """A number as YAML writes it."""
    return str(value).lower() if isinstance(value, bool) else f"{value!r}"


def _difference(passed: Passed, parameter: Parameter) -> str | None:
    """How an argument differs from a parameter, in one clause; None if they match."""
    argument = passed.argument
    if not isinstance(argument, NumberArg) or argument.dtype is not None:
        return difference(passed.dtype, passed.is_array, parameter)
    if argument.value is None:
        is_pointer = parameter.form in ("pointer", "word")
        return None if is_pointer else f"null is a pointer, but this is {shape_told(parameter)}"
    if parameter.form == "pointer":
        return "it is a pointer, but a number is passed"
    if number_as(argument.value, parameter) is not None:
        return None
    wanted = _wanted(parameter)
    if wanted and DTYPES[wanted].is_integer and isinstance(argument.value, int):
        return f"{argument.value} does not fit in {wanted}"
    return f"it is {shape_told(parameter)}"


def _fix(spec: OpSpec, passed: Passed, parameter: Parameter) -> str:
    """The fix for an argument that does not match its parameter."""
    argument = passed.argument
    wanted = _wanted(parameter)
    if isinstance(argument, NumberArg):
        return _fix_of_number(argument, parameter)
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


def _fix_of_number(argument: NumberArg, parameter: Parameter) -> str:
    if parameter.form == "pointer":
        return "write null, or pass an array"
    if argument.value is None:
        return "pass a number here"
    if parameter.form == "word":
        return f"write {{value: {_written(argument.value)}, dtype: float64}} if it is a float, or a whole number"
    wanted = _wanted(parameter)
    if not wanted:
        return "pass a struct, as in {struct: {a: x, n: N}}, or add a dtype, as in {value: 3, dtype: int32}"
    return f"write a number that is {_article(wanted)}" if argument.dtype is None else f"write dtype: {wanted}"


def _article(dtype: str) -> str:
    return f"an {dtype}" if dtype.startswith("int") else f"a {dtype}"


def _named(argument: Argument) -> str:
    return argument.name if isinstance(argument, NameArg) else getattr(argument, "array", "the argument")


def _wanted(parameter: Parameter) -> str:
    """The dtype that matches a scalar parameter; empty if there is no such dtype."""
    if parameter.element:
        return parameter.element
    by_size = {1: "int8", 2: "int16", 4: "int32", 8: "int64"}
    return by_size.get(parameter.size, "") if parameter.form in ("integer", "word", "bits") else ""
