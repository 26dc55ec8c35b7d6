"""The text report, held against files under ``golden/`` that were read and found good.

After a wanted change: ``python tests/report/test_console.py`` writes them anew; read the difference.
"""

from __future__ import annotations

import io
import re
from pathlib import Path

import fake_events
import pytest
from rich.cells import cell_len

from kcheck.model import Compiling, Event, RunFinished, Span, SpecFinished, Status
from kcheck.report import Settings
from kcheck.report.console import ConsoleReporter

GOLDEN = Path(__file__).parent / "golden"
PICTURES = [
    ("all_passing", 80, 0),
    ("everything", 80, 0),
    ("everything", 200, 0),
    ("everything", 80, -1),
    ("hostile", 80, 0),
    ("interrupted", 80, 0),
    ("nothing", 80, 0),
    ("partly_sanitized", 80, 0),
]


def source(place: Span) -> str:
    return "m = max(m, x[row, i])" if "softmax" in place.file else ""


def render(events: list[Event], width: int = 80, verbosity: int = 0, color: bool = False) -> str:
    stream = io.StringIO()
    reporter = ConsoleReporter(stream, Settings(verbosity, color, width), source)
    for event in events:
        reporter.handle(event)
    reporter.close()
    return stream.getvalue()


def picture(name: str, width: int, verbosity: int) -> str:
    return render(fake_events.STREAMS[name](), width, verbosity)


def golden(name: str, width: int, verbosity: int) -> Path:
    return GOLDEN / f"{name}-{width}{'-quiet' if verbosity < 0 else ''}.txt"


@pytest.mark.parametrize(("name", "width", "verbosity"), PICTURES)
def test_report_is_the_picture_that_was_approved(name: str, width: int, verbosity: int) -> None:
    """The report of a known stream is, byte for byte, the text that was looked at and approved."""
    assert picture(name, width, verbosity) == golden(name, width, verbosity).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", sorted(fake_events.STREAMS))
@pytest.mark.parametrize("width", [80, 120, 200])
def test_no_line_is_wider_than_the_terminal(name: str, width: int) -> None:
    """Nothing runs over the right edge but what must stay whole: a line to paste and the line of a fault."""
    for line in render(fake_events.STREAMS[name](), width).splitlines():
        if "kcheck run" not in line and ".yaml:" not in line:
            assert cell_len(line) <= width, line


@pytest.mark.parametrize("width", [20, 33, 41])
def test_narrow_terminal_loses_no_verdict(width: int) -> None:
    """A terminal too narrow for the table still shows each mark and every count."""
    text = render(fake_events.everything(), width)
    assert "FAIL" in text
    assert "ERROR" in text
    assert "36 failed" in text


def test_plain_text_has_no_escape_sequence() -> None:
    """Without color nothing but printable text and line feeds is written."""
    text = render(fake_events.everything())
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", text)


def test_colour_changes_nothing_but_colour() -> None:
    """The colored report without its SGR sequences is the plain report."""
    colored = render(fake_events.everything(), color=True)
    assert "\x1b[" in colored
    assert re.sub(r"\x1b\[[0-9;]*m", "", colored) == render(fake_events.everything())


