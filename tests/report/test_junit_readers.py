"""The JUnit reports, by other people's readers: Jenkins' XSD (xUnit plugin) and junitparser."""

from __future__ import annotations

from pathlib import Path

import fake_events
import junitparser
import pytest
import xmlschema
from writing import written

from kcheck.model import CaseFinished, Status

STREAMS = sorted(fake_events.STREAMS)
JENKINS = xmlschema.XMLSchema10(Path(__file__).parent / "schemas/junit-10.xsd")


@pytest.mark.parametrize("name", STREAMS)
def test_jenkins_schema_accepts_the_report(name: str) -> None:
    JENKINS.validate(written("xunit", fake_events.STREAMS[name]()))


def test_jenkins_schema_refuses_the_place_of_a_test_case() -> None:
    """Which GitLab reads: this is why there are two formats."""
    with pytest.raises(xmlschema.XMLSchemaValidationError, match="attribute"):
        JENKINS.validate(written("junit", fake_events.missing_barrier()))


@pytest.mark.parametrize("form", ["junit", "xunit"])
@pytest.mark.parametrize("name", STREAMS)
def test_junitparser_counts_what_the_events_say(name: str, form: str) -> None:
    """Its counts, which it makes from the test cases, are those of the attributes and of the verdicts."""
    events = fake_events.STREAMS[name]()
    suites = list(junitparser.JUnitXml.fromstring(written(form, events).encode("utf-8")))
    declared = [(suite.tests, suite.failures, suite.errors, suite.skipped) for suite in suites]
    for suite in suites:
        suite.update_statistics()
    assert [(suite.tests, suite.failures, suite.errors, suite.skipped) for suite in suites] == declared
    verdicts = [event.verdict.status for event in events if isinstance(event, CaseFinished)]
    cases = [case for suite in suites for case in suite if not case.name.endswith(("[spec]", "[not run]", "spec"))]
    assert len(cases) == len(verdicts)
    assert sum(case.is_passed for case in cases) == verdicts.count(Status.PASSED)
