"""Divisions in loops, and the lines that they are on.

LLVM replaces a 64-bit division by a test and two divisions, and unrolls loops. Some of the copies have no line,
and the line before may be that of another statement. The same line of the source reads all copies of a division.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from kcheck.linter.families import divides
from kcheck.ptx.analysis import cfg as control
from kcheck.ptx.analysis.liveness import reads, writes
from kcheck.ptx.syntax.ast import Call, Function, Instruction, Label, Loc
from kcheck.ptx.syntax.opcodes import COPIES

_Line: TypeAlias = tuple[int, int]
"""The number of a file, and a line."""


def divisions_in_loops(entry: Function, file: str) -> Iterator[Instruction]:
    """The divisions in the loops of a kernel. For a copy without a line, the one with a line, if it is known.

    Raises:
        PtxError: the control flow cannot be analyzed.
    """
    graph = control.build(entry, file)
    inside = {block for loop in graph.loops for block in loop.blocks}
    operations = [operation for block in sorted(inside) for operation in graph.blocks[block].operations]
    found = [one for one in operations if isinstance(one, Instruction) and divides(one)]
    users = _users(entry)
    placed = {line: one for one in reversed(found) if _has_line(one.loc) for line in _used_at(one, users)}
    for division in found:
        lines = [] if _has_line(division.loc) else _used_at(division, users)
        yield next((placed[line] for line in lines if line in placed), division)


def _has_line(loc: Loc | None) -> bool:
    return loc is not None and not loc.is_near


def _users(entry: Function) -> dict[str, list[Instruction | Call]]:
    """The operations that read each register."""
    found: dict[str, list[Instruction | Call]] = {}
    for statement in entry.body or ():
        for register in () if isinstance(statement, Label) else reads(statement):
            assert not isinstance(statement, Label)
            found.setdefault(register.name, []).append(statement)
    return found


def _used_at(division: Instruction, users: dict[str, list[Instruction | Call]]) -> list[_Line]:
    """The lines of the operations that use a result, directly or as a copy in a wider register."""
    found: set[_Line] = set()
    seen: set[str] = set()
    registers = [register.name for register in writes(division)]
    while registers:
        name = registers.pop()
        if name in seen:
            continue
        seen.add(name)
        for user in users.get(name, ()):
            if isinstance(user, Instruction) and user.opcode in COPIES:
                registers += [register.name for register in writes(user)]
            elif user.loc is not None and not user.loc.is_near:
                found.add((user.loc.file, user.loc.line))
    return sorted(found)
