"""The JUnit report, by the rules of its readers.

Sources: Jenkins' ``junit-10.xsd`` (xunit plugin), Ant's ``JUnit.xsd`` (windyroad), GitLab's "Unit test reports",
XML 1.0 section 2.2.
"""

from __future__ import annotations

import io
import re
import xml.etree.ElementTree as ET

import fake_events
import pytest

from kcheck.model import Event, Sanitized, Span, SpecStarted, Status
from kcheck.report import ReportSettings
from kcheck.report.junit import JunitReporter

STREAMS = sorted(fake_events.STREAMS)


def source(place: Span) -> str:
    return "m = max(m, x[row, i])"


def write(events: list[Event]) -> ET.Element:
    stream = io.StringIO()
    reporter = JunitReporter(stream, ReportSettings(), source)
    for event in events:
        reporter.handle(event)
    reporter.close()
    text = stream.getvalue()
    assert text.startswith('<?xml version="1.0" encoding="utf-8"?>')
    return ET.fromstring(text.encode("utf-8"))


def suite_of(root: ET.Element, path: str) -> ET.Element:
    return next(suite for suite in root if suite.get("file") == path)


@pytest.mark.parametrize("name", STREAMS)
def test_structure_is_what_readers_accept(name: str) -> None:
    """Elements, their order and their required attributes are those of the published schemas."""
    root = write(fake_events.STREAMS[name]())
    assert root.tag == "testsuites"
    for suite in root:
        assert suite.tag == "testsuite"
        assert {"name", "tests", "failures", "errors", "skipped", "time", "timestamp", "package", "id"} <= set(
            suite.keys()
        )
        tags = [child.tag for child in suite]
        assert tags == ["properties"] * (tags[:1] == ["properties"]) + ["testcase"] * tags.count("testcase")
        for case in suite.iter("testcase"):
            assert case.get("name")
            assert case.get("classname")
            assert case.get("file")
            assert int(case.get("line", "0")) >= 1
            children = [child.tag for child in case]
            assert len(set(children) & {"failure", "error", "skipped"}) <= 1
            assert set(children) <= {"failure", "error", "skipped", "system-out"}
            assert children == sorted(children, key=lambda tag: tag == "system-out")


@pytest.mark.parametrize("name", STREAMS)
def test_counts_agree_with_the_test_cases(name: str) -> None:
    """Readers show the counts of the suite's attributes: they are those of its test cases."""
    for suite in write(fake_events.STREAMS[name]()):
        assert int(suite.get("tests", "-1")) == len(suite.findall("testcase"))
        for attribute, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            assert int(suite.get(attribute, "-1")) == len(suite.findall(f"testcase/{tag}"))


@pytest.mark.parametrize("name", STREAMS)
def test_names_are_unique(name: str) -> None:
    """No two test cases share classname and name: readers would merge them, and suites have their own ids."""
    root = write(fake_events.STREAMS[name]())
    names = [(case.get("classname"), case.get("name")) for case in root.iter("testcase")]
    assert len(names) == len(set(names))
    ids = [suite.get("id") for suite in root]
    assert len(ids) == len(set(ids))


def test_equal_cases_get_different_names() -> None:
    """Two cases with one id, or ids that differ in control characters alone, stay two test cases."""
    events: list[Event] = [fake_events.spec_started(cases=3), fake_events.case(), fake_events.case()]
    events.append(fake_events.case(label="iter_0\x00"))
    root = write([*events, fake_events.spec_finished(passed=3)])
    assert [case.get("name") for case in root.iter("testcase")] == [
        "softmax[iter_0-M=1-N=65-T=float32]",
        "softmax[iter_0-M=1-N=65-T=float32] #2",
        "softmax[iter_0-M=1-N=65-T=float32] #3",
    ]


@pytest.mark.parametrize("name", STREAMS)
def test_times_are_what_the_schemas_allow(name: str) -> None:
    """Timestamps are UTC to the second without an offset; durations are decimals without an exponent."""
    root = write(fake_events.STREAMS[name]())
    for element in root.iter():
        if (stamp := element.get("timestamp")) is not None:
            assert stamp == "2026-03-01T12:30:00"  # the run began at 14:30 two hours east
        if (time := element.get("time")) is not None:
            assert re.fullmatch(r"[0-9]+(\.[0-9]+)?", time)


