"""Wrong kernels that pass a benchmark's own check, and their correct twins, graded.

usage: python -m benchmarks.grading [--write] [--count 40] [--cases 30]

The benchmark's check is that of KernelBench: one shape, values of ``randn``, ``allclose``. The kernels are those
of the evidence (:mod:`benchmarks.evidence.corpus`): as many twins as asked for, from as many controls as possible.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.evidence.__main__ import write
from benchmarks.evidence.corpus import ROOT, Twin, entries, twins
from benchmarks.evidence.strategies import friendly
from benchmarks.evidence.trial import cpu_device, look
from kcheck import children
from kcheck.device.choose import warm
from kcheck.grading.grader import Graded, Grader, GradingOptions
from kcheck.grading.problem import read_problem
from kcheck.specfile import load_spec

PAGE = ROOT / "docs" / "graded.md"
RECALL = 0.95
"""The share of the wrong candidates that must be found."""

FOUND = ("wrong", "cheat")
"""The verdicts on a candidate that is found; one that does not run is not."""


@dataclass(frozen=True, slots=True)
class Row:
    """A twin, the verdict on it, and that on its control."""

    twin: Twin
    graded: Graded
    control: Graded


def passes_benchmark(twin: Twin) -> bool:
    """Whether a twin runs at the friendly shape, and its outputs are close there. In a separate process."""

    def work() -> int:
        children.without_streams()
        spec = load_spec(twin.spec)
        device = cpu_device([spec])
        device.prepare(spec)
        (case,) = friendly(spec, 1, 0)
        seen = look(device, spec, case, policies=("benchmark",))
        return 1 if seen.fatal or seen.problem or seen.off.get("benchmark", True) else 0

    return children.wait(children.fork(work)) == 0


def chosen(count: int) -> Iterator[Twin]:
    """The twins: the first of each control that passes, then the second, and so on."""
    of_controls: dict[str, list[Twin]] = {}
    for twin in (each for each in twins() if each.kernel.is_file()):  # others have their bug in the spec
        of_controls.setdefault(twin.of, []).append(twin)
    in_turn = (twin for row in itertools.zip_longest(*of_controls.values()) for twin in row if twin is not None)
    return itertools.islice(filter(passes_benchmark, in_turn), count)


def graded(planted: Sequence[Twin], cases: int) -> Iterator[Row]:
    """Each twin with its control, graded against the control's spec."""
    for of, group in itertools.groupby(sorted(planted, key=lambda twin: twin.of), lambda twin: twin.of):
        problem = ROOT / "specs" / f"{of}.yaml"
        runs = load_spec(problem)
        paths = [each.path for each in (runs.function, runs.launcher, runs.kernel) if each is not None]
        with Grader(read_problem(problem), GradingOptions(cases, 0)) as grader:
            for twin in group:
                control = grader.grade(
                    ROOT / next((path for path in paths if path.endswith(twin.kernel.suffix)), paths[0])
                )
                row = Row(twin, grader.grade(twin.kernel), control)
                print(twin.name, row.graded.verdict, row.graded.rule, control.verdict, file=sys.stderr, flush=True)
                yield row


def text_of(rows: Sequence[Row], cases: int) -> str:
    """The page's table."""
    caught = sum(row.graded.verdict in FOUND for row in rows)
    controls = {row.twin.of: row.control for row in rows}
    right = sum(each.verdict == "correct" for each in controls.values())
    bugs = entries()
    lines = [
        f"{caught} of {len(rows)} wrong candidates ({caught / len(rows):.1%}) are found with {cases} cases; "
        f"{right} of their {len(controls)} correct twins are correct.",
        "",
        "| candidate | what is wrong | verdict | rule | cases |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        bug = " ".join(str(bugs[row.twin.name]["bug"]).split()).replace("|", "\\|")
        told = row.graded
        lines.append(
            f"| {row.twin.kernel.name} | {bug} | {told.verdict} | {told.rule} | {told.cases} of {told.planned} |"
        )
    return "\n".join(lines)


def main() -> int:
    """Exits with 1 if too few wrong candidates are found, or a correct one is not."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--cases", type=int, default=30)
    asked = parser.parse_args()
    warm("cpu")
    rows = list(graded(list(chosen(asked.count)), asked.cases))
    text = text_of(rows, asked.cases)
    print(text)
    if asked.write:
        write(PAGE, "graded", text)
    wrong = [row.twin.of for row in rows if row.control.verdict != "correct"]
    missed = [row.twin.name for row in rows if row.graded.verdict not in FOUND]
    for name in dict.fromkeys(wrong):
        print(f"grade: {name} is correct, and was called otherwise", file=sys.stderr)
    for name in missed:
        print(f"grade: {name} is wrong, and was not called so", file=sys.stderr)
    return 1 if wrong or len(missed) > (1 - RECALL) * len(rows) else 0


if __name__ == "__main__":
    sys.exit(main())
