"""What docs/evidence.md counts, on made-up runs: a miss, a false alarm and a lie of the manifest are told."""

from __future__ import annotations

import math
from typing import Any

from benchmarks.evidence.corpus import Twin
from benchmarks.evidence.measure import excuses
from benchmarks.evidence.page import acceptance
from benchmarks.evidence.tables import Evidence, Share, by_default, by_values, without_sanitizers
from benchmarks.evidence.trial import Seen

PASSES = Seen("iter_0", {"N": 5}, off={"conditioned": False, "benchmark": False})
OFF = Seen("iter_1", {"N": 33}, off={"conditioned": True, "benchmark": False})
RACES = Seen("iter_2", {"N": 33}, found=("racecheck",), off={"conditioned": False, "benchmark": False})
STOPS = Seen("iter_3", {"N": 64}, fatal=True, found=("memcheck",))
BROKEN = Seen("iter_4", {"N": 5}, found=("invariant",), off={"conditioned": False})


def twin(name: str, harmless: str = "", caught_by: tuple[str, ...] = ("tolerance",)) -> Twin:
    return Twin(name, "sum", "ties", "", "", harmless, caught_by, "", "")


def answer(**runs: list[list[Seen]]) -> dict[str, Any]:
    by_seed = {k: {str(n): [s.to_json() for s in run] for n, run in enumerate(v)} for k, v in runs.items()}
    return {"runs": by_seed, "artifact": []}


def evidence(
    clean: dict[str, Any], buggy: dict[str, Any], planted: list[Twin], seeds: tuple[int, ...] = (0, 1)
) -> Evidence:
    return Evidence({"sum": clean}, buggy, planted, seeds, 30)


def test_values_invariants_and_sanitizers_are_counted_apart() -> None:
    """Values, invariants and sanitizers are told apart; a launch that does not end is seen by all."""
    assert [one.fails() for one in (PASSES, OFF, RACES, STOPS, BROKEN)] == [False, True, True, True, True]
    assert [one.fails(sanitizers=False) for one in (PASSES, OFF, RACES, STOPS)] == [False, True, False, True]
    assert not BROKEN.fails(invariants=False)
    assert not OFF.fails("benchmark")
    assert OFF.rules() == {"tolerance"}
    assert Seen.from_json(OFF.to_json()) == OFF


def test_recall_is_counted_by_seed() -> None:
    """The share of twins of which any case fails; strategies that have no cases for a twin leave it out."""
    found = evidence(
        answer(mix=[[PASSES], [PASSES]]),
        {
            "a": answer(mix=[[PASSES, OFF], [PASSES, PASSES]]),
            "b": answer(mix=[[RACES], [RACES]], rare=[[OFF], [OFF]]),
        },
        [twin("a"), twin("b", caught_by=("racecheck",))],
    )
    assert found.recall("mix", by_default) == Share((1.0, 0.5), 2)
    assert found.recall("mix", without_sanitizers) == Share((0.5, 0.0), 2)
    assert found.recall("mix", by_values("benchmark")) == Share((0.0, 0.0), 2)
    assert found.recall("rare", by_default) == Share((1.0, 1.0), 1)
    assert str(Share((1.0, 0.999, 0.5), 3)) == "83.3% (50 to 100)"
    assert found.firsts(by_default) == [1.0, 1.0, 2.0, math.inf]
    assert [(t.name, seeds) for t, seeds in found.misses()] == [("a", [1])]
    assert found.expected().by_seed == (1.0, 1.0)


def test_what_a_control_fails_excuses_its_twins() -> None:
    """By strategy and seed, the cases that catch nothing; of kcheck's own mix none: those are false alarms."""
    runs = answer(mix=[[OFF], [OFF]], default=[[PASSES], [OFF, PASSES]])["runs"]
    assert excuses(runs) == {"default": {"0": [], "1": ["iter_1"]}}


def test_promises_that_do_not_hold_are_told() -> None:
    """Recall below the bound at one seed, a false alarm, a failure where the manifest says harmless, a crash."""
    good = evidence(answer(mix=[[PASSES], [PASSES]]), {"a": answer(mix=[[OFF], [OFF]])}, [twin("a")])
    assert acceptance(good) == []
    bad = evidence(
        answer(mix=[[PASSES, BROKEN], [PASSES]]),
        {"a": answer(mix=[[OFF], [PASSES]]), "b": answer(mix=[[STOPS], [STOPS]]), "c": {"died": "ended with -11"}},
        [twin("a"), twin("b", harmless="N % 32 == 0"), twin("c")],
    )
    assert acceptance(bad) == [
        "could not be measured: c: ended with -11",
        "seed 0: recall 66.7%, promised are 98%",
        "seed 1: recall 33.3%, promised are 98%",
        "false alarm: sum, seed 0, iter_4 N=5: invariant",
        "where the manifest says harmless: b, mix, seed 0, iter_3 N=64: memcheck",
        "where the manifest says harmless: b, mix, seed 1, iter_3 N=64: memcheck",
        "the first catch comes at case inf in the median, promised is 3",
    ]
