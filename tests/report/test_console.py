"""The text report, held against files under ``golden/`` that were read and found good.

After a wanted change: ``python tests/report/test_console.py`` writes them anew; read the difference.
"""

from __future__ import annotations

import io
import re
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import fake_events
import pytest
from rich.cells import cell_len

from kcheck.generator import HELD
from kcheck.model import (
    CaseFinished,
    Compiling,
    Distribution,
    Event,
    Finding,
    RunFinished,
    Span,
    SpecFinished,
    SpecRefused,
    Status,
)
from kcheck.model.note import Note
from kcheck.report import ReportSettings, layout, progress_bar, wording
from kcheck.report.console import ConsoleReporter
from kcheck.report.detail import DetailRow
from kcheck.span import Fault

GOLDEN = Path(__file__).parent / "golden"
PICTURES = [
    ("all_passing", 80, 0),
    ("everything", 80, 0),
    ("everything", 200, 0),
    ("everything", 80, -1),
    ("hostile", 80, 0),
    ("interrupted", 80, 0),
    ("missing_barrier", 40, 0),
    ("missing_barrier", 80, 0),
    ("nothing", 80, 0),
    ("partly_sanitized", 80, 0),
]


SOFTMAX = "m = max(m, x[row, i])"
MATMUL = {
    28: "a_tile[ty, tx] = a[row, start + tx] if row < M and start + tx < K else 0",
    31: "acc += a_tile[ty, k] * b_tile[k, tx]",
}


def source(place: Span) -> str:
    if "attention" in place.file:
        return "scratch_of_the_block[t, 0] = value"
    return MATMUL.get(place.line, "") if "matmul" in place.file else SOFTMAX if "softmax" in place.file else ""


def render(events: list[Event], width: int = 80, verbosity: int = 0, color: bool = False) -> str:
    stream = io.StringIO()
    reporter = ConsoleReporter(stream, ReportSettings(verbosity, color, width), source)
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
@pytest.mark.parametrize("verbosity", [-1, 0, 1])
def test_no_line_is_wider_than_the_terminal(name: str, verbosity: int) -> None:
    """From 40 to 120 columns nothing runs over the right edge."""
    for width in (*range(40, 121, 9), 59, 60, 61, 79, 80, 81, 120):
        for line in render(fake_events.STREAMS[name](), width, verbosity).splitlines():
            assert cell_len(line) <= width, f"{width}: {line}"


@pytest.mark.parametrize("width", [80, 60, 40])
def test_the_head_breaks_between_its_parts(width: int) -> None:
    """Version, device and number of specs: a part that fits a line stays whole."""
    name = "compute capability 8.0, 16 lanes"
    parts = [f"cpu: {name}", "1 spec", "racecheck error"]
    head = fake_events.started(1, device="cpu", device_name=name, sanitize={"racecheck": "error"})
    lines = render([head], width).partition("\n\n")[0].splitlines()
    assert " · ".join(lines) == " · ".join(["kcheck 0.1.0", *parts])
    assert len(lines) == {80: 1, 60: 2, 40: 3}[width]


@pytest.mark.parametrize("width", [20, 33, 40])
def test_narrow_terminal_loses_no_verdict(width: int) -> None:
    """However narrow the terminal is, each mark and every count is there."""
    text = " ".join(render(fake_events.everything(), width).split())
    assert text.count("FAIL") == 2
    assert text.count("ERROR") == 4
    assert "36 of 38 failed, 12 not run" in text


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


def test_missing_barrier_is_told_once_in_at_most_15_lines() -> None:
    """Nine cases, two races each, what follows from them, in one paragraph; word for word in golden/."""
    paragraphs = render(fake_events.missing_barrier()).split("\n\n")
    (bug,) = (text for text in paragraphs if text.startswith("  racecheck"))
    assert len(bug.splitlines()) <= 15
    assert bug.splitlines()[7:11] == [
        "  fix        add cuda.syncthreads() between lines 28 and 31",
        "  cases      9 of 12: every T, K > 0",
        "  also       races at lines 29 and 31 in all 9, uninitialized reads in all 9,",
        "             wrong values in 8, varying results in 3",
    ]


