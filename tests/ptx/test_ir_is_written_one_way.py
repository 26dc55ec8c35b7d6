"""Control flow and functions of LLVM IR are written with the builders of ``kcheck/ptx/ir``, never as text."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from kcheck.ptx.ir.builder import Value
from kcheck.ptx.ir.flow import FlowBuilder

ROOT = Path(__file__).resolve().parents[2] / "kcheck"
TEXT = re.compile(r"^\s*(br (i1|label)|switch i|ret (void|i\d|<)|unreachable$|define )|label %")


def written(source: str) -> list[int]:
    """The lines with text of a branch, a return or a definition, also as a part of an f-string."""
    constants = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant))
    return [node.lineno for node in constants if isinstance(node.value, str) and TEXT.search(node.value)]


def test_no_branch_is_written_as_text() -> None:
    """``with b.when(condition):`` says what the branch guards, and that the block ends there."""
    rooms = [ROOT / "ptx" / room for room in ("lowering", "isa", "runtime", "sanitizers")]
    found = {
        f"{path.relative_to(ROOT)}:{line}"
        for room in rooms
        for path in room.rglob("*.py")
        for line in written(path.read_text("utf-8"))
    }
    assert found == set()


def test_such_text_is_noticed() -> None:
    lines = ["line('br label %x')", "line(f'br i1 {c}, label %{y}')", "line('store i32 0')", "end(f'ret i32 {v}')"]
    assert written("\n".join(lines)) == [1, 2, 2, 4]


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
