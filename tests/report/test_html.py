"""The HTML report as text. ``make report-check`` opens it in a real browser."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import fake_events
import numpy as np
import pytest
from writing import written

from kcheck.model import ArraySnapshot, Captured, CaseFinished, Event, Snapshot, Span, Status
from kcheck.report.html.figures import of_errors, of_inputs
from kcheck.report.html.markup import embedded, tag

STREAMS = sorted(fake_events.STREAMS)


class Reader(HTMLParser):
    """Elements and text of a page; complains about tags that do not match."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in ("meta", "input"):
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open[-1:] not in (["script"], ["style"]):
            self.words.append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def read(events: list[Event], **settings: Any) -> Reader:
    return Reader(written("html", events, **settings))


@pytest.mark.parametrize("name", STREAMS)
def test_every_stream_is_a_whole_page_that_needs_no_network(name: str) -> None:
    """Tags match; no element has a source or a link; the policy of the page forbids requests."""
    page = read(fake_events.STREAMS[name]())
    for _, attributes in page.elements:
        assert not {"src", "href", "srcset", "action", "onclick", "onload"} & set(attributes)
    (policy,) = [each["content"] for each in page.all("meta") if each.get("http-equiv")]
    assert "default-src 'none'" in str(policy)


def test_a_problem_has_its_place_its_fix_and_its_replay_line() -> None:
    """What the text report says, and a button that copies the command."""
    page = read(fake_events.missing_barrier())
    assert len(page.all("article")) == 1
    for words in (
        "error: racecheck",
        "add cuda.syncthreads() between lines 28 and 31",
        "kernels/buggy/matmul.py:28",
        "9 of 12: every T, K > 0",
        "(1, 0, 0) of block (0, 0, 0)",
        "kcheck run specs/buggy/matmul.yaml --case-seed 13013218331088976616",
    ):
        assert words in page.words
    assert [each["class"] for each in page.all("button")] == ["copy"]


