"""Proves specs without running counterexamples, in a process that has not imported the simulator.

As a program: prints by spec the words for its checks, and the first reason for what is not proved, as JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

Verdicts = dict[str, str]
"""By check, the word."""


def decided(folder: Path, names: Iterable[str]) -> dict[str, tuple[Verdicts, str]]:
    """By name of a spec in a folder: its verdicts and the first reason."""
    done = subprocess.run(
        [sys.executable, __file__, *(f"{name}.yaml" for name in names)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return {name: (verdicts, reason) for name, (verdicts, reason) in json.loads(done.stdout).items()}


def main(paths: list[str]) -> None:
    """Prove the specs at these paths."""
    from kcheck.device import choose_for
    from kcheck.prover.verdicts import decide, words
    from kcheck.specfile import load_spec

    found = {}
    for path in map(Path, paths):
        spec = load_spec(path)
        proofs = decide(spec, choose_for([spec], "cpu")).proofs
        found[path.stem] = words(proofs), next((r.message for proof in proofs for r in proof.reasons), "")
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
