"""The report as one HTML file that needs no network: filter, search, error maps, histograms, source lines.

uPlot (MIT) draws the charts and is part of the file. Text from specs and kernels is always escaped.
"""

from __future__ import annotations

from collections.abc import Mapping

from kcheck.model import Captured, Event
from kcheck.report.collect import Collected, WholeReporter
from kcheck.report.html.figures import Histogram, of_inputs
from kcheck.report.html.page import page


class HtmlReporter(WholeReporter):
    """Writes the page at the end."""

    _inputs: dict[str, Mapping[str, Histogram]] | None = None

    def handle(self, event: Event) -> None:
        """Takes the next event; keeps only histograms of captured inputs."""
        if isinstance(event, Captured):
            case = event.snapshot.case
            self._inputs = self._inputs or {}
            self._inputs[f"{case.op} {case.seed} {case.label}"] = of_inputs(event.snapshot)
        super().handle(event)

    def _write(self, run: Collected) -> None:
        self._stream.write(page(run, self._inputs or {}, self._settings.trend(), self._source))
        self._stream.write("\n")