def test_both_lines_of_a_race_are_marked_in_the_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With three lines before and after."""
    monkeypatch.chdir(tmp_path)
    Path("kernels/buggy").mkdir(parents=True)
    Path("kernels/buggy/matmul.py").write_text("".join(f"line {n}\n" for n in range(1, 41)))
    text = written("html", fake_events.missing_barrier())
    assert re.findall(r"<mark>\s*(\d+)  line \d+</mark>", text) == ["28", "31"]
    assert "line 25" in text
    assert "line 34" in text
    assert "line 24" not in text


def test_every_case_is_in_the_page() -> None:
    """As rows that the page makes into a table when a spec is opened."""
    text = written("html", fake_events.everything())
    found = re.search(r'<script type="application/json" id="cases">(.*?)</script>', text)
    assert found is not None
    rows = json.loads(found[1])
    assert [len(spec) for spec in rows] == [2, 38, 1, 1]
    assert rows[1][2] == ["softmax_pad0[iter_40-M=41-N=65-T=float32]", "failed", "mismatch", "63.3", "0.250"]


def test_hostile_names_are_text() -> None:
    """They make no element, end no script, and move no cursor."""
    page = read(fake_events.hostile())
    assert not page.all("b")
    assert any("[bold]op[/bold]red 注意力机制" in words for words in page.words)
    assert not {"\x1b", "\x07", "\u202e"} & set("".join(page.words))
    assert "<" not in embedded(["</script><!--"])
    assert json.loads(embedded(["</script>&"])) == ["</script>&"]
    assert tag("p", "<b>", title='"><script>') == '<p title="&quot;&gt;&lt;script&gt;">&lt;b&gt;</p>'


def test_the_inputs_of_the_smallest_case_are_drawn() -> None:
    """A histogram per input; NaN and infinity are counted in its title."""
    values = np.array([0.0, 1.0, 1.0, np.nan], np.float32)
    failing = fake_events.case(status=Status.FAILED, comparisons=(fake_events.mismatch(),))
    snapshot = Snapshot(
        failing.verdict.case, (ArraySnapshot("x", "input", "float32", (4,), (4,), 0, 16, 0, values),), {}, {}
    )
    events: list[Event] = [fake_events.spec_started(cases=1), Captured(snapshot, {}), failing]
    page = read([*events, fake_events.spec_finished(failed=1)])
    charts = [json.loads(str(each["data-chart"])) for each in page.all("div") if "data-chart" in each]
    assert [chart["title"] for chart in charts] == [
        "x: float32[4], 1 not finite",
        "Worst error of each output of each case",
    ]
    assert sum(charts[0]["y"]) == 3
    labels = [each["aria-label"] for each in page.all("div") if each.get("role") == "img"]
    assert labels[0] == "x: float32[4], 1 not finite. value from 0.02083 to 0.9792, most often near 0.9792"


def test_an_empty_or_constant_input_has_a_histogram_too() -> None:
    """One bar, or none."""
    case = fake_events.case().verdict.case
    arrays = tuple(
        ArraySnapshot(name, "input", "float32", values.shape, (4,), 0, 16, 0, values)
        for name, values in (("a", np.full(3, 7, np.float32)), ("b", np.empty(0, np.float32)))
    )
    assert of_inputs(Snapshot(case, arrays, {}, {})) == {
        "a": {"title": "a: float32[3]", "label": "value", "x": [7.0], "y": [3]}
    }


def test_errors_are_in_units_of_the_noise_floor() -> None:
    """An error of 8 floors is 3, as a power of two; without a floor, units of what is allowed."""
    events: list[CaseFinished] = [
        fake_events.case(comparisons=(fake_events.mismatch(error=8e-7, floor=1e-7),)),
        fake_events.case(comparisons=(fake_events.mismatch(error=2e-7, floor=None, allowed=1e-7),)),
    ]
    histogram = of_errors(events)
    assert histogram is not None
    assert (min(histogram["x"]), max(histogram["x"])) == (pytest.approx(1, abs=0.1), pytest.approx(3, abs=0.1))
    assert of_errors([fake_events.case()]) is None


def test_the_trend_shows_the_stored_runs() -> None:
    """From the second run on, as a chart and as a table."""
    points = [(datetime(2026, 3, day, 12, tzinfo=UTC), 10 - day, day) for day in (1, 2, 3)]
    page = read(fake_events.all_passing(), trend=lambda: points)
    (chart,) = [json.loads(str(each["data-chart"])) for each in page.all("div") if "data-chart" in each]
    assert (chart["x"], chart["y"]) == ([1, 2, 3], [1, 2, 3])
    assert "Stored runs" not in read(fake_events.all_passing(), trend=lambda: points[:1]).words


def test_a_map_shows_where_an_output_is_wrong() -> None:
    """A square for each part that has wrong elements."""
    from kcheck.model import Element, ErrorMap

    found = ErrorMap((Element((0, 64), 1.0, 2.0, 1.0, 0.1),), ("0090", "0010"), ((-1, 3), (2, 1)))
    failing = fake_events.case(status=Status.FAILED, comparisons=(fake_events.mismatch(error_map=found),))
    page = read([fake_events.spec_started(cases=1), failing, fake_events.spec_finished(failed=1)])
    squares = [(each["x"], each["y"], each["class"]) for each in page.all("rect") if each["class"] != "frame"]
    assert squares == [("20", "0", "wrong9"), ("20", "10", "wrong1")]
    assert "y[0, 64]" in page.words
    charts = [json.loads(str(each["data-chart"])) for each in page.all("div") if "data-chart" in each]
    (sizes,) = [chart for chart in charts if chart["title"] == "y: errors of 4 elements"]
    assert (sizes["x"], sizes["y"]) == ([-1, 0, 1, 2], [3, 0, 0, 1])


def test_a_page_without_problems_has_what_its_script_needs() -> None:
    """The script fills the table of a spec's cases when it is opened, and looks up what is searched for."""
    page = read(fake_events.all_passing())
    assert {"search", "show", "count"} <= {each.get("id") for _, each in page.elements}


def test_a_finding_in_a_file_that_is_gone_has_no_source() -> None:
    """The page names the place and shows no lines."""
    finding = fake_events.replace_place(fake_events.OUT_OF_BOUNDS, Span("gone.py", 3))
    failing = fake_events.case(status=Status.FAILED, findings=(finding,))
    page = read([fake_events.spec_started(cases=1), failing, fake_events.spec_finished(failed=1)])
    assert not page.all("pre")
    assert "gone.py:3" in page.words
