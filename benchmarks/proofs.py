"""What ``kcheck prove`` decides about every correct kernel of the project: a table, and with --write
docs/proofs.md."""

from __future__ import annotations

import argparse
import statistics
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from kcheck.device import choose_for
from kcheck.errors import KernelError, SpecError
from kcheck.prover.verdicts import CHECKS, SECONDS, Proved, decide
from kcheck.specfile import load_spec

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "proofs.md"
HEAD = """# Proofs of the project's kernels

`make prove` writes this page. It shows what [`kcheck prove`](prove.md) decides about the correct kernels in
`specs/`, for every size, param, layout and block that the spec allows. Seconds are processor time.

"""


def measured(paths: list[Path], seconds: float) -> Iterator[Proved]:
    """The verdicts of each spec, in order."""
    for path in paths:
        spec = load_spec(path)
        try:
            one = decide(spec, choose_for([spec], "cpu", ()), seconds)
        except (KernelError, SpecError) as error:
            print(f"{path.stem}: {error}")
            continue
        words = " ".join(f"{proof.check} {proof.word}" for proof in one.proofs)
        print(f"{spec.op}: {one.seconds:.1f} s, {words}", flush=True)
        yield one


def page(found: list[Proved], seconds: float) -> str:
    """The page in Markdown."""
    words = {name: Counter(_word(one, name) for one in found) for name in CHECKS}
    rows = ["| check | proved | undecided |", "|---|---|---|"]
    for name in CHECKS:
        count = words[name].total()
        proved, undecided = words[name]["proved"], words[name]["undecided"]
        rows.append(f"| {name} | {proved} of {count} ({100 * proved // max(count, 1)}%) | {undecided} |")
    every = len(list((ROOT / "specs").glob("*.yaml")))
    times = sorted(one.seconds for one in found)
    rows += [
        "",
        f"{len(found)} of {every} kernels; median {statistics.median(times):.1f} s, longest {times[-1]:.1f} s, "
        f"limit {seconds:g} s.",
        "",
    ]
    rows += [f"| op | s | {' | '.join(CHECKS)} | first reason |", "|---" * (len(CHECKS) + 3) + "|"]
    for one in found:
        cells = [_word(one, name) for name in CHECKS]
        rows.append(f"| {one.spec.op} | {one.seconds:.1f} | {' | '.join(cells)} | {_reason(one)} |")
    return HEAD + "\n".join(rows) + "\n"


def _word(one: Proved, check: str) -> str:
    return next(str(proof.word) for proof in one.proofs if proof.check == check)


def _reason(one: Proved) -> str:
    for proof in one.proofs:
        for reason in proof.reasons:
            where = f"line {reason.place.line}: " if reason.place is not None else ""
            return (where + reason.message).replace("|", "\\|").replace("_", "\\_").replace("*", "\\*")
    return ""


def main() -> None:
    """Prove all specs, or the named ones."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("specs", nargs="*", type=Path)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--seconds", type=float, default=SECONDS)
    given = parser.parse_args()
    found = []
    for one in measured(given.specs or sorted((ROOT / "specs").glob("*.yaml")), given.seconds):
        found.append(one)
        if given.write:  # after each, because all of them take a while
            PAGE.write_text(page(found, given.seconds), encoding="utf-8")
    if not given.write:
        print(page(found, given.seconds))


if __name__ == "__main__":
    main()