def deep_race() -> list[Event]:
    """A race three calls deep in a kernel of many arrays, with everything that can follow from it."""
    file = "kernels/attention/grouped_query_attention_forward.py"
    chain = tuple(Span(file, line) for line in (15, 40, 52, 88))
    race = Finding(
        "racecheck",
        "writes 0.333333343 to scratch_of_the_block[12, 0], which thread (127, 0, 0) of block (14, 2, 0) reads"
        " with no synchronization between them",
        fix="put cuda.syncthreads() between iterations of the loop; if it is there already, read into a variable,"
        " put cuda.syncthreads() after it, then write",
        kernel="attention",
        block=(13, 2, 0),
        thread=(126, 0, 0),
        other=((14, 2, 0), (127, 0, 0)),
        place=chain[0],
        other_place=Span(file, 23),
        stack=chain,
    )
    others = tuple(replace(race, place=Span(file, line), other_place=None, stack=()) for line in (15, 17, 23))
    late = [Finding(rule, "follows", place=Span(file, 90)) for rule in ("initcheck", "unwritten", "overflow")]
    arrays = [f"input_number_{n}" for n in range(6)]
    one = fake_events.case(
        "attention",
        status=Status.FAILED,
        findings=(race, *others, *late),
        comparisons=(fake_events.mismatch("y"),),
        checked=("racecheck",),
        dims={f"SIZE_{n}": 10**n for n in range(4)},
        layouts={name: ("strided", "offset", "transposed")[n % 3] for n, name in enumerate(arrays)},
        values={name: Distribution("uniform", (-1.0, 10.0**n)) for n, name in enumerate(arrays)},
        params={"scale": 0.35355339059327373},
    )
    one = replace(one, replay="kcheck run specs/attention/grouped_query_attention.yaml --cases 0 -k example_0")
    return [
        fake_events.started(),
        fake_events.spec_started("attention", cases=1),
        one,
        fake_events.spec_finished("attention", failed=1),
    ]


def test_a_bug_with_much_to_say_takes_at_most_15_lines() -> None:
    """What, both lines, the outermost call, the fix, the smallest case and the command stay; detail goes first."""
    for width in (80, 100, 200):
        paragraphs = render(deep_race(), width).split("\n\n")
        (bug,) = (text for text in paragraphs if text.startswith("  racecheck"))
        assert len(bug.splitlines()) <= 15, bug
        words = " ".join(bug.split())
        for said in (
            "15 │",
            "23 │",
            "called from",
            "then write",
            "1 of 1",
            "SIZE_3=1000",
            "scale=0.353553391",
        ):
            assert said in words
        assert "--cases 0 -k example_0" in words
    assert "seed" not in bug  # a replay of an example needs none


def test_a_warning_says_in_how_many_cases_it_was_seen() -> None:
    """In a row of its own."""
    returned = Finding(
        "synccheck", "5 of 64 threads wait", severity="warn", fix="guard the work", place=Span("k.py", 3)
    )
    cases = [fake_events.case(number=n, findings=(returned,) * (n < 2)) for n in range(3)]
    text = render(
        [fake_events.started(), fake_events.spec_started(cases=3), *cases, fake_events.spec_finished(passed=3)]
    )
    assert "  fix        guard the work\n  cases      2 of 3\n" in text


def test_the_page_about_reports_shows_this_bug() -> None:
    """docs/report.md explains the report that is printed."""
    page = (Path(__file__).parents[2] / "docs" / "report.md").read_text(encoding="utf-8")
    bug = render(fake_events.missing_barrier()).split("\n\n", 1)[1].rpartition("\n\n")[0]
    assert f"```\n{bug}\n```" in page


