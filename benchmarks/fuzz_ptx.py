"""Soak the PTX reader with damaged kernels, and the compiler with those that the reader accepts.

    python benchmarks/fuzz_ptx.py [--read N] [--run N] [--first SEED] [--write]

Every seed names one damaged file (tests/ptx/damaged.py). ``--read`` of them go through the parser and the
verifier, ``--run`` of them are also compiled and launched in a separate process, which must survive. --write puts
the table into docs/soak.md. Exits with 1 if any seed failed.
"""

from __future__ import annotations

import argparse
import platform
import re
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "ptx")]

from damaged import LISTED, damaged, samples  # noqa: E402
from device_child import ChildDiedError, DeviceChild  # noqa: E402
from isa_kernels import NEWEST  # noqa: E402

from kcheck.errors import PtxError  # noqa: E402
from kcheck.ptx.isa.verify import verify  # noqa: E402
from kcheck.ptx.syntax.parser import parse  # noqa: E402

SECONDS = 2.0
"""The time limit for reading one file, in seconds."""


def read(seeds: range, failures: list[str]) -> tuple[Counter[str], float]:
    """The results of reading the seeds, and the longest time for one, in seconds."""
    endings: Counter[str] = Counter()
    longest = 0.0
    for seed in seeds:
        _, text = damaged(seed)
        began = time.perf_counter()
        try:
            verify(parse(text, "damaged.ptx"))
            endings["an AST that verifies"] += 1
        except PtxError as error:
            endings["PtxError"] += 1
            if not re.match(r"damaged\.ptx:\d+: .", str(error)):
                failures.append(f"seed {seed}: a PtxError without a place: {error}")
        except Exception:
            endings["another exception"] += 1
            failures.append(f"seed {seed}: {traceback.format_exc(limit=-2)}")
        took = time.perf_counter() - began
        longest = max(longest, took)
        if took > SECONDS:
            failures.append(f"seed {seed}: took {took:.1f} s to read")
    return endings, longest


def run(seeds: range, failures: list[str]) -> Counter[str]:
    """How the launches of the seeds ended."""
    endings: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="kcheck-fuzz-") as cache:
        child = DeviceChild(ROOT / "tests" / "ptx" / "damaged_on_device.py", Path(cache))
        for seed in seeds:
            try:
                endings[child.ask({"seed": seed}, seconds=60)] += 1
            except ChildDiedError as error:
                endings["the process died or hung"] += 1
                failures.append(str(error))
            except AssertionError as error:
                endings["another exception"] += 1
                failures.append(str(error))
        child.close()
    return endings


def _table(title: str, endings: Counter[str]) -> list[str]:
    return [f"| {title} | files |", "|---|---|", *(f"| {k} | {n:,} |" for k, n in endings.most_common()), ""]


def main() -> int:
    """Soak, print the table, list the seeds that failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--read", type=int, default=100_000, metavar="N")
    parser.add_argument("--run", type=int, default=1_500, metavar="N")
    parser.add_argument("--first", type=int, default=0, metavar="SEED")
    parser.add_argument("--write", action="store_true", help="put the table into docs/soak.md")
    asked = parser.parse_args()
    failures: list[str] = []
    began = time.perf_counter()
    was_read, longest = read(range(asked.first, asked.first + asked.read), failures)
    read_seconds = time.perf_counter() - began
    was_run = run(range(asked.first, asked.first + asked.run), failures)
    lines = [
        "# Soak of the PTX reader and compiler",
        "",
        "Written by `python benchmarks/fuzz_ptx.py --write`. Each file is the PTX of a real kernel with one to",
        "eight random changes (bytes, tokens, lines, operands, types, modifiers, numbers), drawn from its seed.",
        f"But {LISTED:.0%} of the files start from up to twelve instructions of the ISA (up to sm_{NEWEST}).",
        "One launch in three has every sanitizer.",
        "",
        f"The run used {len(samples())} kernels and seeds {asked.first:,} to {asked.first + asked.read - 1:,}."
        f" Reading took {read_seconds / max(asked.read, 1) * 1e3:.1f} ms per file, at most {longest * 1e3:.0f} ms,"
        f" with Python {platform.python_version()}.",
        "",
        *_table("parsed and verified", was_read),
        *_table(f"compiled and launched, seeds {asked.first:,} to {asked.first + asked.run - 1:,}", was_run),
        f"Failures: {len(failures)}.",
        "",
    ]
    print("\n".join(lines))
    for failure in failures[:50]:
        print(failure, file=sys.stderr)
    if asked.write:
        (ROOT / "docs" / "soak.md").write_text("\n".join(lines))
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main())
