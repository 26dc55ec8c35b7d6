"""A token stream with a current position, and the grammar of operands, which all statements share."""

from __future__ import annotations

import struct
from typing import NoReturn, Protocol

from kcheck.ptx.syntax.ast import (
    Address,
    Float,
    Integer,
    Negated,
    Not,
    Operand,
    Pair,
    Register,
    Selected,
    Sink,
    Special,
    Symbol,
    Texel,
    Vector,
)
from kcheck.ptx.syntax.constants import constant
from kcheck.ptx.syntax.lexer import Token, describe, fail, integer, tokenize
from kcheck.ptx.syntax.selectors import SELECTOR

_SPECIAL = frozenset(
    [
        "tid",
        "ntid",
        "ctaid",
        "nctaid",
        "laneid",
        "warpid",
        "nwarpid",
        "smid",
        "nsmid",
        "gridid",
        "clock",
        "clock_hi",
        "clock64",
        "globaltimer",
        "globaltimer_lo",
        "globaltimer_hi",
        "lanemask_eq",
        "lanemask_le",
        "lanemask_lt",
        "lanemask_ge",
        "lanemask_gt",
        "dynamic_smem_size",
        "total_smem_size",
        "aggr_smem_size",
        "is_explicit_cluster",
        "clusterid",
        "nclusterid",
        "cluster_ctaid",
        "cluster_nctaid",
        "cluster_ctarank",
        "cluster_nctarank",
        "current_graph_exec",
    ]
) | {f"envreg{n}" for n in range(32)}
"""PTX ISA, "Special Registers", without the percent sign."""

_COMPONENTS = (".x", ".y", ".z", ".w")


class Names(Protocol):
    """What a name in an operand stands for."""

    def resolve(self, name: str, line: int) -> Register | Symbol:
        """The register or symbol of that name, as seen from the current position."""


