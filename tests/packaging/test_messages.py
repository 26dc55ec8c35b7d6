"""The text of a finding is for readers: no code looks into it, because other words would change what it does."""

import ast
from pathlib import Path

import pytest

import kcheck

ROOT = Path(kcheck.__file__).parent
TEXTS = frozenset({"message", "fix"})
METHODS = frozenset(
    {"startswith", "endswith", "removeprefix", "removesuffix", "partition", "rpartition", "split", "replace"}
) | {"find", "index", "splitlines", "count"}
OF_OTHERS = {
    "specfile/schema_prose.py": "a message of jsonschema",
    "model/outcome.py": "Finding.names, by which reports do not repeat a name",
}


def parses(source: str) -> list[int]:
    """The lines that compare the text of a finding, or look for something in it."""
    return sorted(
        {node.lineno for node in ast.walk(ast.parse(source)) if isinstance(node, ast.expr) and _parses(node)}
    )


def _parses(node: ast.expr) -> bool:
    if isinstance(node, ast.Compare):  # two findings may be compared as a whole
        sides = [node.left, *node.comparators]
        return any(map(_is_text, sides)) and not all(map(_is_text, sides))
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    if _is_text(node.func.value) and node.func.attr in METHODS:
        return True
    return isinstance(node.func.value, ast.Name | ast.Attribute) and any(
        _is_text(argument)
        for argument in node.args
        if node.func.attr in ("search", "match", "fullmatch", "sub", "split")
    )


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr in TEXTS


@pytest.mark.parametrize(
    "line",
    [
        'if "gap" in finding.message: pass',
        'if finding.fix == "": pass',
        'told.message.partition(" ")',
        "re.search(pattern, finding.message)",
        "PATTERN.sub(word, finding.fix)",
    ],
)
def test_a_look_into_a_message_is_found(line: str) -> None:
    assert parses(line) == [1]


@pytest.mark.parametrize(
    "line",
    [
        "print(finding.message)",
        "one.fix == other.fix",
        "told = f'{finding.message}: {fix}'",
        "if finding.fix: pass",
    ],
)
def test_a_message_may_be_shown(line: str) -> None:
    assert parses(line) == []


def test_no_module_looks_into_a_message() -> None:
    found = {str(path.relative_to(ROOT)): parses(path.read_text("utf-8")) for path in sorted(ROOT.rglob("*.py"))}
    assert {name: lines for name, lines in found.items() if lines and name not in OF_OTHERS} == {}
    assert all(found[name] for name in OF_OTHERS)
