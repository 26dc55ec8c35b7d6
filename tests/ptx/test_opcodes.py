"""What opcodes have in common is written once, in ``kcheck/ptx/syntax/opcodes.py``."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import kcheck.ptx.compile  # noqa: F401  # the table of instructions is complete once everything is imported
from kcheck.ptx.isa.rows import ROWS
from kcheck.ptx.syntax import opcodes

PTX = Path(opcodes.__file__).parents[1]
TABLE = {name: found for name, found in vars(opcodes).items() if isinstance(found, frozenset)}
OPCODES = frozenset(ROWS).union(*TABLE.values())
ROOMS = ("analysis", "lowering", "runtime", "sanitizers")


def sets_of_opcodes(source: str) -> Iterator[tuple[int, frozenset[str]]]:
    """Each list, tuple or set of two opcodes or more that is written out, with its line."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Set | ast.Tuple | ast.List):
            words = [one.value if isinstance(one, ast.Constant) else None for one in node.elts]
            names = {word for word in words if isinstance(word, str)}
            if len(names) > 1 and len(names) == len(words) and names <= OPCODES:
                yield node.lineno, frozenset(names)


def places(*rooms: str) -> dict[frozenset[str], dict[str, int]]:
    """By set, the files of some rooms that write it out, with a line."""
    found: dict[frozenset[str], dict[str, int]] = defaultdict(dict)
    for path in (path for room in rooms for path in sorted((PTX / room).rglob("*.py"))):
        for line, names in sets_of_opcodes(path.read_text("utf-8")):
            found[names][path.relative_to(PTX).as_posix()] = line
    return found


def test_a_set_of_the_table_is_not_written_out_again() -> None:
    known = {names: name for name, names in TABLE.items()}
    again = places("isa", *ROOMS)
    assert {known[names]: again[names] for names in known.keys() & again.keys()} == {}


def test_no_two_files_write_out_the_same_set_of_opcodes() -> None:
    """What two of them ask is a property of the opcodes, and belongs in the table."""
    assert {tuple(sorted(names)): files for names, files in places(*ROOMS).items() if len(files) > 1} == {}


def test_a_set_in_any_form_is_noticed() -> None:
    source = "a = frozenset({'mov', 'cvta'})\nb = x in ('cvta', 'mov')\nc = ['mov', 'other']\nd = ('mov',)\n"
    assert list(sets_of_opcodes(source)) == [(1, {"mov", "cvta"}), (2, {"mov", "cvta"})]
