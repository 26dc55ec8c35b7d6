"""The page docs/conformance.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from conformance.judge import cause_of
from conformance.suite import CC, Run

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
        f"numba-cuda {version}'s own test-suite, as its wheel installs it, unmodified, on the cpu device at"
        f" compute capability {CC}. Written by `make conformance`.",
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
    lines += ["", "## What skips itself", "", "| reason | tests |", "|---|---:|"]
    lines += [
        f"| {cell(reason)} | {count} |"
        for reason, count in sorted(skipped.items(), key=lambda row: (-row[1], row[0]))
    ]
    return "\n".join(lines) + "\n"


def cell(text: str) -> str:
    """Text in a table's cell."""
    return text.replace("|", "\\|")
