"""Compare every form of one instruction with the model, in seconds.

    python -m tests.isa.one_instruction vshl

prints what differs at one and eight lanes.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.isa.catalogue import batches
from tests.isa.judging import complaints
from tests.isa.machines import Cpu
from tests.isa.program import Case, build


def differing(opcode: str) -> tuple[int, list[str]]:
    """How many forms an instruction has, and what differs from the model."""
    count = 0
    found: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        machines = [Cpu(width, Path(folder)) for width in (1, 8)]
        for cases in _of(opcode):
            count += len(cases)
            found += complaints(build(cases), machines)
    return count, found


def _of(opcode: str) -> Iterator[list[Case]]:
    """The cases of an instruction, by kernel."""
    for batch in (*batches(), *batches(further=True)):
        cases = [case for case in batch.cases if case.name.partition(".")[0] == opcode]
        if cases:
            yield cases


def main(opcode: str) -> None:
    """Print the differences; exit with 1 if there are any, or no such instruction."""
    count, found = differing(opcode)
    print(*found, f"{opcode}: {count} forms, {len(found) or 'no'} differences", sep="\n")
    if found or not count:
        raise SystemExit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
