"""The page docs/conformance-triton.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from conformance.judge import cause_of, site_of
from conformance.page import cell
from conformance.suite import Outcome
from conformance.triton_earlier import Earlier
from kcheck.model import Finding

MEANT = (
    "test_block_pointer",
    "test_conversions",
    "test_core",
    "test_matmul",
    "test_pipeliner",
    "test_random",
    "test_standard",
    "test_tensor_descriptor",
)
"""The files of which at least 95% of the tests that do not skip themselves must pass."""
_KINDS = ("passed", "failed", "skipped", "xfailed")
_REASONS = 24


@dataclass(frozen=True, slots=True)
class Part:
    """What came of the tests at one compute capability.

    Attributes:
        name: ``sm_80``.
        sizes: the number of tests of each file that was run, ``test_core``.
    """

    name: str
    outcomes: Mapping[str, Outcome]
    findings: Sequence[Finding]
    sizes: Mapping[str, int]


def rate(part: Part) -> tuple[int, int]:
    """How many tests of MEANT passed, of how many that did not skip themselves."""
    mine = [o.outcome for test, o in part.outcomes.items() if _file(test) in _meant(part)]
    return mine.count("passed"), mine.count("passed") + mine.count("failed")


def _meant(part: Part) -> list[str]:
    """Those of MEANT that were run."""
    return [file for file in MEANT if file in part.sizes]


def page(
    parts: Sequence[Part],
    causes: Mapping[str, str],
    judged: Mapping[str, str],
    versions: Mapping[str, str],
    earlier: Earlier,
) -> str:
    """Its text: a table by file, failures with their causes, findings with what they are, reasons for skipping.

    Args:
        earlier: what stays of the page, of compute capabilities that are not among ``parts``.
    """
    lines = [
        "# Conformance with Triton",
        "",
        "These are the results of Triton's own language tests, unmodified, on the cpu device, with Triton "
        f"{versions['triton']} and "
        f"PyTorch {versions['torch'].partition('+')[0]}. Written by `make conformance-triton TESTS=path`.",
        "",
        "`tests` is the number of tests in a file, and `run` the number of tests in the sample, which is chosen "
        "by a hash of the names. A crash or a hang fails only one test.",
    ]
    tables = {**earlier.tables, **{part.name: list(_table(part)) for part in parts}}
    for name, table in sorted(tables.items()):
        lines += ["", f"## {name}", "", *table]
    lines += ["", "## What fails, and why", "", *_failures(parts, causes, earlier)]
    lines += ["", "## What memcheck and the other checks report", "", *_findings(parts, judged, earlier)]
    lines += ["", "## Why tests skip themselves", "", *_reasons(parts, earlier)]
    return "\n".join(lines) + "\n"


def _table(part: Part) -> Iterator[str]:
    yield f"| file | tests | run | {' | '.join(_KINDS)} |"
    yield "|---|" + "---:|" * (len(_KINDS) + 2)
    total = Counter[str]()
    for file, size in sorted(part.sizes.items()):
        count = Counter(o.outcome for test, o in part.outcomes.items() if _file(test) == file)
        total += count
        told = " | ".join(str(count[kind]) for kind in _KINDS)
        yield f"| {file} | {size} | {count.total()} | {told} |"
    told = " | ".join(f"**{total[kind]}**" for kind in _KINDS)
    yield f"| **all** | **{sum(part.sizes.values())}** | **{total.total()}** | {told} |"
    passed, meant = rate(part)
    if meant:
        yield ""
        yield f"Of the tests that do not skip themselves in {', '.join(_meant(part))}: {passed} of {meant} pass "
        yield f"({passed / meant:.1%})."


def _failures(parts: Sequence[Part], causes: Mapping[str, str], earlier: Earlier) -> Iterator[str]:
    failed = {test: (list(where), cause) for test, (where, cause) in earlier.failures.items()}
    for part in parts:
        for test, outcome in part.outcomes.items():
            if outcome.outcome == "failed":
                cause = cause_of(test, causes) or f"not explained: `{cell(outcome.reason)}`"
                where, _ = failed.get(name := f"`{cell(test.partition('/')[2])}`", ([], ""))
                failed[name] = ([*where, part.name], cause)
    if not failed:
        yield "Nothing."
        return
    yield "| test | at | cause |"
    yield "|---|---|---|"
    for name, (where, cause) in sorted(failed.items()):
        yield f"| {name} | {', '.join(sorted(where))} | {cause} |"


def _findings(parts: Sequence[Part], judged: Mapping[str, str], earlier: Earlier) -> Iterator[str]:
    found = dict(earlier.findings)
    for part in parts:
        for finding in part.findings:
            site = site_of(finding)
            found[f"`{site}`"] = cause_of(site, judged) or f"not judged: {cell(finding.message)}"
    if not found:
        yield "Nothing."
        return
    yield "| rule and line | what it is |"
    yield "|---|---|"
    for name, what in sorted(found.items()):
        yield f"| {name} | {what} |"


def _reasons(parts: Sequence[Part], earlier: Earlier) -> Iterator[str]:
    found: dict[str, Counter[str]] = {**earlier.reasons, **{part.name: Counter() for part in parts}}
    for part in parts:
        for outcome in part.outcomes.values():
            if outcome.outcome == "skipped":
                found[part.name][cell(outcome.reason.removeprefix("Skipped: "))] += 1
    count = dict(sorted(found.items()))
    everything = sum(count.values(), Counter[str]())
    yield f"| reason | {' | '.join(count)} |"
    yield "|---|" + "---:|" * len(count)
    for reason, _ in everything.most_common(_REASONS):
        yield f"| {reason} | {' | '.join(str(mine[reason]) for mine in count.values())} |"
    others = everything.total() - sum(number for _, number in everything.most_common(_REASONS))
    if others:
        yield f"| others | {others} in all |" + " |" * (len(count) - 1)


def _file(test: str) -> str:
    """``test_core`` of ``language/test_core.py::test_x``."""
    return test.partition("::")[0].rpartition("/")[2].removesuffix(".py")
