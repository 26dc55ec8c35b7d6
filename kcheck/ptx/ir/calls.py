"""Type-checked calls of the functions of a module, and functions that return several values."""

from __future__ import annotations

from collections.abc import Sequence

from kcheck.ptx.ir.builder import Builder, Value, vector_type
from kcheck.ptx.ir.signature import Signature


def group(values: Sequence[Value]) -> str:
    """The LLVM type of several values, as the result of a function."""
    return f"{{{', '.join(vector_type(v.type, v.lanes) for v in values)}}}"


def call(b: Builder, function: Signature, /, **arguments: Value | int) -> Value:
    """Call a function of this module, with arguments by name; returns its result, or a value of type void.

    Raises:
        TypeError: the arguments do not match the names or the types of the parameters.
    """
    if arguments.keys() != function.parameters.keys():
        raise TypeError(f"{function.name} takes {list(function.parameters)}, not {list(arguments)}")
    given = []
    for name, kind in function.parameters.items():
        value = operand(b, arguments[name], kind)
        if b.type_of(value) != kind:
            raise TypeError(f"{function.name}: {name} is {kind}, not {b.typed(value)}")
        given.append(b.typed(value))
    lanes, element = 1, function.result
    if element.startswith("<"):
        count, _, element = element.strip("<>").rpartition(" x ")
        lanes = int(count)
    return b.invoke(function.name, function.result, ", ".join(given), element, lanes)


def members(b: Builder, grouped: Value, like: Sequence[Value]) -> list[Value]:
    """The values of a group, each with the type of its counterpart in ``like``."""
    return [
        b.value(f"extractvalue {grouped.type} {grouped.text}, {n}", one.type, one.lanes)
        for n, one in enumerate(like)
    ]


def operand(b: Builder, value: Value | int, element: str) -> Value:
    """A value unchanged, or an integer as a constant of type ``element``."""
    if isinstance(value, int):
        return Value("null", "ptr") if element == "ptr" else b.const(element, value)
    return value
