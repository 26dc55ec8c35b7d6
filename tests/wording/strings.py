"""Every string that a user of kcheck can read, as one list: ``python -m tests.wording.strings [FILE...]``.

Prints one string per line as ``file:line: kind: text``. The kinds are

- ``help``: help pages, options and arguments of the command line,
- ``error``: messages of raised exceptions,
- ``finding``: messages and fixes of findings, faults and notes,
- ``text``: any other string in prose,
- ``schema``: descriptions in the JSON Schemas,
- ``docs``: paragraphs of the README, of the other pages beside it and of those in docs/,
- ``doc`` and ``comment``: docstrings and comments, for contributors (with ``--all``).

The placeholders of an f-string are shown as ``{expression}``.
"""

from __future__ import annotations

import ast
import io
import itertools
import json
import re
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]

USER_KINDS = frozenset({"help", "error", "finding", "text", "schema", "docs"})
"""The kinds that users read; the others are for contributors."""


@dataclass(frozen=True)
class Text:
    """One string in prose.

    Attributes:
        file: the file, relative to the root of the repository.
        line: the line on which it starts, from 1.
        kind: one of the kinds in the module's docstring.
        text: the string, with its white space collapsed.
    """

    file: str
    line: int
    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.kind}: {self.text}"


def strings(path: Path, file: str) -> Iterator[Text]:
    """The strings of a Python file, and the docstrings of its commands, which are their help pages."""
    tree = ast.parse(path.read_text("utf-8"))
    documentation = _docstrings(tree)
    yield from _walk(tree, "text", file, documentation)
    for line, kind, text in documentation.values():
        if kind in USER_KINDS:
            yield Text(file, line, kind, _one_line(text))


def docstrings_and_comments(path: Path, file: str) -> Iterator[Text]:
    """What a Python file says to contributors."""
    source = path.read_text("utf-8")
    for line, kind, text in _docstrings(ast.parse(source)).values():
        if kind not in USER_KINDS:
            yield Text(file, line, kind, _one_line(text))
    yield from _comments(source, file)


def schema_texts(path: Path, file: str) -> Iterator[Text]:
    """The titles and descriptions of a JSON Schema."""
    lines = path.read_text("utf-8").splitlines()

    def texts(node: Any) -> Iterator[str]:
        if isinstance(node, dict):
            for key, value in node.items():
                if key in ("description", "title", "$comment") and isinstance(value, str):
                    yield value
                else:
                    yield from texts(value)
        elif isinstance(node, list):
            for item in node:
                yield from texts(item)

    for text in dict.fromkeys(texts(json.loads("\n".join(lines)))):
        quoted = json.dumps(text, ensure_ascii=False)
        line = next((number for number, content in enumerate(lines, 1) if quoted in content), 1)
        yield Text(file, line, "schema", _one_line(text))


def page_texts(path: Path, file: str) -> Iterator[Text]:
    """The paragraphs and list items of a Markdown page, or the comments of a YAML or shell file."""
    paragraph: list[str] = []
    start = 1
    for number, line in enumerate([*path.read_text("utf-8").splitlines(), ""], 1):
        if paragraph and line.startswith("- "):
            yield Text(file, start, "docs", _one_line(" ".join(paragraph)))
            paragraph = []
        if line.strip():
            start = start if paragraph else number
            paragraph.append(line)
        elif paragraph:
            yield Text(file, start, "docs", _one_line(" ".join(paragraph)))
            paragraph = []


def comment_texts(path: Path, file: str) -> Iterator[Text]:
    """The comments of a file in which ``#`` starts one: YAML, TOML, make, shell."""
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        match = re.search(r"(?:^|\s)##?\s(.*)$", line)
        if match and _is_prose(match[1]):
            yield Text(file, number, "comment", _one_line(match[1]))


def user_texts() -> Iterator[Text]:
    """What users read: the strings of kcheck, the schemas and the pages, file by file."""
    for path in sorted((ROOT / "kcheck").rglob("*.py")):
        yield from strings(path, path.relative_to(ROOT).as_posix())
    for path in sorted((ROOT / "schema").glob("*.json")):
        yield from schema_texts(path, path.relative_to(ROOT).as_posix())
    for path in [
        *sorted(ROOT.glob("*.md")),
        ROOT / "editors/vscode/README.md",
        *sorted((ROOT / "docs").glob("*.md")),
    ]:
        yield from page_texts(path, path.relative_to(ROOT).as_posix())
    for folder in ("benchmarks", "conformance"):  # their strings become pages in docs/
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield from strings(path, path.relative_to(ROOT).as_posix())


