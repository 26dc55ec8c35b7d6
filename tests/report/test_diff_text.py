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
        "  better  error largest, in noise floors  1.2 → 0.9  (-25%)                 float32",
    ]


@pytest.mark.parametrize(
    ("measure", "words"),
    [("ulp", "max ulp"), ("shared", "shared memory bytes"), ("float64", "float64 instructions"), ("fma", "fused")],
)
def test_numbers_have_the_names_of_other_reports(measure: str, words: str) -> None:
    """The short names are those of `regression:` in a spec."""
    change = Change("dot", measure, "", ("float32",), 3, 1, Limit(), "better")
    assert f"better  {words}" in lines(120, [change])[1]


def test_numbers_that_differ_look_different() -> None:
    """A change beyond a tight limit has the digits that show it."""
    tight = Change("dot", "error", "largest", ("float32",), 0.99912, 0.99944, Limit(times=1.0), "worse")
    assert "0.9991 → 0.9994  (1.0003x, allowed 1x)" in lines(120, [tight])[1]


@pytest.mark.parametrize(
    ("measure", "before", "after", "limit", "kind", "text"),
    [
        ("ulp", 3.0, 10_824_403.0, Limit(), "within", "3 → 10,824,403  (3,610,000x)"),
        ("ulp", 10_824_403.0, 3.0, Limit(), "better", "10,824,403 → 3  (-100%)"),
        ("ulp", 0.0, 10_824_403.0, Limit(), "within", "0 → 10,824,403  (+10,800,000)"),
        ("error", 0.5, 12_345_678.25, TIMES, "worse", "0.5 → 12,345,678  (24,700,000x, allowed 1.5x)"),
        ("error", 0.5, 0.55, TIMES, "within", "0.5 → 0.55  (+10%)"),
        ("error", 0.0, 0.0123456, TIMES, "worse", "0 → 0.0123  (+0.0123, allowed 1.5x)"),
        ("registers", 32, 30, Limit(more=4), "better", "32 → 30  (-2)"),
        ("instructions", 12_000, 13_500, Limit(times=1.25), "within", "12,000 → 13,500  (+12.5%)"),
    ],
)
def test_a_change_is_told_as_people_say_it(
    measure: str, before: float, after: float, limit: Limit, kind: str, text: str
) -> None:
    """Three digits, thousands apart, no exponents: a factor, percent, or a difference of small counts."""
    change = Change("dot", measure, "", ("float32",), before, after, limit, kind)
    assert text in lines(120, [change])[1]


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

    told = lines(100, [change("float32[:] A", 40), change("float32[:] C", 41), change("float16[:] A", 40)])
    assert told == [
        "dot",
        "  WORSE   fused multiply-adds  45 → 40  (-5, none allowed)",
        "          kernels/dot.py:7  dot  sm_80  float32 A  float16 A",
        "  WORSE   fused multiply-adds  45 → 41  (-4, none allowed)  kernels/dot.py:7  dot  sm_80  float32 C",
    ]
