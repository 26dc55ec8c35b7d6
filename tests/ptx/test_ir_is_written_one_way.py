"""Control flow and functions of LLVM IR are written with the builders of ``kcheck/ptx/ir``, never as text."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from kcheck.ptx.ir.builder import Value
from kcheck.ptx.ir.flow import FlowBuilder

ROOT = Path(__file__).resolve().parents[2] / "kcheck"
TEXT = re.compile(
    r"^\s*(br (i1|label)|switch i|ret (void|i\d|<)|unreachable$|define |((tail|musttail) )?call )|label %"
)
SEARCHED = re.compile(
    r"@(kcheck|llvm|\[|\\w)|\bdefine( |$)|\bdeclare( |$)|\b(internal|noinline|alwaysinline)\b|\n}"
)
"""What only the text of a module has, not Python's, PTX or a message."""

METHODS = {
    *("replace", "find", "rfind", "index", "rindex", "split", "rsplit", "splitlines", "partition", "rpartition"),
    *("removeprefix", "removesuffix", "startswith", "endswith", "count", "translate"),
}
PATTERNS = {"compile", "search", "match", "fullmatch", "findall", "finditer", "sub", "subn", "split"}


def written(source: str) -> list[int]:
    """The lines with text of a branch, a call, a return or a definition, also as a part of an f-string."""
    constants = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant))
    return [node.lineno for node in constants if isinstance(node.value, str) and TEXT.search(node.value)]


def searched(source: str) -> list[int]:
    """The lines that look for something in the text of a module, or replace it: calls of methods of strings and
    functions of ``re`` with a word of LLVM's, on such a text, or on a variable or field ``ir``."""
    return [node.lineno for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call) and _searches(node)]


def _searches(call: ast.Call) -> bool:
    if not isinstance(call.func, ast.Attribute):
        return False
    on, name = call.func.value, call.func.attr
    of_re = isinstance(on, ast.Name) and on.id == "re" and name in PATTERNS
    if not of_re and name not in METHODS:
        return False
    known = [] if of_re else [on]
    strings = (
        part.value for node in (*known, *call.args) for part in ast.walk(node) if isinstance(part, ast.Constant)
    )
    if any(isinstance(value, str) and SEARCHED.search(value) for value in strings):
        return True
    return any(_is_ir(node) for node in (*known, *call.args))


def _is_ir(node: ast.expr) -> bool:
    """Whether an expression is named as the text of a module is."""
    if isinstance(node, ast.Attribute) and node.attr == "text":
        node = node.value
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return name.lower().lstrip("_") == "ir"


def test_no_branch_or_call_is_written_as_text() -> None:
    """``with b.when(condition):`` says what the branch guards, and that the block ends there; ``b.invoke`` keeps
    what a function refers to."""
    rooms = [ROOT / "ptx" / room for room in ("lowering", "isa", "runtime", "sanitizers")]
    found = {
        f"{path.relative_to(ROOT)}:{line}"
        for room in (*rooms, ROOT / "cpu")
        for path in room.rglob("*.py")
        for line in written(path.read_text("utf-8"))
    }
    assert found == set()


def test_the_text_of_a_module_is_neither_searched_nor_changed() -> None:
    """What is to be known of a function is in its record: name, linkage, inlining, what it refers to.

    ``driver`` is left out: numba-cuda hands over its IR as text.
    """
    found = {
        f"{path.relative_to(ROOT)}:{line}"
        for path in ROOT.rglob("*.py")
        if ROOT / "driver" not in path.parents
        for line in searched(path.read_text("utf-8"))
    }
    assert found == set()


def test_such_text_is_noticed() -> None:
    lines = [
        "line('br label %x')",
        "line(f'br i1 {c}, label %{y}')",
        "line('store i32 0')",
        "end(f'ret i32 {v}')",
        "line(f'call {kind} {name}(i32 0)')",
        "note('two calls')",
    ]
    assert written("\n".join(lines)) == [1, 2, 2, 4, 5]


def test_such_a_search_is_noticed() -> None:
    lines = [
        r"re.compile(r'@[\w.$]+')",
        "text.replace('define internal ', 'define ')",
        "line.startswith('declare ')",
        "at = ir.find(name)",
        r"text.index('\n}')",
        "' noinline' in head(text)",
        "'define void @f() { X }'.replace('X', x)",
        "re.sub('x', 'y', program.ir)",
        "program.ir.text.count(name)",
        "text.replace('shared', 'global')",
        "re.search(r'sm_(\\d+)', target)",
    ]
    assert searched("\n".join(lines)) == [1, 2, 3, 4, 5, 7, 8, 9]


def test_a_block_ends_once() -> None:
    """Nothing follows the end of a block, and no block begins before the last one has ended."""
    b = FlowBuilder(1)
    condition = Value("%c", "i1")
    with b.when(condition):
        b.jump("elsewhere")
    with pytest.raises(AssertionError):
        b.label("begun")
    b.leave(b.const("i32", 0))
    with pytest.raises(AssertionError):
        b.line("store i32 0, ptr %p")
    assert b.lines == [
        "  br i1 %c, label %thenv1, label %endv2",
        "thenv1:",
        "  br label %elsewhere",
        "endv2:",
        "  ret i32 0",
    ]
