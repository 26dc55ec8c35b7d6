"""Prints the largest files and functions of the package (``make figures``). No test enforces a limit: that makes
people pack arguments into tuples and cut one subject into two files.
"""

from __future__ import annotations

import ast
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "kcheck"
SHOWN = 12


def main() -> None:
    """Print totals, the longest files, and the functions with the most lines and parameters."""
    files: list[tuple[int, str]] = []
    lines: list[tuple[int, str]] = []
    parameters: list[tuple[int, str]] = []
    for path in sorted(PACKAGE.rglob("*.py")):
        source, name = path.read_text("utf-8"), path.relative_to(PACKAGE).as_posix()
        files.append((len(source.splitlines()), name))
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                given = node.args
                every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
                names = [each.arg for each in every if each is not None and each.arg not in ("self", "cls")]
                lines.append(((node.end_lineno or node.lineno) - node.lineno + 1, f"{name}:{node.name}"))
                parameters.append((len(names), f"{name}:{node.name}"))
    print(f"{sum(count for count, _ in files):,} lines in {len(files):,} files, {len(lines):,} functions")
    for title, rows in (("lines of a file", files), ("lines of a function", lines), ("parameters", parameters)):
        print(f"\n{title}")
        for count, name in sorted(rows, reverse=True)[:SHOWN]:
            print(f"{count:8,}  {name}")


if __name__ == "__main__":
    main()
