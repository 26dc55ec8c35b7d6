"""The stream of events of a run."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from kcheck.device import choose
from kcheck.errors import UserError
from kcheck.generator import ShapeClasses, plan
from kcheck.generator.shapes import Shapes
from kcheck.model import (
    CaseFinished,
    Fault,
    Finding,
    Outcome,
    RunFinished,
    RunStarted,
    Span,
    SpecFinished,
    SpecRefused,
    SpecStarted,
    Status,
)
from kcheck.runner import Options, Summary, execute, run, select
from kcheck.runner.options import replay

SPEC = """
kcheck: 1
op: twice
tags: [quick]
kernel: k.py:twice
reference: r.py:twice
dims: {N: 1..40}
inputs: {x: [N]}
outputs: {y: [N]}
launch: {args: [x, y, N], grid: ["ceildiv(N, 32)"], block: [32]}
cases: {count: 5, seed: 3}
examples: [{dims: {N: 33}}, {dims: {N: 40}}]
"""
KERNEL = "@cuda.jit\ndef twice(x, y, n):\n    i = cuda.grid(1)\n    if i < n:\n        y[i] = 2 * x[i]\n"
BUGGY = KERNEL.replace("2 * x[i]", "2 * x[i] + 1")
REFERENCE = "def twice(x):\n    return 2 * x\n"


def events(specs, device=None, **options):
    """Every event of a run."""
    return list(run(specs, Options(timeout=20.0, **options), device or choose("simulator")))


def cases(found):
    """The finished cases among events."""
    return [event for event in found if isinstance(event, CaseFinished)]


def test_a_spec_is_not_read_again_for_each_case(project, monkeypatch):
    """Its dims and constraints are read for the plan and for the classes of the sizes that ran, not per case."""
    made = []
    plain = Shapes.__init__
    monkeypatch.setattr(Shapes, "__init__", lambda self, spec: made.append(spec.path) or plain(self, spec))
    found = events([project.spec(SPEC, KERNEL, REFERENCE)])
    assert len(cases(found)) == 7
    assert len(made) == 2


def test_a_run_yields_its_events_in_order(project):
    """RunStarted, the spec's start, its examples, its generated cases, its end, RunFinished."""
    found = events([project.spec(SPEC, KERNEL, REFERENCE)])
    assert [type(event) for event in found] == [
        RunStarted,
        SpecStarted,
        *[CaseFinished] * 7,
        SpecFinished,
        RunFinished,
    ]
    labels = [event.verdict.case.label for event in cases(found)]
    assert labels[:2] == ["example_0", "example_1"]
    assert (labels[2], labels[-1]) == ("least", "largest")
    assert all(label.startswith("iter_") for label in labels[3:-1])
    assert all(event.verdict.status is Status.PASSED for event in cases(found))
    assert all(event.verdict.seconds > 0 for event in cases(found))
    finished = found[-2]
    assert (finished.passed, finished.failed, finished.errors, finished.skipped) == (7, 0, 0, 0)
    assert found[0].device == "simulator"
    assert found[0].started.tzinfo is not None
    assert found[1].line == 4


def test_a_buggy_kernel_fails_every_case_and_the_summary_counts_them(project):
    """FAILED is a verdict; the run goes on."""
    summary = Summary()
    for event in events([project.spec(SPEC, BUGGY, REFERENCE)]):
        summary.handle(event)
    assert (summary.passed, summary.failed, summary.errors, summary.cases) == (0, 7, 0, 7)


@pytest.mark.parametrize(("most", "ran"), [(1, 1), (3, 3), (None, 14)])
def test_max_failures_counts_over_the_whole_run(project, most, ran):
    """The rest is skipped, in this spec and in the next."""
    spec = project.spec(SPEC, BUGGY, REFERENCE)
    found = events([spec, spec], max_failures=most)
    assert len(cases(found)) == ran
    assert sum(event.skipped for event in found if isinstance(event, SpecFinished)) == 14 - ran


