"""The report as Markdown, for a comment on a pull request: what failed, what got worse, how to replay it.

Text from specs and kernels is escaped: it cannot start a heading, a link or HTML, or notify a user.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from kcheck.model.baseline import Change
from kcheck.report import plain, wording
from kcheck.report.collect import Collected, WholeReporter
from kcheck.report.coverage import proved_texts
from kcheck.report.detail import ReadLine, plain_text, read_line
from kcheck.report.diff_text import change_cells
from kcheck.report.problems import Problem, problems
from kcheck.report.totals import Totals, spec_counts

MOST = 65_000
"""The maximum size of a comment, in characters. GitHub accepts 65,536."""
MARKER = "<!-- kcheck -->"
"""The first line of a comment, by which a later run finds the comment to update."""
_WORDS = {"error": "error", "warn": "warning"}


class MarkdownReporter(WholeReporter):
    """Writes the page at the end."""

    def _write(self, run: Collected) -> None:
        self._stream.write(page(run, source=self._source))


def page(run: Collected, *, most: int = MOST, changes: Sequence[Change] = (), source: ReadLine = read_line) -> str:
    """The page.

    Args:
        most: maximum size in characters; problems that do not fit are only counted.
        changes: the changes since a baseline, of which the regressions are listed.
        source: reads the source line of a place that a finding names.
    """
    head = [MARKER, *_head(run)]
    worse = [change for change in changes if change.kind == "worse"]
    if worse:
        head += ["", "### Worse than the baseline", "", *_worse(worse)]
    found = problems(run, source)
    blocks = ["\n".join(_problem(problem)) for problem in found]
    left = most - len("\n".join(head)) - 300
    kept: list[str] = []
    for block in blocks:
        left -= len(block) + 2
        if left < 0:
            break
        kept.append(block)
    text = "\n".join(head) + "\n" + "".join(f"\n{block}\n" for block in kept)
    if len(kept) < len(blocks):
        text += f"\n{wording.count(len(blocks) - len(kept), 'more problem')} did not fit here.\n"
    return text


def escaped(text: str) -> str:
    """Text with Markdown's special characters escaped.
    A zero-width space after ``@`` prevents notifying a user."""
    text = plain.line(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_\[\]|~#])", r"\\\1", text).replace("@", "@\u200b")


def code(text: str) -> str:
    """Text as a code span, also in a table."""
    text = plain.line(text)
    ticks = "`" * (max((len(run) for run in re.findall("`+", text)), default=0) + 1)
    pad = " " if text[:1] == "`" or text[-1:] == "`" else ""
    return f"{ticks}{pad}{text}{pad}{ticks}".replace("|", "\\|")


def _head(run: Collected) -> Iterator[str]:
    totals = Totals(run.run, run.finished)
    rows = []
    for refused in run.refused:
        line = totals.refused(refused)
        rows.append((line.mark, line.path, line.result, ""))
    for opened, finished in run.specs:
        line = totals.finish(finished, *spec_counts(opened, finished), opened)
        if opened.cases or line.mark != "stop":
            rows.append((line.mark, line.path, line.result, line.time))
    title, *rest = totals.parts()
    yield f"## kcheck: {title}"
    if rest:
        yield ""
        yield " · ".join(escaped(part) for part in rest)
    bad = [row for row in rows if row[0] != "ok"]
    if bad:
        yield ""
        yield from _table(("", "spec", "result", "time"), bad)
    if len(rows) > len(bad) and bad:
        yield ""
        yield f"{wording.count(len(rows) - len(bad), 'other spec')} passed."
    for text in proved_texts([finished for _, finished in run.specs]):
        yield ""
        yield escaped(text)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield "|" + "---|" * len(head)
    for mark, path, *cells in rows:
        yield f"| {escaped(mark)} | {code(path)} | {' | '.join(escaped(cell) for cell in cells)} |"


def _worse(changes: Sequence[Change]) -> Iterator[str]:
    yield "| op | measure | change | place |"
    yield "|---|---|---|---|"
    for change in changes:
        name, numbers, by = change_cells(change)
        place = code(change.at) if change.at else ""
        yield f"| {escaped(change.op)} | {escaped(name)} | {escaped(numbers)} {escaped(by)} | {place} |"


def _problem(problem: Problem) -> Iterator[str]:
    """A problem: one line, and its details in a collapsed section."""
    op = f" in {code(problem.op)}" if problem.op else ""
    where = f"{problem.place.file}:{problem.place.line}"
    head = f"**{escaped(problem.rule)}** {_WORDS[problem.severity]}{op} at {code(where)}"
    yield f"{head}: {escaped(problem.message)}"
    yield ""
    yield "<details><summary>Details</summary>"
    yield ""
    yield from _fenced("text", plain_text(problem.details).split("\n"))
    if problem.replay:
        yield ""
        yield from _fenced("sh", [problem.replay])
    yield ""
    yield "</details>"


def _fenced(language: str, lines: Sequence[str]) -> Iterator[str]:
    text = [plain.line(line) for line in lines]
    ticks = "`" * max(3, max((len(run) + 1 for line in text for run in re.findall("`+", line)), default=0))
    yield ticks + language
    yield from text
    yield ticks
