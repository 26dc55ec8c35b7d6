"""Compare what this tree and another one report of the same specs, case by case and bit by bit.

    python benchmarks/compare_reports.py ../kcheck-before                       every spec, and every buggy twin
    python benchmarks/compare_reports.py ../kcheck-before specs/softmax.yaml    these
    python benchmarks/compare_reports.py ../kcheck-before --cases 30 --seed 7   more cases, of another master seed

Both trees run the specs, kernels and references of the other, so that only kcheck differs: ``kcheck run --format
json`` with one master seed, hence with the same cases. The reports are kept in build/compare_reports. Statuses,
errors, compared values, findings and their places have to be equal, and numbers to their last bit. Times are left
out, and a remedy has been called ``fix`` since version 2 of the report, ``mend`` before. Differences that are
meant are listed in benchmarks/intended_differences.yaml, each with its reason. It exits with 1 if there is any
other.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
INTENDED = HERE / "intended_differences.yaml"
FOLDER = ROOT / "build" / "compare_reports"
CASES = 2
"""Drawn cases of a spec, beside its examples."""

UNTOLD = frozenset({"time"})
"""The fields of a spec and a case that differ between two runs of one command."""

RENAMED = {"mend": "fix"}


@dataclass(frozen=True, slots=True)
class Difference:
    """Two values of one field.

    Attributes:
        place: the case, or the spec.
        field: such as ``findings.message``: without the numbers of elements.
        before, now: the values; None if there is none.
    """

    place: str
    field: str
    before: Any
    now: Any

    def __str__(self) -> str:
        return f"{self.place}: {self.field} was {json.dumps(self.before)}, is {json.dumps(self.now)}"


@dataclass(frozen=True, slots=True)
class Intended:
    """A row of intended_differences.yaml.

    Attributes:
        field: a pattern of the whole field; ``place``: one that is found in the place.
        before, now: patterns of the whole values; groups of one name match the same text in both.
        reason: why the difference is meant.
    """

    field: str
    before: str
    now: str
    reason: str
    place: str = ""

    def explains(self, found: Difference) -> bool:
        """Whether a difference is this one."""
        if not re.fullmatch(self.field, found.field) or not re.search(self.place, found.place):
            return False
        old, new = (
            re.fullmatch(pattern, value if isinstance(value, str) else json.dumps(value), re.DOTALL)
            for pattern, value in ((self.before, found.before), (self.now, found.now))
        )
        if old is None or new is None:
            return False
        names, others = old.groupdict(), new.groupdict()
        return all(names[name] == others[name] for name in names.keys() & others.keys())


def comparable(value: Any) -> Any:
    """A report without the fields that differ between two runs, and with the names of today."""
    if isinstance(value, Mapping):
        return {RENAMED.get(key, key): comparable(of) for key, of in value.items() if key not in UNTOLD}
    return [comparable(of) for of in value] if isinstance(value, list) else value


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[Difference]:
    """What differs between two reports of the same specs."""
    old, new = ({spec["path"]: spec for spec in comparable(report["specs"])} for report in (before, now))
    for path in sorted(old.keys() | new.keys()):
        if path not in old or path not in new:
            yield Difference(path, "spec", path if path in old else None, path if path in new else None)
            continue
        cases = [{case["id"]: case for case in spec.pop("cases", [])} for spec in (old[path], new[path])]
        yield from _unequal(path, "", old[path], new[path])
        for case in sorted(cases[0].keys() | cases[1].keys()):
            place = f"{path} {case}"
            yield from _unequal(place, "", cases[0].get(case, {}), cases[1].get(case, {}))


def _unequal(place: str, field: str, before: Any, now: Any) -> Iterator[Difference]:
    if isinstance(before, dict) and isinstance(now, dict):
        for key in sorted(before.keys() | now.keys()):
            yield from _unequal(place, f"{field}.{key}".lstrip("."), before.get(key), now.get(key))
    elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        for a, b in zip(before, now, strict=True):
            yield from _unequal(place, field, a, b)
    elif before != now or type(before) is not type(now):
        yield Difference(place, field, before, now)


def judged(
    found: Sequence[Difference], intended: Sequence[Intended]
) -> tuple[list[Difference], dict[Intended, int]]:
    """The differences that no row explains, and how many each row explains."""
    counts = dict.fromkeys(intended, 0)
    unexplained = []
    for one in found:
        row = next((row for row in intended if row.explains(one)), None)
        if row is None:
            unexplained.append(one)
        else:
            counts[row] += 1
    return unexplained, counts


def read_intended(path: Path = INTENDED) -> list[Intended]:
    """The differences that are meant."""
    return [Intended(**row) for row in yaml.safe_load(path.read_text(encoding="utf-8")) or []]


def specs_of(other: Path) -> list[str]:
    """The specs of a checkout: of its controls, and of their buggy twins."""
    return [path.relative_to(other).as_posix() for path in sorted((other / "specs").rglob("*.yaml"))]


def start(tree: Path, other: Path, chosen: argparse.Namespace, report: Path) -> subprocess.Popen[bytes]:
    """Begin to run the specs of ``other`` with the kcheck of ``tree``."""
    # -P: else Python would take kcheck from the folder in which it starts.
    command = [sys.executable, "-P", "-m", "kcheck", "run", *chosen.specs, "--cases", str(chosen.cases)]
    command += ["--seed", str(chosen.seed), "--device", "cpu", "--no-lint", "--no-store"]
    cache = report.with_name(f"{report.stem}-cache")
    environment = os.environ | {"PYTHONPATH": str(tree), "KCHECK_CACHE_DIR": str(cache)}
    with report.with_suffix(".log").open("wb") as log:
        return subprocess.Popen(
            [*command, "--format", "json", "-o", str(report)], cwd=other, env=environment, stdout=log, stderr=log
        )


def main() -> int:
    """Run both trees, print the differences."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", type=Path, help="the root of another checkout")
    parser.add_argument("specs", nargs="*", help="of that checkout; default: all")
    parser.add_argument("--cases", type=int, default=CASES, help=f"drawn cases of a spec; default: {CASES}")
    parser.add_argument("--seed", type=int, default=0, help="the master seed; default: 0")
    chosen = parser.parse_args()
    other = chosen.other.resolve()
    chosen.specs = chosen.specs or specs_of(other)
    FOLDER.mkdir(parents=True, exist_ok=True)
    reports = [FOLDER / "before.json", FOLDER / "now.json"]
    for report in reports:
        report.unlink(missing_ok=True)
    running = [start(tree, other, chosen, report) for tree, report in zip((other, ROOT), reports, strict=True)]
    codes = [process.wait() for process in running]
    # 2: a spec cannot run, such as those of torch where it is not installed. The report says so.
    if any(code not in (0, 1, 2) for code in codes) or not all(report.exists() for report in reports):
        print(f"a run ended with {codes}; see {FOLDER}", file=sys.stderr)
        return 2
    return show(reports)


def show(reports: Sequence[Path]) -> int:
    """Print what differs between two reports, with the intended ones counted by their reason."""
    before, now = (json.loads(path.read_text(encoding="utf-8")) for path in reports)
    unexplained, counts = judged(list(differences(before, now)), read_intended())
    cases = sum(len(spec.get("cases", ())) for spec in now["specs"])
    print(f"{len(now['specs'])} specs, {cases} cases: {len(unexplained)} differences that are not meant")
    for row, count in counts.items():
        if count:
            print(f"{count} meant: {row.field}: {row.reason}")
    for one in unexplained:
        print(one)
    return int(bool(unexplained))


if __name__ == "__main__":
    sys.exit(main())