@pytest.mark.parametrize("color", [False, True])
def test_names_cannot_drive_the_terminal(color: bool) -> None:
    """Markup prints as it is; escape sequences, controls, bidi overrides and lone surrogates are gone."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", render(fake_events.hostile(), width=200, color=color))
    assert "[bold]op[/bold]red 注意力机制" in text
    assert "specs/[red]/dir with space/注意力.yaml" in text
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\ud800-\udfff]|title", text)


def test_table_is_aligned_in_cells_with_wide_characters() -> None:
    """Columns start in the same cell on each line, though a CJK character takes two."""
    events: list[Event] = [fake_events.started(2)]
    for op in ("注意力", "softmax"):
        events += [
            fake_events.spec_started(op),
            fake_events.case(op),
            fake_events.spec_finished(op, passed=1),
        ]
    lines = [line for line in render([*events, RunFinished(1.0, False)]).splitlines() if line.startswith("ok")]
    starts = {cell_len(line[: line.index("1 passed")]) for line in lines}
    assert len(lines) == 2
    assert len(starts) == 1


def test_each_cause_is_shown_once_by_its_simplest_case() -> None:
    """Of 34 failures alike the one of the smallest sizes is shown, whichever came first; the rest are counted."""
    text = render(fake_events.everything())
    assert text.count("mismatch   y[0, 64]: 64 of 65") == 1
    assert "softmax_pad0[iter_3-M=4-N=65-T=float32]" in text
    assert "and 33 more like this: iter_40," in text


def test_verbose_shows_every_failure() -> None:
    """With -v each failing case is shown in full, in the order of the run, and nothing is collapsed."""
    text = render(fake_events.everything(), verbosity=1)
    assert text.count("replay") == 37
    assert "more like this" not in text
    assert text.index("iter_40-") < text.index("iter_3-")


def test_more_than_three_causes_are_counted() -> None:
    """A fourth kind of failure is not shown but named, with the cases that have it."""
    outputs = ["a", "b", "c", "d", "e"]
    cases = [
        fake_events.case(number=n, status=Status.FAILED, comparisons=(fake_events.mismatch(output),))
        for n, output in enumerate(outputs)
    ]
    finished = fake_events.spec_finished(failed=5)
    text = render([fake_events.started(), fake_events.spec_started(cases=5), *cases, finished])
    assert text.count("replay") == 3
    assert "and 2 more kinds of failure in 2 cases: iter_3, iter_4 (-v shows all)" in text


def test_replay_line_is_never_broken() -> None:
    """The line to paste stands whole on one line at any width."""
    for width in (30, 80):
        text = render(fake_events.everything(), width)
        assert "kcheck run specs/buggy/softmax.yaml --case-seed 13013218331088976618\n" in text


def test_ascii_stream_gets_ascii() -> None:
    """A stream that cannot hold the drawing characters gets ASCII in their place, and never an exception."""
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii", newline="")
    reporter = ConsoleReporter(stream, Settings(), source)
    for event in fake_events.everything():
        reporter.handle(event)
    reporter.close()
    stream.flush()
    assert b"specs/buggy/softmax.yaml - softmax_pad0 - 36 of 38 failed" in raw.getvalue()
    assert b"14 | m = max(m, x[row, i])" in raw.getvalue()


class Terminal(io.StringIO):
    """A terminal's end of stderr."""

    def isatty(self) -> bool:
        return True


def test_progress_goes_to_its_own_stream() -> None:
    """The bar is drawn on the stream it was given, is gone at the end, and the report does not change for it."""
    stream, terminal = io.StringIO(), Terminal()
    reporter = ConsoleReporter(stream, Settings(progress=terminal), source)
    for event in fake_events.everything():
        reporter.handle(event)
    reporter.close()
    assert stream.getvalue() == picture("everything", 80, 0)
    assert "softmax_pad0" in terminal.getvalue()
    assert terminal.getvalue().endswith("\x1b[2K")


def test_progress_says_that_it_waits_for_the_compiler() -> None:
    """With a spec's cases done the bar says what is waited for; the report has none of it."""
    stream, terminal = io.StringIO(), Terminal()
    reporter = ConsoleReporter(stream, Settings(progress=terminal), source)
    for event in fake_events.everything():
        if isinstance(event, SpecFinished):
            reporter.handle(Compiling(event.path, event.op))
        reporter.handle(event)
    reporter.close()
    assert stream.getvalue() == picture("everything", 80, 0)
    assert "compiling for artifact" in terminal.getvalue()


if __name__ == "__main__":
    for row in PICTURES:
        golden(*row).write_text(picture(*row), encoding="utf-8")
