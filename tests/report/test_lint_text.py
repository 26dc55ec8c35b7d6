"""What ``kcheck lint`` prints of a kernel."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from kcheck.model import Finding, Span
from kcheck.model.compiled import Resources
from kcheck.model.metrics import Metrics, Occupancy
from kcheck.report.lint_text import lint_lines

PLACE = Span("kernels/attention_grouped_query.py", 14)
ADVICE = Finding(
    "f64-in-f32",
    "computes in float64 although every argument is float32",
    "warn",
    fix="write np.float32(0.5)",
    kernel="attention_grouped_query",
    place=PLACE,
)


def metric(target: str) -> Metrics:
    return Metrics(
        "attention_grouped_query",
        PLACE,
        target,
        "float32[:,:] A, float32[:,:], int64",
        Resources(40, 4, 8, 16, 1024, 608),
        1890,
        {"integer": 1000, "global memory": 500, "branch": 3, "float64": 387},
        float64=387,
        occupancy=Occupancy(256, 1024, 32, 64, "registers"),
        advice=(ADVICE,),
    )


def lines(width: int) -> list[str]:
    metrics = [metric("sm_80"), metric("sm_90")]
    notes = ["occupancy was not computed for sm_75: its limits are unknown"]
    title, path = "attention_grouped_query", "specs/attention_grouped_query.yaml"
    return list(lint_lines(title, path, metrics, (), notes, width=width, paint=lambda text, role: text))


@pytest.mark.parametrize("width", [40, 47, 60, 79, 80, 120])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    """Tables that do not fit become rows of names and numbers."""
    assert max(map(cell_len, lines(width))) <= width


@pytest.mark.parametrize("width", [40, 120])
def test_every_number_is_there_at_any_width(width: int) -> None:
    """Registers, spills and shared memory of both targets."""
    text = " ".join(" ".join(lines(width)).split())
    for part in ("sm_80", "sm_90", "1,024", "1,890", "50% regs", "f64-in-f32"):
        assert part in text
