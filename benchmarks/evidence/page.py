"""docs/evidence.md from the measurements: the tables, what others claim, and whether our claims hold."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.evidence import corpus
from benchmarks.evidence.strategies import STRATEGIES
from benchmarks.evidence.tables import (
    Answers,
    Decide,
    Evidence,
    by_allclose,
    by_default,
    by_values,
    middle,
    quantile,
    without_sanitizers,
)
from benchmarks.evidence.trial import POLICIES

LEAST_RECALL = 0.98
MOST_CASES = 3

_POLICY = {
    "benchmark": "`allclose(rtol=1e-2, atol=1e-5)` for every dtype",
    "defaults": "fixed, kcheck's defaults per dtype",
    "calibrated": "`calibrated`, on 100 other cases of the control",
    "conditioned": "`conditioned`, the default",
}
_STRATEGY = {
    "default": ("sizes drawn evenly, Gaussian or uniform values", "71%"),
    "boundary": ("sizes at ends, tiles, blocks, warps alone; values as before", "78%"),
    "regular": ("multiples of the tile, or powers of two, alone; values as before", "64%"),
    "float32": ("kcheck's mix, float32 alone", "-"),
    "16 bits": ("kcheck's mix, float16 and bfloat16 alone", "-"),
    "nan-injected": ("sizes drawn evenly, a few NaN in every open input", "94%"),
    "adversarial": ("sizes drawn evenly, adversarial values in every open input", "99% or 93%"),
    "mix": ("kcheck's mix: boundary sizes, all dtypes, layouts, values; pairs covered", "-"),
}


def evidence_text(evidence: Evidence) -> str:
    """The part of the page between the markers of ``make evidence``."""
    parts = [_head(evidence), _against(evidence), _by_class(evidence), _policies(evidence), _strategies(evidence)]
    parts += [_cases_needed(evidence), _static(evidence), _open(evidence)]
    return "\n\n".join(parts)


def acceptance(evidence: Evidence) -> list[str]:
    """The claims that do not hold, one line each; empty if all hold."""
    faults = [f"could not be measured: {line}" for line in evidence.died()]
    for seed, share in zip(evidence.seeds, _default(evidence), strict=True):
        if share < LEAST_RECALL:
            faults.append(f"seed {seed}: recall {100 * share:.1f}%, promised are {100 * LEAST_RECALL:g}%")
    faults += [f"false alarm: {line}" for line in evidence.false_alarms()]
    faults += [f"where the manifest says harmless: {line}" for line in evidence.beyond_harmless()]
    firsts = evidence.firsts(by_default)
    if firsts and middle(firsts) > MOST_CASES:
        faults.append(f"the first catch comes at case {middle(firsts):g} in the median, promised is {MOST_CASES}")
    return faults


def _default(evidence: Evidence) -> list[float]:
    """Recall by seed at default settings, ``artifact`` included."""
    missed: dict[int, int] = dict.fromkeys(evidence.seeds, 0)
    for _, seeds in evidence.misses():
        for seed in seeds:
            missed[seed] += 1
    total = max(1, len(evidence.planted))
    return [1 - missed[seed] / total for seed in evidence.seeds]


def _table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    return "\n".join([*lines, *(f"| {' | '.join(str(cell) for cell in row)} |" for row in rows)])


def _prose(*sentences: str) -> str:
    """A paragraph wrapped at the project's line width."""
    return textwrap.fill(" ".join(filter(None, sentences)), 115, break_long_words=False, break_on_hyphens=False)


def _head(evidence: Evidence) -> str:
    public = sum(bool(twin.source) for twin in evidence.planted)
    seeds = ", ".join(map(str, evidence.seeds))
    there = (len(corpus.controls()), len(corpus.twins()))
    is_part = (len(evidence.clean), len(evidence.planted)) != there
    broken = acceptance(evidence)
    return _prose(
        f"Written by `make evidence`: {len(evidence.clean)} correct kernels,",
        f"{len(evidence.planted)} buggy twins in {len(evidence.classes)} classes,",
        f"{public} of them re-creations of bugs reported publicly; master seeds {seeds};",
        f"{evidence.cases} drawn cases per run, in addition to the examples of a spec.",
        f"**This is a part of the corpus,** which has {there[0]} kernels and {there[1]} twins." if is_part else "",
        "**Not all promises above hold.**" if broken else "All promises above hold.",
    )