class Cursor:
    """The tokens of one file, read from left to right."""

    def __init__(self, text: str, file: str) -> None:
        self.file = file
        self.tokens = tokenize(text, file)
        self.index = 0

    @property
    def token(self) -> Token:
        """The current token."""
        return self.tokens[self.index]

    @property
    def line(self) -> int:
        """The line of the current token, from 1."""
        return self.tokens[self.index].line

    def fail(self, what: str, line: int | None = None) -> NoReturn:
        """Raise PtxError at the current line, or at ``line``."""
        fail(self.file, self.line if line is None else line, what)

    def take(self) -> Token:
        """Return the current token and advance."""
        token = self.tokens[self.index]
        if token.kind != "end":
            self.index += 1
        return token

    def accept(self, text: str) -> bool:
        """Advance past the current token if it reads ``text``; return whether it did."""
        token = self.tokens[self.index]
        if token.text == text and token.kind not in ("string", "end"):
            self.index += 1
            return True
        return False

    def expect(self, text: str) -> Token:
        """Advance past ``text``, which must come next."""
        token = self.tokens[self.index]
        if not self.accept(text):
            self.fail(f"expected {text!r}, found {describe(token)}")
        return token

    def expect_kind(self, kind: str, what: str) -> Token:
        """Advance past a token of that kind, which must come next; ``what`` names it in the message."""
        token = self.tokens[self.index]
        if token.kind != kind:
            self.fail(f"expected {what}, found {describe(token)}")
        self.index += 1
        return token

    def name(self, what: str) -> str:
        """Advance past a name."""
        return self.expect_kind("name", what).text

    # integer ::= ["-"] int
    def integer(self, what: str) -> int:
        """Advance past an integer literal, which may be negative.

        Raises:
            PtxError: not an integer, or one that does not fit in 64 bits.
        """
        negative = self.accept("-")
        token = self.expect_kind("int", what)
        try:
            value = integer(token.text)
        except ValueError:
            self.fail(f"{token.text!r} is not an integer literal", token.line)
        value = -value if negative else value
        if not -(2**63) <= value < 2**64:
            self.fail(f"{token.text!r} does not fit in 64 bits", token.line)
        return value

    # float ::= ["-"] ( "0f" hex8 | "0d" hex16 | digits "." digits [exponent] )
    def _float(self, negative: bool) -> Float:
        text = self.expect_kind("float", "a floating-point literal").text
        if text[:2] in ("0f", "0F"):
            return Float(int(text[2:], 16) ^ (negative << 31), 32)
        if text[:2] in ("0d", "0D"):
            return Float(int(text[2:], 16) ^ (negative << 63), 64)
        return Float(struct.unpack("<Q", struct.pack("<d", float(text)))[0] ^ (negative << 63), 64)

    # number ::= integer | float
    def number(self) -> Integer | Float:
        """Advance past a literal of either kind."""
        at = self.index
        negative = self.accept("-")
        if self.token.kind == "float":
            return self._float(negative)
        self.index = at
        return Integer(self.integer("a number"))

    # operand ::= primary [ "|" primary ]
    def operand(self, names: Names) -> Operand:
        """One operand of an instruction."""
        first = self._primary(names)
        if self.accept("|"):
            return Pair(first, self._primary(names))
        return first

    # primary ::= "[" address "]" | "{" primary ("," primary)* "}" | "!" register | "-" register [selector] | "_"
    #           | float | constant
    #           | special [component] | register selector | name [ ("+" | "-") integer ]
    def _primary(self, names: Names) -> Operand:
        token = self.token
        if token.kind == "[":
            return self._address(names)
        if token.kind == "{":
            return self._vector(names)
        after = self.tokens[min(self.index + 1, len(self.tokens) - 1)].kind
        if token.kind == "float" or (token.kind == "-" and after == "float"):
            return self.number()
        if token.kind == "-" and after == "name":
            self.take()
            inner = self._primary(names)
            if not isinstance(inner, Register | Selected):
                self.fail("'-' is only allowed before a register or a constant", token.line)
            return Negated(inner)
        if token.kind in ("int", "-", "+", "~", "(") or (token.kind == "!" and after != "name"):
            return Integer(constant(self)[0])
        if token.kind == "!":
            self.take()
            inner = names.resolve(self.name("a predicate register"), token.line)
            if not isinstance(inner, Register):
                self.fail("'!' is only allowed before a predicate register", token.line)
            return Not(inner)
        if token.kind != "name":
            self.fail(f"expected an operand, found {describe(token)}")
        self.take()
        if token.text == "_":
            return Sink()
        if token.text == "WARP_SZ":
            return Special("WARP_SZ")
        if token.text.startswith("%") and token.text[1:] in _SPECIAL:
            component = self.take().text if self.token.text in _COMPONENTS else ""
            return Special(token.text[1:] + component)
        found = names.resolve(token.text, token.line)
        if isinstance(found, Register) and SELECTOR.fullmatch(self.token.text):
            return Selected(found, self.take().text[1:])
        if isinstance(found, Symbol) and self.token.kind in ("+", "-"):
            sign = -1 if self.take().kind == "-" else 1
            return Symbol(found.name, sign * self.integer("an offset in bytes"))
        return found

    # address ::= (register | symbol | integer) (("+" | "-") integer)*
    def _address(self, names: Names) -> Address | Texel:
        self.expect("[")
        base: Register | Symbol | Integer
        if self.token.kind == "int":
            base = Integer(self.integer("an address"))
        else:
            token = self.token
            base = names.resolve(self.name("a register or a variable"), token.line)
        offset = 0
        while self.token.kind in ("+", "-"):
            sign = -1 if self.take().kind == "-" else 1
            offset += sign * self.integer("an offset in bytes")
        if offset == 0 and self.accept(","):
            return self._texel(base, names)
        self.expect("]")
        if not -(2**63) <= offset < 2**63:
            self.fail("the offset does not fit in 64 bits")
        return Address(base, offset)

    # texel ::= object "," coordinates "]"      object ::= register      coordinates ::= register | vector
    def _texel(self, base: Register | Symbol | Integer, names: Names) -> Texel:
        """The texel of an object, from what follows the comma."""
        if not isinstance(base, Register):
            self.fail(".texref and .surfref are not supported; pass a texture or surface object")
        place = self._primary(names)
        if self.token.kind == ",":
            self.fail("separate samplers are not supported; use a texture object, which has its own")
        self.expect("]")
        return Texel(base, place if isinstance(place, Vector) else Vector((place,)))

    def _vector(self, names: Names) -> Vector:
        line = self.expect("{").line
        elements: list[Operand] = []
        while True:
            if self.token.kind in ("{", "["):
                self.fail("a vector holds registers and constants only")
            elements.append(self._primary(names))
            if not self.accept(","):
                break
        self.expect("}")
        if len(elements) > 8:
            self.fail(f"a vector of {len(elements)} elements; at most 8 are allowed", line)
        return Vector(tuple(elements))
