"""Event streams as the runner yields them, for tests of the reporters."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

from kcheck.model import (
    Case,
    CaseFinished,
    Comparison,
    Distribution,
    Event,
    Fault,
    Finding,
    RunFinished,
    RunStarted,
    Sanitized,
    Span,
    SpecFinished,
    SpecRefused,
    SpecStarted,
    Status,
    Verdict,
)

START = datetime(2026, 3, 1, 14, 30, 0, tzinfo=timezone(timedelta(hours=2)))


def started(specs: int = 1, **changes: Any) -> RunStarted:
    fields: dict[str, Any] = {
        "version": "0.1.0",
        "command": "kcheck run specs/",
        "device": "simulator",
        "device_name": "Numba's CUDA simulator",
        "specs": specs,
        "started": START,
    }
    return RunStarted(**{**fields, **changes})


def spec_started(op: str = "softmax", path: str | None = None, cases: int = 2, **changes: Any) -> SpecStarted:
    fields: dict[str, Any] = {
        "path": path or f"specs/{op}.yaml",
        "line": 4,
        "op": op,
        "description": "",
        "tags": (),
        "cases": cases,
        "seed": 0,
        "started": START,
    }
    return SpecStarted(**{**fields, **changes})


def case(
    op: str = "softmax",
    number: int = 0,
    status: Status = Status.PASSED,
    *,
    path: str | None = None,
    comparisons: tuple[Comparison, ...] = (),
    findings: tuple[Finding, ...] = (),
    notes: tuple[str, ...] = (),
    checked: tuple[str, ...] = (),
    **changes: Any,
) -> CaseFinished:
    path = path or f"specs/{op}.yaml"
    fields: dict[str, Any] = {
        "spec": path,
        "op": op,
        "label": f"iter_{number}",
        "seed": 13013218331088976615 + number,
        "dims": {"M": 1 + number, "N": 65},
        "dtypes": {"T": "float32"},
        "layouts": {"x": "contiguous", "y": "contiguous"},
        "values": {"x": Distribution("normal")},
        "params": {},
    }
    made = Case(**{**fields, **changes})
    verdict = Verdict(made, status, "simulator", comparisons, findings, notes, 0.25, checked)
    return CaseFinished(path, 4, verdict, f"kcheck run {path} --case-seed {made.seed}", START)


def mismatch(output: str = "y", **changes: Any) -> Comparison:
    fields: dict[str, Any] = {
        "output": output,
        "dtype": "float32",
        "shape": (1, 65),
        "method": "conditioned",
        "passed": False,
        "elements": 65,
        "beyond": 64,
        "worst": (0, 64),
        "actual": 0.015384615398943424,
        "expected": 0.01539215686274,
        "error": 7.5414638e-06,
        "allowed": 1.192e-07,
        "floor": 3.97e-08,
        "max_abs": 7.5414638e-06,
        "max_rel": 4.9e-4,
        "max_ulp": 8097.0,
        "ratio": 63.3,
    }
    return Comparison(**{**fields, **changes})


def spec_finished(op: str = "softmax", path: str | None = None, **changes: Any) -> SpecFinished:
    fields: dict[str, Any] = {
        "path": path or f"specs/{op}.yaml",
        "op": op,
        "passed": 0,
        "failed": 0,
        "errors": 0,
        "skipped": 0,
        "findings": (),
        "notes": (),
        "seconds": 3.21,
    }
    return SpecFinished(**{**fields, **changes})


OUT_OF_BOUNDS = Finding(
    rule="memcheck",
    message="read of 4 bytes out of bounds: x has 65 elements along axis 1",
    fix="compare the index with N before it is used",
    array="x",
    index=(0, 65),
    kernel="softmax_pad0",
    block=(0, 0, 0),
    thread=(65, 0, 0),
    place=Span("kernels/buggy/softmax.py", 14, 9),
    count=128,
)
RACE = Finding(
    rule="racecheck",
    message="two threads write one element without a barrier between",
    array="shared",
    index=(3,),
    kernel="softmax_pad0",
    block=(0, 0, 0),
    thread=(3, 0, 0),
    other=((0, 0, 0), (4, 0, 0)),
    place=Span("kernels/buggy/softmax.py", 21, 5),
    other_place=Span("kernels/buggy/softmax.py", 14, 9),  # the access out of bounds is one side of the race
)
VACUOUS = Finding(
    rule="vacuous",
    message="a kernel that writes only zeros would pass every case",
    severity="warn",
    fix="add value distributions for which the output is not zero",
)


def replace_place(finding: Finding, place: Span) -> Finding:
    """The finding at another place."""
    return replace(finding, place=place, other_place=None)


def all_passing() -> list[Event]:
    """Two specs, every case good; one note about the device."""
    note = "racecheck is not checked on the simulator"
    return [
        started(2),
        spec_started("attention"),
        case("attention", 0, notes=(note,)),
        case("attention", 1, notes=(note,)),
        spec_finished("attention", passed=2, notes=(note,)),
        spec_started("softmax"),
        case("softmax", 0, notes=(note,)),
        case("softmax", 1, notes=(note,)),
        spec_finished("softmax", passed=2, notes=(note,), seconds=0.07),
        RunFinished(3.4, False),
    ]


def everything() -> list[Event]:
    """One of each: good, refused, failing in three ways, an error of the reference, warnings, not run."""
    bad = "softmax_pad0"
    path = "specs/buggy/softmax.yaml"
    values = {"x": Distribution("all_negative")}
    alike = [
        case(bad, n, Status.FAILED, path=path, comparisons=(mismatch(),), values=values) for n in (40, 3, 7, 19)
    ]
    many = [
        case(bad, n, Status.FAILED, path=path, comparisons=(mismatch(),), values=values) for n in range(50, 80)
    ]
    stray = case(
        bad, 5, Status.FAILED, path=path, findings=(OUT_OF_BOUNDS, RACE), layouts={"x": "strided", "y": "offset"}
    )
    nan = mismatch(
        actual=math.nan,
        error=math.nan,
        ratio=None,
        beyond=1,
        max_ulp=None,
        why="NaN where the reference is finite",
    )
    nans = case(
        bad, 9, Status.FAILED, path=path, comparisons=(nan,), values={"x": Distribution("offset", (1000, 1))}
    )
    lost = Finding(
        "reference", "the reference raised ZeroDivisionError: division by zero", fix="correct the reference"
    )
    lost_case = case("rmsnorm", 0, Status.ERROR, findings=(lost,))
    faults = (
        Fault(Span("specs/typo.yaml", 14, 9), "unknown dim 'n' in shape [b, n]", "did you mean 'N'?"),
        Fault(Span("specs/typo.yaml", 20, 1), "unknown key 'invariant'", "did you mean 'invariants'?"),
    )
    return [
        started(5),
        spec_started("attention"),
        *(case("attention", n) for n in range(2)),
        spec_finished("attention", passed=2),
        spec_started(bad, path, cases=50),
        *(case(bad, n, path=path) for n in (0, 1)),
        *alike,
        stray,
        nans,
        *many,
        spec_finished(bad, path, passed=2, failed=36, skipped=12, seconds=61.0),
        SpecRefused("specs/typo.yaml", faults, START),
        spec_started("rmsnorm", cases=1),
        lost_case,
        spec_finished("rmsnorm", errors=1, seconds=0.4),
        spec_started("gelu", cases=1),
        case("gelu", 0),
        spec_finished("gelu", passed=1, findings=(VACUOUS,), notes=("racecheck is not checked on the simulator",)),
        RunFinished(70.04, False),
    ]


def hostile() -> list[Event]:
    """Names and messages that hold markup, escape sequences, control and CJK characters."""
    op = "[bold]op[/bold]\x1b[31mred\x1b]0;title\x07\x00\n注意力机制"
    finding = Finding("launch", "line one\r\n]]> & <b> \x1b[2J\u202etxet\ud800", place=Span("k<&>\x1b[1m.py", 3))
    return [
        started(1, device_name="GPU\x1b[5m <&>"),
        spec_started(op, "specs/[red]/dir with space/注意力\x07.yaml", cases=1),
        case(op, 0, Status.FAILED, path="specs/[red]/dir with space/注意力\x07.yaml", findings=(finding,)),
        spec_finished(op, "specs/[red]/dir with space/注意力\x07.yaml", failed=1),
        RunFinished(0.5, False),
    ]


def interrupted() -> list[Event]:
    """The stream as it stands when it breaks off within a spec."""
    return [started(3), spec_started("attention", cases=5), case("attention", 0), case("attention", 1)]


def partly_sanitized() -> list[Event]:
    """Three specs with levels of the command line; of two, the costly sanitizers saw a part of the cases."""
    events: list[Event] = [started(3, device="cpu", sanitize={"racecheck": "error", "nondeterministic": "off"})]
    for op, seen in (("attention", 12), ("gelu", 1000), ("softmax", 5)):
        sanitizers = (
            Sanitized("memcheck", "error", 1000),
            Sanitized("racecheck", "error", 1000),
            Sanitized("initcheck", "error", seen),
            Sanitized("overflow", "warn", seen),
            Sanitized("mutated", "error", 999),
        )
        events += [
            spec_started(op, cases=1000),
            case(op, 0, checked=("memcheck", "racecheck", "overflow")),
            spec_finished(op, passed=1000, sanitizers=sanitizers),
        ]
    return [*events, RunFinished(9.6, False)]


def missing_barrier() -> list[Event]:
    """A matmul without the barrier after loading its tiles: 12 cases, of which only the empty one passes."""
    path, file = "specs/buggy/matmul.yaml", "kernels/buggy/matmul.py"
    fix = "add cuda.syncthreads() between lines 28 and 31"
    there = {"kernel": "matmul", "block": (0, 0, 0), "thread": (0, 0, 0)}
    races = [
        Finding(
            "racecheck",
            f"thread (1, 0, 0) reads {tile}[0, 0] while thread (0, 0, 0) writes it, with no synchronization"
            " between them",
            fix=fix,
            array=tile,
            index=(0, 0),
            other=((0, 0, 0), (1, 0, 0)),
            place=Span(file, line),
            other_place=Span(file, 31),
            count=3840,
            **there,
        )
        for tile, line in (("a_tile", 28), ("b_tile", 29))
    ]
    unset = Finding("initcheck", "stores a value computed from uninitialized data", place=Span(file, 35), **there)
    varies = Finding("nondeterministic", "another schedule changes 4 of 4 elements of c", array="c", index=(0, 0))
    cases = []
    for n in range(12):
        wrong = (mismatch("c"),) if n not in (0, 3) else ()
        findings = (*races, unset, *((varies,) if 4 <= n < 8 else ()))
        changes: dict[str, Any] = {
            "path": path,
            "dims": {"M": 1 + n, "N": 1 + n % 3, "K": n % 5 if n else 0},
            "dtypes": {"T": ("float32", "float16")[n % 2]},
            "layouts": {"a": "strided", "b": "contiguous", "c": "contiguous"},
            "values": {"a": Distribution("offset"), "b": Distribution("normal")},
            "checked": ("racecheck", "initcheck"),
        }
        if n % 5 == 0:
            cases.append(case("matmul", n, **changes))
        else:
            cases.append(case("matmul", n, Status.FAILED, comparisons=wrong, findings=findings, **changes))
    failed = sum(event.verdict.status is Status.FAILED for event in cases)
    return [
        started(1, device="cpu"),
        spec_started("matmul", path, cases=12),
        *cases,
        spec_finished("matmul", path, passed=12 - failed, failed=failed),
        RunFinished(3.3, False),
    ]


STREAMS = {
    "missing_barrier": missing_barrier,
    "partly_sanitized": partly_sanitized,
    "all_passing": all_passing,
    "everything": everything,
    "hostile": hostile,
    "interrupted": interrupted,
    "nothing": lambda: [started(0), RunFinished(0.0, False)],
}
NOW = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)
