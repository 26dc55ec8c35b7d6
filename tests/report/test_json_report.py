"""The JSON report."""

from __future__ import annotations

import io
import json
import math
import re
from typing import Any

import fake_events
import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcheck.model import Distribution, Event, FunctionRef, RunFinished, Span, Status
from kcheck.report import ReportSettings, json_report
from kcheck.report.json_report import JsonReporter
from kcheck.report.schema import schema_text

SCHEMA = json.loads(schema_text())


def write(events: list[Event]) -> str:
    stream = io.StringIO()
    reporter = JsonReporter(stream, ReportSettings())
    for event in events:
        reporter.handle(event)
    reporter.close()
    return stream.getvalue()


def no_constant(name: str) -> Any:
    raise AssertionError(f"{name} is not JSON")


def read(text: str) -> Any:
    document = json.loads(text, parse_constant=no_constant)
    jsonschema.validate(document, SCHEMA, cls=jsonschema.Draft7Validator)
    return document


def test_schema_is_a_schema() -> None:
    """The published schema is itself valid draft-07."""
    jsonschema.Draft7Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("name", sorted(fake_events.STREAMS))
def test_every_stream_follows_the_schema(name: str) -> None:
    """A report of any stream is strict JSON, ASCII, and valid under the published schema."""
    text = write(fake_events.STREAMS[name]())
    assert text.isascii()
    read(text)


@pytest.mark.parametrize("length", [*range(1, 9), 42, 44, 45, 46, 47, 48, 49, 50, 51])
def test_report_is_whole_wherever_the_stream_breaks_off(length: int) -> None:
    """After any number of events a report that is closed is valid, keeps the cases seen, and says so."""
    events = fake_events.everything()[:length]
    assert len(events) == length
    document = read(write(events))
    cases = [case for spec in document["specs"] for case in spec.get("cases", [])]
    assert len(cases) == sum(type(event).__name__ == "CaseFinished" for event in events)
    assert document["summary"]["interrupted"]


def test_report_without_a_single_event_is_valid() -> None:
    """A run that is interrupted before it starts leaves a valid report."""
    assert read(write([]))["specs"] == []


def test_schema_refuses_what_is_wrong() -> None:
    """The schema is no rubber stamp: a missing key, a bare NaN string for a count, an unknown key are refused."""
    good = read(write(fake_events.everything()))
    for break_it in (
        lambda d: d.pop("summary"),
        lambda d: d["summary"].update(failed="NaN"),
        lambda d: d["specs"][0].update(surprise=1),
        lambda d: d["specs"][0]["cases"][0].update(seed=7),
        lambda d: d["specs"][1]["cases"][2]["comparisons"][0].update(error="nan"),
    ):
        document = json.loads(json.dumps(good))
        break_it(document)
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(document, SCHEMA, cls=jsonschema.Draft7Validator)


def test_counts_agree_with_the_cases() -> None:
    """The summary is the sum of the specs, and each spec's counts those of its cases."""
    document = read(write(fake_events.everything()))
    ran = [spec for spec in document["specs"] if spec["status"] != "refused"]
    for name, status in (("passed", "passed"), ("failed", "failed"), ("errors", "error")):
        assert document["summary"][name] == sum(spec[name] for spec in ran)
        for spec in ran:
            assert spec[name] == sum(case["status"] == status for case in spec["cases"])
    assert [spec["status"] for spec in document["specs"]] == ["passed", "failed", "refused", "error", "passed"]


def without_time(document: Any) -> Any:
    if isinstance(document, dict):
        return {key: without_time(value) for key, value in document.items() if key != "time"}
    return [without_time(item) for item in document] if isinstance(document, list) else document


def test_two_runs_differ_only_under_time() -> None:
    """Another clock changes values under keys named ``time`` and not one byte elsewhere."""
    events = fake_events.all_passing()
    first = write(events)
    second = write(
        [*events[:-1], RunFinished(99.0, False)],
    ).replace("2026-03-01T14:30", "2027-12-31T23:59")
    assert first != second
    assert without_time(read(first)) == without_time(read(second))
    strip = re.compile(r'"time": \{[^}]*\}')
    assert strip.sub("", first) == strip.sub("", second)


def test_sanitizers_and_the_cases_they_saw() -> None:
    """The levels of the command line, by spec the level and the number of cases, by case the names."""
    report = read(write(fake_events.partly_sanitized()))
    assert report["sanitize"] == {"racecheck": "error", "nondeterministic": "off"}
    spec = report["specs"][0]
    assert spec["sanitizers"]["racecheck"] == {"level": "error", "cases": 1000}
    assert spec["sanitizers"]["overflow"] == {"level": "warn", "cases": 12}
    assert spec["cases"][0]["sanitizers"] == ["memcheck", "racecheck", "overflow"]


def read_number(written: Any) -> float | complex | int | bool | None:
    """What a reader makes of a number of a report, by the schema."""
    if isinstance(written, dict):
        return complex(float(written["real"]), float(written["imag"]))
    if isinstance(written, str):
        return float(written) if written in ("NaN", "Infinity", "-Infinity") else int(written)
    if written is None or isinstance(written, bool | int | float):
        return written
    raise ValueError(f"not a number of a report: {written!r}")


@given(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**63), 2**64 - 1),
        st.floats(),
        st.complex_numbers(),
        st.sampled_from([math.nan, math.inf, -math.inf, -0.0, complex(math.nan, -math.inf)]),
    )
)
def test_numbers_round_trip(number: float | complex | int | bool | None) -> None:
    """Every number of every dtype comes back from strict JSON with its type, NaN and the sign of zero."""
    text = json.dumps(json_report.value(number), allow_nan=False)
    assert repr(read_number(json.loads(text, parse_int=int))) == repr(number)


def test_integers_that_readers_would_round_are_strings() -> None:
    """Past 2**53 a reader with doubles would round an integer, so it and every seed are strings."""
    assert json_report.value(2**53) == 2**53
    assert json_report.value(2**53 + 1) == "9007199254740993"
    assert json_report.case_document(fake_events.case())["seed"] == "13013218331088976615"


@pytest.mark.parametrize(
    ("drawn", "written"),
    [
        (Distribution("normal"), "normal"),
        (Distribution("offset", (1000, 1.5)), {"offset": [1000, 1.5]}),
        (Distribution("constant", math.inf), {"constant": "Infinity"}),
        (Distribution("sorted", Distribution("uniform", (0, 1))), {"sorted": {"uniform": [0, 1]}}),
        (Distribution("integers", (0, "V - 1")), {"integers": [0, "V - 1"]}),
        (Distribution("from", FunctionRef("kernels/g.py", "make", Span("s.yaml"))), {"from": "kernels/g.py:make"}),
    ],
)
def test_distributions_are_written_as_a_spec_writes_them(drawn: Distribution, written: Any) -> None:
    """What a report says of an input's values may be pasted under ``examples`` of a spec."""
    assert json_report.distribution(drawn) == written


def test_special_values_of_a_failure_are_kept() -> None:
    """A NaN that a kernel wrote is told from an infinity and from nothing at all."""
    wrong = fake_events.mismatch(actual=math.nan, expected=-math.inf, error=math.nan, max_ulp=None)
    document = json_report.case_document(fake_events.case(status=Status.FAILED, comparisons=(wrong,)))
    comparison = document["comparisons"][0]
    assert (comparison["actual"], comparison["expected"], comparison["max_ulp"]) == ("NaN", "-Infinity", None)
