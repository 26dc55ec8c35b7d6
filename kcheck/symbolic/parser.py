"""Tokens to a syntax tree, by precedence climbing.

::

    expression := disjunction
    disjunction := conjunction ("or" conjunction)*
    conjunction := negation ("and" negation)*
    negation   := "not" negation | comparison
    comparison := sum (("<" | "<=" | ">" | ">=" | "==" | "!=") sum)*
    sum        := product (("+" | "-") product)*
    product    := factor (("*" | "/" | "//" | "%") factor)*
    factor     := ("+" | "-") factor | power
    power      := atom ["**" factor]
    atom       := NUMBER | NAME | "sizeof" "(" NAME ")" | NAME "(" arguments ")" | "(" expression ")"
    arguments  := expression ("," expression)* ["," "axis" "=" expression]

The precedences are those of Python (Language Reference 6.17), which users know.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from kcheck.model import DTYPES
from kcheck.nearest import did_you_mean
from kcheck.symbolic.ast import Binary, ExpressionError, FunctionCall, Logical, Name, Node, Number, Relation, Unary
from kcheck.symbolic.functions import FUNCTIONS, SCALAR_FUNCTIONS
from kcheck.symbolic.lexer import ExpressionToken, shorten, tokenize

MAX_NESTING = 50
MAX_OPERATORS = 100
"""Together these bound the depth of a tree, so that no walk over it can exhaust Python's stack."""

SIZEOF = "sizeof"

_OR, _AND, _NOT, _COMPARE, _SUM, _PRODUCT, _SIGN = range(1, 8)
_BINARY = {"+": _SUM, "-": _SUM, "*": _PRODUCT, "/": _PRODUCT, "//": _PRODUCT, "%": _PRODUCT}
_COMPARISONS = frozenset({"<", "<=", ">", ">=", "==", "!="})
_RESERVED = frozenset({"and", "or", "not"})
_KEYWORDS = frozenset({"if", "else", "in", "is", "lambda", "for", "True", "False", "None", "true", "false"})


@lru_cache(maxsize=4096)
def parse(text: str, *, arrays: bool = True) -> Node:
    """Parse an expression.

    Args:
        arrays: whether the functions of invariants are among those that a message lists.

    Functions that only invariants may use are accepted here; ``check_scalar`` rejects them elsewhere.

    Raises:
        ExpressionError: with the column of the first thing that is wrong, and the fix if there is one.
    """
    return _Parser(text, FUNCTIONS if arrays else (*SCALAR_FUNCTIONS, SIZEOF)).read()