def contributor_texts() -> Iterator[Text]:
    """What contributors read beside that: docstrings and comments, file by file."""
    for folder in ("kcheck", "kernels", "references", "benchmarks", "conformance"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield from docstrings_and_comments(path, path.relative_to(ROOT).as_posix())
    for pattern in (
        "specs/**/*.yaml",
        "kernels/**/*.yaml",
        "examples/*",
        "Makefile",
        "*/Makefile",
        "pyproject.toml",
        ".pre*.yaml",
    ):
        for path in sorted(ROOT.glob(pattern)):
            yield from comment_texts(path, path.relative_to(ROOT).as_posix())


def _docstrings(tree: ast.AST) -> dict[int, tuple[int, str, str]]:
    """By id of the node of each docstring: its line, kind and text."""
    found = {}
    for node in ast.walk(tree):
        kind = "help" if _is_command(node) else "doc"
        body = getattr(node, "body", None)
        for index, statement in enumerate(body if isinstance(body, list) else ()):
            if (
                isinstance(statement, ast.Expr)
                and isinstance(statement.value, ast.Constant)
                and isinstance(statement.value.value, str)
            ):
                value = statement.value
                found[id(value)] = (value.lineno, kind if index == 0 else "doc", value.value)
    return found


def _is_command(node: ast.AST) -> bool:
    """Whether a function is a click command or group, whose docstring is its help page."""
    decorators = getattr(node, "decorator_list", ())
    names = [ast.unparse(d.func if isinstance(d, ast.Call) else d) for d in decorators]
    return any(name.split(".")[-1] in ("command", "group") for name in names)


_CALLS = {"Finding": "finding", "Fault": "finding", "fault": "finding", "Note": "finding", "Advice": "finding"}


def _walk(node: ast.AST, kind: str, file: str, skip: dict[int, Any]) -> Iterator[Text]:
    """The strings below a node; ``kind`` is that of the innermost raise, call or keyword around them."""
    if id(node) in skip:
        return
    if isinstance(node, ast.Constant | ast.JoinedStr):
        text = _shown(node)
        if text is not None and _is_prose(text):
            yield Text(file, node.lineno, kind, _one_line(text))
        return
    if isinstance(node, ast.Raise):
        kind = "error"
    elif isinstance(node, ast.Call):
        name = ast.unparse(node.func).split(".")[-1]
        kind = _CALLS.get(name, kind)
    elif isinstance(node, ast.keyword) and node.arg in ("help", "short_help", "epilog", "metavar"):
        kind = "help"
    for child in ast.iter_child_nodes(node):
        yield from _walk(child, kind, file, skip)


def _shown(node: ast.Constant | ast.JoinedStr) -> str | None:
    """A string as a reader of the source sees it; None for any other constant."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    parts = []
    for part in node.values:
        if isinstance(part, ast.Constant):
            parts.append(str(part.value))
        elif isinstance(part, ast.FormattedValue):
            # Strings within a placeholder are read too: f"{count} element{'s' if count > 1 else ''}".
            parts.append("{" + ast.unparse(part.value) + "}")
    return "".join(parts)


def _comments(source: str, file: str) -> Iterator[Text]:
    """The comments of Python source; those on consecutive lines are one text."""
    lines: list[str] = []
    start = last = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        if lines and token.start[0] != last + 1:
            yield Text(file, start, "comment", _one_line(" ".join(lines)))
            lines = []
        start = start if lines else token.start[0]
        last = token.start[0]
        lines.append(token.string.lstrip("#").strip())
    if lines:
        yield Text(file, start, "comment", _one_line(" ".join(lines)))


_CODE = (
    r"[%@]\w+ = |;\n|\bptr (%|null)|\bbr (i1|label) "
    r"|^ *(call|ret|store|load|declare|define|fence) (\[|\w+ |void|i\d)"
)
"""LLVM IR and C, which the compiler reads and no user."""


def _is_prose(text: str) -> bool:
    """Whether a string has two words in a row: a sentence, not a key, a path or a piece of code."""
    return bool(re.search(r"[A-Za-z']{2,}[,.:;]? [A-Za-z']{2,}", text)) and not re.search(_CODE, text)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def main(arguments: list[str]) -> None:
    """Print the list.

    Args:
        arguments: the starts of the paths of the files to list; ``--all`` adds docstrings and comments.
    """
    prefixes = tuple(argument for argument in arguments if argument != "--all")
    for text in itertools.chain(user_texts(), contributor_texts() if "--all" in arguments else ()):
        if not prefixes or text.file.startswith(prefixes):
            print(text)


if __name__ == "__main__":
    main(sys.argv[1:])
