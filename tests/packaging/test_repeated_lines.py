"""What kcheck does is written once."""

from pathlib import Path

from repeated_lines import of_package, repeated

import kcheck

MOST = 10
"""Pairs of places. Of those that are left most are lists of names: of exports, and of the options of a command."""


def test_at_most_ten_runs_of_six_lines_stand_twice():
    found = [str(run) for run in of_package(Path(kcheck.__file__).parent)]
    assert len(found) <= MOST, "write it once: " + "; ".join(found)


def test_a_copy_is_found_in_another_layout_with_other_comments():
    lines = ["a = 1", "b = f(a)", "while a < b:", "    a += b", "    g(a)", "print(a)"]
    copy = ["def h():", '    """Text."""', *(f"    {line}  # {n}" for n, line in enumerate(lines)), ""]
    (run,) = repeated({"one.py": "\n".join(lines), "two.py": "\n\n".join(copy)})
    assert str(run) == "one.py:1-6 ~ two.py:5-15"


def test_five_lines_imports_and_heads_of_functions_may_stand_twice():
    five = "a = 1\nb = 2\nc = 3\nd = 4\ne = 5\n"
    imports = "from x import (\n    a,\n    b,\n    c,\n    d,\n    e,\n)\n"
    head = "def f(\n    a,\n    b,\n    c,\n    d,\n    e,\n    g,\n): ...\n"
    assert repeated({"one.py": imports + five + head, "two.py": head + five + imports}) == []
