"""Proves twins of the corpus. As a program: prints a line of JSON for each, with the rules that report its bug."""

from __future__ import annotations

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 8.0


def main(wanted: list[str]) -> None:
    """Prove the named twins; without names, all that one of the four checks reports."""
    sys.path.insert(0, str(ROOT))
    from benchmarks.evidence.corpus import twins
    from kcheck.device import choose_for
    from kcheck.prover.verdicts import CHECKS, decide, words
    from kcheck.specfile import load_spec

    known = {twin.name: twin for twin in twins()}
    for name in wanted or known:
        rules = [rule for rule in known[name].caught_by if rule in CHECKS]
        if rules:
            spec = load_spec(known[name].spec)
            verdicts = words(decide(spec, choose_for([spec], "cpu", ()), SECONDS).proofs)
            print(json.dumps({"op": name, "verdicts": verdicts, "found": rules}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