def _alarms(evidence: Evidence, strategy: str, decide: Decide) -> str:
    kernels, of, wrong, cases = evidence.alarms(strategy, decide)
    return f"{kernels} of {of} kernels, {wrong:,} of {cases:,} cases"


def _against(evidence: Evidence) -> str:
    more = next((s for a in evidence.clean.values() for s in a.get("runs", {}) if s.startswith("mix ")), "mix")
    rows = [
        (name, evidence.recall(strategy, decide), _alarms(evidence, strategy, decide), claim)
        for name, strategy, decide, claim in (
            ("one friendly shape, `allclose`", "friendly", by_allclose, "0 of 10 bugs"),
            ("one random shape, `allclose`", "random", by_allclose, "-"),
            (f"kcheck, {evidence.cases} cases, sanitizers off", "mix", without_sanitizers, "-"),
            (f"**kcheck, {evidence.cases} cases**", "mix", by_default, "10 of 10 bugs, 0 of 16 false alarms"),
            (f"kcheck, {more.removeprefix('mix ')} cases, sanitizers off", more, without_sanitizers, "-"),
            (f"kcheck, {more.removeprefix('mix ')} cases", more, by_default, "-"),
        )
    ]
    friendly = evidence.recall("friendly", by_allclose)
    if friendly.mean > 0:
        said = (
            f"Difference: one friendly shape catches {friendly} of our twins, but none of their 10.",
            "Any comparison catches a bug that is wrong at every size. The next table shows which classes of bugs"
            " it misses.",
        )
    else:
        said = ("As they claim, one friendly shape catches none of the bugs.", "")
    named = (
        f"Of the twins caught at default settings, {evidence.expected()} fail by a rule that the manifest expects."
    )
    table = _table(("test", "bugs caught", "false alarms", "gpuemu's study"), rows)
    return "\n\n".join(["## Compared with common tests", table, _prose(*said, named)])


def _by_class(evidence: Evidence) -> str:
    rows = []
    for kind, twins in evidence.classes.items():
        firsts = evidence.firsts(by_default, planted=twins)
        rows.append(
            (
                kind,
                len(twins),
                evidence.recall("friendly", by_allclose, twins),
                evidence.recall("mix", without_sanitizers, twins),
                evidence.recall("mix", by_default, twins),
                _count(middle(firsts)),
            )
        )
    head = ("class", "twins", "one friendly shape", "sanitizers off", "kcheck", "median case")
    return f"## By class of bug\n\n{_table(head, sorted(rows))}"


def _policies(evidence: Evidence) -> str:
    rows = []
    for policy in POLICIES:
        wrong, of = _value_alarms(evidence, policy)
        rows.append(
            (
                _POLICY[policy],
                evidence.recall("mix", by_values(policy)),
                evidence.recall("mix", lambda seen, policy=policy: seen.fails(policy)),  # type: ignore[misc]
                f"{len(wrong)} of {of} kernels",
                _cases(sum(wrong.values())),
            )
        )
    head = (
        "values are compared by",
        "by values only",
        "with invariants and sanitizers",
        "false alarms by values only",
        "",
    )
    judged = sum(bool(answer.get("envelopes")) for answer in evidence.clean.values())
    return "\n\n".join(
        [
            "## Comparison rules",
            _table(head, rows),
            _prose(
                "gpuemu's study: from 65% to 82% of the bugs by calibration. Here the same launches are",
                f"judged by each rule. `calibrated` has envelopes for {judged} of {len(evidence.clean)} kernels",
                "(the others have no floating-point output, or too few cases of one dtype) and does not judge",
                "the rest.",
                _gain(evidence),
            ),
        ]
    )


