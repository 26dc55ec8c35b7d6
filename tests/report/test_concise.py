"""``--format concise``: a line for each place that is wrong."""

from __future__ import annotations

import io
import re

import fake_events
import pytest

from kcheck.model import Event, Finding, Span, Status
from kcheck.report import REPORTERS, ReportSettings


def report(events: list[Event], verbosity: int = 0) -> list[str]:
    stream = io.StringIO()
    reporter = REPORTERS["concise"](stream, ReportSettings(verbosity))
    for event in events:
        reporter.handle(event)
    reporter.close()
    return stream.getvalue().splitlines()


def test_every_place_has_one_line_however_many_cases_have_it() -> None:
    """Specs in the order of the run, their places by file and line; what has no line is at the spec's kernel."""
    assert report(fake_events.everything()) == [
        "kernels/buggy/softmax.py:14:9: memcheck: read of 4 bytes out of bounds: x has 65 elements along axis 1"
        " (1 of 38 cases)",
        "kernels/buggy/softmax.py:21:5: racecheck: two threads write one element without a barrier between"
        " (1 of 38 cases)",
        "specs/buggy/softmax.yaml:4:1: mismatch: y[0, 64]: 64 of 65 elements (98.46%) beyond tolerance"
        " (35 of 38 cases)",
        "specs/typo.yaml:14:9: spec: unknown dim 'n' in shape [b, n]; did you mean 'N'?",
        "specs/typo.yaml:20:1: spec: unknown key 'invariant'; did you mean 'invariants'?",
        "specs/rmsnorm.yaml:4:1: reference: the reference raised ZeroDivisionError: division by zero"
        " (1 of 1 case)",
        "specs/gelu.yaml:4:1: vacuous: warning: a kernel that writes only zeros would pass every case",
    ]


@pytest.mark.parametrize("name", sorted(fake_events.STREAMS))
def test_a_problem_matcher_reads_every_line(name: str) -> None:
    """Each line is file:line:col: rule: message, whatever names and messages hold."""
    for line in report(fake_events.STREAMS[name]()):
        assert re.fullmatch(r"[^:]+:\d+:\d+: \w+: (warning: )?\S.*", line), line


def test_a_run_that_passes_prints_nothing() -> None:
    """The exit code tells."""
    assert report(fake_events.all_passing()) == []


def test_quiet_leaves_warnings_out() -> None:
    """-q shows only what is wrong."""
    assert not any("warning:" in line for line in report(fake_events.everything(), -1))


def test_an_interrupted_spec_has_its_lines() -> None:
    """What a spec showed before the run broke off is there."""
    wrong = Finding("memcheck", "out of bounds", place=Span("k.py", 3))
    events = [fake_events.spec_started(), fake_events.case(status=Status.FAILED, findings=(wrong,))]
    assert report(events) == ["k.py:3:1: memcheck: out of bounds (1 of 1 case)"]
