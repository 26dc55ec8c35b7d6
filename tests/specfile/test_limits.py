"""Hostile files: a clear error within a second and 200 MB, and nothing heavy imported to say so."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kcheck.specfile.yamltree import MAX_BYTES

# Prints the first fault, the seconds that load_spec took, the peak memory in MiB, and heavy modules.
_PROBE = """
import sys, time
from pathlib import Path
from kcheck.errors import SpecError
from kcheck.specfile import load_spec
start = time.process_time()
try:
    load_spec(Path(sys.argv[1]))
    print("valid")
except SpecError as error:
    print(str(error.faults[0])[:200])
print(time.process_time() - start)
# Not ru_maxrss: that one begins at what the process had that started this one.
status = Path("/proc/self/status").read_text()
print(int(status.partition("VmHWM:")[2].split()[0]) / 1024)
print(*(name for name in ("numba", "llvmlite", "rich", "numpy", "click") if name in sys.modules))
"""


def _probe(path: Path) -> tuple[str, float, float, list[str]]:
    root = Path(__file__).parents[2]
    run = subprocess.run(
        [sys.executable, "-c", _PROBE, str(path)],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=root,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    message, seconds, peak, modules = run.stdout.split("\n")[:4]
    return message.partition(".yaml:")[2], float(seconds), float(peak), modules.split()


def _many(template: str, count: int) -> str:
    return "".join(template.format(i=i) for i in range(count))[: MAX_BYTES - 400]


_HOSTILE = {
    "100 MB": (b"", "1:1: the file has 104857600 bytes; the limit for a spec is 131072"),
    "aliases that explode": (
        "a0: &a0 [1]\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 40)),
        "6:",
    ),
    "nesting": ("dims: " + "[" * 100_000, "1:38: the file is nested more than 32 levels deep"),
    "block nesting": (
        "".join(" " * i + "a:\n" for i in range(400)),
        "32:32: the file is nested more than 32 levels deep",
    ),
    "a power of powers": (
        "{softmax}constraints: [9**9**9 > M]\n",
        "9:16: in constraint: 9 ** 387420489 is an integer",
    ),
    "an unreachable power": ("{softmax}constraints: [M**M**M**M > 3]\n", ""),
    "parentheses": (
        "{softmax}constraints: [" + "(" * 100_000 + "]\n",
        "9:15: in constraint: the expression is 100000",
    ),
    "binary junk": (bytes(range(256)) * 400, "3:115: byte 0x80 is not UTF-8"),
    "unknown keys": (_many("kernal{i}: 1\n", 9000), "1:1: "),
    "unknown dims": ("dims: {N: 1..4}\ninputs:\n" + _many(" i{i}: [n{i}]\n", 6000), "1:1: missing key"),
    "an endless list": (
        "{softmax}tags: [" + _many("a{i}, ", 15000) + "]\n",
        "9:7: 'tags' must have at most 256 items",
    ),
    "duplicate keys": (_many("a: 1\n", 9000), "1:1: missing key"),
    "too many values": (_many("a: 1\n", 20000), "10000:4: the file expands to more than 20000 values"),
    "a syntax error at the end": (_many("- [a, b]\n", 6000) + "]", ""),
    "one long scalar": ("op: " + "a" * 120_000 + "\n", "1:1: missing key"),
    "regular expression": ("{softmax}artifact: {required_patterns: ['" + "(" * 900 + "']}\n", "9:"),
    "hard constraints": (
        "{softmax}constraints: [M**2 + N**2 == N * M + 1999, M * N % 7919 == 1, N % 97 == 5, M * M > N]\n",
        "",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", _HOSTILE)
def test_a_hostile_file_is_a_clear_error(kind: str, project: Path, softmax: str) -> None:
    """Refused in under a second of processor time and 200 MB, at a place."""
    text, message = _HOSTILE[kind]
    path = project / "specs/hostile.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.replace("{softmax}", softmax).encode())
    if kind == "100 MB":
        with path.open("r+b") as file:
            file.truncate(100 * 2**20)
    said, seconds, peak, _ = _probe(path)
    assert said.startswith(message)
    assert seconds < 2  # twice the limit: the machine of a test run is a busy one
    assert peak < 200


def test_validation_imports_nothing_heavy(project: Path, softmax: str) -> None:
    """A valid spec is read without numba, llvmlite, rich or NumPy, and without the user's own files."""
    path = project / "specs/s.yaml"
    path.write_text(softmax)
    _, _, _, modules = _probe(path)
    assert modules == []
