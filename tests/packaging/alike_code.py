"""Finds code that is written twice with other names: statements that differ only in local variables and constants.

    python tests/packaging/alike_code.py [FOLDER [LINES]]

prints each pair of places. What is called, and what attributes are read, has to be the same: two runs that look
alike but call other functions are two things.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, TypeAlias

from repeated_lines import Run

LEAST = 6
Place: TypeAlias = tuple[str, int, int]
Form: TypeAlias = tuple[Any, ...]
_UNTOLD = frozenset({"ctx", "type_comment", "annotation", "returns"})


def local_names(function: ast.AST) -> set[str]:
    """What a function binds: its parameters and variables."""
    names = {node.arg for node in ast.walk(function) if isinstance(node, ast.arg)}
    bound = (node for node in ast.walk(function) if isinstance(node, ast.Name))
    return names | {node.id for node in bound if not isinstance(node.ctx, ast.Load)}


def form(statements: Sequence[ast.stmt], local: set[str]) -> Form:
    """What the statements do, with local names numbered as they appear, and constants by their types."""
    numbers: dict[str, int] = {}

    def of(node: Any) -> Any:
        if isinstance(node, ast.Name) and node.id in local:
            return ("local", numbers.setdefault(node.id, len(numbers)))
        if isinstance(node, ast.arg):
            return ("local", numbers.setdefault(node.arg, len(numbers)))
        if isinstance(node, ast.Constant):
            return ("constant", type(node.value).__name__)
        if isinstance(node, ast.JoinedStr):
            return ("text", *(of(part) for part in node.values if not isinstance(part, ast.Constant)))
        if isinstance(node, ast.AST):
            parts = (of(part) for name, part in ast.iter_fields(node) if name not in _UNTOLD)
            return (type(node).__name__, *parts)
        return tuple(of(part) for part in node) if isinstance(node, list) else node

    return tuple(of(statement) for statement in statements)


def runs(function: ast.AST, source: Sequence[str], least: int) -> Iterator[list[ast.stmt]]:
    """From each statement of a function on, the shortest run with enough lines; without its docstring."""
    for node in ast.walk(function):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if not isinstance(block, list) or not block or not isinstance(block[0], ast.stmt):
                continue
            if isinstance(block[0], ast.Expr) and isinstance(block[0].value, ast.Constant):
                block = block[1:]
            sizes = [code_lines([statement], source) for statement in block]
            for first in range(len(block)):
                ends = (n for n in range(first + 1, len(block) + 1) if sum(sizes[first:n]) >= least)
                if (end := next(ends, 0)) > 0:
                    yield block[first:end]


def code_lines(statements: Sequence[ast.stmt], source: Sequence[str]) -> int:
    """Lines with code: no comments, and no brackets alone."""
    lines = {n for s in statements for n in range(s.lineno, (s.end_lineno or s.lineno) + 1)}
    texts = (source[n - 1].strip() for n in lines)
    return sum(not text.startswith("#") and any(c.isalnum() for c in text) for text in texts)


def alike(sources: dict[str, str], least: int = LEAST) -> list[Run]:
    """Runs of statements, of at least ``least`` lines, that stand twice but for names and constants."""
    places: dict[Form, set[Place]] = defaultdict(set)
    for file, text in sources.items():
        lines = text.splitlines()
        for function in ast.walk(ast.parse(text)):
            if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            local = local_names(function)
            for run in runs(function, lines, least):
                place = (file, run[0].lineno, run[-1].end_lineno or run[-1].lineno)
                places[form(run, local)].add(place)
    found = {
        (a, b)
        for same in places.values()
        for a, b in combinations(sorted(same), 2)
        if a[0] != b[0] or a[2] < b[1]  # not a run and a part of it
    }
    return [Run(*pair) for pair in sorted(found) if not any(_is_part(pair, other) for other in found)]


def _is_part(pair: tuple[Place, Place], other: tuple[Place, Place]) -> bool:
    """Whether both places of a pair are inside those of another."""
    inside = (a[0] == b[0] and b[1] <= a[1] and a[2] <= b[2] for a, b in zip(pair, other, strict=True))
    return pair != other and all(inside)


def of_package(root: Path, least: int = LEAST) -> list[Run]:
    """Those of all Python files below a folder."""
    return alike({str(path.relative_to(root)): path.read_text("utf-8") for path in root.rglob("*.py")}, least)


if __name__ == "__main__":
    import kcheck

    given = sys.argv[1:] or [str(Path(kcheck.__file__).parent)]
    for run in of_package(Path(given[0]), int(given[1]) if given[1:] else LEAST):
        print(run)
