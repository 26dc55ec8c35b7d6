"""What kcheck does is written once."""

from pathlib import Path

import alike_code
from repeated_lines import of_package, repeated

import kcheck

MOST = 3
"""Pairs of places. Those that are left are lists of exports, of a package and of what it is the face of."""

PACKAGE = Path(kcheck.__file__).parent


def test_no_run_of_six_lines_stands_twice_but_for_lists_of_exports():
    found = [str(run) for run in of_package(PACKAGE)]
    assert len(found) <= MOST, "write it once: " + "; ".join(found)


def test_no_six_lines_do_the_same_under_other_names():
    found = [str(run) for run in alike_code.of_package(PACKAGE)]
    assert not found, "write it once: " + "; ".join(found)


def test_the_same_statements_with_other_variables_and_constants_are_found():
    one = "def f(a, b):\n    c = g(a)\n    c += 1\n    if c > b:\n        c = a.x\n        h(c)\n    return c\n"
    head, rest = (
        "@k\ndef q(u, v):\n    k()\n",
        "    w += 2\n    if w > v:\n        w = u.x\n        h(w)\n    return w\n",
    )
    renamed = head + "    w = g(u)\n" + rest
    swapped = renamed.replace("u.x", "v.x")
    other = renamed.replace("h(w)", "h2(w)")
    (run,) = alike_code.alike({"one.py": one, "two.py": renamed})
    assert str(run) == "one.py:2-7 ~ two.py:4-9"
    assert alike_code.alike({"one.py": one, "two.py": swapped}) == []
    assert alike_code.alike({"one.py": one, "two.py": other}) == []


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