def test_each_cause_is_shown_once_by_its_simplest_case() -> None:
    """Of 35 failures alike the one of the smallest sizes is shown, whichever came first; the rest are counted."""
    text = render(fake_events.everything())
    assert text.count("mismatch   y[0, 64]: 64 of 65") == 1
    assert "M=4 N=65 T=float32" in text
    assert "cases      35 of 38" in text
    assert "iter_" not in text


def test_first_failure_is_printed_when_it_happens() -> None:
    """With ``early`` a spec's first failure is printed before its other cases have run, and only that one."""
    events = fake_events.everything()
    first = next(
        n
        for n, event in enumerate(events)
        if isinstance(event, CaseFinished) and event.verdict.status is Status.FAILED
    )
    stream = io.StringIO()
    reporter = ConsoleReporter(stream, ReportSettings(early=True), source)
    for event in events[:first]:
        reporter.handle(event)
    assert " failed: " not in stream.getvalue()
    reporter.handle(events[first])
    told = stream.getvalue()
    assert told.endswith("\nspecs/buggy/softmax.yaml: case 3 of 50 failed: mismatch; running the others\n")
    for event in events[first + 1 :]:
        reporter.handle(event)
    assert stream.getvalue().count("softmax.yaml: case") == 1
    assert "running the" not in render(events)


def test_verbose_shows_every_failure() -> None:
    """With -v each failing case is shown in full, in the order of the run, and nothing is grouped."""
    text = render(fake_events.everything(), verbosity=1)
    assert text.count("replay") == 37
    assert "cases      " not in text
    assert text.index("iter_40-") < text.index("iter_3-")


@pytest.mark.parametrize(
    ("rule", "verbosity", "told"),
    [
        ("", 0, False),
        ("", 1, True),
        ("mismatch", 0, True),
        ("NaN", 0, False),
        ("NaN", 1, True),
        ("unwritten", 0, False),
        ("unwritten", 1, True),
    ],
)
def test_copies_that_differ_are_a_note_of_verbose_and_of_a_spec_with_wrong_values(
    rule: str, verbosity: int, told: bool
) -> None:
    """The compiler made the copies: a user whose values are right can do nothing about them. They make no NaN."""
    nan = fake_events.mismatch("y", why="NaN where the reference is finite")
    failing = {
        "": [],
        "mismatch": [fake_events.case(status=Status.FAILED, comparisons=(fake_events.mismatch("y"),))],
        "NaN": [fake_events.case(status=Status.FAILED, comparisons=(nan,))],
        "unwritten": [fake_events.case(status=Status.FAILED, findings=(Finding("unwritten", "x", array="y"),))],
    }[rule]
    failed = len(failing)
    note = Note("racecheck: kernels/k.py:31: threads store copies of one value that differ", "background")
    events: list[Event] = [
        fake_events.started(),
        fake_events.spec_started("softmax"),
        *failing,
        fake_events.spec_finished("softmax", passed=2 - failed, failed=failed, notes=(note, "something else")),
        RunFinished(1.0, False),
    ]
    text = render(events, width=200, verbosity=verbosity)
    assert ("store copies of one value that differ" in text) is told
    assert "something else" in text


def test_more_than_three_causes_are_counted() -> None:
    """The fourth cause is not shown but counted, with its rule and a hint."""
    outputs = ["a", "b", "c", "d", "e"]
    cases = [
        fake_events.case(number=n, status=Status.FAILED, comparisons=(fake_events.mismatch(output),))
        for n, output in enumerate(outputs)
    ]
    finished = fake_events.spec_finished(failed=5)
    text = render([fake_events.started(), fake_events.spec_started(cases=5), *cases, finished])
    assert text.count("replay") == 3
    assert "and 2 more causes in 2 cases: mismatch (-v shows every case)" in text


def test_replay_line_can_be_pasted() -> None:
    """The replay line is whole where it fits; where it does not, a shell reads it as one line."""
    for width in (40, 60, 80):
        text = render(fake_events.everything(), width)
        pasted = re.sub(r" \\\n +", " ", text)
        assert "kcheck run specs/buggy/softmax.yaml --case-seed 13013218331088976618\n" in pasted
        assert ("\\\n" in text) == (width < 80)


