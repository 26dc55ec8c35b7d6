"""How many calls the default outlier detector flags, and what it flags at once: a table of docs/monitor.md.

    python benchmarks/monitor_outliers.py [--write]

Streams of inputs of 1 to 4,096 features in batches of 1 to 512: stationary, drifting, wandering and heavy-tailed.
The share of flagged calls must be within a factor of 2 of the target, over all calls and over the last half of
them, and an input that is shifted, collapsed, exploding, NaN or of a new shape must be flagged at its first call.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from monitor_soak import write  # noqa: E402

from kcheck.monitor import OutlierDetector  # noqa: E402

Array: TypeAlias = npt.NDArray[Any]
Draw: TypeAlias = Callable[[], Array]

MARKS = "<!-- monitor outliers -->\n", "<!-- /monitor outliers -->"
FEATURES = (1, 2, 7, 32, 100, 512, 4096)
BATCHES = (1, 2, 16, 100, 512)
CALLS = 2000
WARM = 300
"""Calls before the unusual one."""
SHARE = OutlierDetector().share
POOL = 1 << 16
"""Random numbers that inputs of more elements than this are cut from."""


def source(rng: np.random.Generator, kind: Callable[..., Array], shape: tuple[int, int]) -> Draw:
    """Random inputs of a shape. Large ones are parts of one pool, at random places: drawing all takes minutes."""
    size = shape[0] * shape[1]
    if size <= POOL // 4:
        return lambda: kind(rng, shape).astype(np.float32)
    pool = kind(rng, (size + POOL,)).astype(np.float32)

    def part() -> Array:
        start = rng.integers(POOL)
        return pool[start : start + size].reshape(shape)

    return part


def normal(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return rng.standard_normal(shape)


def cauchy(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return rng.standard_cauchy(shape)


def stationary(rng: np.random.Generator, shape: tuple[int, int]) -> Iterator[Array]:
    draw = source(rng, normal, shape)
    while True:
        yield draw()


def drifting(rng: np.random.Generator, shape: tuple[int, int]) -> Iterator[Array]:
    """The mean rises by a hundredth of the standard deviation in each call."""
    for call, x in enumerate(stationary(rng, shape)):
        yield x + np.float32(call / 100)


def wandering(rng: np.random.Generator, shape: tuple[int, int]) -> Iterator[Array]:
    """The mean and the scale of each feature are random walks."""
    place, size = np.zeros(shape[1], np.float32), np.zeros(shape[1], np.float32)
    for x in stationary(rng, shape):
        place += rng.normal(0, 0.05, shape[1]).astype(np.float32)
        size += rng.normal(0, 0.01, shape[1]).astype(np.float32)
        yield x * np.exp(size) + place


def heavy(rng: np.random.Generator, shape: tuple[int, int]) -> Iterator[Array]:
    """Cauchy: no mean and no variance."""
    draw = source(rng, cauchy, shape)
    while True:
        yield draw()


STREAMS = (stationary, drifting, wandering, heavy)
SHIFT, HEAVY_SHIFT = 40, 1e4
"""How far a shifted input is from a usual one. With heavy tails, values of 40 are usual."""
UNUSUAL: dict[str, Callable[[Array, float], Array]] = {
    "shifted": lambda x, shift: x + np.float32(shift),
    "collapsed": lambda x, _: np.full_like(x, 0.1),
    "exploding": lambda x, _: x * np.float32(1e4),
    "NaN": lambda x, _: np.full_like(x, np.nan),
    "new shape": lambda x, _: np.concatenate([x, x]),
}
"""By what they are: from a usual input to one that must be flagged at once."""


def can_be_seen(what: str, shape: tuple[int, int]) -> bool:
    """A single number cannot collapse, and 10,000 times a small one may be a usual one."""
    return shape != (1, 1) or what not in ("collapsed", "exploding")


@dataclass(frozen=True)
class Measured:
    """Attributes: shares of flagged calls over the target, by stream; unusual inputs as (stream, what, shape,
    whether they were flagged)."""

    shares: dict[str, list[float]]
    unusual: list[tuple[str, str, tuple[int, int], bool]]


def measured(shapes: list[tuple[int, int]], calls: int = CALLS) -> Measured:
    """Feed streams of each shape (rows, features) to a detector."""
    shares: dict[str, list[float]] = {stream.__name__: [] for stream in STREAMS}
    unusual = []
    for shape in shapes:
        for stream in STREAMS:
            seed = [*shape, STREAMS.index(stream)]
            inputs, detector = stream(np.random.default_rng(seed), shape), OutlierDetector()
            flags = [detector.is_outlier(next(inputs)) for _ in range(calls)]
            halves = np.mean(flags), np.mean(flags[calls // 2 :])
            shares[stream.__name__] += [float(half) / SHARE for half in halves]
            for what, change in UNUSUAL.items():
                if can_be_seen(what, shape):
                    inputs, detector = stream(np.random.default_rng(seed), shape), OutlierDetector()
                    for _ in range(WARM):
                        detector.is_outlier(next(inputs))
                    shift = HEAVY_SHIFT if stream is heavy else SHIFT
                    found = detector.is_outlier(change(next(inputs), shift))
                    unusual.append((stream.__name__, what, shape, found))
    return Measured(shares, unusual)


def check(found: Measured) -> None:
    """
    Raises:
        AssertionError: a share is off by more than a factor of 2, or an unusual input was not flagged.
    """
    for stream, ratios in found.shares.items():
        assert 0.5 <= min(ratios) <= max(ratios) <= 2, (stream, min(ratios), max(ratios))
    missed = [what[:3] for what in found.unusual if not what[3]]
    assert not missed, missed


def table(found: Measured) -> str:
    """The table as Markdown, with the smallest and the largest share."""
    lines = [f"| inputs | share of flagged calls, target {SHARE:.0%} | " + " | ".join(UNUSUAL) + " |"]
    lines.append("|---|---|" + "---|" * len(UNUSUAL))
    for stream, ratios in found.shares.items():
        cells = [stream, f"{min(ratios) * SHARE:.1%} to {max(ratios) * SHARE:.1%}"]
        for what in UNUSUAL:
            flags = [flagged for name, kind, _, flagged in found.unusual if (name, kind) == (stream, what)]
            cells.append(f"{sum(flags)} of {len(flags)}")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write docs/monitor.md")
    options = parser.parse_args()
    found = measured([(rows, features) for rows in BATCHES for features in FEATURES])
    print(table(found), end="")
    check(found)
    if options.write:
        write(table(found), MARKS)


if __name__ == "__main__":
    main()
