"""Reads just enough of PTX's syntax to measure the text of an entry: comments and statements.

The grammar needed is small (PTX ISA, "Syntax"): ``//`` and ``/* */`` comments, statements that end in ``;``,
labels that end in ``:``, scopes in braces, directives that start with a dot.
"""

from __future__ import annotations

import re
from functools import cached_property

from kcheck.dataclass import dataclass

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_BRACE = re.compile(r"[{}]")
_LABEL = re.compile(r"\s*[$%\w]+\s*:(?!:)")


@dataclass(frozen=True)
class EntryText:
    """The text of one kernel in a module, from ``.entry`` to its closing brace, comments blanked out.

    Attributes:
        first_line: line of the module on which ``text`` starts, from 1.
    """

    name: str
    text: str
    first_line: int

    @cached_property
    def instructions(self) -> int:
        """How many instructions it has: statements that are neither directives nor labels."""
        body = self.text[self.text.index("{") + 1 :]
        # Directives such as .loc end with the line in NVVM's output, not with a semicolon.
        body = re.sub(r"^\s*\.(loc|file|section)\b[^\n;]*$", "", body, flags=re.MULTILINE)
        count = 0
        for statement in body.split(";"):
            text = statement.replace("{", " ", 1) if statement.lstrip().startswith("{") else statement
            text = text.replace("}", " ")
            while label := _LABEL.match(text):
                text = text[label.end() :]
            text = text.strip().lstrip("{").strip()
            if text and not text.startswith("."):
                count += 1
        return count

    def line_of(self, position: int) -> int:
        """Line of the module at a position of ``text``."""
        return self.first_line + self.text.count("\n", 0, position)


def find_entry(ptx: str, name: str) -> EntryText | None:
    """The entry of that name, or None if the module has none.

    Args:
        ptx: the text of a module.
        name: as in the PTX, mangled.
    """
    plain = _COMMENT.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), ptx)
    start = re.search(rf"\.entry\s+{re.escape(name)}\s*\(", plain)
    if start is None:
        return None
    depth = 0
    for brace in _BRACE.finditer(plain, start.start()):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            text = plain[start.start() : brace.end()]
            return EntryText(name, text, 1 + plain.count("\n", 0, start.start()))
    return None
