"""The soak of docs/monitor.md, shorter: two threads, mismatches in a hundred calls, and an exit without stop()."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))
import monitor_soak


def test_every_sampled_mismatch_is_found_none_is_invented_and_the_memory_is_flat() -> None:
    answer = monitor_soak.measured(20_000)
    assert 9_500 < answer["checked"] < 11_500
    assert 20 < len(answer["found"]) < 80  # half of a hundred, 6 standard deviations
    before, after = answer["memory"]
    assert after - before < 16 << 20
    assert answer["peak"] <= 4 << 20
