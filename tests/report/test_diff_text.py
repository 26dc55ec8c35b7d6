"""What ``kcheck diff`` prints of a change."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from kcheck.model.baseline import Change, Limit
from kcheck.report.diff_text import change_lines

TIMES = Limit(times=1.5)
CHANGES = [
    Change("dot", "error", "p95, in noise floors", ("float32",), 0.9, 1.9, TIMES, "worse", "specs/dot.yaml"),
    Change("dot", "error", "largest, in noise floors", ("float32",), 1.2, 0.9, TIMES, "better"),
    Change(
        "dot",
        "registers",
        "",
        ("dot", "sm_80", "float32[:,:] A, float32[:]"),
        32,
        40,
        Limit(more=4),
        "worse",
        "kernels/dot.py:7",
    ),
]


def lines(width: int, changes: list[Change] = CHANGES) -> list[str]:
    return list(change_lines(changes, width, lambda text, role: text))


def test_what_is_worse_names_its_line() -> None:
    """A regression has the file and line of its kernel, or its spec; what is better has no need of it."""
    assert lines(120) == [
        "dot",
        "  WORSE   error p95, in noise floors      0.9 → 1.9  (2.11x, allowed 1.5x)  specs/dot.yaml  float32",
        "  WORSE   registers                       32 → 40    (+8, allowed +4)       kernels/dot.py:7  dot  sm_80"
        "  float32 AC",
        "  better  error largest, in noise floors  1.2 → 0.9  (1.33x)                float32",
    ]


def test_numbers_that_differ_look_different() -> None:
    """A change beyond a tight limit has the digits that show it."""
    tight = Change("dot", "error", "largest", ("float32",), 0.99912, 0.99944, Limit(times=1.0), "worse")
    assert "0.9991 → 0.9994  (1.0003x, allowed 1x)" in lines(120, [tight])[1]


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    """The place goes below where there is no room beside; a line that is too long is broken."""
    assert max(map(cell_len, lines(width))) <= width
    assert "kernels/dot.py:7" in "\n".join(lines(width))


def test_the_same_change_in_several_specializations_is_told_once() -> None:
    """Kernel and target once, then the types; other numbers, or another measure, are another line."""

    def change(types: str, after: float) -> Change:
        return Change(
            "dot", "fma", "", ("dot", "sm_80", types), 45, after, Limit(more=0), "worse", "kernels/dot.py:7"
        )

    told = lines(84, [change("float32[:] A", 40), change("float32[:] C", 41), change("float16[:] A", 40)])
    assert told == [
        "dot",
        "  WORSE   fma  45 → 40  (-5, none allowed)",
        "          kernels/dot.py:7  dot  sm_80  float32 A  float16 A",
        "  WORSE   fma  45 → 41  (-4, none allowed)  kernels/dot.py:7  dot  sm_80  float32 C",
    ]
