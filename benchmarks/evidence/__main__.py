"""Measure what kcheck catches on the whole corpus, and compare it with other ways of testing; docs/evidence.md.

    python -m benchmarks.evidence [--write] [--fresh] [--only NAME ...] [--jobs N] [--soak]

Exit code 0 if the claims of the page hold: at 30 cases and default settings recall of at least 98% at every
master seed, no false alarm, a median of at most 3 cases to the first catch. ``--soak`` runs 2,000 cases of every
control instead, and writes a separate part of the page.

Results are cached in build/evidence by what they depend on: an interrupted run continues where it stopped.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

from benchmarks.evidence.corpus import ROOT, controls, twins
from benchmarks.evidence.measure import Request, excuses
from benchmarks.evidence.page import acceptance, evidence_text, soak_faults, soak_text
from benchmarks.evidence.pool import Answer, Measure, Pool
from benchmarks.evidence.tables import Evidence

PAGE = ROOT / "docs" / "evidence.md"
SOAK_CASES = 2000


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.evidence", description=__doc__.split("\n\n")[0])
    parser.add_argument("--write", action="store_true", help="put the tables into docs/evidence.md")
    parser.add_argument("--fresh", action="store_true", help="measure everything again")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these controls, with their twins, alone")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="processes at a time; default: 2")
    parser.add_argument("--soak", action="store_true", help=f"{SOAK_CASES:,} cases of every control")
    parser.add_argument("--seeds", type=int, default=5, metavar="N", help="master seeds 0 to N - 1; default: 5")
    parser.add_argument("--cases", type=int, metavar="N", help="cases of a run (30), or of a soak")
    chosen = parser.parse_args()
    pool = Pool(ROOT / "build" / "evidence", jobs=chosen.jobs, fresh=chosen.fresh, report=_say)
    names = [name for name in controls() if not chosen.only or name in chosen.only]
    if chosen.soak:
        count = chosen.cases or SOAK_CASES
        soaked = pool.run([partial(alone, Request(name, twin=False, soak=count)) for name in names])
        text, faults, mark = soak_text(soaked), soak_faults(soaked), "soak"
    else:
        seeds, cases = tuple(range(chosen.seeds)), chosen.cases or 30
        planted = [twin for twin in twins() if twin.of in names]
        families = [[twin.name for twin in planted if twin.of == name] for name in names]
        jobs = [
            partial(family, Request(name, twin=False, seeds=seeds, cases=cases), twins_of_it)
            for name, twins_of_it in sorted(zip(names, families, strict=True), key=lambda pair: -len(pair[1]))
        ]
        found = pool.run(jobs)
        clean, buggy = ({name: found[name] for name in of} for of in (names, [twin.name for twin in planted]))
        evidence = Evidence(clean, buggy, planted, seeds, cases)
        text, faults, mark = evidence_text(evidence), acceptance(evidence), "evidence"
    print(text)
    if chosen.write:
        write(PAGE, mark, text)
    for fault in faults:
        print(f"evidence: {fault}", file=sys.stderr)
    return 1 if faults else 0


def alone(request: Request, measure: Measure) -> dict[str, Answer]:
    """One kernel."""
    return {request.name: measure(request)}


def family(control: Request, names: list[str], measure: Measure) -> dict[str, Answer]:
    """A control, and then its twins, with the envelopes measured on it."""
    found = {control.name: measure(control)}
    envelopes = found[control.name].get("envelopes") or {}
    excused = excuses(found[control.name].get("runs", {}))
    for name in names:
        found[name] = measure(replace(control, name=name, twin=True, envelopes=envelopes, excused=excused))
    return found


def write(page: Path, mark: str, text: str) -> None:
    """Put a text between the markers of a page."""
    start, end = f"<!-- {mark} -->\n", f"<!-- end of {mark} -->"
    before, rest = page.read_text(encoding="utf-8").split(start)
    _, after = rest.split(end)
    page.write_text(f"{before}{start}{text}\n{end}{after}", encoding="utf-8")


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
