"""Declarations of variables and parameters, with their initializers.

Source: PTX ISA, "State Spaces, Types, and Variables".
"""

from __future__ import annotations

from collections.abc import Callable

from kcheck.ptx.syntax.ast import Float, Integer, Symbol, Variable
from kcheck.ptx.syntax.cursor import Cursor
from kcheck.ptx.syntax.lexer import describe
from kcheck.ptx.syntax.types import TYPES

PAGE = 4096
"""Alignment in bytes of every memory window: allocations, shared memory, the state of a block."""

SPACES = frozenset({".global", ".const", ".shared", ".local", ".param"})
LINKAGES = frozenset({".visible", ".weak", ".extern", ".common"})
_MAX_BYTES = 1 << 40

Initial = Integer | Float | Symbol


def linkage(cursor: Cursor) -> str:
    """``[.visible | .weak | .extern | .common]``, the last one if several."""
    found = ""
    while cursor.token.text in LINKAGES:
        found = cursor.take().text[1:]
    return found


# type ::= [".v2" | ".v4"] "." fundamental
def type_name(cursor: Cursor) -> tuple[str, int]:
    """A fundamental type without its dot, and the number of elements of its vector (1 for a scalar).

    Raises:
        PtxError: no type, or an opaque one (textures, samplers, surfaces).
    """
    lanes = 1
    if cursor.token.text in (".v2", ".v4"):
        lanes = int(cursor.take().text[2:])
    token = cursor.expect_kind("dotted", "a type")
    name = token.text[1:]
    if name in ("texref", "samplerref", "surfref"):
        cursor.fail(f"{token.text} is not supported; pass a texture or surface object", token.line)
    if name not in TYPES:
        cursor.fail(f"expected a type, found {token.text!r}", token.line)
    return name, lanes


# variables ::= space attribute* type declarator ("," declarator)* ";"
def variables(cursor: Cursor, linked: str, rename: Callable[[str, int], str]) -> list[Variable]:
    """One declaration of one or more variables.

    Args:
        linked: the linkage; ``""`` if none is declared.
        rename: returns the unique name in the function, from a declared name and its line.

    Raises:
        PtxError: not a valid declaration.
    """
    space = cursor.take().text[1:]
    align, kind, lanes = _attributes(cursor)
    found = []
    while True:
        line = cursor.line
        name = rename(cursor.name("the name of a variable"), line)
        count = _dimensions(cursor)
        if isinstance(count, int):
            count *= lanes
        natural = TYPES[kind].bytes * lanes
        variable = Variable(line, space, name, kind, count, align or natural, linked)
        if cursor.accept("="):
            variable = Variable(line, space, name, kind, count, align or natural, linked, _initial(cursor))
        if variable.count is not None and len(variable.initial) > variable.count:
            cursor.fail(f"{len(variable.initial)} values for the {variable.count} elements of {name}", line)
        if variable.count is not None and variable.count * TYPES[kind].bytes > _MAX_BYTES:
            cursor.fail(f"{name} is larger than any device's memory", line)
        found.append(variable)
        if not cursor.accept(","):
            break
    cursor.expect(";")
    return found


# param ::= (".param" | ".reg") attribute* type [".ptr" [space] [".align" int]] (name | "_") [dimensions]
def parameter(cursor: Cursor) -> Variable:
    """One parameter or returned value of a function."""
    line = cursor.line
    if cursor.token.text == ".reg":
        cursor.fail("parameters in registers (.reg) are not supported")
    cursor.expect(".param")
    align, kind, lanes = _attributes(cursor)
    pointer = None
    if cursor.accept(".ptr"):
        pointer = ""
        if cursor.token.text in SPACES:
            pointer = cursor.take().text.removeprefix(".")
        if cursor.accept(".align"):
            _alignment(cursor)
    name = cursor.name("the name of a parameter")
    count = _dimensions(cursor)
    if count is None:
        cursor.fail(f"parameter {name} has no size", line)
    if count * lanes * TYPES[kind].bytes > 1 << 20:
        cursor.fail(f"parameter {name} is too large: at most 1 MiB", line)
    size = TYPES[kind].bytes * lanes
    return Variable(line, "param", name, kind, count * lanes, align or size, pointer=pointer)


# parameters ::= "(" [ param ("," param)* ] ")"
def parameters(cursor: Cursor) -> tuple[Variable, ...]:
    """A list of parameters in parentheses."""
    cursor.expect("(")
    found: list[Variable] = []
    while cursor.token.text != ")":
        if found:
            cursor.expect(",")
        found.append(parameter(cursor))
    cursor.expect(")")
    return tuple(found)


def _attributes(cursor: Cursor) -> tuple[int, str, int]:
    align = 0
    while True:
        if cursor.accept(".align"):
            align = _alignment(cursor)
        elif cursor.accept(".attribute"):
            cursor.expect("(")
            while not cursor.accept(")"):
                if cursor.take().kind == "end":
                    cursor.fail(".attribute( is never closed")
        else:
            break
    kind, lanes = type_name(cursor)
    return align, kind, lanes


def _alignment(cursor: Cursor) -> int:
    line = cursor.line
    align = cursor.integer("an alignment in bytes")
    if align < 1 or align & (align - 1):
        cursor.fail(f"{align} is not an alignment: use a power of two", line)
    if align > PAGE:
        cursor.fail(f"an alignment of {align} bytes is not supported: at most {PAGE}, a page of memory", line)
    return align


# dimensions ::= ("[" [int] "]")*
def _dimensions(cursor: Cursor) -> int | None:
    """The number of elements of the declared array: 1 for a scalar, None if a dimension is open."""
    count = 1
    is_open = False
    while cursor.accept("["):
        line = cursor.line
        if cursor.accept("]"):
            is_open = True
            continue
        size = cursor.integer("the size of an array")
        cursor.expect("]")
        if size < 0 or count * size > _MAX_BYTES:
            cursor.fail(f"{size} is not a valid array size", line)
        count *= size
    return None if is_open else count


# initial ::= value | "{" [initial ("," initial)*] "}"
def _initial(cursor: Cursor) -> tuple[Initial, ...]:
    found: list[Initial] = []
    depth = 0
    while True:
        if cursor.accept("{"):
            depth += 1
            if cursor.token.kind != "}":
                continue
        else:
            found.append(_initial_value(cursor))
        while depth and cursor.accept("}"):
            depth -= 1
        if depth == 0:
            return tuple(found)
        cursor.expect(",")


# value ::= number | "generic" "(" symbol ")" ["+" int] | symbol ["+" int]
def _initial_value(cursor: Cursor) -> Initial:
    token = cursor.token
    if token.kind in ("int", "float", "-"):
        number = cursor.number()
        if cursor.token.kind == "(":
            cursor.fail("a masked address as an initial value is not supported", token.line)
        return number
    if token.kind != "name":
        cursor.fail(f"expected an initial value, found {describe(token)}")
    name = cursor.take().text
    if name == "generic":
        cursor.expect("(")
        name = cursor.name("the name of a variable")
        cursor.expect(")")
    offset = 0
    if cursor.token.kind in ("+", "-"):
        sign = -1 if cursor.take().kind == "-" else 1
        offset = sign * cursor.integer("an offset in bytes")
    return Symbol(name, offset)
