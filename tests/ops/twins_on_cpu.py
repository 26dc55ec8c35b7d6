"""Runs buggy twins on the cpu device in this process, up to where each is caught; prints what came of it as JSON.

usage: python -m tests.ops.twins_on_cpu NAME...

What costs is to compile: sanitizers that want code of their own, or further launches, look only where one of them
is expected to find the bug; cases at which a bug does nothing are taken from those that need no more compilation.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from benchmarks.evidence.corpus import Twin, twins
from benchmarks.evidence.trial import cpu_device, look
from kcheck.device import Device
from kcheck.generator import plan
from kcheck.model import INSTRUMENTED, Case, CaseFinished, Level, OpSpec, Status, Verdict
from kcheck.report.causes import causes
from kcheck.report.layout import labeled
from kcheck.report.paragraph import cause_rows
from kcheck.runner import Options
from kcheck.runner.artifact import ArtifactCheck
from kcheck.runner.options import replay
from kcheck.specfile import load_spec

CASES = 30
HARMLESS = 3


def outcome(device: Device, twin: Twin, spec: OpSpec) -> dict[str, Any]:
    """What was seen: the cases up to the first that fails as expected, and some at which the twin must pass."""
    expected = set(twin.caught_by)
    costly = (*INSTRUMENTED, "nondeterministic")
    levels: dict[str, Level] = {name: "error" if name in expected else "off" for name in costly}
    spec = dataclasses.replace(spec, sanitize={**spec.sanitize, **levels})
    instrument = [name for name in INSTRUMENTED if name in expected]
    cases = plan(spec, count=CASES, master=spec.seed)
    compiled = set()
    seen = []
    verdicts: list[Verdict] = []
    caught = False
    for number, case in enumerate(cases):
        compiled.add(specialization(case))
        seen.append(look(device, spec, case, instrument=instrument if number < 10 else (), judged=verdicts.append))
        caught = bool(seen[-1].rules() & expected)
        if caught:
            break
    harmless = [
        case for case in cases[len(seen) :] if twin.is_harmless(case.dims) and specialization(case) in compiled
    ]
    seen += [look(device, spec, case, instrument=instrument) for case in harmless[:HARMLESS]]
    if not caught and "artifact" in expected and spec.artifact is not None:
        with ArtifactCheck(spec, device, cases) as check:
            caught = bool(check.result(device.launched(spec))[0])
    wrong = [
        f"{one.label} {dict(one.dims)}: {sorted(one.rules())} {one.problem}"
        for one in seen
        if one.problem or (one.fails() and twin.is_harmless(one.dims))
    ]
    return {
        "caught": caught,
        "wrong": wrong,
        "rules": sorted(set().union(*(one.rules() for one in seen))),
        "lines": longest_paragraph(spec, verdicts),
    }


def longest_paragraph(spec: OpSpec, verdicts: Sequence[Verdict]) -> int:
    """The most lines that the report takes for one bug at 80 columns."""
    run = [
        CaseFinished(spec.path, 1, verdict, replay(spec, verdict.case, Options()), datetime.now(UTC))
        for verdict in verdicts
    ]
    found = causes([event for event in run if event.verdict.status is Status.FAILED])
    return max(
        (sum(1 for row in cause_rows(cause, run) for _ in labeled(row, 2, 80)) for cause in found), default=0
    )


def specialization(case: Case) -> tuple[tuple[str, str], ...]:
    """What decides which code a case runs."""
    return (*case.dtypes.items(), *case.layouts.items())


def main(names: list[str]) -> None:
    """Print what came of the twins of these names."""
    chosen = [(twin, load_spec(twin.spec)) for twin in twins() if twin.name in names]
    with contextlib.redirect_stdout(sys.stderr):
        device = cpu_device([spec for _, spec in chosen])
        answer = {}
        for twin, spec in chosen:
            device.prepare(spec)
            answer[twin.name] = outcome(device, twin, spec)
    print(json.dumps(answer))


if __name__ == "__main__":
    main(sys.argv[1:])
