"""Structs by value and packed accessors among the arguments of a launch: where each member is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kcheck.alignment import align_up
from kcheck.dataclass import dataclass
from kcheck.device.kinds.base import Passed
from kcheck.device.kinds.entry import shape_told
from kcheck.device.kinds.signature import Members
from kcheck.device.modules import Parameter
from kcheck.model import DTYPES, AccessorArg, Argument, StructArg

_POINTER = 8
"""Bytes of a pointer."""
ACCESSED = "data_"
"""The member of an accessor of kcheck's header that points to the elements."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A member of a struct.

    Attributes:
        path: its name in the struct, such as ``inner.sizes[1]``.
        parameter: where it is in the struct, and its type.
        passed: its value.
    """

    path: str
    parameter: Parameter
    passed: Passed


def wanted_members(arguments: Sequence[Argument]) -> Members:
    """The members of structs that a launch passes, for the compiler."""
    found = []
    for number, argument in enumerate(arguments):
        if isinstance(argument, StructArg):
            found.append((number, tuple(_paths(argument))))
        elif isinstance(argument, AccessorArg):
            found.append((number, (ACCESSED,)))
    return tuple(found)


def _paths(argument: StructArg, prefix: str = "") -> Iterator[str]:
    for name, part in argument.fields:
        path = _joined(prefix, name, is_list=argument.is_list)
        if isinstance(part, StructArg):
            yield from _paths(part, path)
        else:
            yield path


def _joined(prefix: str, name: str, *, is_list: bool) -> str:
    return f"{prefix}[{name}]" if is_list else f"{prefix}.{name}".lstrip(".")


def placed(passed: Passed, parameter: Parameter) -> list[Placed]:
    """The members of a struct or an accessor: where the compiler puts them, or with natural alignment in order.

    A member that the compiler's struct does not have is omitted.
    """
    if isinstance(passed.argument, AccessorArg):
        return _accessor(passed, parameter)
    natural = _natural(passed)
    if parameter.members is None:
        return natural
    return [
        Placed(one.path, known, one.passed)
        for one in natural
        if (known := parameter.members.get(one.path)) is not None
    ]


def layout_faults(passed: Passed, parameter: Parameter) -> list[str]:
    """How a struct differs from its parameter as a whole: its size, its members, bytes that no member covers."""
    argument = passed.argument
    if parameter.form not in ("class", "bytes"):
        return [f"it is {shape_told(parameter)}, not a struct"]
    if isinstance(argument, AccessorArg):
        axes = len(passed.fields) // 2
        sizes = [_accessor_size(axes, width) for width in (4, 8)]
        if parameter.size in sizes:
            return []
        told = f"an accessor of {axes} ax{'e' if axes > 1 else 'i'}s has {sizes[0]} or {sizes[1]} bytes"
        return [f"{told}, but this has {parameter.size}"]
    natural = _natural(passed)
    if parameter.members is None:
        size = align_up(natural[-1].parameter.offset + natural[-1].parameter.size, _alignment(natural))
        if size == parameter.size:
            return []
        told = ", ".join(f"{one.path} at {one.parameter.offset}" for one in natural)
        return [f"its fields take {size} bytes ({told}), but this has {parameter.size}"]
    missing = [one.path for one in natural if parameter.members.get(one.path) is None]
    if missing:
        return [f"it has no member {path!r}" for path in missing]
    return list(_gaps(placed(passed, parameter), parameter))


def _gaps(members: Sequence[Placed], parameter: Parameter) -> Iterator[str]:
    """Bytes of a struct that are in no member, and too many for padding."""
    end = 0
    spans = sorted((one.parameter.offset, one.parameter.size) for one in members)
    for offset, size in (*spans, (parameter.size, 0)):
        if offset - end >= max(parameter.alignment, 1):
            yield f"no field covers its bytes {end} to {offset - 1} of {parameter.size}"
        end = max(end, offset + size)


def _natural(passed: Passed) -> list[Placed]:
    """The members, each aligned to its size."""
    found: list[Placed] = []
    _add(found, passed, "", 0)
    return found


def _add(found: list[Placed], passed: Passed, prefix: str, start: int) -> int:
    """Append the members of a struct that begins at or after a byte; returns its end."""
    argument = passed.argument
    assert isinstance(argument, StructArg)
    at = begin = align_up(start, _align(passed))
    for (name, _), part in zip(argument.fields, passed.fields, strict=True):
        path = _joined(prefix, name, is_list=argument.is_list)
        if part.fields:
            at = _add(found, part, path, at)
            continue
        size = _size(part)
        at = align_up(at, size)
        found.append(Placed(path, _parameter(part, at, size, path), part))
        at += size
    return begin + align_up(at - begin, _align(passed))


def _align(passed: Passed) -> int:
    return max(_align(part) if part.fields else _size(part) for part in passed.fields)


def _size(passed: Passed) -> int:
    if passed.is_array or not passed.dtype:
        return _POINTER
    return DTYPES[passed.dtype].itemsize


def _parameter(passed: Passed, offset: int, size: int, path: str) -> Parameter:
    """The type of a member, as the spec passes it."""
    if passed.is_array or not passed.dtype:
        return Parameter(offset, size, "word", "", path)
    is_integer = DTYPES[passed.dtype].is_integer or passed.dtype == "bool"
    return Parameter(offset, size, "integer" if is_integer else "float", passed.dtype, path)


def _alignment(members: Sequence[Placed]) -> int:
    return max(one.parameter.size for one in members)


def _accessor_size(axes: int, width: int) -> int:
    return _POINTER + 2 * axes * width


def _accessor(passed: Passed, parameter: Parameter) -> list[Placed]:
    """The pointer, the sizes and the strides of an accessor."""
    first, *numbers = passed.fields
    width = 4 if parameter.size == _accessor_size(len(numbers) // 2, 4) else 8
    known = (parameter.members or {}).get(ACCESSED)
    pointer = known or Parameter(0, _POINTER, "pointer", "", "its pointer")
    found = [Placed(ACCESSED, pointer, first)]
    for index, number in enumerate(numbers):
        kind = "sizes" if index < len(numbers) // 2 else "strides"
        told = f"{kind}[{index % (len(numbers) // 2)}]"
        slot = Parameter(_POINTER + width * index, width, "integer", f"int{8 * width}", told)
        found.append(Placed(told, slot, number))
    return found
