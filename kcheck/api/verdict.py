"""Verdicts and failures as values, with the words of kcheck's report."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeAlias

import numpy.typing as npt

from kcheck import model
from kcheck.model import CaseFinished, Comparison, Finding, Snapshot
from kcheck.report import layout
from kcheck.report.detail import DetailRow, comparison_rows, facts, finding_rows, rows, sentence
from kcheck.report.error_map import error_map_rows
from kcheck.report.inputs import input_rows

Array: TypeAlias = npt.NDArray[Any]
WIDTH = 80


@dataclass(frozen=True, eq=False)
class Verdict:
    """The result of one case. ``print(verdict)`` shows what is wrong as kcheck's report does.

    >>> import kcheck
    >>> import numpy as np
    >>> verdict = kcheck.validate("double", {"x": np.ones(3)}, np.full(3, 2.0), lambda x: x + x)
    >>> verdict.passed
    True
    >>> print(verdict)
    double: passed

    Attributes:
        case: the sizes, dtypes, layouts, distributions, params and seed.
        status: ``passed``, ``failed``, or ``error``: the case could not be checked, because of the reference or
            the spec.
        comparisons: one for each output: the worst element, its error and what was allowed.
        findings: all other errors and warnings, errors first.
        notes: what was not checked, one sentence each.
    """

    case: model.Case
    status: str
    comparisons: tuple[Comparison, ...]
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]
    _model: model.Verdict = field(repr=False)
    _inputs: Snapshot | None = field(default=None, repr=False)

    @classmethod
    def of(cls, found: model.Verdict, inputs: Snapshot | None = None) -> Verdict:
        """Convert a verdict of the runner; ``inputs`` are those of the case, if known."""
        return cls(found.case, found.status.value, found.comparisons, found.findings, found.notes, found, inputs)

    @property
    def passed(self) -> bool:
        """Whether every output is within its tolerance and no finding is an error."""
        return self._model.status is model.Status.PASSED

    @property
    def rule(self) -> str:
        """Why it failed, in a word: ``mismatch``, ``racecheck``, ``mutated`` ...; empty if it passed."""
        return self._model.rule

    def __str__(self) -> str:
        head = f"{self.case.op}: {self.status}"
        return "\n".join([head, *text_lines(verdict_rows(self._model, self._inputs), 2)])

    def _repr_html_(self) -> str:
        return preformatted(str(self), self.passed)


@dataclass(frozen=True, eq=False)
class Failure:
    """A case that failed or could not be checked.

    Attributes:
        verdict: what is wrong.
        case: its sizes, dtypes, layouts, distributions, params and seed.
        inputs: the exact inputs by name, as C-contiguous arrays of their dtype; empty if they could not be made.
        outputs: the outputs by name; empty if the launch did not finish.
        replay: the command or the call that runs the case again.
    """

    verdict: Verdict
    case: model.Case
    inputs: Mapping[str, Array]
    outputs: Mapping[str, Array]
    replay: str
    _snapshot: Snapshot | None = field(default=None, repr=False)

    @property
    def seed(self) -> int:
        """The 64-bit seed of the case."""
        return self.case.seed

    @property
    def rule(self) -> str:
        """Why it failed, in a word."""
        return self.verdict.rule

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings of the verdict, errors first; differing outputs are not among them."""
        return self.verdict.findings

    def __str__(self) -> str:
        return str(self.verdict) + "".join(
            f"\n{line}" for line in text_lines([DetailRow("replay", (self.replay,), role="paste")], 2)
        )


def verdict_rows(found: model.Verdict, inputs: Snapshot | None = None) -> Iterator[DetailRow]:
    """What is wrong with a case and where; no row if it passed without a warning or note."""
    if found.status is model.Status.PASSED:
        for finding in found.findings:
            yield from finding_rows(finding)
    else:
        event = CaseFinished(found.case.spec, 1, found, "", datetime.now(UTC))
        *detail, _, _ = rows(event)
        yield from detail
        if inputs is not None:
            yield from input_rows(inputs)
        for comparison in found.comparisons:
            yield from error_map_rows(comparison)
    for note in found.notes:
        yield sentence("note", note)


def comparison_text(comparison: Comparison, extra: Mapping[str, object]) -> str:
    """An output that differs, in the words of the report: the worst elements, ulp, a map."""
    found = [*comparison_rows(comparison), *error_map_rows(comparison)]
    if extra:
        found.append(facts("dims", extra))
    return "\n".join(text_lines(found, 2))


def text_lines(found: Iterator[DetailRow] | list[DetailRow], indent: int) -> Iterator[str]:
    """Rows as lines of at most WIDTH columns."""
    for row in found:
        for left, text in layout.labeled(row, indent, WIDTH):
            yield f"{left}{text}".rstrip()


def preformatted(text: str, good: bool) -> str:
    """A text as HTML for a notebook, with a green or red bar."""
    color = "#2da44e" if good else "#cf222e"
    return (
        f'<pre style="border-left: 4px solid {color}; padding-left: 8px; overflow-x: auto">'
        f"{html.escape(text)}</pre>"
    )
