"""Functions of a module by name, their definitions, and checked calls of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kcheck.dataclass import dataclass
from kcheck.ptx.ir.builder import Builder, Value, vector_type


@dataclass(frozen=True, slots=True)
class Signature:
    """A function of a module: its name with @, the type that it returns, and its parameters by name."""

    name: str
    result: str
    parameters: Mapping[str, str]

    @property
    def head(self) -> str:
        """``i32 @kcheck.total(ptr %items, i32 %count)``."""
        parameters = ", ".join(f"{kind} %{name}" for name, kind in self.parameters.items())
        return f"{self.result} {self.name}({parameters})"

    @property
    def declaration(self) -> str:
        """For a module that calls the function of another one."""
        return f"declare {self.result} {self.name}({', '.join(self.parameters.values())})"

    def definition(self, lines: Iterable[str], attributes: str = "", linkage: str = "internal ") -> str:
        """The function. ``lines``: of its blocks; ``attributes``: LLVM's, after the parameters."""
        return "\n".join([f"define {linkage}{self.head} {attributes} {{", *lines, "}"])


def group(values: Sequence[Value]) -> str:
    """The LLVM type of several values, as the result of a function."""
    return f"{{{', '.join(vector_type(v.type, v.lanes) for v in values)}}}"


def call(b: Builder, function: Signature, /, **arguments: Value | int) -> Value:
    """Call a function of this module; arguments by name. Its result, or a value of type void.

    Raises:
        TypeError: arguments that the function does not have, or of another type.
    """
    if arguments.keys() != function.parameters.keys():
        raise TypeError(f"{function.name} takes {list(function.parameters)}, not {list(arguments)}")
    given = []
    for name, kind in function.parameters.items():
        value = operand(b, arguments[name], kind)
        if b.type_of(value) != kind:
            raise TypeError(f"{function.name}: {name} is {kind}, not {b.typed(value)}")
        given.append(b.typed(value))
    text = f"call {function.result} {function.name}({', '.join(given)})"
    if function.result == "void":
        b.line(text)
        return Value("", "void")
    if function.result.startswith("{"):
        return b.value(text, function.result)
    lanes, _, element = function.result.strip("<>").rpartition(" x ")
    return b.value(text, element, int(lanes or 1))


def members(b: Builder, grouped: Value, like: Sequence[Value]) -> list[Value]:
    """The values of a group, each of the type of the one in ``like``."""
    return [
        b.value(f"extractvalue {grouped.type} {grouped.text}, {n}", one.type, one.lanes)
        for n, one in enumerate(like)
    ]


def operand(b: Builder, value: Value | int, element: str) -> Value:
    """A value as it is; an integer as a constant of a type."""
    if isinstance(value, int):
        return Value("null", "ptr") if element == "ptr" else b.const(element, value)
    return value
