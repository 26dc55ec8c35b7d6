"""The buggy twins test the tester, so they must be near misses: the clean kernel but for one line."""

import ast
import difflib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
TWINS = sorted(path.name for path in (ROOT / "kernels" / "buggy").glob("*.py") if path.name != "matmul_griddim.py")


def statements(path: Path) -> list[str]:
    """A module's code one statement a line, without comments and docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree).splitlines()


def test_every_op_has_a_twin() -> None:
    """Each correct kernel has a buggy twin of the same file name, with a spec of its own."""
    assert sorted(path.name for path in (ROOT / "kernels").glob("*.py")) == TWINS
    assert {path.stem for path in (ROOT / "specs" / "buggy").glob("*.yaml")} == {
        path.stem for path in (ROOT / "kernels" / "buggy").glob("*.py")
    }


@pytest.mark.parametrize("name", TWINS)
def test_a_twin_differs_in_one_line(name: str) -> None:
    """Without comments and docstrings, exactly one line of the clean kernel is replaced by another."""
    clean, buggy = statements(ROOT / "kernels" / name), statements(ROOT / "kernels" / "buggy" / name)
    changes = [line for line in difflib.ndiff(clean, buggy) if line.startswith(("- ", "+ "))]
    assert [line[0] for line in changes] == ["-", "+"], changes


@pytest.mark.parametrize("path", sorted((ROOT / "specs" / "buggy").glob("*.yaml")), ids=lambda path: path.stem)
def test_a_buggy_spec_says_so(path: Path) -> None:
    """It is tagged ``buggy``, runs the buggy kernel, and is judged by the reference of the clean one."""
    spec = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert spec["tags"] == ["buggy"]
    assert (spec.get("kernel") or spec["launcher"]).startswith("kernels/buggy/")
    assert not spec["reference"].startswith("kernels/buggy/")


def test_op_names_are_unique() -> None:
    """An op is named once in a project, the buggy ones included."""
    names = [yaml.safe_load(path.read_text(encoding="utf-8"))["op"] for path in (ROOT / "specs").rglob("*.yaml")]
    assert sorted(set(names)) == sorted(names)
