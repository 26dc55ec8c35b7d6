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


REPLACED = {
    *("Aside", "Better", "Frame", "Known", "Line", "Telling"),
    *("ahead", "frozen", "general_ir", "harmful", "march", "mend", "remade", "rounds", "saving", "telling"),
    *("together", "turn", "worth"),
}
"""Names of our own that the words of the field replaced."""

ROOT = Path(kcheck.__file__).parents[1]


def names_of(path: Path) -> set[str]:
    """What a file is called, what it defines at the top level, and what it calls its imports."""
    tree = ast.parse(path.read_text("utf-8"))
    defined = {node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    imported = {node.asname for node in ast.walk(tree) if isinstance(node, ast.alias) and node.asname}
    return {name.lstrip("_") for name in (path.stem.removeprefix("test_"), *defined, *imported)}


def test_names_that_were_replaced_do_not_come_back():
    rooms = [ROOT / "kcheck/ptx", ROOT / "kcheck/cpu", *(ROOT / "tests" / room for room in ("ptx", "isa", "cpu"))]
    found = {
        f"{path.relative_to(ROOT)}: {name}"
        for room in rooms
        for path in sorted(room.rglob("*.py"))
        for name in names_of(path) & REPLACED
    }
    assert found == set()
