"""Problems with a run of the suite."""

from __future__ import annotations

import fnmatch
from collections.abc import Collection, Mapping, Sequence

from conformance.numba_cuda_plugin import name_of
from conformance.suite import NUMBA_CUDA, Run, run_suite
from kcheck.model import Finding


def cause_of(test: str, causes: Mapping[str, str]) -> str | None:
    """The cause whose pattern matches a test."""
    return next((cause for pattern, cause in causes.items() if fnmatch.fnmatchcase(test, pattern)), None)


MOST_AGAIN = 10
"""With up to this many unexplained failures, they are tried a second time; more are not an accident."""


def second_try(run: Run, causes: Mapping[str, str], tests: Sequence[str] = NUMBA_CUDA) -> tuple[Run, list[str]]:
    """Run tests that failed without a cause a second time, alone: a busy machine may have been too slow for them.

    Returns:
        The run, with tests that passed then as passed, and their names. A crash stays one.
    """
    doubtful = [
        test
        for test, outcome in run.outcomes.items()
        if outcome.outcome == "failed" and not cause_of(test, causes) and not outcome.is_crash
    ]
    if run.broken or not 0 < len(doubtful) <= MOST_AGAIN:
        return run, []
    again = run_suite(1, tests=tests, only=doubtful).outcomes
    passed = {test: again[test] for test in doubtful if test in again and again[test].outcome == "passed"}
    return Run({**run.outcomes, **passed}), sorted(passed)


def problems(run: Run, causes: Mapping[str, str], floor: int, left_out: Collection[str] = ()) -> list[str]:
    """A sentence for each problem; none: the run is as good as those before.

    Args:
        causes: of failures, by a pattern over tests.
        floor: how many of these tests passed before.
        left_out: tests that are skipped.
    """
    found = [run.broken] if run.broken else []
    failed = [test for test, outcome in run.outcomes.items() if outcome.outcome == "failed"]
    found += [
        f"no cause is given for {test}: {run.outcomes[test].reason}"
        for test in sorted(failed)
        if not cause_of(test, causes)
    ]
    if not run.broken:
        found += [
            f"nothing fails that matches {pattern!r}; take it out of conformance/causes.yaml"
            for pattern in causes
            if not fnmatch.filter([*failed, *left_out], pattern)
        ]
    passed = sum(outcome.outcome == "passed" for outcome in run.outcomes.values())
    if passed < floor:
        found.append(f"{passed} tests pass, and {floor} did (conformance/floor.yaml)")
    return found


def unknown(run: Run, slow: Collection[str]) -> list[str]:
    """A sentence for each name of a slow test that a run of everything does not have."""
    return [
        f"the suite has no test {test}; take it out of conformance/slow.txt"
        for test in sorted(slow)
        if test not in run.outcomes
    ]


def site_of(finding: Finding) -> str:
    """``racecheck cudapy/test_sm.py:91``: the key of a finding, by rule and line."""
    place = finding.place
    where = f"{_file(place.file)}:{place.line}" if place else f"in {finding.kernel}"
    return f"{finding.rule} {where}"


def _file(path: str) -> str:
    """A test's or a package's file, wherever it is installed; for a file made by a test, its name."""
    if "/numba/cuda/tests/" in path:
        return name_of(path)
    _, installed, rest = path.partition("/site-packages/")
    return rest if installed else path.rpartition("/")[2]


def unjudged(findings: Sequence[Finding], judged: Mapping[str, str]) -> list[str]:
    """A sentence for each finding that is not judged."""
    return [
        f"not judged yet (conformance/judged.yaml): {site_of(finding)}: {finding.message}"
        for finding in sorted(findings, key=site_of)
        if not cause_of(site_of(finding), judged)
    ]
