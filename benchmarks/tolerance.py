"""Fit the constant of `tolerance: conditioned`, and show what it accepts and catches.

    python benchmarks/tolerance.py [--seeds N] [--op NAME ...] [--write]

Correct kernels of several orders of summation and several formulas (controls.py) run over every distribution of
SPEC; a fit is the 95th percentile of their largest error over noise floor, by case, times 1.5. The second half of
the seeds is held out: false alarms are counted on it, and the share of cases in which six classic bugs are caught.
--write puts the tables into docs/oracle.md, between the markers.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import time
from collections import defaultdict
from pathlib import Path
from types import MappingProxyType

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from controls import OPS, softmax_exp2, softmax_online  # noqa: E402

from kcheck.generator.rounding import DrawError  # noqa: E402
from kcheck.generator.values import draw  # noqa: E402
from kcheck.model import DTYPES, Compare, Distribution, FunctionRef, OpSpec, Output, Span, Tolerance  # noqa: E402
from kcheck.oracle import tolerance  # noqa: E402
from kcheck.oracle.compare import compare  # noqa: E402
from kcheck.oracle.noise import NoiseFloor  # noqa: E402
from kcheck.oracle.reference import Reference, upcast  # noqa: E402
from kcheck.oracle.rounding import half_step  # noqa: E402
from kcheck.oracle.tolerance import Conditioned, compute_precision  # noqa: E402
from kcheck.rng import Xorshift128Plus, derive  # noqa: E402

DISTRIBUTIONS = [
    *("normal", "uniform", "all_negative", "all_positive", "large", "tiny", "offset", "cancelling", "spikes"),
    *(
        "outlier",
        "ties",
        "sorted",
        "extreme",
        "subnormal",
        "zeros",
        "ones",
        "constant",
        "bernoulli",
        "permutation",
    ),
    *("probabilities", "nan_injected", "inf_injected"),
]
ARGUMENTS = {"sorted": Distribution("normal"), "constant": 0.1, "bernoulli": 0.5, "probabilities": -1}
DTYPE_NAMES = ("float32", "float16", "bfloat16", "float64")
SIZES = {
    "M": (1, 3, 16),
    "N": (1, 2, 31, 63, 65, 100, 257, 1000, 2048),
    "K": (1, 7, 33),
    "D": (1, 8, 40),
}


def spec_of(op: str) -> OpSpec:
    here = Span(f"{op}.yaml")
    empty = MappingProxyType({})
    return OpSpec(
        path=f"{op}.yaml", root=str(ROOT), op=op, span=here, description="", tags=(), dims=empty, constraints=(),
        dtypes=empty, compute=None, inputs=empty, params=empty,
        outputs={"y": Output("y", (), "T", ("contiguous",), None, here)}, kernel=None, launch=None, launcher=None,
        reference=FunctionRef("benchmarks/controls.py", op, here), tolerance=Tolerance("conditioned", empty, here),
        compare=Compare(), invariants=(), sanitize=empty, allow_races=(), mutates=(), deterministic=None,
        artifact=None, count=1, seed=0, examples=(),
    )  # fmt: skip


@dataclasses.dataclass
class Trial:
    """One case: its inputs, reference and floor."""

    op: str
    distribution: str
    dtype: str
    sizes: dict
    seed: int

    def __post_init__(self):
        function, shapes, self.controls, self.wrong = OPS[self.op]
        dtype = DTYPES[self.dtype]
        inputs = {}
        for name, letters in shapes.items():
            shape = tuple(self.sizes[letter] for letter in letters)
            chosen = Distribution(self.distribution, ARGUMENTS.get(self.distribution))
            inputs[name] = draw(chosen, shape, dtype, Xorshift128Plus(derive(self.seed, f"data/{name}")), {})
        self.values = {name: upcast(array, dtype) for name, array in inputs.items()}
        reference = Reference(self.values, {}, {}, spec_of(self.op), function, tuple(inputs), 0, tuple(inputs))
        reference.dtypes["y"] = dtype
        with np.errstate(all="ignore"):
            result = np.asarray(function(**{name: value.copy() for name, value in self.values.items()}))
        reference.shapes.update({name: array.shape for name, array in inputs.items()}, y=result.shape)
        self.expected = result
        self.output = dtype
        floor = NoiseFloor(reference, {"y": result}, compute_precision(reference.spec, dtype), self.seed)
        self.rule = Conditioned(dtype, floor)

    def correct(self):
        """Numbered controls, except the ones that fail on such inputs: the intermediate of exp2(x * log2(e))
        overflows where x does not, and an online softmax that meets -inf first computes inf - inf."""
        wrong = {"extreme": (softmax_exp2,), "inf_injected": (softmax_exp2, softmax_online)}
        return [(n, k) for n, k in enumerate(self.controls) if k not in wrong.get(self.distribution, ())]

    def run(self, kernel):
        narrow = np.float64 if self.dtype == "float64" else np.float32
        inputs = {name: value.astype(narrow) for name, value in self.values.items()}
        with np.errstate(all="ignore"):
            result = kernel(inputs, np.random.default_rng(self.seed))
            return np.asarray(result).reshape(self.expected.shape).astype(self.output.numpy)

    def ratio(self, kernel) -> float:
        """The largest error in noise floors; infinite for a special value out of place."""
        actual = self.run(kernel)
        floor = self.rule.floor
        floor.noise("y")
        floor.draw(8)
        one = dataclasses.replace(self.rule, constant=1.0)
        found = compare("y", self.output, actual, self.expected, one, Compare())
        if found.passed:
            return found.ratio or 0.0
        return np.inf if found.why else found.ratio

    def visible(self, kernel) -> bool:
        """Whether a wrong kernel would be wrong in exact arithmetic, by more than 8 roundings of the output."""
        with np.errstate(all="ignore"):
            exact = kernel({name: value.copy() for name, value in self.values.items()}, None)
            finite = np.isfinite(self.expected)
            if np.array_equal(exact[finite], self.expected[finite]):
                return not np.array_equal(np.isnan(exact), np.isnan(self.expected))
            error = np.abs(exact - self.expected)[finite]
            return bool(np.any(~(error <= 8 * half_step(np.abs(self.expected[finite]), self.output))))

    def passes(self, kernel) -> bool:
        return compare("y", self.output, self.run(kernel), self.expected, self.rule, Compare()).passed


def trials(ops, seeds: range):
    for op in ops:
        for distribution in DISTRIBUTIONS:
            for dtype in DTYPE_NAMES:
                for seed in seeds:
                    case = derive(seed, f"{op}/{distribution}/{dtype}")
                    stream = Xorshift128Plus(case)
                    sizes = {name: int(stream.choice(choices)) for name, choices in SIZES.items()}
                    if op == "attention":
                        sizes["N"] = min(sizes["N"], 257)
                    try:
                        yield Trial(op, distribution, dtype, sizes, case)
                    except DrawError:
                        continue  # a permutation that bfloat16 cannot hold


def table(header, rows) -> str:
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--op", action="append", choices=list(OPS), help="only these")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    started = time.perf_counter()
    half = options.seeds // 2
    ops = options.op or list(OPS)
    fitted = []
    for trial in trials(ops, range(half)):
        for number, kernel in trial.correct():
            ratio = trial.ratio(kernel)
            if ratio > 2.0:
                print(
                    f"{ratio:8.2f}",
                    trial.op,
                    number,
                    trial.distribution,
                    trial.dtype,
                    trial.sizes,
                    file=sys.stderr,
                )
            fitted.append((trial.op, trial.distribution, trial.dtype, ratio))
    ratios = np.array([row[-1] for row in fitted])
    finite = ratios[np.isfinite(ratios)]
    fit = 1.5 * float(np.percentile(finite, 95))
    print(
        f"{len(ratios)} controls, {np.sum(~np.isfinite(ratios))} with special values out of place", file=sys.stderr
    )
    print("percentiles 50 90 95 99 99.9 100:", np.percentile(finite, [50, 90, 95, 99, 99.9, 100]), file=sys.stderr)
    alarms, runs = defaultdict(int), defaultdict(int)
    caught, planted = defaultdict(int), defaultdict(int)
    for trial in trials(ops, range(half, options.seeds)):
        for number, kernel in trial.correct():
            runs[trial.op, trial.dtype] += 1
            if not trial.passes(kernel):
                alarms[trial.op, trial.dtype] += 1
                print("alarm", trial.op, number, trial.distribution, trial.dtype, trial.sizes, file=sys.stderr)
        if trial.wrong is not None and trial.visible(trial.wrong):
            key = trial.op, trial.distribution
            planted[key] += 1
            caught[key] += not trial.passes(trial.wrong)
    text = report(ops, fitted, fit, alarms, runs, caught, planted, half)
    print(text)
    print(f"{time.perf_counter() - started:.0f} s", file=sys.stderr)
    if options.write:
        page = ROOT / "docs" / "oracle.md"
        before, rest = page.read_text(encoding="utf-8").split("<!-- evidence -->\n")
        after = rest.split("<!-- end of evidence -->")[1]
        page.write_text(f"{before}<!-- evidence -->\n{text}\n<!-- end of evidence -->{after}", encoding="utf-8")


def report(ops, fitted, fit, alarms, runs, caught, planted, half) -> str:
    rows = []
    for op in ops:
        found = [ratio for name, _, _, ratio in fitted if name == op and np.isfinite(ratio)]
        cells = [f"{np.percentile(found, q):.2f}" for q in (50, 95, 100)]
        held = [f"{alarms[op, dtype]}/{runs[op, dtype]}" for dtype in DTYPE_NAMES]
        rows.append([op, len(found), *cells, *held])
    everything = [ratio for *_, ratio in fitted if np.isfinite(ratio)]
    cells = [f"{np.percentile(everything, q):.2f}" for q in (50, 95, 100)]
    total = [f"{sum(alarms[op, d] for op in ops)}/{sum(runs[op, d] for op in ops)}" for d in DTYPE_NAMES]
    rows.append(["all", len(everything), *cells, *total])
    head = ["op", "control runs", "median", "95%", "largest", *(f"false alarms, {d}" for d in DTYPE_NAMES)]
    bugs = [op for op in ops if OPS[op][3] is not None]
    share = [
        [
            d,
            *(
                f"{100 * caught[op, d] / planted[op, d]:.0f}% of {planted[op, d]}" if planted[op, d] else "-"
                for op in bugs
            ),
        ]
        for d in DISTRIBUTIONS
    ]
    names = [f"{op}: {OPS[op][3].__name__.replace('_', ' ')}" for op in bugs]
    return "\n\n".join(
        [
            f"The 95th percentile of error over floor, times 1.5, is {fit:.2f}, the largest is "
            f"{max(everything):.2f}; kcheck accepts {tolerance.CONSTANT:g} floors. "
            f"Fitted on {half} seeds for each op, distribution and dtype, and checked on as many others:",
            table(head, rows),
            "Of the cases in which a bug changes the result, the share in which it is caught (all four dtypes):",
            table(["distribution", *names], share),
        ]
    )


if __name__ == "__main__":
    main()
