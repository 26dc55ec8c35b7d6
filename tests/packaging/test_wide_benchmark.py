"""The wide benchmark: every kernel has a plain twin with the same arguments, and all of them are measured."""

import ast
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


def _functions(name):
    """Arguments by function; an alias has those of its function."""
    found = {}
    for node in ast.parse((FOLDER / name).read_text()).body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            found[node.name] = [argument.arg for argument in node.args.args]
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Name):
            found[node.targets[0].id] = found[node.value.id]
    return found


def test_every_kernel_has_a_twin_with_the_same_arguments():
    kernels = _functions("wide_kernels.py")
    assert kernels == _functions("wide_plain.py")


def test_every_kernel_is_measured(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    import wide_forms

    measured = [form.kernel for form in wide_forms.FORMS]
    assert len(measured) >= 24
    assert sorted(measured) == sorted(_functions("wide_kernels.py"))
    assert len({form.name for form in wide_forms.FORMS}) == len(measured)
