"""Reads just enough of nvdisasm's listings to search a kernel's machine code for patterns and to count it.

A listing has one section for each function: ``.text.NAME:``, then lines such as ::

    .L_x_3:
            /*0150*/              @!P0 FFMA R4, R4, R5, RZ ;

and, if the source is known, ``//## File "/a/k.py", line 12`` before the code that was compiled from that line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property

from kcheck.dataclass import dataclass

_FUNCTION = re.compile(r'\.text\.("?)(?P<name>.+)\1:\s*$')
_INSTRUCTION = re.compile(r"\s*/\*(?P<at>[0-9a-f]{4,})\*/\s*\{?\s*(?P<text>[^;]*;)")
_PLACE = re.compile(r'\s*//## File "(?P<file>[^"]*)", line (?P<line>\d+)')
_OPCODE = re.compile(r"(?:@!?U?P\w+\s+)?(?P<opcode>[A-Z][\w.]*)")


@dataclass(frozen=True, slots=True)
class SassInstruction:
    """One instruction.

    Attributes:
        address: from the function's beginning, bytes.
        text: as nvdisasm prints it, with predicate and closing semicolon; runs of blanks are collapsed.
        file, line: of the source that it was compiled from; empty and 0 if unknown.
    """

    address: int
    text: str
    file: str
    line: int

    @property
    def opcode(self) -> str:
        """The opcode with its modifiers: ``IMAD.MOV.U32``; empty if there is none."""
        found = _OPCODE.match(self.text)
        return found["opcode"] if found else ""


@dataclass(frozen=True)
class Sass:
    """The machine code of one function, without the NOPs that pad it."""

    name: str
    instructions: tuple[SassInstruction, ...]

    @cached_property
    def text(self) -> str:
        """One instruction per line: the text that patterns are matched against."""
        return "\n".join(instruction.text for instruction in self.instructions)

    def at(self, position: int) -> SassInstruction:
        """The instruction at a position of ``text``."""
        return self.instructions[self.text.count("\n", 0, position)]


def find_function(listing: str, name: str) -> Sass | None:
    """The machine code of a function, or None if the listing does not contain it.

    Args:
        listing: of nvdisasm.
        name: mangled.
    """
    found = tuple(_instructions(listing, name))
    return Sass(name, found) if found else None


def _instructions(listing: str, name: str) -> Iterator[SassInstruction]:
    is_inside = False
    file, line = "", 0
    for row in listing.splitlines():
        if header := _FUNCTION.match(row):
            is_inside = header["name"] == name
            file, line = "", 0
        elif not is_inside:
            continue
        elif row.lstrip().startswith(".section"):
            is_inside = False
        elif place := _PLACE.match(row):
            file, line = place["file"], int(place["line"])
        elif (found := _INSTRUCTION.match(row)) and found["text"].rstrip("; ") != "NOP":
            yield SassInstruction(int(found["at"], 16), " ".join(found["text"].split()), file, line)
