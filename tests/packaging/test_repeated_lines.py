"""What kcheck does is written once: no six lines of code stand at two places."""

from pathlib import Path

from repeated_lines import of_package, repeated

import kcheck

LEFT = {
    ("__init__.py", "api/__init__.py"): "lists of exported names, which type checkers want as literals",
    ("compat/gpuemu/__init__.py", "compat/gpuemu/validate.py"): "the same, for two modules of another library",
    ("cli/minimize.py", "cli/reproduce.py"): "options, which click hands over by name",
    ("ptx/analysis/affine.py", "ptx/analysis/affine.py"): "a function and the class behind it",
    ("ptx/sanitizers/init/observer.py", "ptx/sanitizers/init/registers.py"): "a method and its override",
}
"""Lists of names and of parameters that stand twice, and why."""


def test_six_lines_of_code_stand_once():
    found = [run for run in of_package(Path(kcheck.__file__).parent) if run.files not in LEFT]
    assert [str(run) for run in found] == []


def test_what_is_left_twice_is_still_there():
    assert {run.files for run in of_package(Path(kcheck.__file__).parent)} >= LEFT.keys()


def test_a_copy_is_found_in_another_layout_with_other_comments():
    lines = ["a = 1", "b = f(a)", "while a < b:", "    a += b", "    g(a)", "print(a)"]
    copy = ["def h():", '    """Text."""', *(f"    {line}  # {n}" for n, line in enumerate(lines)), ""]
    (run,) = repeated({"one.py": "\n".join(lines), "two.py": "\n\n".join(copy)})
    assert str(run) == "one.py:1-6 ~ two.py:5-15"


def test_five_lines_and_imports_may_stand_twice():
    five = "a = 1\nb = 2\nc = 3\nd = 4\ne = 5\n"
    imports = "from x import (\n    a,\n    b,\n    c,\n    d,\n    e,\n)\n"
    assert repeated({"one.py": imports + five, "two.py": five + imports}) == []
