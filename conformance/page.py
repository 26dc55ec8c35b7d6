"""The page docs/conformance.md."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence

from conformance.judge import cause_of, site_of
from conformance.suite import CC, Run, Verdict
from conformance.verdicts import DIFFERENT, REASONS, SAME
from kcheck.model import Finding

KINDS = ("passed", "failed", "skipped", "xfailed")


def page(run: Run, causes: Mapping[str, str], version: str) -> str:
    """Its text: a table by folder, failures with their causes, reasons for skipping.

    Args:
        version: of numba-cuda.
    """
    outcomes = run.outcomes
    rows: dict[str, Counter[str]] = {}
    for test in sorted(outcomes):
        rows.setdefault(test.split("/")[0], Counter())[outcomes[test].outcome] += 1
    total = sum(rows.values(), Counter())
    lines = [
        "# Conformance",
        "",
        _paragraph(
            f"These are the results of the test suite of numba-cuda {version}, unmodified, as its wheel installs"
            f" it, on the cpu device with compute capability {CC}. Written by `make conformance`."
        ),
        "",
        "| folder | " + " | ".join(KINDS) + " |",
        "|---|" + "---:|" * len(KINDS),
        *(f"| {folder} | " + " | ".join(str(row[kind]) for kind in KINDS) + " |" for folder, row in rows.items()),
        "| **all** | " + " | ".join(f"**{total[kind]}**" for kind in KINDS) + " |",
        "",
        "## What fails, and why",
        "",
        "| test | cause |",
        "|---|---|",
    ]
    for test in sorted(test for test, outcome in outcomes.items() if outcome.outcome == "failed"):
        cause = cause_of(test, causes) or f"not explained: `{cell(outcomes[test].reason)}`"
        lines.append(f"| `{test}` | {cause} |")
    skipped = Counter(
        outcome.reason.removeprefix("Skipped: ") for outcome in outcomes.values() if outcome.outcome == "skipped"
    )
    lines += ["", "## Skipped tests", "", "| reason | tests |", "|---|---:|"]
    lines += [
        f"| {cell(reason)} | {count} |"
        for reason, count in sorted(skipped.items(), key=lambda row: (-row[1], row[0]))
    ]
    return "\n".join(lines) + "\n"


WIDTHS = "## Results at different vector widths"


def section_of(text: str, title: str) -> str:
    """The section of a page that begins with a title; empty: none."""
    _, found, rest = text.partition(f"{title}\n")
    content, _, _ = rest.partition("\n## ")
    return f"{found}{content.rstrip()}\n" if found else ""


def widths(verdicts: Sequence[Verdict]) -> str:
    """The section on widths: launches and kernels by what came of comparing them, and those that differ."""
    launches = Counter(v.verdict for v in verdicts)
    kernels = {name: len({v.code for v in verdicts if v.verdict == name}) for name in launches}
    told = {SAME: "**the same bits**", DIFFERENT: "**different bits**", **REASONS}
    lines = [
        WIDTHS,
        "",
        _paragraph(
            "Every launch of the suite runs twice from the same memory: with one lane per vector, in code"
            " that LLVM optimizes on its own, and at the usual width, in quick code. Then everything is"
            " compared: all allocations, the heap, the printed lines, and how the launch ended. A launch"
            " that differs runs again at the usual width in three other orders of blocks, warps and lanes; if"
            " that also changes the bits, the kernel is not deterministic. Written by `make"
            " conformance-widths`."
        ),
        "",
        "| launches | kernels | result |",
        "|---:|---:|---|",
        *(f"| {launches[name]} | {kernels[name]} | {what} |" for name, what in told.items() if launches[name]),
    ]
    listed = sorted({(v.test, v.kernel, v.verdict, v.detail) for v in verdicts if v.detail})
    if listed:
        lines += [
            "",
            "The launches with different bits:",
            "",
            "| test | kernel | why | first difference |",
            "|---|---|---|---|",
        ]
        lines += [
            f"| `{test}` | `{kernel}` | {cell(told[verdict])} | {cell(detail)} |"
            for test, kernel, verdict, detail in listed
        ]
    return "\n".join(lines) + "\n"


SANITIZED = "## What the sanitizers find"


def sanitized(findings: Sequence[Finding], judged: Mapping[str, str], names: Sequence[str]) -> str:
    """The section on findings: each kernel's and line's, and what it was judged to be.

    Args:
        judged: by a pattern over what :func:`site_of` gives.
        names: the sanitizers that ran.
    """
    lines = [
        SANITIZED,
        "",
        _paragraph(
            f"The whole suite runs with {' and '.join(names)}. Each row is a rule and a line, with the number of"
            " reports and an assessment. Written by `make conformance-sanitize`."
        ),
        "",
        "| finding | reports | kernel | assessment |",
        "|---|---:|---|---|",
    ]
    sites: dict[str, list[Finding]] = {}
    for finding in findings:
        sites.setdefault(site_of(finding), []).append(finding)
    for site, alike in sorted(sites.items()):
        judgment = cause_of(site, judged) or f"not judged: {cell(alike[0].message)}"
        seen = sum(finding.count for finding in alike)
        lines.append(f"| `{site}` | {seen} | `{alike[0].kernel}` | {judgment} |")
    return "\n".join(lines) + "\n"


def _paragraph(text: str) -> str:
    return textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False)


def cell(text: str) -> str:
    """Text in a table's cell."""
    return text.replace("|", "\\|")
