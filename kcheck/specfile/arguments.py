"""The arguments of a launch: names, numbers, strides, textures, structs; and whether the kernel can take them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from kcheck.model import (
    DTYPES,
    AccessorArg,
    Argument,
    KernelRef,
    NameArg,
    NumberArg,
    NumelArg,
    Span,
    StrideArg,
    StructArg,
    TextureArg,
    leaves,
)
from kcheck.specfile.arrays import ndim_of
from kcheck.specfile.kinds import KINDS, Parameters
from kcheck.specfile.reader import Kind, Reader
from kcheck.specfile.textures import KEYS as TEXTURE_KEYS
from kcheck.specfile.textures import read_texture
from kcheck.specfile.yamltree import YamlEntry, YamlList, YamlMap, YamlNode, YamlScalar

_ANY: tuple[Kind, ...] = ("input", "output", "param", "dim")
_MOST_FIELDS = 256


def read_argument(reader: Reader, node: YamlNode, arrays: Mapping[str, YamlEntry]) -> Argument | None:
    """An item of ``args``, or a field of a struct; None, after a fault, if it is invalid.

    Args:
        arrays: the declarations of inputs and outputs.
    """
    if isinstance(node, YamlScalar):
        if not isinstance(node.value, str):
            return _number(reader, node, node.value, None)
        name = reader.reference(node, _ANY, "argument", "args")
        return None if name is None else NameArg(name, None, node.span)
    if not isinstance(node, YamlMap):
        return None
    for key in TEXTURE_KEYS:
        if key in node.entries and not _is_dim(node.entries[key]):
            return read_texture(reader, node, key, dict(arrays))
    if "struct" in node.entries and not _is_dim(node.entries["struct"]):
        return _struct(reader, node, arrays)
    for key, read in (("stride", _stride), ("numel", _numel), ("value", _value), ("accessor", _accessor)):
        entry = node.entries.get(key)
        if entry is not None and not _is_dim(entry):
            dtype = reader.text(reader.get(node, "dtype")) if "dtype" in node.entries else None
            known = (key,) if key == "accessor" else (key, "dtype")
            extra = [other for other in node.entries if other not in known]
            if extra:
                reader.fault(node.entries[extra[0]].span, f"unknown key {extra[0]!r} beside {key!r}", "remove it")
            unread = dtype not in DTYPES and "dtype" in node.entries
            if dtype in DTYPES and key != "value" and not DTYPES[dtype].is_integer:
                unread = True
                reader.fault(
                    node.entries["dtype"].span, f"{key!r} is an integer, not a {dtype}", "write int32 or int64"
                )
            return None if unread or extra else read(reader, entry, arrays, dtype)
    if len(node.entries) != 1:
        fix = "write each argument as a separate item"
        reader.fault(node.span, f"an argument is one name, not {' and '.join(node.entries)}", fix)
        return None
    ((key, entry),) = node.entries.items()
    dtype = reader.text(entry.value)
    if key not in reader.named("dim"):
        if key.isidentifier():
            reader.unknown(entry.span, key, ("dim",), "dim", "args")
        return None
    if dtype not in DTYPES or not DTYPES[dtype].is_integer:
        return None
    return NameArg(key, dtype, node.span)


def _is_dim(entry: YamlEntry) -> bool:
    """Whether the key is the name of a dim: a dim may be called `stride`. Its value is then a dtype."""
    return isinstance(entry.value, YamlScalar) and entry.value.value in DTYPES


def _value(
    reader: Reader, entry: YamlEntry, arrays: Mapping[str, YamlEntry], dtype: str | None
) -> NumberArg | None:
    node = entry.value
    if not isinstance(node, YamlScalar) or isinstance(node.value, str):
        return None
    return _number(reader, node, node.value, dtype)


def _number(
    reader: Reader, node: YamlScalar, value: int | float | bool | None, dtype: str | None
) -> NumberArg | None:
    """A number or null, if the dtype can represent it."""
    if value is None and not node.text:
        reader.fault(node.span, "an item of 'args' has no value", "write null for a null pointer, or remove it")
        return None
    wrong, fix = _misfit(value, dtype), "write a number of its range, or another dtype"
    if wrong:
        reader.fault(node.span, wrong, "remove 'dtype'" if value is None else fix)
        return None
    return NumberArg(value, node.span, dtype)


def _misfit(value: int | float | bool | None, dtype: str | None) -> str:
    """Why a number cannot have a dtype, or any dtype if it is None; empty if it can."""
    if value is None:
        return "" if dtype is None else "null is a pointer, which has no dtype"
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        return f"{value} does not fit in an integer of 64 bits"
    if dtype is None or isinstance(value, bool):
        return ""
    kind = DTYPES[dtype]
    if kind.is_integer or dtype == "bool":
        if isinstance(value, float):
            return f"{value} is not a whole number, but the dtype is {dtype}"
        least, most = (0, 1) if dtype == "bool" else (kind.min, kind.max)
        return "" if least <= value <= most else f"{value} does not fit in {dtype}, which is {least} to {most}"
    if math.isfinite(value) and abs(value) > kind.max:
        return f"{value} does not fit in {dtype}, whose largest value is {kind.max:g}"
    return ""


def _stride(
    reader: Reader, entry: YamlEntry, arrays: Mapping[str, YamlEntry], dtype: str | None
) -> StrideArg | None:
    items = reader.items(entry.value)
    if len(items) != 2:
        return None
    array = reader.reference(items[0], ("input", "output"), "array", "stride")
    axis = reader.integer(items[1])
    if array is None or axis is None:
        return None
    ndim = ndim_of(arrays[array])
    if ndim is not None and not -ndim <= axis < ndim:
        reader.fault(items[1].span, f"{array!r} has no axis {axis}: it has {ndim} axes")
        return None
    return StrideArg(array, axis, entry.span, dtype)


def _numel(
    reader: Reader, entry: YamlEntry, arrays: Mapping[str, YamlEntry], dtype: str | None
) -> NumelArg | None:
    array = reader.reference(entry.value, ("input", "output"), "array", "numel")
    return None if array is None else NumelArg(array, entry.span, dtype)


def _accessor(
    reader: Reader, entry: YamlEntry, arrays: Mapping[str, YamlEntry], dtype: str | None
) -> AccessorArg | None:
    array = reader.reference(entry.value, ("input", "output"), "array", "accessor")
    if array is not None and ndim_of(arrays[array]) == 0:
        reader.fault(
            entry.value.span, f"{array!r} has no axes, and an accessor has at least one", "pass a pointer"
        )
        return None
    return None if array is None else AccessorArg(array, entry.span)


def _struct(reader: Reader, node: YamlMap, arrays: Mapping[str, YamlEntry]) -> StructArg | None:
    """``{struct: {a: x, n: N}}``; a field may be a struct in turn, or a list."""
    extra = [key for key in node.entries if key != "struct"]
    if extra:
        reader.fault(node.entries[extra[0]].span, f"unknown key {extra[0]!r} beside 'struct'", "remove it")
        return None
    return _fields(reader, node.entries["struct"].value, node.span, arrays)


def _fields(reader: Reader, node: YamlNode, span: Span, arrays: Mapping[str, YamlEntry]) -> StructArg | None:
    if isinstance(node, YamlMap):
        named = [(entry.key, entry.value) for entry in reader.entries(node, most=_MOST_FIELDS)]
    else:
        named = [(str(index), item) for index, item in enumerate(reader.items(node, most=_MOST_FIELDS))]
    fields = []
    for name, value in named:
        is_list = isinstance(value, YamlList)
        field = _fields(reader, value, value.span, arrays) if is_list else read_argument(reader, value, arrays)
        if isinstance(field, AccessorArg):
            what = f"an accessor cannot be a member of a struct, as {name!r} is"
            reader.fault(value.span, what, "write its members: {struct: {data: x, sizes: [N], strides: [1]}}")
        if field is None or isinstance(field, AccessorArg):
            return None
        fields.append((name, field))
    return StructArg(tuple(fields), span, isinstance(node, YamlList)) if fields else None


def named_in_variables(reader: Reader) -> Iterator[str]:
    """The names that ``variables`` gives as values."""
    for entry in reader.entries(reader.get(reader.top, "variables")):
        name = reader.text(entry.value)
        if name is not None:
            yield name


def read_variables_of_module(
    reader: Reader, arrays: Mapping[str, YamlEntry], kernel: tuple[KernelRef, Parameters | None] | None
) -> dict[str, Argument]:
    """``variables``: values of ``__device__`` and ``__constant__`` variables, by their names."""
    top = reader.top.entries.get("variables")
    if top is None:
        return {}
    if kernel is not None and kernel[0].kind not in _COMPILED:
        what = f"a kernel of {KINDS[kernel[0].kind].title} has no variables that a spec can set"
        reader.fault(top.span, what, "pass the array as an argument")
    if "launch" not in reader.top.entries:
        reader.fault(top.span, "'variables' needs 'launch'", "a launcher passes values as arguments; remove it")
    found: dict[str, Argument] = {}
    for entry in reader.entries(top.value):
        argument = read_argument(reader, entry.value, arrays)
        if isinstance(argument, TextureArg | AccessorArg):
            reader.fault(entry.value.span, f"the variable {entry.key!r} cannot have this value", "name an array")
        elif argument is not None:
            _check_layout(reader, entry, argument, arrays)
            found[entry.key] = argument
    return found


def _check_layout(reader: Reader, entry: YamlEntry, argument: Argument, arrays: Mapping[str, YamlEntry]) -> None:
    """Report an array with a layout other than contiguous: a variable has no strides."""
    if not isinstance(argument, NameArg) or argument.name not in arrays:
        return
    for item in reader.items(reader.get(arrays[argument.name].value, "layouts")):
        if reader.text(item) != "contiguous":
            what = f"{argument.name!r} is the variable {entry.key!r}, which has no strides"
            reader.fault(item.span, what, "remove this layout")


def check_kinds(
    reader: Reader, args: Sequence[Argument], kernel: tuple[KernelRef, Parameters | None] | None
) -> None:
    """Report arguments that kernels of this kind cannot take."""
    if kernel is None or kernel[0].kind in _COMPILED:
        return
    title = KINDS[kernel[0].kind].title
    for arg in (*args, *leaves(args)):
        if isinstance(arg, TextureArg):
            what = f"a kernel of {title} takes no texture or surface objects"
            reader.fault(arg.span, what, f"pass the array: {arg.array}")
        elif isinstance(arg, AccessorArg):
            what = f"a kernel of {title} takes no packed accessors"
            reader.fault(arg.span, what, f"pass the array: {arg.array}")
        elif isinstance(arg, StructArg):
            reader.fault(arg.span, f"a kernel of {title} takes no structs", "pass each field as an argument")
        elif isinstance(arg, NumberArg) and kernel[0].kind == "numba" and arg.value is None:
            reader.fault(arg.span, f"a kernel of {title} cannot get None", "pass an array or a number")
        elif isinstance(arg, NumberArg) and kernel[0].kind == "triton" and not _in_triton(arg.dtype):
            what = f"Triton passes no number as {arg.dtype}"
            reader.fault(arg.span, what, "remove 'dtype': a float is passed as float32")


_COMPILED = ("cuda", "hip", "ptx")
"""The kinds whose kernels get their parameters as bytes."""


def _in_triton(dtype: str | None) -> bool:
    return dtype is None or DTYPES[dtype].is_integer or dtype in ("bool", "float32")


def check_arity(
    reader: Reader, node: YamlNode, count: int, kernel: tuple[KernelRef, Parameters | None] | None
) -> None:
    """Report too few or too many arguments, if the text of the kernel's file shows its parameters."""
    if kernel is None or kernel[1] is None:
        return
    parameters = kernel[1]
    least, most = len(parameters.required), parameters.most
    if count < least or (most is not None and count > most):
        takes = f"{least}" if least == most else f"at least {least}" if most is None else f"{least} to {most}"
        plural = "" if takes == "1" else "s"
        names = ", ".join((*parameters.required, *parameters.optional))
        what = f"kernel {kernel[0].name!r} takes {takes} argument{plural}, but args has {count}"
        reader.fault(node.span, what, f"its parameters are {names}" if names else "")


def check_pointers(
    reader: Reader,
    args: Sequence[Argument],
    arrays: Mapping[str, YamlEntry],
    kernel: tuple[KernelRef, Parameters | None] | None,
) -> None:
    """Report arrays where the kernel takes a number, and numbers where it takes an array."""
    if kernel is None or kernel[1] is None:
        return
    parameters = kernel[1]
    for number, (name, arg) in enumerate(zip((*parameters.required, *parameters.optional), args, strict=False), 1):
        array = arg.name if isinstance(arg, NameArg) and arg.name in arrays else None
        where = f"parameter {number} of kernel {kernel[0].name!r}, {name!r}"
        is_null = isinstance(arg, NumberArg) and arg.value is None
        if name in parameters.numbers and (array is not None or is_null):
            told = "null" if is_null else f"the array {array!r}"
            what = f"{told} does not match {where}, which the kernel uses as a number"
            reader.fault(arg.span, what, "pass a dim, a param or {stride: [x, 0]} here, or change the kernel")
        elif name in parameters.pointers and array is None and not is_null:
            what = f"a number does not match {where}, which the kernel uses as a pointer"
            reader.fault(arg.span, what, "pass an array here, or change the kernel")
