"""Public candidates, graded against the problems that they were written for.

usage: python -m benchmarks.grading.public SOURCES [--limit N] [--cases 30] [--kernels] [--write]

SOURCES is a file, or a folder with files, of JSON lines: ``ref_code`` is a model file, ``custom_code`` a
candidate, and ``correct`` its label, by default true. The results of CUDA-L1 (``optimized_cuda_code``) are such.
Prints a page in Markdown: how many verdicts agree with the labels, and a row for each whose verdict does not.
Ctrl-C ends the run, and prints what is known by then.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.evidence.corpus import ROOT
from kcheck.errors import UserError
from kcheck.grading.grader import Graded, Grader, GradingOptions
from kcheck.grading.isolated import Isolation
from kcheck.grading.problem import read_problem
from kcheck.grading.report import in_words

_KERNEL = ("__global__", "@triton.jit", "RawKernel")
_PAGE = ROOT / "docs" / "graded-public.md"
_HEAD = """# Public candidates, graded

`make grade-public SOURCES=path` writes this page: candidates that others have published, graded against the
problems that they were written for ([grading.md](grading.md)). Their labels are those of their authors, whose
check compares one size on a GPU. `kcheck grade` draws other sizes and values, runs the sanitizers, and asks who
did the work. These are results of [CUDA-L1](https://github.com/deepreinforce-ai/CUDA-L1) whose text has a kernel.
"""


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


def sources(path: Path, kernels: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    """The candidates, with their names. ``kernels``: only those whose text has a kernel."""
    files = sorted(path.glob("*.json*")) if path.is_dir() else [path]
    for file in files:
        with file.open(encoding="utf-8") as lines:
            for line in lines:
                fields = json.loads(line)
                text = fields.get("custom_code") or ""
                if kernels and not any(word in text for word in _KERNEL):
                    continue
                if fields.get("ref_code") and "ModelNew" in text:
                    name = "/".join(str(fields[key]) for key in ("level_id", "task_id") if key in fields)
                    yield f"{file.stem}/{name}", fields


def graded(candidates: Iterable[tuple[str, dict[str, Any]]], cases: int) -> Iterator[Row]:
    """Each candidate with its verdict."""
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, fields) in enumerate(candidates):
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
    judged = [(row, row.graded) for row in rows if row.graded is not None]
    counts = Counter(verdict.verdict for _, verdict in judged)
    verdicts = ", ".join(f"{count} {word}" for word, count in counts.most_common())
    of_pytorch = [(row, verdict) for row, verdict in judged if verdict.rule == "pytorch"]
    unbuilt = sum(any("was not built" in note for note in verdict.notes) for _, verdict in of_pytorch)
    lines = [
        f"{len(rows)} candidates, of which {len(rows) - len(judged)} have a problem that cannot be graded: "
        f"{verdicts}. {sum(row.agrees for row in rows)} of {len(judged)} verdicts agree with the label.",
        "",
        f"In {len(of_pytorch)}, PyTorch's own operators do at least half of the work. In {unbuilt} of these, an "
        "extension does not compile, which the candidate ignores. The others that disagree:",
        "",
        "| candidate | label | verdict | rule | why |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        if row.agrees or (row.graded is not None and row.graded.rule == "pytorch"):
            continue
        label = "correct" if row.is_correct else "wrong"
        verdict, rule, why = ("not graded", "", row.refusal)
        if row.graded is not None:
            verdict, rule, why = row.graded.verdict, row.graded.rule, row.graded.message
            why += f" at {in_words(row.graded.case)}" if row.graded.case is not None else ""
            why += "".join(
                f"; {note}" for note in row.graded.notes if "own generator" in note or "not built" in note
            )
        told = " ".join(why.split()).replace("|", "\\|")
        lines.append(f"| {row.name} | {label} | {verdict} | {rule} | {told} |")
    return "\n".join(lines)


def main() -> None:
    """Print or write the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("sources", type=Path)
    parser.add_argument("--limit", type=int, default=sys.maxsize)
    parser.add_argument("--cases", type=int, default=30)
    parser.add_argument("--kernels", action="store_true")
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    rows = []
    candidates = itertools.islice(sources(asked.sources, asked.kernels), asked.limit)
    with contextlib.suppress(KeyboardInterrupt):  # what was graded so far is worth a page
        for row in graded(candidates, asked.cases):
            rows.append(row)
            verdict = f"{row.graded.verdict} {row.graded.rule}" if row.graded is not None else row.refusal
            print(f"{row.name}: {verdict}", file=sys.stderr, flush=True)
    text = text_of(rows)
    print(text)
    if asked.write:
        _PAGE.write_text(f"{_HEAD}\n{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
