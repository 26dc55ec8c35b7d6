"""The numbers of the page's charts: histograms of values and of errors, and the map of wrong elements."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from kcheck.model import CaseFinished, Comparison, Snapshot
from kcheck.report import TrendPoint, wording
from kcheck.report.html.markup import Markup, joined, tag

_BINS = 24
_MOST_VALUES = 1 << 16
Histogram = Mapping[str, Any]


def of_inputs(snapshot: Snapshot) -> dict[str, Histogram]:
    """A histogram of the values of each input; for a large one, of evenly spaced elements."""
    found = {}
    for array in snapshot.arrays:
        if array.values is None or not array.values.size or array.values.dtype.kind == "c":
            continue
        flat = np.ascontiguousarray(array.values).reshape(-1)
        flat = flat[:: max(1, flat.size // _MOST_VALUES)].astype(np.float64)
        finite = flat[np.isfinite(flat)]
        rest = flat.size - finite.size
        title = f"{array.name}: {array.dtype}[{', '.join(map(str, array.shape))}]"
        found[array.name] = _histogram(title + (f", {rest:,} not finite" if rest else ""), finite, "value")
    return found


def of_errors(cases: Iterable[CaseFinished]) -> Histogram | None:
    """A histogram of the worst error of each case, in powers of two of the noise floor; None if none is known."""
    found = [units for event in cases for each in event.verdict.comparisons if (units := _units(each)) is not None]
    if not found:
        return None
    logs = np.log2(np.maximum(np.array(found), 2.0**-8))
    return _histogram(
        "Worst error of each output of each case", np.minimum(logs, 64.0), "log2(error / noise floor)"
    )


def of_elements(comparison: Comparison) -> Histogram | None:
    """A histogram of the errors of an output's elements, in powers of two of the noise floor;
    None if not known."""
    found = comparison.error_map
    if found is None or not found.errors:
        return None
    counts = dict(found.errors)
    powers = range(min(counts), max(counts) + 1)
    return {
        "title": f"{comparison.output}: errors of {wording.count(sum(counts.values()), 'element')}",
        "label": f"log2(error / {'allowed' if comparison.floor is None else 'noise floor'}), rounded down",
        "x": list(powers),
        "y": [counts.get(power, 0) for power in powers],
    }


def _units(comparison: Comparison) -> float | None:
    """The worst error of an output in units of its noise floor, or of the allowed error if no floor is known."""
    error, floor = comparison.error, comparison.floor or comparison.allowed
    if error is None or not floor or not math.isfinite(error):
        return None
    return error / floor


def _histogram(title: str, values: Any, label: str) -> Histogram:
    if not values.size:
        return {"title": title, "label": label, "x": [], "y": []}
    low, high = float(values.min()), float(values.max())
    if not math.isfinite(high - low) or high == low:
        return {"title": title, "label": label, "x": [low], "y": [int(values.size)]}
    counts, edges = np.histogram(values, bins=_BINS)
    middles = (edges[:-1] + edges[1:]) / 2
    return {
        "title": title,
        "label": label,
        "x": [float(f"{each:.6g}") for each in middles],
        "y": [int(count) for count in counts],
    }


def error_map(comparison: Comparison) -> Markup | None:
    """The output as a grid of squares, darker where more elements are wrong; None if there is no map."""
    found = comparison.error_map
    if found is None or comparison.elements < 2:
        return None
    size = 10
    squares = [
        tag("rect", x=str(size * x), y=str(size * y), width=str(size), height=str(size), class_=f"wrong{digit}")
        for y, line in enumerate(found.grid)
        for x, digit in enumerate(line)
        if digit != "0"
    ]
    width, height = size * max(map(len, found.grid)), size * len(found.grid)
    about = f"{comparison.output}, {' x '.join(map(str, comparison.shape))}: where elements are wrong"
    frame = tag("rect", x="0", y="0", width=str(width), height=str(height), class_="frame")
    return tag(
        "figure",
        tag("figcaption", about),
        tag(
            "svg",
            frame,
            joined(*squares),
            role="img",
            aria_label=about,
            viewBox=f"0 0 {width} {height}",
            width=str(min(width * 2, 480)),
        ),
    )


def of_trend(points: Sequence[TrendPoint]) -> Histogram:
    """Cases that failed in each stored run, the oldest first."""
    return {
        "title": "Failing cases of the stored runs",
        "label": "run",
        "x": list(range(1, len(points) + 1)),
        "y": [failed for _, _, failed in points],
    }
