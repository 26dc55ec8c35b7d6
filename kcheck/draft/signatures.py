"""The explicit signature in a kernel's decorator: ``@cuda.jit("void(float32[:], int32)")``."""

from __future__ import annotations

import ast
import re


def explicit_signature(function: ast.FunctionDef) -> list[tuple[str, int]]:
    """(dtype, number of axes) of each parameter, if the decorator has one explicit signature; otherwise empty."""
    for decorator in function.decorator_list:
        if not isinstance(decorator, ast.Call) or not decorator.args:
            continue
        given = decorator.args[0]
        text = given.value if isinstance(given, ast.Constant) else ast.unparse(given)
        if not isinstance(text, str) or text.startswith("["):
            continue
        inside = re.fullmatch(r"[^(]*\((.*)\)", text.strip())
        if inside is None:
            continue
        parts = re.findall(r"[\w.]+(?:\[[^\]]*\])?", inside[1])
        return [_typed(part) for part in parts]
    return []


def _typed(text: str) -> tuple[str, int]:
    name, _, axes = text.partition("[")
    short = {"f4": "float32", "f8": "float64", "i4": "int32", "i8": "int64", "boolean": "bool", "b1": "bool"}
    dtype = name.rpartition(".")[2]
    return short.get(dtype, dtype), axes.count(":") if "::" not in axes else axes.count(",") + 1
