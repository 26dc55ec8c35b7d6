"""One class name is one thing."""

import ast
from collections import defaultdict
from pathlib import Path

import kcheck

FACES = {"api": kcheck.__all__, "compat": ("Context", "SeededRng")}
"""Names that callers see: ``Case`` stands for a ``model.Case``; those of ``compat`` are another library's."""


def test_no_two_classes_have_one_name():
    """Also those of different packages: a reader who meets a name need not ask which of them it is."""
    root = Path(kcheck.__file__).parent
    places: dict[str, list[str]] = defaultdict(list)
    for path in sorted(root.rglob("*.py")):
        below = path.relative_to(root)
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and node.name not in FACES.get(below.parts[0], ()):
                places[node.name].append(f"{below}:{node.lineno}")
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