def _cases(count: int) -> str:
    return "1 case" if count == 1 else f"{count:,} cases"


def _gain(evidence: Evidence) -> str:
    """The effect of calibration here, in a sentence."""
    fixed, fitted = (100 * evidence.recall("mix", by_values(p)).mean for p in ("defaults", "calibrated"))
    return f"By values only, it changes recall from {fixed:.1f}% (fixed defaults) to {fitted:.1f}%."


def _value_alarms(evidence: Evidence, policy: str) -> tuple[dict[str, int], int]:
    """(wrong cases by control, how many controls were judged)."""
    wrong: dict[str, int] = {}
    judged = 0
    for name in evidence.clean:
        seen = [one for seed in evidence.seeds for one in evidence.run(evidence.clean, name, "mix", seed)]
        judged += any(policy in one.off for one in seen)
        off = sum(one.off.get(policy, False) for one in seen)
        if off:
            wrong[name] = off
    return wrong, judged


def _strategies(evidence: Evidence) -> str:
    rows = []
    for name in STRATEGIES:
        share = evidence.recall(name, by_default)
        said, claim = _STRATEGY[name]
        low, high = (f"{100 * bound:.1f}%" for bound in (min(share.by_seed), max(share.by_seed)))
        kernels, of, _, _ = evidence.alarms(name, by_default)
        alarms = f"{kernels} of {of}"
        rows.append(
            (name, said, f"{100 * share.mean:.1f}%", f"{share.deviation:.1f}", low, high, share.of, alarms, claim)
        )
    head = ("strategy", "what is drawn", "mean", "sd", "min", "max", "twins", "false alarms", "gpuemu's study")
    best = max((evidence.recall(name, by_default).mean, name) for name in STRATEGIES if name != "mix")
    return "\n\n".join(
        [
            "## Which inputs",
            _table(head, rows),
            _prose(
                f"{evidence.cases} cases a run, judged by kcheck's defaults, sanitizers on. {_order(evidence)}",
                "False alarms are correct kernels that fail: values that a spec does not draw may be outside what",
                "its kernel supports. A case that the control fails too does not count as caught.",
                f"The best single strategy here is {best[1]}, with {100 * best[0]:.1f}%.",
                "gpuemu gives its adversarial strategy 99% in one place and 93% in another.",
            ),
        ]
    )


def _order(evidence: Evidence) -> str:
    """Our order of the strategies that gpuemu ranks, next to theirs."""
    ranked = sorted(
        ("adversarial", "nan-injected", "boundary", "default", "regular"),
        key=lambda name: -evidence.recall(name, by_default).mean,
    )
    return f"Their order is adversarial, nan-injected, boundary, default, regular; ours is {', '.join(ranked)}."


def _cases_needed(evidence: Evidence) -> str:
    rows = []
    for name, decide in (("kcheck", by_default), ("sanitizers off", without_sanitizers)):
        firsts = evidence.firsts(decide)
        caught = [n for n in firsts if math.isfinite(n)]
        cells = [_count(middle(firsts)), _count(quantile(firsts, 0.95)), _count(max(caught, default=math.inf))]
        rows.append((name, len(firsts), *cells, f"{sum(n <= 1 for n in caught) / max(1, len(firsts)):.0%}"))
    head = ("", "runs", "median", "95th percentile", "most", "caught by the first case")
    return "\n\n".join(
        [
            "## Cases until a bug is first caught",
            _table(head, rows),
            _prose(
                "A run is one twin at one master seed; its cases are counted from 1, the spec's examples first.",
                "A run that catches nothing counts as never. gpuemu's study gives no such figure, only its",
                "30 iterations.",
            ),
        ]
    )


def _count(number: float) -> str:
    return f"{number:g}" if math.isfinite(number) else "never"


