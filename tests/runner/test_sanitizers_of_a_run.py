"""Levels, and which cases the costly sanitizers see: what the runner asks of a device and tells of it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace

import pytest

from kcheck.cli.sanitize import Sanitize
from kcheck.model import (
    IF_COMPILED,
    INSTRUMENTED,
    SANITIZERS,
    CaseFinished,
    Finding,
    Outcome,
    RunStarted,
    SpecFinished,
    Status,
)
from kcheck.model.levels import STRICT, level_words
from kcheck.runner import Options, run
from kcheck.runner.budget import ALWAYS

SPEC = """
kcheck: 1
op: twice
reference: r.py:twice
kernel: k.py:twice
dims: {N: 1..40}
inputs: {x: [N]}
outputs: {y: [N]}
launch: {args: [x, y], grid: [1], block: [64]}
cases: {count: 30}
"""
KERNEL = "@cuda.jit\ndef twice(x, y):\n    pass\n"
REFERENCE = "def twice(x):\n    return 2 * x\n"


@dataclass
class Racing:
    """A device on which every case has a race, seen in instrumented code alone, where a case takes ``seconds``.

    Attributes:
        compiled: kernels that were not in its caches; ``compiles``: how many each case adds.
    """

    seconds: float = 0.0
    compiles: int = 1
    compiled: int = 0
    asked: list[frozenset[str]] = field(default_factory=list)
    name: str = "cpu"
    description: str = "scripted"
    lost: str = ""
    instruments: tuple[str, ...] = INSTRUMENTED
    compiles_in_process = True

    def prepare(self, spec) -> None:
        """Nothing to prepare."""

    def run(self, spec, arrays, *, timeout, instrument: Collection[str] = ()):
        """The right result, and the race."""
        self.asked.append(frozenset(instrument))
        self.compiled += self.compiles
        findings = (Finding("racecheck", "two threads write y[0]"),) if "racecheck" in instrument else ()
        y = 2 * arrays.allocation("x").view()
        spent = self.seconds if instrument else 0.0
        return Outcome(arrays.case, self.name, {"y": y}, {}, findings, (), ("memcheck", *instrument), spent)

    def watch(self, spec, arrays, targets, *, wanted, timeout) -> None:
        """It has no code that watches stores."""

    def with_noise(self, spec, arrays, noise, *, timeout) -> None:
        """It has no code that rounds at random."""


def finished(project, device: Racing, more: str = "", **options):
    """The cases and the end of a run of one spec."""
    found = list(run([project.spec(SPEC + more, KERNEL, REFERENCE)], Options(**options), device))
    cases = [event for event in found if isinstance(event, CaseFinished)]
    (end,) = (event for event in found if isinstance(event, SpecFinished))
    return cases, end


def seen(end: SpecFinished) -> dict[str, int]:
    """Cases by sanitizer."""
    return {each.name: each.cases for each in end.sanitizers}


def test_every_case_where_it_costs_nothing(project):
    """The costly ones see all 30 cases, each finding is an error, and the end says so by sanitizer and level."""
    device = Racing()
    cases, end = finished(project, device)
    assert device.asked == [frozenset(INSTRUMENTED)] * 30
    assert {event.verdict.status for event in cases} == {Status.FAILED}
    assert [(each.name, each.level) for each in end.sanitizers] == list(SANITIZERS.items())
    assert seen(end) == {**dict.fromkeys(SANITIZERS, 0), **dict.fromkeys(("memcheck", *INSTRUMENTED), 30)}


def test_the_first_cases_where_it_costs_more_than_the_run(project):
    """Where a case takes an hour in instrumented code, the first few are instrumented and counted."""
    device = Racing(seconds=3600.0)
    _, end = finished(project, device)
    assert [bool(names) for names in device.asked] == [True] * ALWAYS + [False] * (30 - ALWAYS)
    assert seen(end)["racecheck"] == ALWAYS
    assert seen(end)["memcheck"] == 30


def test_with_full_caches_later_cases_are_checked_if_their_code_is_there(project):
    """If the first cases compiled nothing, an earlier run decided what to compile. `--sanitize` overrules it."""
    device = Racing(compiles=0)
    finished(project, device)
    costly = frozenset(INSTRUMENTED)
    assert device.asked == [costly] * ALWAYS + [costly | {IF_COMPILED}] * (30 - ALWAYS)
    named = Racing(compiles=0)
    finished(project, named, sanitize={"racecheck": "warn"})
    assert named.asked == [costly] * 30


def test_what_the_command_line_names_sees_every_case(project):
    """`--sanitize racecheck` is for all cases whatever they cost; the others keep to their time."""
    device = Racing(seconds=3600.0)
    cases, end = finished(project, device, sanitize={"racecheck": "warn"})
    assert [len(names) for names in device.asked] == [3] * ALWAYS + [1] * (30 - ALWAYS)
    assert seen(end)["racecheck"] == 30
    assert {event.verdict.status for event in cases} == {Status.PASSED}
    assert {finding.severity for event in cases for finding in event.verdict.findings} == {"warn"}


@pytest.mark.parametrize("options", [{"keyword": "iter"}, {"case_seed": 5}])
def test_cases_that_are_picked_out_are_always_checked(project, options):
    """A replay runs with everything."""
    device = Racing(seconds=3600.0)
    finished(project, device, **options)
    assert set(device.asked) == {frozenset(INSTRUMENTED)}


@pytest.mark.parametrize(
    ("more", "options"),
    [
        ("sanitize: {racecheck: off}\n", {}),
        ("", {"sanitize": {"racecheck": "off"}}),
        ("sanitize: {racecheck: error}\n", {"sanitize": {"racecheck": "off"}}),
    ],
)
def test_what_is_off_costs_nothing_and_is_not_told(project, more, options):
    """Off in the spec or on the command line, which has the last word: not instrumented, not found, not listed."""
    device = Racing()
    cases, end = finished(project, device, more, **options)
    assert device.asked == [frozenset({"initcheck", "overflow"})] * 30
    assert {event.verdict.status for event in cases} == {Status.PASSED}
    assert "racecheck" not in seen(end)


def test_a_device_is_asked_for_what_it_can_do(project):
    """On a device without instrumented code nothing is asked for, and the costly ones saw no case."""
    device = Racing(instruments=())
    _, end = finished(project, device)
    assert set(device.asked) == {frozenset()}
    assert seen(end)["racecheck"] == 0


def test_the_replay_line_and_the_report_carry_the_levels(project):
    """A case that failed at a level of the command line is replayed at that level."""
    device = Racing()
    spec = project.spec(SPEC, KERNEL, REFERENCE)
    found = list(run([spec], Options(sanitize={"racecheck": "error", "overflow": "off"}), device))
    (started,) = (event for event in found if isinstance(event, RunStarted))
    assert started.sanitize == {"racecheck": "error", "overflow": "off"}
    replays = [event.replay for event in found if isinstance(event, CaseFinished)]
    assert all("--sanitize racecheck --sanitize overflow=off" in line for line in replays)


@dataclass
class Slow(Racing):
    """A device on which instrumented code reaches the time limit, so that plain code runs instead."""

    def run(self, spec, arrays, *, timeout, instrument: Collection[str] = ()):
        """The result of the plain launch."""
        outcome = super().run(spec, arrays, timeout=timeout)
        self.asked[-1] = frozenset(instrument)
        return outcome


def test_a_named_sanitizer_that_does_not_finish_is_an_error(project):
    """A case that racecheck did not check does not pass under `--sanitize racecheck`."""
    cases, end = finished(project, Slow(), sanitize={"racecheck": "error"})
    assert {event.verdict.status for event in cases} == {Status.ERROR}
    (finding,) = cases[0].verdict.findings
    assert finding.rule == cases[0].verdict.rule == "unchecked"  # and not "racecheck": it found nothing
    assert finding.message == "racecheck did not finish checking this case within 10 s, half of the time limit"
    assert seen(end)["racecheck"] == 0


class SlowAndWrong(Slow):
    """And the result is wrong."""

    def run(self, spec, arrays, *, timeout, instrument: Collection[str] = ()):
        """Three times the input."""
        outcome = super().run(spec, arrays, timeout=timeout, instrument=instrument)
        return replace(outcome, outputs={"y": 3 * arrays.allocation("x").view()})


def test_wrong_values_come_before_a_check_that_does_not_finish(project):
    """They are an error of the kernel."""
    cases, _ = finished(project, SlowAndWrong(), sanitize={"racecheck": "error"})
    wrong = [event.verdict for event in cases if event.verdict.status is Status.FAILED]
    assert wrong
    assert {verdict.rule for verdict in wrong} == {"mismatch"}
    assert all([finding.rule for finding in verdict.findings] == ["unchecked"] for verdict in wrong)


def test_a_replayed_case_that_a_sanitizer_does_not_finish_is_an_error(project):
    """A replay line has no names if the run had none, and all sanitizers check the case."""
    (case, *_), _ = finished(project, Slow())
    replayed, _ = finished(project, Slow(), case_seed=case.verdict.case.seed)
    assert {event.verdict.status for event in replayed} == {Status.ERROR}


def test_a_sanitizer_that_is_not_named_may_give_up(project):
    """By default, a slow case is judged without the sanitizers that need too long."""
    cases, _ = finished(project, Slow())
    assert {event.verdict.status for event in cases} == {Status.PASSED}


ALL = Sanitize().levels([("all", "error")])


def test_all_leaves_off_what_a_spec_switches_off(project):
    """Only its own name switches on a sanitizer that is off in a spec."""
    off = "sanitize: {racecheck: off}\n"
    device = Racing(seconds=3600.0)
    cases, end = finished(project, device, off, sanitize=ALL)
    assert set(device.asked) == {frozenset({"initcheck", "overflow"})}
    assert len(device.asked) == 30
    assert "racecheck" not in seen(end)
    named = Sanitize().levels([("all", "error"), ("racecheck", "error")])
    cases, _ = finished(project, Racing(), off, sanitize=named)
    assert {event.verdict.status for event in cases} == {Status.FAILED}


@pytest.mark.parametrize(
    ("chosen", "words"),
    [
        ([("all", "error")], ("all",)),
        ([("all", STRICT)], ("all=error",)),
        ([("all", "off"), ("memcheck", "error")], ("all=off", "memcheck")),
        ([("memcheck", "warn"), ("all", "error")], ("all",)),
        ([("racecheck", "warn")], ("racecheck=warn",)),
    ],
)
def test_a_replay_line_has_the_shortest_options(chosen, words):
    """`all` is one option, not eight."""
    assert level_words(Sanitize().levels(chosen)) == words
    assert Sanitize().levels([Sanitize().convert(word, None, None) for word in words]) == Sanitize().levels(chosen)