def test_every_replay_line_runs_exactly_its_case(project):
    """Parsed back into options, the line of each case runs that case alone, with the same seed and dims."""
    spec = project.spec(SPEC, KERNEL, REFERENCE)
    for event in cases(events([spec], seed=7)):
        words = shlex.split(event.replay)
        assert words[:3] == ["kcheck", "run", str(project.root / "op.yaml")]
        flags = dict(zip(words[3::2], words[4::2], strict=True))
        again = cases(
            events(
                [spec],
                count=int(flags["--cases"]) if "--cases" in flags else None,
                case_seed=int(flags["--case-seed"]) if "--case-seed" in flags else None,
                seed=int(flags["--seed"]) if "--seed" in flags else None,
                keyword=flags.get("-k", ""),
            )
        )
        (one,) = again
        assert one.verdict.case.seed == event.verdict.case.seed
        assert one.verdict.case.dims == event.verdict.case.dims
        assert one.verdict.case.values == event.verdict.case.values


def test_a_replay_line_quotes_its_path_and_keeps_the_device(project):
    """A path with a blank is one word; the device is named where it was given."""
    spec = project.spec(SPEC, KERNEL, REFERENCE)
    case = cases(events([spec]))[2].verdict.case
    line = replay(spec, case, Options(device="simulator"))
    assert " " in str(project.root), "or this shows nothing"
    assert line == f"kcheck run '{project.root}/op.yaml' --case-seed {case.seed} --device simulator"


def test_example_1_is_not_example_10(project):
    """The line of example_1 does not select example_10 as well."""
    examples = ", ".join(f"{{dims: {{N: {n}}}}}" for n in range(1, 13))
    spec = project.spec(SPEC.replace("{dims: {N: 33}}, {dims: {N: 40}}", examples), KERNEL, REFERENCE)
    (one,) = [e for e in cases(events([spec], count=0)) if e.verdict.case.label == "example_1"]
    flags = shlex.split(one.replay)
    keyword = flags[flags.index("-k") + 1]
    assert [e.verdict.case.label for e in cases(events([spec], count=0, keyword=keyword))] == ["example_1"]


def test_a_case_seed_runs_one_case_of_that_seed(project):
    """Examples and the spec's count do not matter then."""
    (one,) = cases(events([project.spec(SPEC, KERNEL, REFERENCE)], case_seed=99))
    assert (one.verdict.case.seed, one.verdict.case.label) == (99, "seed")


def test_a_keyword_selects_cases_and_a_spec_without_any_says_nothing(project):
    """What is not asked for makes no event."""
    spec = project.spec(SPEC, KERNEL, REFERENCE)
    assert [e.verdict.case.label for e in cases(events([spec], keyword="example_1 and quick"))] == ["example_1"]
    assert [type(event) for event in events([spec], keyword="gelu")] == [RunStarted, RunFinished]
    with pytest.raises(UserError, match="column 1"):
        run([spec], Options(keyword="or"), choose("simulator"))


def test_tags_select_specs_and_keep_the_refused_ones(project):
    """A spec with one of the tags is kept; one that cannot be read is never dropped unseen."""
    spec = project.spec(SPEC, KERNEL, REFERENCE)
    refused = SpecRefused("b.yaml", (), None)
    assert select([spec, refused], ["quick", "other"]) == (spec, refused)
    assert select([spec, refused], ["other"]) == (refused,)
    assert select([spec, refused], []) == (spec, refused)


@pytest.mark.parametrize(
    ("kernel", "reference", "file", "line", "says"),
    [
        ("import nowhere\n" + KERNEL, REFERENCE, "k.py", 4, "nowhere"),
        (KERNEL.replace("@cuda.jit\n", ""), REFERENCE, "k.py", 4, "is not a kernel"),
        (KERNEL, "1 / 0\n" + REFERENCE, "r.py", 3, "ZeroDivisionError"),
    ],
)
def test_code_that_cannot_be_used_refuses_its_spec_and_the_others_run(
    project, kernel, reference, file, line, says
):
    """SpecRefused names the user's file and line; the next spec is run."""
    broken = project.spec(SPEC, kernel, reference)
    found = events([broken, project.spec(SPEC, KERNEL, REFERENCE)])
    (refused,) = [event for event in found if isinstance(event, SpecRefused)]
    (fault,) = refused.faults
    assert fault.span.file.endswith(file)
    assert fault.span.line == line
    assert says in fault.what
    assert len(cases(found)) == 7


