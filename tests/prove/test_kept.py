"""What was decided is kept: by everything that it depends on, and never because the clock stopped the solver."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from test_prove_command import PTX, SCATTER, kcheck, project, prove

STEPS = """
import json, sys
from pathlib import Path
from kcheck.device import choose_for
from kcheck.prover.kept import KeptProofs
from kcheck.prover.verdicts import decide, words
from kcheck.specfile import load_spec

kept, found = KeptProofs(), []
for path, old, new, seconds in json.loads(sys.argv[1]):
    text = Path(path).read_text()
    assert old in text
    Path(path).write_text(text.replace(old, new))
    spec = load_spec(Path("specs/copy.yaml"))
    proofs = decide(spec, choose_for([spec], "cpu"), seconds, kept).proofs
    found.append(words(proofs)["memcheck"])
print(json.dumps(found))
"""
SPEC, KERNEL = "specs/copy.yaml", "copy.ptx"


def decided(folder: Path, *steps: tuple[str, str, str, float]) -> list[str]:
    """memcheck after each step, in one process. A step is a file, the text to replace, its replacement, and the
    seconds: with none, only what is kept is decided."""
    done = subprocess.run(
        [sys.executable, "-c", STEPS, json.dumps(steps)],
        cwd=folder,
        env={**os.environ, "KCHECK_CACHE_DIR": str(folder / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: list[str] = json.loads(done.stdout)
    return found


def test_what_was_decided_is_kept_by_what_it_depends_on(tmp_path: Path) -> None:
    """A comment or a tolerance above leaves it as it is; a size, a block or an instruction does not."""
    steps = [
        (SPEC, "op: copy", "op: copy", 0.0, "undecided"),  # too late, which is not kept
        (SPEC, "op: copy", "op: copy", 30.0, "proved"),
        (SPEC, "op: copy", "op: copy", 0.0, "proved"),
        (SPEC, "kcheck: 1\n", "# more\nkcheck: 1\ncases: {count: 3}\n", 0.0, "proved"),
        (SPEC, "1..1000", "1..1001", 0.0, "undecided"),
        (SPEC, "1..1001", "1..1000", 0.0, "proved"),
        (SPEC, "block: [64]", "block: [32]", 0.0, "undecided"),
        (SPEC, "block: [32]", "block: [64]", 0.0, "proved"),
        (KERNEL, "setp.ge.u32", "setp.gt.u32", 0.0, "undecided"),
    ]
    found = decided(project(tmp_path), *((path, old, new, seconds) for path, old, new, seconds, _ in steps))
    assert found == [word for *_, word in steps]


LAUNCHER = """
import kcheck

BLOCK = 64

def launch(x, y, N):
    kcheck.kernels["copy"][max(1, (N + BLOCK - 1) // BLOCK), BLOCK](x, y, N)
"""


def test_the_code_of_a_launcher_counts(tmp_path: Path) -> None:
    """The kernel is the same: what a constant of the module does to the launch is part of the question."""
    folder = project(tmp_path)
    (folder / "launch.py").write_text(LAUNCHER)
    spec = folder / SPEC
    before, _, after = spec.read_text().partition("launch: ")
    spec.write_text(before + "launcher: launch.py:launch\n" + after.partition("\n")[2])
    steps = [
        ("BLOCK = 64", "BLOCK = 64", 30.0, "proved"),
        ("BLOCK = 64", "BLOCK = 32", 0.0, "undecided"),
        ("BLOCK = 32", "BLOCK = 64", 0.0, "proved"),
    ]
    found = [decided(folder, ("launch.py", old, new, seconds)) for old, new, seconds, _ in steps]
    assert found == [[word] for *_, word in steps]


def test_a_case_that_refutes_runs_each_time(tmp_path: Path) -> None:
    """It is stored by each command that finds it, and a kernel that was fixed is proved."""
    folder = project(tmp_path, guard="gt")
    for _ in range(2):
        code, checks = prove(folder)
        assert (code, checks["memcheck"]["verdict"]) == (1, "refuted")
        again = kcheck(folder, "reproduce", str(checks["memcheck"]["case_seed"]), "--op", "copy")
        assert again.returncode == 1, again.stdout + again.stderr
    (folder / KERNEL).write_text(PTX.format(guard="ge", more=""))
    assert prove(folder)[0] == 0


def test_reasons_are_kept_with_their_lines(tmp_path: Path) -> None:
    """The second command says the same as the first."""
    folder = project(tmp_path, more=SCATTER)
    first, second = (prove(folder)[1]["memcheck"] for _ in range(2))
    assert first == second
    assert first["reasons"]
