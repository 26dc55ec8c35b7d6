"""Functions stay small enough to read at once: at most 80 lines and 7 parameters, ``self`` not counted."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

LINES, PARAMETERS = 80, 7
PACKAGE = Path(__file__).resolve().parents[2] / "kcheck"

COMMANDS = {
    f"cli/{name}.py:command" for name in ("calibrate", "lint", "minimize", "report", "reproduce", "run", "try_")
}
"""Click passes each option of a command as a parameter."""

SIGNATURES = {"driver/launch.py:launch", "driver/launch.py:launch_cooperative", "triton/launcher.py:__call__"}
"""Their parameters are those of CUDA's driver and of Triton."""

LONG = {
    "driver/context.py:calls",  # a table of functions
    "driver/launch.py:run",
    "minimize/minimize.py:__init__",
    "ptx/lowering/warp.py:__init__",
    "report/lint_text.py:lint_lines",
    "runner/run.py:_spec",
    "specfile/build.py:spec",
}
"""To be split."""


def large(source: str) -> Iterator[str]:
    """The functions that are too large."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            given = node.args
            names = [a.arg for a in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
            names += [a.arg for a in (given.vararg, given.kwarg) if a is not None]
            assert node.end_lineno is not None
            lines = node.end_lineno - node.lineno + 1
            if lines > LINES or len([n for n in names if n not in ("self", "cls")]) > PARAMETERS:
                yield node.name


def test_no_function_has_more_than_80_lines_or_7_parameters() -> None:
    found = {
        f"{file.relative_to(PACKAGE).as_posix()}:{name}"
        for file in sorted(PACKAGE.rglob("*.py"))
        for name in large(file.read_text("utf-8"))
    }
    assert not found - COMMANDS - SIGNATURES - LONG


def test_the_limits_are_noticed() -> None:
    body = "    pass\n" * 79
    assert list(large(f"def f(self, a, b, c, d, e, g, h):\n{body}")) == []
    assert list(large(f"def f():\n{body}    pass\n")) == ["f"]
    assert list(large("def f(a, b, c, d, e, g, h, *i): pass\n")) == ["f"]
