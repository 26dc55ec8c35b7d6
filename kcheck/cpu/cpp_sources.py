"""Reads how C++ declares ``__shared__`` arrays: PTX has only their names and sizes."""

from __future__ import annotations

import ast
import linecache
import os
import re

from kcheck.cpu.sources import number
from kcheck.dataclass import dataclass

_ALIGNED = r"(?:__align__|alignas)\s*\([^)]*\)"
_VECTOR = re.compile(r"(?:u?(?:char|short|int|long|longlong)|float|double)[1-4]|(?:__)?half2|__nv_bfloat162")
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', re.MULTILINE)
_CONSTANT = re.compile(
    r"^[ \t]*(?:#[ \t]*define[ \t]+(\w+)[ \t]+(.+)"
    r"|(?:static[ \t]+)?(?:const|constexpr)[ \t]+[\w ]+?[ \t](\w+)[ \t]*=[ \t]*([^;]+);)",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class CppArray:
    """A declaration.

    Attributes:
        text: such as ``float tile[32][33]``.
        is_of_scalars: whether one access loads an element: as far as the file shows it, its type is neither a
            vector nor a structure.
        shape: the sizes of the axes; None if they are not literals or constants of the file or its headers.
        axes: how many there are.
    """

    text: str
    is_of_scalars: bool
    shape: tuple[int, ...] | None
    axes: int


def shared_array(file: str, line: int, name: str) -> CppArray | None:
    """The last declaration of a shared array before a line of a file; None if there is none, as in a macro."""
    lines = linecache.getlines(file)
    before = "".join(lines[:line])
    declaration = (
        rf"__shared__\s+(?:{_ALIGNED}\s*)?(\w[\w:<>, ]*?)\s*\b{re.escape(name)}((?:\s*\[[^\]\n]+\])+)\s*[;,=]"
    )
    found = re.findall(declaration, before)
    if not found:
        return None
    kind, sizes = (" ".join(part.split()) for part in found[-1])
    axes = re.findall(r"\[([^\]]+)\]", sizes)
    text = _with_headers(file, set())
    return CppArray(f"{kind} {name}{sizes}", _is_scalar(kind, text), _shape(axes, text), len(axes))


def _with_headers(file: str, seen: set[str]) -> str:
    """The text of a file, after those of the headers that it includes by a path from its own folder."""
    seen.add(os.path.realpath(file))
    text = "".join(linecache.getlines(file))
    headers = [os.path.join(os.path.dirname(file), name) for name in _INCLUDE.findall(text)]
    return "".join(_with_headers(path, seen) for path in headers if os.path.realpath(path) not in seen) + text


def _is_scalar(kind: str, text: str) -> bool:
    if "<" in kind or _VECTOR.fullmatch(kind):
        return False
    name = re.escape(kind.rpartition("::")[2])
    return not re.search(rf"\b(?:struct|class|union)\s+(?:{_ALIGNED}\s*)?{name}\s*[{{:;]|\}}\s*{name}\s*;", text)


def _shape(axes: list[str], text: str) -> tuple[int, ...] | None:
    constants: dict[str, ast.expr] = {}
    for macro, value, constant, initial in _CONSTANT.findall(text):
        if (parsed := _expression(value or initial)) is not None:
            constants[macro or constant] = parsed
    parsed_axes = [_expression(axis) for axis in axes]
    sizes = [None if axis is None else number(axis, constants) for axis in parsed_axes]
    return tuple(size for size in sizes if size is not None) if None not in sizes else None


def _expression(text: str) -> ast.expr | None:
    """A constant expression of C++, in which a division is one of integers."""
    try:
        return ast.parse(text.partition("//")[0].strip().replace("/", "//"), mode="eval").body
    except SyntaxError:
        return None