def test_a_refused_spec_is_passed_on(project):
    """What the caller could not load stands in its place in the stream."""
    refused = SpecRefused("b.yaml", (Fault(Span("b.yaml"), "broken"),), None)
    assert events([refused])[1] is refused


@dataclass
class Scripted:
    """A device that does what a test says at its second case."""

    action: str
    name: str = "scripted"
    description: str = "scripted"
    lost: str = ""
    runs: int = 0

    def prepare(self, spec):
        """Nothing to prepare."""

    instruments = ()
    compiles_in_process = False

    def run(self, spec, arrays, *, timeout, instrument=()):
        """The reference's own result; at the second case, what the test wants."""
        self.runs += 1
        if self.runs == 2 and self.action == "interrupt":
            raise KeyboardInterrupt
        if self.runs == 2:
            self.lost = "it fell off the bus"
        x = arrays.allocation("x").view()
        return Outcome(arrays.case, self.name, {"y": 2 * x}, {})


def test_ctrl_c_ends_the_run_with_what_is_known(project):
    """The spec and the run are finished, the rest counts as skipped, and the run says that it was interrupted."""
    spec = project.spec(SPEC, KERNEL, REFERENCE)
    found = events([spec, spec], Scripted("interrupt"))
    assert [type(event) for event in found] == [RunStarted, SpecStarted, CaseFinished, SpecFinished, RunFinished]
    assert found[-1].interrupted
    assert found[-1].not_begun == (spec.path,)
    assert found[-2].skipped == 6


def test_a_lost_device_runs_nothing_more_and_says_why(project):
    """Cases after the loss are skipped with the reason as a note."""
    spec = project.spec(SPEC, KERNEL, REFERENCE)
    found = events([spec, spec], Scripted("lose"))
    assert len(cases(found)) == 2
    ends = [event for event in found if isinstance(event, SpecFinished)]
    assert [end.skipped for end in ends] == [5, 7]
    assert all("it fell off the bus" in end.notes[0] for end in ends)


@dataclass
class Endless(Scripted):
    """A device on which no launch ends. ``before``: rules of other findings of such a launch."""

    before: tuple[str, ...] = ()

    def run(self, spec, arrays, *, timeout, instrument=()):
        """Always the time limit."""
        self.runs += 1
        found = (
            *(Finding(rule, "two threads") for rule in self.before),
            Finding("timeout", "it was still running"),
        )
        return Outcome(arrays.case, self.name, {}, {}, found)


@pytest.mark.parametrize("before", [(), ("racecheck",)])
def test_a_kernel_that_never_ends_is_not_waited_for_a_hundred_times(project, before):
    """After three cases that do not end, even if they race, the spec's others are not run. A note says so."""
    found = events([project.spec(SPEC, KERNEL, REFERENCE)] * 2, Endless("", before=before))
    ends = [event for event in found if isinstance(event, SpecFinished)]
    assert [(end.failed, end.skipped) for end in ends] == [(3, 4)] * 2
    (note,) = ends[0].notes
    assert note.endswith("did not end within 20 s; 4 other cases were not run")


@dataclass
class EndlessOnce(Scripted):
    """A device on which the second launch does not end."""

    def run(self, spec, arrays, *, timeout, instrument=()):
        """The time limit at the second case."""
        self.runs += 1
        found = (Finding("timeout", "it was still running"),) if self.runs == 2 else ()
        outputs = {} if found else {"y": 2 * arrays.allocation("x").view()}
        return Outcome(arrays.case, self.name, outputs, {}, found)


def test_a_case_that_does_not_end_does_not_hide_the_others(project):
    """One large case may be too slow; the other cases run."""
    found = events([project.spec(SPEC, KERNEL, REFERENCE)], EndlessOnce(""))
    (end,) = (event for event in found if isinstance(event, SpecFinished))
    assert (end.passed, end.failed, end.skipped) == (6, 1, 0)


