"""The report as GitLab's code quality JSON: one entry for each bug, shown in the diff of a merge request.

Source: GitLab, "Code Quality", the report format (a subset of Code Climate's).
"""

from __future__ import annotations

import json
from typing import Any

from kcheck.model.paths import file_name
from kcheck.report.collect import Collected, WholeReporter
from kcheck.report.problems import Problem, problems, shown_path

_SEVERITIES = {"error": "critical", "warn": "minor"}


class GitlabReporter(WholeReporter):
    """Writes the report at the end."""

    def _write(self, run: Collected) -> None:
        found = problems(run, self._source)
        json.dump([self._entry(problem) for problem in found], self._stream, indent=1)
        self._stream.write("\n")

    def _entry(self, problem: Problem) -> dict[str, Any]:
        base = self._settings.base
        path, line = shown_path(problem.place.file, base), problem.place.line
        if path is None:
            path, line = shown_path(file_name(problem.spec), base) or file_name(problem.spec), 1
        about = [f"{problem.op}: {problem.message}" if problem.op else problem.message]
        about += [f"{label} {text}" for label, text in (("cases:", problem.cases), ("fix:", problem.fix)) if text]
        return {
            "description": "; ".join(about),
            "check_name": problem.rule,
            "fingerprint": problem.fingerprint.replace(":", ""),
            "severity": _SEVERITIES[problem.severity],
            "location": {"path": path, "lines": {"begin": line}},
        }
