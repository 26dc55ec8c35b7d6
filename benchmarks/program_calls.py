"""What a call of the CUDA API takes in a program under ``kcheck exec``."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from kcheck.driver.nvcc import find_nvcc

GOAL_MICROSECONDS = 100.0
_SOURCE = Path(__file__).with_suffix(".cu")


def measured(program: Path, *options: str) -> dict[str, float]:
    """Microseconds by what was timed."""
    command = [sys.executable, "-m", "kcheck", "exec", *options, "--", str(program)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return {name: float(time) for name, _, time in (line.partition("\t") for line in done.stdout.splitlines())}


def main() -> int:
    """Print a table; 1 if an empty launch takes longer than the goal."""
    if (nvcc := find_nvcc()) is None:
        print("no nvcc: install NVIDIA's toolkit, or kcheck[nvcc]", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "calls"
        subprocess.run([str(nvcc), "-O2", "-lineinfo", "-o", str(program), str(_SOURCE)], check=True)
        plain, raced = measured(program), measured(program, "--sanitize", "racecheck")
    print(f"{'call':40}{'default':>10}{'racecheck':>12}   (microseconds)")
    for name, time in plain.items():
        print(f"{name:40}{time:10.1f}{raced[name]:12.1f}")
    empty = plain["an empty launch"]
    print(f"An empty launch takes {empty:.0f} µs; the goal is less than {GOAL_MICROSECONDS:.0f} µs.")
    return int(empty >= GOAL_MICROSECONDS)


if __name__ == "__main__":
    sys.exit(main())