def test_two_runs_give_the_same_verdicts(project):
    """All but times are equal, for a kernel that fails."""

    def verdicts():
        found = cases(events([project.spec(SPEC, BUGGY, REFERENCE)]))
        return [(e.verdict.case.seed, e.verdict.status, e.verdict.comparisons, e.verdict.findings) for e in found]

    assert repr(verdicts()) == repr(verdicts())


@pytest.mark.parametrize("at", range(6))
def test_ctrl_c_at_any_event_ends_the_run_in_good_order(project, at):
    """Whatever event it comes after, the spec at hand is finished, nothing else is begun, and the run says so."""
    spec = project.spec(SPEC.replace("count: 5", "count: 1"), KERNEL, REFERENCE)
    refused = SpecRefused("x.yaml", (Fault(Span("x.yaml"), "wrong"),), datetime.now(UTC))
    stream = run([spec, refused], Options(), choose("simulator"))
    found = [next(stream) for _ in range(at + 1)]
    found += [stream.throw(KeyboardInterrupt()), *stream]
    kinds = [type(event) for event in found]
    assert kinds[0] is RunStarted
    assert kinds[-1] is RunFinished
    assert found[-1].interrupted
    assert kinds.count(SpecStarted) == kinds.count(SpecFinished)
    assert SpecRefused not in kinds
    assert found[-1].not_begun == (() if SpecStarted in kinds else (spec.path,)) + ("x.yaml",)


BROKEN = "def twice(x):\n    raise RuntimeError('no')\n"


VACUOUS = SPEC.replace("inputs: {x: [N]}", "inputs: {x: {shape: [N], values: zeros}}")
SHUFFLES = KERNEL.replace("    if", "    cuda.shfl_sync(-1, 1, 0)\n    if")


@pytest.mark.parametrize(("kernel", "rules"), [(BUGGY, ["vacuous"]), (SHUFFLES, [])])
def test_a_kernel_that_never_ran_gives_no_advice_about_its_spec(project, kernel: str, rules: list[str]):
    """What keeps it from running is to be fixed first: a kernel that the device does not support."""
    (spec,) = [e for e in events([project.spec(VACUOUS, kernel, REFERENCE)]) if isinstance(e, SpecFinished)]
    assert [finding.rule for finding in spec.findings] == rules


@pytest.mark.parametrize(
    ("judging", "seconds", "says"), [(12.0, 14.0, True), (12.0, 30.0, False), (2.0, 2.5, False)]
)
def test_a_slow_reference_is_named(project, judging, seconds, says):
    """Where it took most of the time of a spec, and at least some seconds."""
    module = sys.modules["kcheck.runner.run"]
    of_a_run = module._Run(Options(), module.InProcess(Options(), Scripted("")))
    spec = project.spec(SPEC, KERNEL, REFERENCE)
    of_a_run._note_slow_reference(spec, module._Tally(ShapeClasses(spec), judging=judging), seconds)
    text = "comparing with the reference (r.py:twice) took 12 s of 14 s; "
    assert [note[: len(text)] for note in of_a_run._notes] == [text] * says


def test_the_time_of_the_reference_is_measured(project):
    """As a part of each case's time."""
    slow = REFERENCE.replace("):\n", "):\n    import time; time.sleep(0.05)\n", 1)
    spec = project.spec(SPEC, KERNEL, slow)
    device = choose("simulator")
    device.prepare(spec)
    done = execute(spec, plan(spec, count=1, master=1)[0], device, timeout=None)
    assert 0.05 <= done.judging <= done.verdict.seconds


def test_a_spec_that_cannot_be_judged_stops_at_its_first_case(project):
    """The error is told once and the other cases are not run; a note says why."""
    found = events([project.spec(SPEC, KERNEL, BROKEN)], Scripted(""))
    (case,) = cases(found)
    assert case.verdict.status is Status.ERROR
    (end,) = [event for event in found if isinstance(event, SpecFinished)]
    assert (end.errors, end.skipped) == (1, 6)
    assert end.notes == ("the first case could not be checked; 6 other cases were not run",)
