"""The report for GitHub Actions: annotations on the lines of a change, and a page as the step's summary.

Source: GitHub, "Workflow commands for GitHub Actions". GitHub shows at most ten errors and ten warnings per step.
"""

from __future__ import annotations

from kcheck.report import wording
from kcheck.report.collect import Collected, WholeReporter
from kcheck.report.markdown import page
from kcheck.report.problems import Problem, problems, shown_path

MOST_SHOWN = 10
"""The maximum number of annotations of one kind that GitHub shows for a step."""
_SUMMARY = 1_000_000
"""The maximum size of a summary, in characters. GitHub accepts 1 MiB per step."""
_COMMANDS = {"error": "error", "warn": "warning"}


class GithubReporter(WholeReporter):
    """Writes annotations at the end, and appends the page to ``settings.step_summary``."""

    def _write(self, run: Collected) -> None:
        found = problems(run, self._source)
        for severity, command in _COMMANDS.items():
            mine = [problem for problem in found if problem.severity == severity]
            for problem in mine[:MOST_SHOWN]:
                self._command(command, *self._annotation(problem))
            if len(mine) > MOST_SHOWN:
                more = wording.count(len(mine) - MOST_SHOWN, f"more {command}")
                self._command("notice", {"title": "kcheck"}, f"{more}; the summary of this job lists all of them")
        if self._settings.step_summary is not None:
            with self._settings.step_summary.open("a", encoding="utf-8") as file:
                file.write(page(run, most=_SUMMARY, source=self._source))

    def _annotation(self, problem: Problem) -> tuple[dict[str, str], str]:
        path, line = shown_path(problem.place.file, self._settings.base), problem.place.line
        properties = {"title": f"kcheck {problem.rule}" + (f" ({problem.op})" if problem.op else "")}
        if path is not None:
            properties = {"file": path, "line": str(line), **properties}
        lines = [problem.message, *([f"cases: {problem.cases}"] if problem.cases else [])]
        lines += [f"fix: {problem.fix}"] if problem.fix else []
        lines += [f"replay: {problem.replay}"] if problem.replay else []
        return properties, "\n".join(lines)

    def _command(self, command: str, properties: dict[str, str], message: str) -> None:
        pairs = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
        self._stream.write(f"::{command} {pairs}::{_data(message)}\n")


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
