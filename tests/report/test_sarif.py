"""The SARIF report: the schema of OASIS, and the limits and properties that GitHub documents.

Sources: SARIF 2.1.0; GitHub, "SARIF support for code scanning" and "SARIF results exceed one or more limits".
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import fake_events
import jsonschema
import pytest
from writing import written

from kcheck.model import Event, Fault, Span, SpecRefused

SCHEMA = json.loads((Path(__file__).parent / "schemas/sarif-2.1.0.json").read_text("utf-8"))
VALIDATOR = jsonschema.Draft7Validator(SCHEMA)
STREAMS = sorted(fake_events.STREAMS)


def sarif(events: list[Event], **settings: Any) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(written("sarif", events, **settings))
    VALIDATOR.validate(document)
    return document


def run_of(events: list[Event], **settings: Any) -> dict[str, Any]:
    (run,) = sarif(events, **settings)["runs"]
    return dict(run)


def test_the_schema_refuses_what_is_wrong() -> None:
    """The validator of these tests notices a document that is not SARIF."""
    document = sarif(fake_events.everything())
    document["runs"][0]["results"][0]["level"] = "fatal"
    with pytest.raises(jsonschema.ValidationError):
        VALIDATOR.validate(document)


@pytest.mark.parametrize("name", STREAMS)
def test_every_stream_is_valid_and_has_what_github_requires(name: str) -> None:
    """By the schema; and of each result a rule, a text, a place in a file, and a fingerprint."""
    run = run_of(fake_events.STREAMS[name]())
    rules = run["tool"]["driver"]["rules"]
    assert len({rule["id"] for rule in rules}) == len(rules)
    for rule in rules:
        assert rule["shortDescription"]["text"]
        assert rule["help"]["text"]
        assert rule["help"]["markdown"].startswith("# ")
        assert len(rule["properties"]["tags"]) <= 10
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["message"]["text"]
        assert result["level"] in ("error", "warning")
        (location,) = result["locations"]
        place = location["physicalLocation"]
        assert place["artifactLocation"]["uriBaseId"] in run["originalUriBaseIds"]
        assert not place["artifactLocation"]["uri"].startswith(("/", "file:", "."))
        assert place["region"]["startLine"] >= 1
        assert result["partialFingerprints"]["primaryLocationLineHash"]


def test_both_sides_of_a_race_are_a_thread_flow() -> None:
    """The flow has a step for each thread, in the order of the finding; the second is also a related location."""
    (result,) = run_of(fake_events.missing_barrier())["results"]
    (flow,) = result["codeFlows"][0]["threadFlows"]
    steps = [
        (
            step["location"]["physicalLocation"]["region"]["startLine"],
            step["location"]["message"]["text"],
        )
        for step in flow["locations"]
    ]
    assert steps == [
        (28, "Thread (0, 0, 0) of block (0, 0, 0)."),
        (31, "Thread (1, 0, 0) of block (0, 0, 0)."),
    ]
    assert result["relatedLocations"][0]["physicalLocation"]["region"]["startLine"] == 31
    assert "[this line](1)" in result["message"]["text"]


def test_a_result_says_what_is_wrong_where_and_how_to_replay_it() -> None:
    """The first sentence, which GitHub shows alone, is what is wrong; then cases, fix and the command."""
    (result,) = run_of(fake_events.missing_barrier())["results"]
    first, *rest = result["message"]["text"].split("\n")
    assert first.startswith("op matmul: thread (1, 0, 0) reads a_tile[0, 0] while thread (0, 0, 0) writes it")
    assert "Cases: 9 of 12: every T, K > 0." in rest
    assert "Fix: add cuda.syncthreads() between lines 28 and 31." in rest
    assert rest[-1].startswith("Replay: kcheck run specs/buggy/matmul.yaml --case-seed ")


def test_a_finding_outside_the_checkout_is_at_its_spec(tmp_path: Path) -> None:
    """GitHub shows no results for other files."""
    failing = fake_events.case(
        "softmax",
        findings=(fake_events.replace_place(fake_events.OUT_OF_BOUNDS, Span("/elsewhere/k.py", 3)),),
        status=fake_events.Status.FAILED,
    )
    events = [fake_events.spec_started(cases=1), failing, fake_events.spec_finished(failed=1)]
    (result,) = run_of(events)["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "specs/softmax.yaml"


def test_a_run_that_broke_off_says_so() -> None:
    """After Ctrl-C the invocation was not successful."""
    assert run_of(fake_events.interrupted())["invocations"][0]["executionSuccessful"] is False
    assert run_of(fake_events.all_passing())["invocations"][0]["executionSuccessful"] is True


@pytest.mark.parametrize(("count", "length"), [(6_000, 10), (600, 20_000)])
def test_a_large_report_stays_within_githubs_limits_and_says_what_it_leaves_out(count: int, length: int) -> None:
    """At most 5,000 results and 10 MB; the file and a warning say how many there are in all."""
    faults = tuple(Fault(Span("specs/a.yaml", n + 1), f"error {n} " + "x" * length) for n in range(count))
    warnings: list[str] = []
    events: list[Event] = [fake_events.started(), SpecRefused("specs/a.yaml", faults, fake_events.START)]
    text = written("sarif", events, warn=warnings.append)
    assert len(text.encode()) <= 10_000_000
    assert len(gzip.compress(text.encode(), 1)) <= 10_000_000
    (run,) = json.loads(text)["runs"]
    assert 0 < len(run["results"]) <= 5_000
    notices = [each["message"]["text"] for each in run["invocations"][0]["toolExecutionNotifications"]]
    assert warnings == notices
    assert f"{len(run['results']):,} of {count:,} results" in warnings[0]


def test_hostile_names_are_escaped() -> None:
    """Control characters are removed, and a path is a valid URI."""
    text = written("sarif", fake_events.hostile())
    assert not {"\x1b", "\x07", "\u202e"} & set(json.dumps(json.loads(text), ensure_ascii=False))
    (result,) = json.loads(text)["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"].isascii()