class _Parser:
    def __init__(self, text: str, listed: Iterable[str]) -> None:
        self.listed = tuple(listed)
        self.tokens = tokenize(text)
        self.at = 0
        self.nesting = 0
        self.operators = 0

    def read(self) -> Node:
        if self.peek().kind == "end":
            raise ExpressionError("the expression is empty", 1, "write an integer, a name or a formula")
        node = self.expression(_OR)
        left_over = self.peek()
        if left_over.kind != "end":
            raise self._after_value(left_over)
        return node

    def peek(self) -> ExpressionToken:
        return self.tokens[self.at]

    def take(self) -> ExpressionToken:
        token = self.tokens[self.at]
        self.at += 1
        return token

    def expression(self, least: int) -> Node:
        """Parse an expression whose operators bind at least as tightly as ``least``."""
        self.nesting += 1
        if self.nesting > MAX_NESTING:
            what = f"the expression is nested more than {MAX_NESTING} levels deep"
            raise ExpressionError(what, self.peek().column, "move a part of it into a derived dim")
        node = self.prefix(least)
        while True:
            token = self.peek()
            text = token.text
            if text in _BINARY and _BINARY[text] >= least:
                self.operator()
                node = Binary(text, node, self.expression(_BINARY[text] + 1), token.column)
            elif text in _COMPARISONS and least <= _COMPARE:
                node = self.comparison(node)
            elif text in ("and", "or") and least <= (precedence := _AND if text == "and" else _OR):
                self.operator()
                node = Logical(text, node, self.expression(precedence + 1), token.column)
            else:
                self.nesting -= 1
                return node

    def operator(self) -> ExpressionToken:
        self.operators += 1
        token = self.take()
        if self.operators > MAX_OPERATORS:
            what = f"the expression has more than {MAX_OPERATORS} operators"
            raise ExpressionError(what, token.column, "move a part of it into a derived dim")
        return token

    def comparison(self, first: Node) -> Node:
        column = self.peek().column
        operators: list[str] = []
        operands = [first]
        while self.peek().text in _COMPARISONS:
            operators.append(self.operator().text)
            operands.append(self.expression(_COMPARE + 1))
        return Relation(tuple(operators), tuple(operands), column)

    def prefix(self, least: int) -> Node:
        token = self.peek()
        if token.text == "not" and token.kind == "name":
            if least > _NOT:
                raise ExpressionError("'not' needs parentheses here", token.column, "write (not ...)")
            self.operator()
            return Unary("not", self.expression(_NOT), token.column)
        if token.text in ("+", "-"):
            self.operator()
            return Unary(token.text, self.expression(_SIGN), token.column)
        base = self.atom()
        power = self.peek()
        if power.text == "**":
            self.operator()
            return Binary("**", base, self.expression(_SIGN), power.column)
        return base

    def atom(self) -> Node:
        token = self.take()
        if token.kind == "number":
            return Number(token.value, token.column)
        if token.kind == "name" and token.text not in _RESERVED:
            if self.peek().text == "(":
                return self.size_of(token) if token.text == SIZEOF else self.call(token)
            if token.text in _KEYWORDS:
                raise ExpressionError(f"{token.text!r} is not allowed in an expression", token.column)
            return Name(token.text, token.column)
        if token.text == "(":
            inner = self.expression(_OR)
            self.close(token)
            return inner
        if token.kind == "end":
            raise ExpressionError("expected a value, found the end of the expression", token.column)
        raise ExpressionError(f"expected a value, found {token}", token.column)

    def size_of(self, name: ExpressionToken) -> Node:
        """``sizeof(T)``: bytes of a dtype, or a name whose value depends on the case."""
        opening, inner = self.take(), self.take()
        if inner.kind != "name":
            raise ExpressionError("sizeof takes a dtype or a type variable", inner.column, "write sizeof(float32)")
        self.close(opening)
        if inner.text in DTYPES:
            return Number(DTYPES[inner.text].itemsize, name.column)
        return Name(f"{SIZEOF}({inner.text})", name.column)

    def call(self, name: ExpressionToken) -> Node:
        opening = self.take()
        row = FUNCTIONS.get(name.text)
        if row is None:
            fix = did_you_mean(name.text, self.listed) or f"available: {', '.join(self.listed)}"
            raise ExpressionError(f"unknown function {shorten(name.text)!r}", name.column, fix)
        arguments: list[Node] = []
        axis: Node | None = None
        while self.peek().text != ")":
            keyword = self.peek()
            if keyword.kind == "name" and self.tokens[self.at + 1].text == "=":
                if keyword.text != "axis":
                    what = f"{name.text} has no keyword argument {shorten(keyword.text)!r}"
                    raise ExpressionError(what, keyword.column, "only 'axis' is available; use '==' to compare")
                if not row.reduces or axis is not None:
                    what = f"{name.text} takes no axis" if not row.reduces else "axis is given twice"
                    raise ExpressionError(what, keyword.column)
                self.at += 2
                axis = self.expression(_OR)
            elif axis is not None:
                raise ExpressionError("there is an argument after axis", keyword.column, "put axis last")
            else:
                arguments.append(self.expression(_OR))
            if self.peek().text != ",":
                break
            self.take()
        self.close(opening)
        most = row.most
        least = 1 if row.reduces else row.least
        if len(arguments) < least or (most is not None and len(arguments) > most):
            wanted = f"at least {least}" if most is None else f"{least}"
            plural = "" if wanted.endswith(" 1") or wanted == "1" else "s"
            raise ExpressionError(
                f"{name.text} takes {wanted} argument{plural}, not {len(arguments)}", name.column
            )
        if axis is not None and len(arguments) > 1:
            raise ExpressionError(f"{name.text} takes axis with one array only", name.column)
        return FunctionCall(name.text, tuple(arguments), axis, name.column)

    def close(self, opening: ExpressionToken) -> None:
        token = self.take()
        if token.kind == "end":
            raise ExpressionError("this parenthesis is never closed", opening.column, "add ')'")
        if token.text != ")":
            raise self._after_value(token)

    def _after_value(self, token: ExpressionToken) -> ExpressionError:
        """The error for a token after a complete value."""
        if token.text == "=":
            return ExpressionError("'=' is not a comparison", token.column, "write '=='")
        if token.text == ")":
            return ExpressionError("this parenthesis has no opening one", token.column)
        if token.text == ",":
            return ExpressionError("unexpected comma outside a call", token.column)
        if token.text in _KEYWORDS:
            return ExpressionError(f"{token.text!r} is not allowed in an expression", token.column)
        fix = "put an operator between them" if token.kind in ("name", "number") or token.text == "(" else ""
        return ExpressionError(f"expected an operator, found {token}", token.column, fix)
