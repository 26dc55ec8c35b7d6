"""Public candidates, graded against the problems that they were written for.

usage: python -m benchmarks.grading.public SOURCES [--limit N] [--cases 30] [--output FILE]

SOURCES is a file, or a folder with files, of JSON lines: ``ref_code`` is a model file, ``custom_code`` a
candidate, and ``correct`` its label, by default true. The results of CUDA-L1 (``optimized_cuda_code``) are such.
Prints a table in Markdown: how many verdicts agree with the labels, and a row for each whose verdict does not.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kcheck.errors import UserError
from kcheck.grading.grader import Graded, Grader, GradingOptions
from kcheck.grading.isolated import Isolation
from kcheck.grading.problem import read_problem


@dataclass(frozen=True, slots=True)
class Row:
    """A candidate: its name, its label, and the verdict, or why its problem cannot be graded."""

    name: str
    is_correct: bool
    graded: Graded | None
    refusal: str = ""

    @property
    def agrees(self) -> bool:
        """Whether the verdict is that of the label."""
        return self.graded is not None and (self.graded.verdict == "correct") == self.is_correct


def sources(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The candidates, with their names."""
    files = sorted(path.glob("*.json*")) if path.is_dir() else [path]
    for file in files:
        with file.open(encoding="utf-8") as lines:
            for line in lines:
                fields = json.loads(line)
                if fields.get("ref_code") and fields.get("custom_code"):
                    name = "/".join(str(fields[key]) for key in ("level_id", "task_id") if key in fields)
                    yield f"{file.stem}/{name}", fields


def graded(path: Path, limit: int, cases: int) -> Iterator[Row]:
    """Each candidate with its verdict."""
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, fields) in enumerate(itertools.islice(sources(path), limit)):
            problem, candidate = Path(folder, f"problem_{number}.py"), Path(folder, "candidate.py")
            problem.write_text(fields["ref_code"], encoding="utf-8")
            candidate.write_text(fields["custom_code"], encoding="utf-8")
            label = fields.get("correct", True) is True
            try:
                with Grader(read_problem(problem), GradingOptions(cases, 0, Isolation(memory=8 << 30))) as grader:
                    yield Row(name, label, grader.grade(candidate))
            except UserError as error:
                yield Row(name, label, None, str(error).replace(str(problem), "the problem"))


def text_of(rows: list[Row]) -> str:
    """The table."""
    judged = [row for row in rows if row.graded is not None]
    counts = Counter(row.graded.verdict for row in judged if row.graded is not None)
    verdicts = ", ".join(f"{count} {word}" for word, count in counts.most_common())
    refused = len(rows) - len(judged)
    lines = [
        f"{len(rows)} candidates, of which {refused} have a problem that cannot be graded: {verdicts}. "
        f"{sum(row.agrees for row in judged)} of {len(judged)} verdicts agree with the label.",
        "",
        "| candidate | label | verdict | rule | why |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        if row.agrees:
            continue
        label = "correct" if row.is_correct else "wrong"
        verdict, rule, why = ("not graded", "", row.refusal)
        if row.graded is not None:
            verdict, rule, why = row.graded.verdict, row.graded.rule, row.graded.message
            why += f" at {dict(row.graded.case.dims)}" if row.graded.case is not None else ""
        told = " ".join(why.split()).replace("|", "\\|")
        lines.append(f"| {row.name} | {label} | {verdict} | {rule} | {told} |")
    return "\n".join(lines)


def main() -> None:
    """Print or write the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("sources", type=Path)
    parser.add_argument("--limit", type=int, default=sys.maxsize)
    parser.add_argument("--cases", type=int, default=30)
    parser.add_argument("--output", type=Path)
    asked = parser.parse_args()
    rows = []
    for row in graded(asked.sources, asked.limit, asked.cases):
        rows.append(row)
        verdict = f"{row.graded.verdict} {row.graded.rule}" if row.graded is not None else row.refusal
        print(f"{row.name}: {verdict}", file=sys.stderr, flush=True)
    text = text_of(rows)
    print(text)
    if asked.output is not None:
        asked.output.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