def test_option_of_a_replay_line_stays_with_its_value() -> None:
    """A line that is too long breaks before an option, and never inside quotes."""
    quoted = "kcheck run 'specs/a b.yaml' --cases 0 -k 'example_0 and not x'"
    row = DetailRow("replay", (quoted,), role="paste")
    lines = [text for _, text in layout.labeled(row, 2, 45)]
    assert lines == ["kcheck run 'specs/a b.yaml' \\", "--cases 0 -k 'example_0 and not x'"]


def test_each_spec_is_told_when_it_ends() -> None:
    """The line of a spec is there before the next one begins; only what failed is told again beside the sum."""
    stream = io.StringIO()
    reporter = ConsoleReporter(stream, ReportSettings(), source)
    seen = []
    for event in fake_events.everything():
        reporter.handle(event)
        if isinstance(event, SpecFinished | SpecRefused):
            seen.append(event.path)
            assert all(path in stream.getvalue() for path in seen)
    reporter.close()
    text = stream.getvalue()
    assert text.count("specs/attention.yaml") == 1
    assert len(re.findall("^FAIL   specs/buggy/softmax.yaml", text, re.MULTILINE)) == 2


def test_specs_that_were_not_reached_are_named() -> None:
    """After Ctrl-C the summary has the specs that had not begun; of many the rest is counted."""
    left = tuple(f"specs/{letter}.yaml" for letter in "bcdefgh")
    events = [
        fake_events.started(8),
        fake_events.spec_started("a", cases=1),
        fake_events.case("a"),
        fake_events.spec_finished("a", passed=1),
        RunFinished(1.0, True, left),
    ]
    text = render(events)
    assert "not run    specs/b.yaml, specs/c.yaml, specs/d.yaml, specs/e.yaml," in text
    assert "specs/f.yaml, and 2 more" in " ".join(text.split())
    assert "interrupted · 1 spec passed · 7 specs not run · 1 case" in text


def test_specs_of_which_no_case_was_run_are_named_once() -> None:
    """Behind --fail-fast nothing more is run: such specs are not told one by one as passed."""
    events = [
        fake_events.started(2),
        fake_events.spec_started("a", cases=1),
        fake_events.case("a", status=Status.FAILED, comparisons=(fake_events.mismatch(),)),
        fake_events.spec_finished("a", failed=1),
        fake_events.spec_started("b", cases=7),
        fake_events.spec_finished("b", skipped=7),
        RunFinished(1.0, False),
    ]
    text = render(events)
    assert "0 passed" not in text
    assert "not run    specs/b.yaml\n" in text
    assert "1 of 2 specs failed · 1 spec not run · 1 case: 1 failed, 7 not run" in text


def test_fixed_failures_are_told() -> None:
    """Stored failures that pass now are counted for the spec and, with the time since when, in the sum."""
    since = datetime(2026, 3, 1, 14, 30).astimezone()
    events = [
        fake_events.started(),
        fake_events.spec_started(),
        fake_events.case(),
        fake_events.spec_finished(passed=1, fixed=8, fixed_since=since),
        RunFinished(1.0, False),
    ]
    text = render(events)
    assert "1 passed, 8 fixed" in text
    assert "1 spec passed · 1 case · 8 fixed since 2026-03-01 14:30 · simulator" in text