def _static(evidence: Evidence) -> str:
    rows = list(_differences(evidence))
    same = sum(one[2] == one[3] == 0 for one in rows)
    near = sum(abs(one[2]) <= 2 and abs(one[3]) <= 0.05 for one in rows)
    more = sum(one[3] > 0 for one in rows)
    fewer = sum(one[3] < 0 for one in rows)
    listed = [
        (name, kind, f"{registers:+d}", f"{share:+.1%}")
        for name, kind, registers, share in sorted(rows)
        if share or registers
    ]
    return "\n\n".join(
        [
            "## What static metrics would show",
            _prose(
                "Registers per thread (ptxas) and PTX instructions, twin against control, compiled for",
                f"the friendly case. Of {len(rows)} twins, {same} have exactly the control's numbers, {near} are "
                "within",
                f"2 registers and 5% of its instructions; {more} have more instructions and {fewer} fewer.",
                "These numbers mean nothing without a correct kernel to compare with.",
            ),
            "<details><summary>Every twin that differs</summary>\n\n"
            + _table(("twin", "class", "registers", "instructions"), listed)
            + "\n\n</details>",
        ]
    )


def _differences(evidence: Evidence) -> Iterator[tuple[str, str, int, float]]:
    """(twin, class, additional registers, additional instructions as a share) where both could be compiled."""
    for twin in evidence.planted:
        ours, theirs = evidence.buggy[twin.name].get("static"), evidence.clean[twin.of].get("static")
        if ours and theirs:
            registers = ours["registers"] - theirs["registers"]
            yield twin.name, twin.kind, registers, ours["instructions"] / theirs["instructions"] - 1


def _open(evidence: Evidence) -> str:
    lines = [
        f"- `{twin.name}` ({twin.kind}: {twin.bug}) at seed {', '.join(map(str, seeds))}"
        for twin, seeds in evidence.misses()
    ]
    alarms = [f"- {line}" for line in evidence.false_alarms()]
    harmless = [f"- {line}" for line in evidence.beyond_harmless()]
    return "\n\n".join(
        [
            "## Missed bugs and false alarms",
            "\n".join(["Missed at default settings:", "", *lines])
            if lines
            else "Missed at default settings: none.",
            "\n".join(["False alarms:", "", *alarms]) if alarms else "False alarms: none.",
            *(
                ["\n".join(["Failing where the manifest calls the bug harmless:", "", *harmless])]
                if harmless
                else []
            ),
        ]
    )


def soak_text(soaked: Answers) -> str:
    """The part of the page between the markers of ``make evidence-soak``."""
    cases = sum(answer.get("soak", {}).get("cases", 0) for answer in soaked.values())
    faults = soak_faults(soaked)
    seeds = sorted({answer["soak"]["seed"] for answer in soaked.values() if "soak" in answer})
    said = _prose(
        f"Written by `make evidence-soak`: {cases:,} cases, {cases // max(1, len(soaked)):,} of each of",
        f"{len(soaked)} correct kernels, from master seed {', '.join(map(str, seeds))}:",
        f"{len(faults) or 'no'} false alarms.",
    )
    return "\n".join([said, *(["", *(f"- {fault}" for fault in faults)] if faults else [])])


def soak_faults(soaked: Answers) -> list[str]:
    """Every false alarm of a soak, and what could not be measured."""
    faults: list[str] = []
    for name, answer in soaked.items():
        if "died" in answer:
            faults.append(f"{name}: could not be measured: {answer['died']}")
        for alarm in answer.get("soak", {}).get("alarms", ()):
            faults.append(f"{name}, case seed {alarm['seed']}, {_dims(alarm)}: {_told(alarm)}")
    return faults


def _told(alarm: Mapping[str, Any]) -> str:
    off = ["tolerance"] if alarm["off"].get("conditioned") else []
    return alarm["problem"] or ", ".join([*alarm["found"], *off])


def _dims(alarm: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={size}" for name, size in alarm["dims"].items())
