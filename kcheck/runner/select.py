"""``-k EXPR`` selects the cases of a run, ``-t TAG`` its specs.

::

    expression := term ("or" term)*
    term       := factor ("and" factor)*
    factor     := "not" factor | "(" expression ")" | word

A word is any text without blanks and parentheses. It selects a case if the case's id contains it, or if it is one
of the spec's tags. A number at the end of a word must end there in the id, too: ``iter_1`` does not match
``iter_12``, and ``N=6`` does not match ``N=65``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from typing import TypeAlias

from kcheck.errors import UserError
from kcheck.model import OpSpec, SpecRefused

Matcher: TypeAlias = Callable[[str, Collection[str]], bool]
"""A function of a case's id and its spec's tags: whether the case is selected."""

_TOKENS = re.compile(r"\s*([()]|[^\s()]+)")
_MOST_DEPTH = 100


def parse(text: str) -> Matcher:
    """Parse an expression.

    Raises:
        UserError: it is not valid; the message has the column.
    """
    tokens = [(match[1], match.start(1) + 1) for match in _TOKENS.finditer(text)]
    if not tokens:
        raise UserError("-k: the expression is empty; give a part of a case's id, as 'kcheck cases' lists them")
    parser = _SelectionParser(text, tokens)
    matcher = parser.expression()
    if parser.rest:
        token, column = parser.rest[0]
        raise parser.error(f"unexpected {token!r}", column, "join words with 'and' or 'or'")
    return matcher


class _SelectionParser:
    """Recursive descent over the grammar above."""

    def __init__(self, text: str, tokens: list[tuple[str, int]]) -> None:
        self.text = text
        self.rest = tokens
        self.depth = 0

    def error(self, what: str, column: int, fix: str) -> UserError:
        return UserError(f"-k {self.text!r}: column {column}: {what}; {fix}")

    def expression(self) -> Matcher:
        """expression := term ("or" term)*"""
        terms = [self.term()]
        while self._take("or"):
            terms.append(self.term())
        return lambda case, tags: any(term(case, tags) for term in terms)

    def term(self) -> Matcher:
        """term := factor ("and" factor)*"""
        factors = [self.factor()]
        while self._take("and"):
            factors.append(self.factor())
        return lambda case, tags: all(factor(case, tags) for factor in factors)

    def factor(self) -> Matcher:
        """factor := "not" factor | "(" expression ")" | word"""
        end = len(self.text) + 1
        if not self.rest:
            raise self.error("a word is missing at the end", end, "give a part of a case's id, or a tag")
        self.depth += 1
        token, column = self.rest.pop(0)
        if self.depth > _MOST_DEPTH:
            raise self.error("nested too deep", column, "use fewer parentheses")
        try:
            if token == "not":
                negated = self.factor()
                return lambda case, tags: not negated(case, tags)
            if token == "(":
                inside = self.expression()
                if not self._take(")"):
                    raise self.error("this parenthesis is not closed", column, "add ')'")
                return inside
            if token in ("and", "or", ")"):
                raise self.error(f"expected a word, found {token!r}", column, "give a part of a case's id")
            found = re.compile(re.escape(token) + (r"(?!\d)" if token[-1].isdigit() else "")).search
            return lambda case, tags: found(case) is not None or token in tags
        finally:
            self.depth -= 1

    def _take(self, token: str) -> bool:
        if self.rest and self.rest[0][0] == token:
            self.rest.pop(0)
            return True
        return False


def select(specs: Iterable[OpSpec | SpecRefused], tags: Collection[str]) -> tuple[OpSpec | SpecRefused, ...]:
    """The specs that have one of the tags; all of them if no tag is given. Refused specs have no tags, but
    are kept, so that they are reported."""
    return tuple(s for s in specs if not tags or isinstance(s, SpecRefused) or set(tags) & set(s.tags))
