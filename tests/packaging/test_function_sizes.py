"""Functions stay small enough to read at once: at most 80 lines and 7 parameters, ``self`` not counted."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

LINES, PARAMETERS = 80, 7
PACKAGE = Path(__file__).resolve().parents[2] / "kcheck"

COMMANDS = {
    f"cli/{name}.py:command"
    for name in ("calibrate", "exec", "grade", "lint", "merge", "minimize", "report", "reproduce", "try_")
}
"""Click passes each option of a command as a parameter."""

SIGNATURES = {
    "api/grading.py:grade",
    "compat/gpuemu/client.py:fuzz_op",
    "compat/gpuemu/client.py:fuzz_op_client_side",
    "compat/gpuemu/client.py:validate_op",
    "compat/gpuemu/frameworks/__init__.py:validate_arrays",
    "compat/gpuemu/tolerances.py:calibrate_tolerance",
    "driver/launch.py:launch",
    "driver/launch.py:launch_cooperative",
    "monitor/checker.py:equivalent",
    "monitor/functions.py:equivalent",
    "triton/launcher.py:__call__",
}
"""Their parameters are those of gpuemu, of cuda-kernel-verifier, of CUDA's driver, and Triton, or options."""

TABLES = {"driver/context.py:calls"}
"""Tables of small functions."""

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


def functions(source: str) -> Iterator[Function]:
    """Every function of a file, also those inside others."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, Function):
            yield node


def is_long(function: Function) -> bool:
    """Whether a function has too many lines."""
    assert function.end_lineno is not None
    return function.end_lineno - function.lineno + 1 > LINES


def is_wide(function: Function) -> bool:
    """Whether a function has too many parameters."""
    given = function.args
    names = [a.arg for a in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    names += [a.arg for a in (given.vararg, given.kwarg) if a is not None]
    return len([name for name in names if name not in ("self", "cls")]) > PARAMETERS


def found(is_large: Callable[[Function], bool]) -> set[str]:
    """The functions of the package that are too large, as ``cli/run.py:command``."""
    return {
        f"{file.relative_to(PACKAGE).as_posix()}:{function.name}"
        for file in sorted(PACKAGE.rglob("*.py"))
        for function in functions(file.read_text("utf-8"))
        if is_large(function)
    }


def test_no_function_has_more_than_80_lines() -> None:
    assert found(is_long) <= TABLES


def test_no_function_has_more_than_7_parameters() -> None:
    assert found(is_wide) <= COMMANDS | SIGNATURES


def test_the_limits_are_noticed() -> None:
    body = "    pass\n" * 79
    (small,) = functions(f"def f(self, a, b, c, d, e, g, h):\n{body}")
    (long,) = functions(f"def f():\n{body}    pass\n")
    (wide,) = functions("def f(a, b, c, d, e, g, h, *i): pass\n")
    assert [is_long(f) for f in (small, long, wide)] == [False, True, False]
    assert [is_wide(f) for f in (small, long, wide)] == [False, False, True]
