"""Small functions that every part needs are written once, and used."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import kcheck

PACKAGE = Path(kcheck.__file__).parent
FILES = {file.relative_to(PACKAGE).as_posix(): file for file in PACKAGE.rglob("*.py")}


@cache
def trees() -> dict[str, ast.Module]:
    """Every file of the package."""
    return {name: ast.parse(file.read_text("utf-8")) for name, file in FILES.items()}


ROUND_UPS = {"alignment.py", "symbolic/functions.py"}
"""``ceil_div`` of integers, and that of the expressions of specs, whose numbers may be floats."""

ONCE = (
    *("align_up", "ceil_div", "did_you_mean", "first_index", "index_at", "listed", "nearest", "offset_range"),
    *("shorten", "least_axes", "unravel", "shown_path", "case_of_seed", "report_fault", "look_up"),
)
"""Names of functions that stood in several files."""


def rounds_up(node: ast.AST) -> bool:
    """Whether an expression is ``-(-a // b)`` or ``(a + b - 1) // b``."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.BinOp):
        inner = node.operand
        return isinstance(inner.op, ast.FloorDiv) and isinstance(inner.left, ast.UnaryOp)
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.FloorDiv):
        return False
    return ast.unparse(node.left).endswith(f"+ {ast.unparse(node.right)} - 1")


def functions(tree: ast.Module) -> Iterator[str]:
    """The functions of a file, without methods; a leading underscore does not make another name."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name.lstrip("_")


def test_sizes_are_rounded_up_by_one_function():
    found = {name for name, tree in trees().items() if any(rounds_up(node) for node in ast.walk(tree))}
    assert found == ROUND_UPS


def test_both_ways_to_round_up_are_noticed():
    texts = ("-(-a // b)", "(n + 31 + 32 - 1) // 32", "-(a // b)", "(a + b) // b", "(a - 1) // 2")
    found = [rounds_up(ast.parse(text, mode="eval").body) for text in texts]
    assert found == [True, True, False, False, False]


def test_a_small_function_is_in_one_file():
    places = defaultdict(list)
    for file, tree in trees().items():
        for name in functions(tree):
            places[name].append(file)
    assert {name: places[name] for name in ONCE if len(places[name]) > 1} == {}
