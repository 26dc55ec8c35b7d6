"""Compare the constant of `tolerance: conditioned` with the project's correct kernels.

    python benchmarks/corpus.py [SPEC ...] [--seeds N] [--cases N] [--jobs N] [--write]

Every kernel of specs/ runs on the cpu device over its cases, for N master seeds. For each floating-point output of
each case the largest ratio of error to noise floor is kept. The rule of the fit, 1.5 times the 95th percentile,
and the rule in use, twice the largest, are then applied to half of the ops and tested on the other half, for
several seeded halvings; related ops (`matmul`, `matmul_splitk`) stay together. No buggy kernel is ever run.
--write puts the tables into docs/oracle.md, between the markers.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)]

from kcheck.generator import materialize, plan  # noqa: E402
from kcheck.model import SANITIZERS, Tolerance  # noqa: E402
from kcheck.oracle.compare import compare  # noqa: E402
from kcheck.oracle.rounding import half_step  # noqa: E402
from kcheck.oracle.tolerance import CONSTANT, Allowance, Conditioned  # noqa: E402
from kcheck.oracle.truth import Truth  # noqa: E402
from kcheck.report import wording  # noqa: E402
from kcheck.rng import Xorshift128Plus, derive  # noqa: E402
from kcheck.specfile import discover, load_spec  # noqa: E402

HALVINGS = 8
LOOKED = 8  # draws, as many as tolerance.py begins with
NOTABLE = 2.0


@dataclass(frozen=True)
class Ratio:
    """The largest error over noise floor of one output of one case; infinite for a special value out of place."""

    op: str
    family: str  # the first word of the op's name: not split in a cross-validation
    dtype: str
    case: str
    values: str
    ratio: float


@dataclass(frozen=True)
class WholeFloor:
    """As `Conditioned` with a constant of 1, on LOOKED draws: the floor is always evaluated, not only if it
    decides, and more draws never raise it, as they do before a verdict."""

    rule: Conditioned
    method: str = "conditioned"

    def allowance(self, output, expected, error):
        floor = self.rule.floor
        magnitude = np.where(np.isfinite(expected), np.abs(expected), 0.0)
        floor.noise(output)
        floor.draw(LOOKED)
        allowed = half_step(magnitude, self.rule.dtype) + floor.noise(output)
        return Allowance(allowed, allowed, floor.unjudged(output))


def measure(path: str, seeds: int, count: int | None) -> tuple[str, list[Ratio], list[str], float]:
    """(op, ratios, what was wrong, CPU seconds) of one spec, in a separate process with its own device."""
    from kcheck.device import choose

    begun = time.process_time()
    spec = load_spec(Path(path))
    conditioned = Tolerance("conditioned", {}, spec.span)
    spec = replace(spec, sanitize=dict.fromkeys(SANITIZERS, "off"), tolerance=conditioned)
    device, found, wrong = choose("cpu", []), [], []
    for master in range(seeds):
        for case in plan(spec, count=spec.count if count is None else count, master=derive(master, "corpus")):
            arrays = materialize(spec, case)
            outcome = device.run(spec, arrays, timeout=60.0)
            if any(finding.severity == "error" for finding in outcome.findings) or not outcome.outputs:
                wrong += [f"{case.id}: {finding.rule}: {finding.message}" for finding in outcome.findings]
                continue
            truth = Truth.of(spec, arrays)
            for name, actual in outcome.outputs.items():
                rule, dtype = truth.rule(name), truth.reference.dtypes[name]
                if not isinstance(rule, Conditioned):
                    continue
                one = compare(name, dtype, actual, truth.expected[name], WholeFloor(rule), spec.compare)
                if one.ratio is None and not one.why:
                    continue  # no element
                ratio = np.inf if one.why else one.ratio
                drawn = " ".join(f"{array}={value}" for array, value in case.values.items())
                kin = spec.op.partition("_")[0]
                row = Ratio(spec.op, kin, dtype.name, case.id, drawn, ratio)
                found.append(row)
    return spec.op, found, wrong, time.process_time() - begun


def halvings(families: list[str]):
    """Seeded splits of the families into two halves; the constant is fitted on the larger one."""
    for seed in range(HALVINGS):
        stream = Xorshift128Plus(derive(seed, "corpus/halving"))
        left = list(families)
        mixed = [left.pop(stream.below(len(left))) for _ in range(len(left))]
        yield seed, set(mixed[: (len(mixed) + 1) // 2])


def table(header, rows) -> str:
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows])


def quantiles(ratios) -> list[str]:
    return [f"{np.percentile(ratios, q, method='higher'):.2f}" for q in (50, 95, 100)]


def report(ratios: list[Ratio], seeds: int) -> str:
    by_op = defaultdict(list)
    for row in ratios:
        by_op[row.op].append(row)
    rows = []
    for op, found in sorted(by_op.items()):
        finite = [row.ratio for row in found if np.isfinite(row.ratio)]
        alarms = sum(row.ratio > CONSTANT for row in found)
        dtypes = ", ".join(sorted({row.dtype for row in found}))
        rows.append([op, dtypes, len(found), *quantiles(finite), alarms])
    everything = np.array([row.ratio for row in ratios if np.isfinite(row.ratio)])
    alarms = sum(row.ratio > CONSTANT for row in ratios)
    rows.append(["all", "", len(ratios), *quantiles(everything), alarms])
    head = ["op", "dtypes", "runs", "median", "95%", "largest", f"beyond {CONSTANT:g} floors"]
    crossed = []
    for seed, fitted_on in halvings(sorted({row.family for row in ratios})):
        fit = np.array([row.ratio for row in ratios if row.family in fitted_on])
        held = np.array([row.ratio for row in ratios if row.family not in fitted_on])
        if not fit.size or not held.size:
            continue
        rule = 1.5 * np.percentile(fit, 95, method="higher")
        twice = 2 * fit.max()
        crossed.append(
            [
                seed,
                len({row.op for row in ratios if row.family in fitted_on}),
                f"{rule:.2f}",
                f"{np.sum(held > rule)}/{held.size}",
                f"{fit.max():.2f}",
                f"{held.max():.2f}",
                f"{np.sum(held > twice)}/{held.size}",
                f"{np.sum(held > CONSTANT)}/{held.size}",
            ]
        )
    across = [
        "split",
        "ops fitted on",
        "1.5 x 95%",
        "beyond it, other half",
        "largest",
        "largest, other half",
        "beyond twice the largest",
        f"beyond {CONSTANT:g}",
    ]
    fit = 1.5 * np.percentile(everything, 95, method="higher")
    said = (
        f"{len(by_op)} ops, {len(ratios)} outputs of cases, {wording.count(seeds, 'master seed')}, on the cpu"
        f" device: the largest error over the noise floor of {LOOKED} draws.\nThe largest ratio is"
        f" {everything.max():.2f}; 1.5 times the 95th percentile is {fit:.2f}. kcheck accepts {CONSTANT:g} floors."
    )
    return "\n\n".join(
        [
            said,
            table(head, rows),
            "Fitted on one half of the ops, checked on the other (ops whose names start with the same "
            "word stay together):",
            table(across, crossed),
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("specs", nargs="*", type=Path, default=[ROOT / "specs"])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--cases", type=int, help="cases per seed (default: the count of each spec)")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    started = time.perf_counter()
    discovery = discover(options.specs or [ROOT / "specs"], False)
    for fault in discovery.faults:
        print(fault, file=sys.stderr)
    if discovery.faults:
        sys.exit(2)
    ratios: list[Ratio] = []
    failed = False
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.jobs, mp_context=spawn) as pool:
        jobs = [pool.submit(measure, str(path), options.seeds, options.cases) for path in discovery.specs]
        for job in jobs:
            op, found, wrong, seconds = job.result()
            ratios += found
            top = max((row.ratio for row in found), default=0.0)
            print(f"{op:24} {len(found):5} runs  largest {top:6.2f}  {seconds:6.1f} s", file=sys.stderr)
            for row in sorted(found, key=lambda row: -row.ratio)[:3]:
                if row.ratio > NOTABLE:
                    print(f"    {row.ratio:.2f} {row.case} {row.values}", file=sys.stderr)
            for line in wrong[:3]:
                print(f"    {line}", file=sys.stderr)
            failed |= bool(wrong)
    text = report(ratios, options.seeds)
    print(text)
    print(f"{time.perf_counter() - started:.0f} s", file=sys.stderr)
    if failed:
        sys.exit("a control did not run: nothing is written")
    if options.write:
        page = ROOT / "docs" / "oracle.md"
        before, rest = page.read_text(encoding="utf-8").split("<!-- corpus -->\n")
        after = rest.split("<!-- end of corpus -->")[1]
        page.write_text(f"{before}<!-- corpus -->\n{text}\n<!-- end of corpus -->{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
