"""Finds what is written twice: runs of lines that stand at two places of a package, for tests and for reading.

    python tests/packaging/repeated_lines.py

prints each pair. Lines count as the same if they have the same tokens. Imports, heads of functions, docstrings,
comments and lines of punctuation do not count.
"""

import ast
import sys
import tokenize
from collections import defaultdict
from dataclasses import dataclass
from io import StringIO
from itertools import combinations
from pathlib import Path

_LEAST = 6
_SPACE = frozenset(
    {
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENDMARKER,
    }
)


@dataclass(frozen=True, slots=True, order=True)
class Run:
    """Two runs of the same lines: file, and first and last line, of each."""

    first: tuple[str, int, int]
    second: tuple[str, int, int]

    def __str__(self) -> str:
        return " ~ ".join(f"{file}:{start}-{end}" for file, start, end in (self.first, self.second))


def code_lines(source: str) -> list[tuple[int, str]]:
    """The lines that count: number, and tokens with one blank between them."""
    skipped: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if isinstance(node, ast.Import | ast.ImportFrom) or text:
            assert isinstance(node, ast.stmt)
            skipped.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            skipped.update(range(node.lineno, node.body[0].lineno))
    found: dict[int, list[str]] = defaultdict(list)
    for token in tokenize.generate_tokens(StringIO(source).readline):
        if token.type not in _SPACE and token.start[0] not in skipped:
            found[token.start[0]].append(token.string)
    lines = [(number, " ".join(tokens)) for number, tokens in sorted(found.items())]
    return [(number, text) for number, text in lines if any(c.isalnum() for c in text)]


def repeated(sources: dict[str, str], least: int = _LEAST) -> list[Run]:
    """The longest runs of at least ``least`` lines that stand twice, in the files of ``sources`` by name."""
    lines = {file: code_lines(source) for file, source in sources.items()}
    places: dict[tuple[str, ...], list[tuple[str, int]]] = defaultdict(list)
    for file, found in lines.items():
        for k in range(len(found) - least + 1):
            places[tuple(text for _, text in found[k : k + least])].append((file, k))
    pairs = {
        (a, b)
        for same in places.values()
        for a, b in combinations(same, 2)
        if a[0] != b[0] or abs(a[1] - b[1]) >= least  # not a run and its own second line
    }
    runs = []
    for (file, k), (other, m) in sorted(pairs):
        if ((file, k - 1), (other, m - 1)) in pairs:
            continue  # in the middle of a longer run
        length = least
        while ((file, k + length - least + 1), (other, m + length - least + 1)) in pairs:
            length += 1
        runs.append(
            Run(
                (file, lines[file][k][0], lines[file][k + length - 1][0]),
                (other, lines[other][m][0], lines[other][m + length - 1][0]),
            )
        )
    return runs


def of_package(root: Path) -> list[Run]:
    """Those of all Python files below a folder."""
    return repeated({str(path.relative_to(root)): path.read_text() for path in sorted(root.rglob("*.py"))})


if __name__ == "__main__":
    import kcheck

    for run in of_package(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(kcheck.__file__).parent):
        print(run)
