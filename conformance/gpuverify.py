"""``make conformance-gpuverify SOURCES=path``: GPUVerify's tests of CUDA kernels, judged by ``kcheck prove``.

SOURCES is a checkout of GPUVerify, or its folder testsuite/CUDA. A test says whether GPUVerify verifies the
kernel, which means: no race, no barrier that only some threads of a block reach, no condition that fails, no null
pointer. kcheck agrees with ``pass`` if it proves memcheck, racecheck and synccheck, and with an expected failure
if it refutes one of them. conformance/gpuverify_judged.yaml says why they differ. Writes
docs/conformance-gpuverify.md; exits with 1 for a difference that is not explained.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import yaml

from conformance.gpuverify_text import (
    ELEMENTS,
    HEADERS,
    MOST,
    GpuverifyTest,
    NotApplicable,
    read,
    specs,
    translated,
)
from conformance.page import cell
from kcheck.dataclass import dataclass

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "conformance-gpuverify.md"
JUDGED = Path(__file__).with_name("gpuverify_judged.yaml")
CHECKS = ("memcheck", "racecheck", "synccheck")
SMALLER = 1000
"""The greatest integer argument where the arrays are too small for all of them."""
_LIMIT = 120
_NOT_COMPILED = "the kernel does not compile: "


@dataclass(frozen=True, slots=True)
class Row:
    """What kcheck says about one test.

    Attributes:
        word: ``agree``, ``undecided``, ``wrong``, ``not applicable`` or ``fails`` (an error of kcheck).
        ours: ``proved``, or the checks that are refuted or undecided.
        told: why.
    """

    test: GpuverifyTest
    word: str
    ours: str = ""
    told: str = ""


def main(arguments: Sequence[str]) -> int:
    """Judge the tests; returns the exit code."""
    parser = argparse.ArgumentParser(prog="make conformance-gpuverify")
    parser.add_argument("sources", type=Path, help="a checkout of GPUVerify")
    parser.add_argument("names", nargs="*", help="folders of tests (all)")
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument("-n", type=int, default=len(os.sched_getaffinity(0)), help="processes (one per core)")
    given = parser.parse_args(arguments)
    root = next((r for r in (given.sources / "testsuite" / "CUDA", given.sources) if r.is_dir()), None)
    files = sorted(root.rglob("kernel.cu")) if root is not None else []
    if root is None or not files:
        print(f"SOURCES={given.sources} has no tests; pass a checkout of GPUVerify", file=sys.stderr)
        return 2
    tests = [read(path, root) for path in files]
    tests = [test for test in tests if not given.names or test.name in given.names]
    judged = yaml.safe_load(JUDGED.read_text()) or {}
    rows = []
    with ThreadPoolExecutor(given.n) as pool:
        for row in pool.map(judge, tests):
            told = "" if row.word != "wrong" or row.test.name not in judged else " (explained)"
            print(f"{row.test.name:60} {row.test.expected:5} {row.word}{told}  {row.ours} {row.told}", flush=True)
            rows.append(row)
    if not given.names:
        given.page.write_text(page(rows, judged))
    open_ = [row.test.name for row in rows if row.word in ("wrong", "fails") and row.test.name not in judged]
    for name in open_:
        print(f"conformance: {name}: not explained", file=sys.stderr)
    return int(bool(open_))


def judge(test: GpuverifyTest) -> Row:
    """Prove the kernels of a test."""
    try:
        with tempfile.TemporaryDirectory() as place:
            found = _proved(test, Path(place), MOST)
            if isinstance(found, str):
                return Row(test, "fails", told=found)
            if (why := _why(found, "undecided")).startswith(_NOT_COMPILED):
                return Row(test, "not applicable", told=f"NVRTC rejects it: {why.removeprefix(_NOT_COMPILED)}")
            if test.expected == "pass" and _words(found)["memcheck"] != "proved":
                again = _proved(test, Path(place), SMALLER)
                found = found if isinstance(again, str) else again
    except NotApplicable as reason:
        return Row(test, "not applicable", told=str(reason))
    return compared(test, found)


def _proved(test: GpuverifyTest, folder: Path, most: int) -> list[dict[str, Any]] | str:
    """The verdicts of each kernel, as ``kcheck prove`` has them in JSON; or why there are none."""
    (folder / "kcheck.yaml").write_text("")
    (folder / "kernel.cu").write_text(translated(test))
    shutil.copytree(HEADERS, folder / "include", dirs_exist_ok=True)
    found = specs(test, "kernel.cu", most)
    for kernel in found:
        (folder / f"{kernel.name}.yaml").write_text(kernel.spec)
    words = [sys.executable, "-m", "kcheck", "prove", "--format", "json", *(f"{k.name}.yaml" for k in found)]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    try:
        done = subprocess.run(
            words, cwd=folder, env=env, capture_output=True, text=True, timeout=_LIMIT, check=False
        )
    except subprocess.TimeoutExpired:
        return f"more than {_LIMIT} s"
    try:
        proofs: list[dict[str, Any]] = json.loads(done.stdout)["proofs"]
    except ValueError:
        proofs = []
    return proofs if len(proofs) == len(found) else (done.stderr.strip().splitlines() or ["no answer"])[0]


def _words(found: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """By check: ``refuted`` if one kernel is, else ``undecided`` if one kernel is, else ``proved``."""
    verdicts = {check: {one["checks"][check]["verdict"] for one in found} for check in CHECKS}
    return {
        check: next((word for word in ("refuted", "undecided") if word in have), "proved")
        for check, have in verdicts.items()
    }


def compared(test: GpuverifyTest, found: Sequence[Mapping[str, Any]]) -> Row:
    """The expected result and that of kcheck."""
    words = _words(found)
    told = next((why for word in ("refuted", "undecided") if (why := _why(found, word))), "")
    refuted = [check for check in CHECKS if words[check] == "refuted"]
    if refuted:
        ours = f"{', '.join(refuted)} refuted"
        if test.expected == "pass" and test.lockstep:
            reason = f"assumes that {test.lockstep} threads execute in lockstep, which CUDA does not promise"
            return Row(test, "not applicable", ours, reason)
        return Row(test, "agree" if test.expected == "fail" else "wrong", ours, told)
    if "undecided" in words.values():
        ours = f"{', '.join(check for check in CHECKS if words[check] == 'undecided')} undecided"
        return Row(test, "undecided", ours, told)
    return Row(test, "agree" if test.expected == "pass" else "wrong", "proved")


def _why(found: Sequence[Mapping[str, Any]], word: str) -> str:
    for one in found:
        for check in CHECKS:
            verdict = one["checks"][check]
            if verdict["verdict"] == word:
                reasons = verdict["reasons"]
                return str(verdict["finding"] or (reasons[0]["message"] if reasons else ""))
    return ""


def page(rows: Sequence[Row], judged: Mapping[str, str]) -> str:
    """The page: the totals, then a row for each test."""
    counts = Counter(row.word for row in rows)
    asked = [row for row in rows if row.word != "not applicable"]
    differ = [row for row in rows if row.word in ("wrong", "fails")]
    decided = [row for row in asked if row.word in ("agree", "wrong")]
    lines = [
        "# Conformance with GPUVerify's tests",
        "",
        "The tests of CUDA kernels of [GPUVerify](https://github.com/mc-imperial/gpuverify), which say whether",
        "its verifier accepts a kernel, judged by [`kcheck prove`](prove.md). Written by",
        "`make conformance-gpuverify SOURCES=path`; the tests are not part of kcheck.",
        "",
        f"**{counts['agree']} of {len(asked)} tests agree**, {len(decided)} are decided"
        f" ({100 * len(decided) // max(len(asked), 1)}%), {len(differ)} differ.",
        f"{counts['not applicable']} of {len(rows)} tests are not about a kernel that runs, and are not counted.",
        "",
        "kcheck agrees with `pass` where memcheck, racecheck and synccheck are proved, and with `fail` where one",
        "of them is refuted, which needs a case that was run and failed. `__assert` and the conditions of device",
        "functions are code that accesses memory outside an array where they do not hold; a condition of a kernel",
        "is assumed. Invariants and postconditions are hints for the proof, and are left out. GPUVerify's arrays",
        "are unbounded, and an integer argument may be anything; here, an array has",
        f"{ELEMENTS:,} elements, and integer arguments are not negative, and at most {SMALLER:,} where an array",
        "would end. A block of more than 1,024 threads, which CUDA does not launch, is smaller here. Shared",
        "variables that are only written are kept, which the compiler would remove.",
        "",
        "## What differs",
        "",
        "| test | expected | kcheck | why |",
        "|---|---|---|---|",
        *(_row(row, judged.get(row.test.name, "not explained")) for row in differ),
        *([] if differ else ["| none | | | |"]),
        "",
    ]
    for word, title in (
        ("undecided", "What is undecided"),
        ("not applicable", "What is not counted"),
        ("agree", "What agrees"),
    ):
        lines += [f"## {title}", "", "| test | expected | kcheck | |", "|---|---|---|---|"]
        lines += [_row(row, row.told) for row in rows if row.word == word]
        lines.append("")
    return "\n".join(lines)


def _row(row: Row, why: str) -> str:
    told = row.test.expected + (", smaller block" if row.test.is_cut else "")
    return f"| {row.test.name} | {told} | {row.ours} | {cell(why)} |"


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