def test_failure_and_error_are_told_apart() -> None:
    """A kernel that fails is a failure; a reference that raises, and a spec that is refused, are errors."""
    root = write(fake_events.everything())
    assert suite_of(root, "specs/buggy/softmax.yaml").get("failures") == "36"
    assert suite_of(root, "specs/buggy/softmax.yaml").get("errors") == "0"
    assert suite_of(root, "specs/rmsnorm.yaml").find("testcase/error[@type='reference']") is not None
    refused = suite_of(root, "specs/typo.yaml").find("testcase")
    assert refused is not None
    assert refused.get("line") == "14"
    error = refused.find("error")
    assert error is not None
    assert error.get("message") == "specs/typo.yaml:14:9: unknown dim 'n' in shape [b, n]; did you mean 'N'?"
    assert "20:1: unknown key" in (error.text or "")


def test_failure_says_what_the_console_says() -> None:
    """The text of a failure has numbers, the place, the source line and the line to paste."""
    suite = suite_of(write(fake_events.everything()), "specs/buggy/softmax.yaml")
    texts = [failure.text or "" for failure in suite.iter("failure")]
    assert any("actual     0.0153846154" in text for text in texts)
    assert any("kernels/buggy/softmax.py:14\n           14 │ m = max(m, x[row, i])" in text for text in texts)
    assert all("replay     kcheck run specs/buggy/softmax.yaml --case-seed " in text for text in texts)
    messages = {failure.get("message") for failure in suite.iter("failure")}
    assert "mismatch: y[0, 64]: 64 of 65 elements (98.46%) beyond tolerance" in messages
    assert "memcheck: read of 4 bytes out of bounds: x has 65 elements along axis 1" in messages


def test_text_is_escaped_and_clean() -> None:
    """Markup survives as text; control characters, escape sequences and surrogates do not survive at all."""
    root = write(fake_events.hostile())
    everything = "".join(root.itertext()) + "".join(v for element in root.iter() for v in element.attrib.values())
    assert "]]> & <b>" in everything
    assert "[red]" in everything
    assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202e\ud800-\udfff]", everything)


def test_cases_not_run_and_findings_of_a_spec_are_test_cases() -> None:
    """What was planned and not run is skipped; an error about the spec as a whole is a failure of its own."""
    from dataclasses import replace

    wrong = replace(fake_events.VACUOUS, severity="error", rule="artifact", message="80 registers, 64 allowed")
    finished = fake_events.spec_finished(passed=1, skipped=3, findings=(wrong, fake_events.VACUOUS))
    root = write([fake_events.started(), fake_events.spec_started(cases=4), fake_events.case(), finished])
    by_name = {case.get("name"): case for case in root.iter("testcase")}
    failure = by_name["softmax[spec]"].find("failure[@type='artifact']")
    assert failure is not None
    assert failure.get("message") == "artifact: 80 registers, 64 allowed"
    assert "zeros" in (by_name["softmax[spec]"].findtext("system-out") or "")
    skipped = by_name["softmax[not run]"].find("skipped")
    assert skipped is not None
    assert skipped.get("message") == "3 cases not run"


def test_stream_that_breaks_off_keeps_its_cases() -> None:
    """Ctrl-C within a spec leaves a report with the cases that were judged."""
    events = fake_events.interrupted()
    assert isinstance(events[1], SpecStarted)
    root = write(events)
    assert len(list(root.iter("testcase"))) == 2


def test_sanitizers_are_properties_of_the_suite() -> None:
    """Each sanitizer that is not off, with its level and how many of the cases it saw."""
    root = write(
        [
            fake_events.spec_started(),
            fake_events.case(),
            fake_events.case(number=1),
            fake_events.spec_finished(
                passed=2, sanitizers=(Sanitized("racecheck", "error", 2), Sanitized("overflow", "warn", 1))
            ),
        ]
    )
    properties = {each.get("name"): each.get("value") for each in root.iter("property")}
    assert properties["racecheck"] == "error, 2 of 2 cases"
    assert properties["overflow"] == "warn, 1 of 2 cases"


def test_passing_case_shows_its_warnings() -> None:
    """A warning on a case that passed is in its output, and does not fail it."""
    warned = fake_events.case(findings=(fake_events.VACUOUS,), status=Status.PASSED)
    root = write([fake_events.spec_started(cases=1), warned, fake_events.spec_finished(passed=1)])
    case = next(root.iter("testcase"))
    assert case.find("failure") is None
    assert "vacuous" in (case.findtext("system-out") or "")


def test_a_case_is_at_the_line_of_the_kernel_that_its_first_error_names() -> None:
    """A test case whose finding has a place is there, so that a click leads to the bug; any other at its spec."""
    path = "specs/buggy/softmax.yaml"
    suite = suite_of(write(fake_events.everything()), path)
    places = {(case.get("file"), case.get("line")) for case in suite.iter("testcase")}
    at = fake_events.OUT_OF_BOUNDS.place
    assert at is not None
    assert (at.file, str(at.line)) in places
    assert {file for file, _ in places} == {at.file, path}