def test_sanitizer_that_saw_a_part_of_the_cases_says_so() -> None:
    """The count of a race is of the cases that racecheck checked; wrong values elsewhere are put down to it."""
    race = fake_events.RACE
    cases = [
        fake_events.case(number=0, status=Status.FAILED, findings=(race,), checked=("racecheck",)),
        fake_events.case(number=1, checked=("racecheck",)),
        fake_events.case(number=2, status=Status.FAILED, comparisons=(fake_events.mismatch(),)),
    ]
    events = [fake_events.started(), fake_events.spec_started(cases=3), *cases]
    text = render([*events, fake_events.spec_finished(passed=1, failed=2)])
    assert "cases      1 of the 2 that racecheck checked" in text
    assert "also       wrong values in 1 of 2, 1 of these not checked by racecheck" in text
    assert text.count("replay") == 1
    everyone = [
        replace(case, verdict=replace(case.verdict, checked=("racecheck",))) for case in (cases[0], cases[0])
    ]
    for seen, words in ((everyone[:1], "the one"), (everyone, "all 2")):
        text = render([*events[:2], *seen, cases[2], fake_events.spec_finished(failed=len(seen) + 1)])
        assert f"cases      {words} that racecheck checked" in text


def test_ascii_stream_gets_ascii() -> None:
    """A stream that cannot hold the drawing characters gets ASCII in their place, and never an exception."""
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii", newline="")
    reporter = ConsoleReporter(stream, ReportSettings(), source)
    for event in fake_events.everything():
        reporter.handle(event)
    reporter.close()
    stream.flush()
    assert b"specs/buggy/softmax.yaml - softmax_pad0" in raw.getvalue()
    assert b"14 | m = max(m, x[row, i])" in raw.getvalue()


class Terminal(io.StringIO):
    """A terminal's end of stderr."""

    def isatty(self) -> bool:
        return True


def test_progress_goes_to_its_own_stream() -> None:
    """The bar is drawn on the stream it was given, is gone at the end, and the report does not change for it."""
    stream, terminal = io.StringIO(), Terminal()
    reporter = ConsoleReporter(stream, ReportSettings(progress=terminal), source)
    for event in fake_events.everything():
        reporter.handle(event)
    reporter.close()
    assert stream.getvalue() == picture("everything", 80, 0)
    assert "softmax_pad0" in terminal.getvalue()
    assert terminal.getvalue().endswith("\x1b[2K")


def test_progress_counts_the_failures_of_the_whole_run() -> None:
    """While the second spec runs, the bar still shows the failure of the first."""
    terminal = Terminal()
    bar = progress_bar(terminal)
    bar.handle(fake_events.started(2))
    bar.handle(fake_events.spec_started("a"))
    bar.handle(fake_events.case("a", status=Status.FAILED, comparisons=(fake_events.mismatch(),)))
    bar.handle(fake_events.spec_finished("a", failed=1))
    bar.handle(RunFinished(1.0, False))  # hides the bar; what it drew so far is of the first spec
    drawn = len(terminal.getvalue())
    bar.handle(fake_events.spec_started("b"))
    bar.handle(fake_events.case("b"))
    bar.close()
    assert "1 failed" in terminal.getvalue()[drawn:]


def test_progress_says_that_it_waits_for_the_compiler() -> None:
    """With a spec's cases done the bar says what is waited for; the report has none of it."""
    stream, terminal = io.StringIO(), Terminal()
    reporter = ConsoleReporter(stream, ReportSettings(progress=terminal), source)
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


def test_a_long_error_without_a_fix_ends_with_its_last_word() -> None:
    """No empty line stands in for the fix."""
    fault = Fault(Span("specs/a.yaml", 3, 9), "there is no file 'kernels/" + "long_" * 12 + ".py' in the project")
    text = render([fake_events.started(1), SpecRefused("specs/a.yaml", (fault,), fake_events.START)])
    lines = text.splitlines()
    start = next(number for number, line in enumerate(lines) if "specs/a.yaml:3:9" in line)
    block = lines[start : lines.index("", start)]
    assert " ".join(" ".join(block).split()) == str(fault)
    assert lines[lines.index("", start) + 1] != ""


def test_values_that_are_stored_with_the_case_are_called_stored() -> None:
    """A minimized case has no distribution to name."""
    assert wording.drawn(Distribution(HELD)) == "stored"
    assert wording.drawn(Distribution("constant", 0)) == "constant[0]"
