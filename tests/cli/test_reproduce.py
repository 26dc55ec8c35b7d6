"""``kcheck reproduce`` and ``kcheck export``: a failure run again, here or elsewhere, today or after edits."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from small_project import Kcheck, write_project

SPEC = "specs/buggy/bad.yaml"
RUN = ("run", "--device", "simulator", SPEC)
GENERATOR = """\
import numpy as np


def draw(rng, shape, dtype):
    return np.full(shape, {value}, dtype)
"""


def failing_seed(kcheck: Kcheck, size: int = 5) -> str:
    """The seed of a case that failed, of N elements."""
    assert kcheck(*RUN).returncode == 1
    found = re.search(rf" (\d+)  mismatch .* N={size} ", kcheck("failures").stdout, re.MULTILINE)
    assert found is not None
    return found[1]


def edit(project: Path, path: str, before: str, after: str) -> None:
    text = (project / path).read_text()
    assert before in text
    (project / path).write_text(text.replace(before, after))


def second_line(done: subprocess.CompletedProcess[str]) -> str:
    return done.stdout.splitlines()[1]


def test_a_failure_has_the_same_bits_until_it_is_fixed(stored: Kcheck, project: Path) -> None:
    """Same bits, then other bits, then fixed; the store follows, and the exit code tells them apart."""
    seed = failing_seed(stored)
    done = stored("reproduce", "--seed", seed, "--op", "bad")
    assert (done.returncode, second_line(done)[:31]) == (1, "STILL FAILS  same bits as on 20")
    assert "  device     simulator" in done.stdout
    edit(project, "kernels/k.py", "x[i] * 3", "x[i] * 4")
    done = stored("reproduce", seed)
    assert (done.returncode, second_line(done)) == (1, "STILL FAILS  different bits than before in y")
    assert "failed 3 times" in stored("show", seed).stdout
    edit(project, "kernels/k.py", "x[i] * 4", "x[i] * 2")
    done = stored("reproduce", seed)
    assert (done.returncode, second_line(done)) == (0, "FIXED")
    assert "state      fixed" in stored("show", seed).stdout


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ("N: [1, 2, 5]", "N: [1, 2]", "dim N = 5 is no longer one of [1, 2]"),
        ("op: bad", "op: better", "no spec declares the op 'bad' any longer"),
        (
            "inputs: {x: [N]}",
            "inputs: {x: {shape: [N], dtype: float64}}",
            "x was an input of float32 [5] and is now",
        ),
    ],
)
def test_a_failure_that_the_spec_no_longer_allows_is_gone(
    stored: Kcheck, project: Path, before: str, after: str, says: str
) -> None:
    """A spec that has no such case any more is told from a kernel that was fixed; what changed is said."""
    seed = failing_seed(stored)
    edit(project, SPEC, before, after)
    done = stored("reproduce", seed)
    assert done.returncode == 5
    assert second_line(done).startswith("GONE")
    assert says in " ".join(done.stdout.split())
    assert seed not in stored("failures").stdout
    assert seed in stored("failures", "-a", COLUMNS="120").stdout


def test_all_failures_of_sizes_that_the_spec_no_longer_has_are_gone(stored: Kcheck, project: Path) -> None:
    """Also those that are too old to run again first."""
    edit(project, SPEC, "N: [1, 2, 5]", f"N: {list(range(1, 41))}")
    assert stored(*RUN, "--cases", "40").returncode == 1
    assert "bad · specs/buggy/bad.yaml · 40 failures" in stored("failures").stdout
    edit(project, SPEC, f"N: {list(range(1, 41))}", "N: [1, 2]")
    assert stored(*RUN, "--cases", "2").returncode == 1
    assert set(re.findall(r" N=(\d+) ", stored("failures").stdout)) <= {"1", "2"}


def test_a_spec_that_was_widened_or_moved_has_the_case_still(stored: Kcheck, project: Path) -> None:
    """The seed draws another case by then; what failed is run, and that is said."""
    seed = failing_seed(stored)
    edit(project, SPEC, "N: [1, 2, 5]", "N: [1, 2, 3, 4, 5, 6, 7]")
    (project / SPEC).rename(project / "specs/moved.yaml")
    done = stored("reproduce", seed)
    assert done.returncode == 1
    assert second_line(done).startswith("STILL FAILS  same bits")
    assert "its seed now draws a different case (dim N: 5 before" in " ".join(done.stdout.split())


def test_a_seed_is_enough_on_another_machine(stored: Kcheck, tmp_path: Path) -> None:
    """Without a store, the spec's own case of the seed is run; whether it failed before is not claimed."""
    seed = failing_seed(stored)
    write_project(tmp_path / "clone")
    clone = Kcheck(tmp_path / "clone")
    clone.environment = stored.environment
    done = clone("reproduce", seed, "--op", "bad", "--device", "simulator")
    assert (done.returncode, second_line(done)) == (1, "FAILS")
    assert clone("reproduce", seed, "--op", "good", "--device", "simulator").returncode == 0
    done = clone("reproduce", "3", "--op", "good", "--device", "simulator")
    assert "note: with --op, 3 is a seed; without it, number 3 of `kcheck failures`\n" in done.stderr
    done = clone("reproduce", seed, "--no-store")
    assert done.returncode == 2
    assert "to generate the case from its seed, add --op" in done.stderr


def test_the_seed_of_an_example_is_the_example(stored: Kcheck, project: Path) -> None:
    """An example's seed, without a store, means what the spec states and not what the seed alone would draw."""
    with (project / SPEC).open("a") as file:
        file.write("examples: [{dims: {N: 5}, values: {x: ones}}]\n")
    listed = stored("cases", SPEC).stdout.splitlines()
    (seed,) = (row.split()[1] for row in listed if row.startswith("example_0"))
    done = stored("reproduce", seed, "--op", "bad", "--device", "simulator", "--no-store")
    assert "bad[example_0-N=5-T=float32]" in done.stdout
    assert "x=ones" in done.stdout


def test_a_file_holds_the_inputs_whatever_generators_make(stored: Kcheck, project: Path, tmp_path: Path) -> None:
    """Exported, taken to a fresh clone whose generator has changed: the same bits as where it failed."""
    edit(project, SPEC, "{x: [N]}", "{x: {shape: [N], values: {from: 'kernels/g.py:draw'}}}")
    (project / "kernels/g.py").write_text(GENERATOR.format(value=7))
    seed = failing_seed(stored)
    done = stored("export", seed, "-o", "case.kcase")
    assert done.returncode == 0, done.stderr
    assert "kcheck reproduce case.kcase" in done.stdout
    again = (project / "case.kcase").read_bytes()
    assert stored("export", "--seed", seed, "--op", "bad", "-o", "case.kcase").returncode == 0
    assert (project / "case.kcase").read_bytes() == again
    clone = tmp_path / "clone"
    shutil.copytree(project, clone, ignore=shutil.ignore_patterns(".kcheck"))
    (clone / "kernels/g.py").write_text(GENERATOR.format(value=8))
    elsewhere = Kcheck(clone)
    elsewhere.environment = stored.environment
    done = elsewhere("reproduce", "case.kcase")
    assert (done.returncode, second_line(done)) == (1, "STILL FAILS  same bits")
    assert "x  float32[5]  7 7 7 7 7" in done.stdout
    assert "a generator has changed; the stored ones were used" in " ".join(done.stdout.split())
    edit(clone, "kernels/k.py", "x[i] * 3", "x[i] * 2")
    assert elsewhere("reproduce", "case.kcase").returncode == 0


def test_the_prompt_has_everything_at_hand(stored: Kcheck) -> None:
    """--debug reads Python, with inputs, actual, expected, reference and kernel by these names."""
    seed = failing_seed(stored)
    asked = (
        "print('A', float(actual['y'][0] / inputs['x'][0]), float(expected['y'][0] / inputs['x'][0]))\n"
        "print('B', (reference(inputs['x']) == inputs['x'] * 2).all(), kernel is not None)\n"
        "print('C', case.dims, verdict.rule)\n"
    )
    done = subprocess.run(
        stored.command("reproduce", seed, "--debug"),
        cwd=stored.folder,
        env=stored.environment,
        input=asked,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 1
    assert re.search(r"A 3\.0\d* 2\.0", done.stdout) or "A 2.99" in done.stdout, done.stdout
    assert "B True True" in done.stdout
    assert "C {'N': 5} mismatch" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "give a case: a number or an id from `kcheck failures`, a seed, or --last"),
        (("12", "--seed", "12"), "give one of CASE, --seed and --last"),
        (("12",), "and no case with the seed 12 is stored; to generate the case from its seed, add --op"),
        (("12", "--op", "bda"), "no spec has the op 'bda'; the ops are bad, good"),
        (("no.kcase",), "no.kcase: cannot be read: No such file or directory"),
        (("bad.kcase",), "bad.kcase: this is not a case that kcheck exported"),
        (("soon",), "no stored failure has the id soon"),
        (("later",), "'later' names no case"),
    ],
)
def test_what_cannot_be_run_again_is_said(
    stored: Kcheck, project: Path, arguments: tuple[str, ...], message: str
) -> None:
    """A mistake names the fix and exits with 2."""
    shutil.rmtree(project / "specs/broken")
    (project / "bad.kcase").write_bytes(b"PK\x03\x04 and no more")
    done = stored("reproduce", *arguments)
    assert done.returncode == 2, done.stdout + done.stderr
    assert message in done.stderr


def test_one_seed_of_several_ops_wants_the_op(stored: Kcheck, project: Path) -> None:
    """Case seeds are shared by the ops of a project: it is not guessed which was meant."""
    seed = failing_seed(stored)
    text = (project / SPEC).read_text()
    (project / "specs/buggy/worse.yaml").write_text(text.replace("op: bad", "op: worse"))
    stored("run", "--device", "simulator", "specs/buggy/worse.yaml")
    done = stored("reproduce", seed)
    assert done.returncode == 2
    assert f"seed {seed} failed in bad, worse; choose one with --op" in done.stderr


def test_exported_names_are_checked(stored: Kcheck) -> None:
    """The file's ending is what tells it from a seed; a place that cannot be written is said."""
    seed = failing_seed(stored)
    done = stored("export", seed, "-o", "case.zip")
    assert done.returncode == 2
    assert "the name must end in .kcase" in done.stderr
    done = stored("export", seed, "-o", "no/where.kcase")
    assert done.returncode == 2
    assert "-o no/where.kcase: cannot be written" in done.stderr
    assert stored("export", seed).stdout.startswith(f"wrote bad-{seed}.kcase (")
    assert zipfile.ZipFile(stored.folder / f"bad-{seed}.kcase").testzip() is None


def test_script_needs_the_file_of_the_kernel_alone(stored: Kcheck, project: Path) -> None:
    """--script writes a file that says how to run it; what it imports is numba and NumPy."""
    seed = failing_seed(stored)
    done = stored("reproduce", seed, "--script", "bug.py")
    assert done.returncode == 1
    text = (project / "bug.py").read_text()
    compile(text, "bug.py", "exec")
    ways = f"  {'python bug.py':<28}    with a CUDA GPU\n  kcheck exec -- python bug.py    without one"
    assert ways in text
    imports = set(re.findall(r"^(?:import|from) (\w+)", text, re.MULTILINE))
    assert imports - set(sys.stdlib_module_names) == {"numpy", "numba"}


def test_a_script_that_cannot_be_written_is_refused_before_the_run(stored: Kcheck) -> None:
    """Nothing was run yet, so nothing was printed."""
    seed = failing_seed(stored)
    done = stored("reproduce", seed, "--script", "no/bug.py")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--script no/bug.py: no such folder: 'no'" in done.stderr


def test_a_script_replaces_no_other_file(stored: Kcheck, project: Path) -> None:
    """A kernel's source is left alone; a script of an earlier run is written again."""
    seed = failing_seed(stored)
    source = (project / "kernels/k.py").read_bytes()
    done = stored("reproduce", seed, "--script", "kernels/k.py")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--script kernels/k.py: the file exists and was not written by kcheck" in done.stderr
    assert (project / "kernels/k.py").read_bytes() == source
    for _ in range(2):
        assert stored("reproduce", seed, "--script", "bug.py").returncode == 1


def test_what_is_to_be_typed_next_can_be_pasted(stored: Kcheck, project: Path) -> None:
    """A name with a space stands in quotes wherever a command line is shown."""
    seed = failing_seed(stored)
    assert stored("export", seed, "-o", "a case.kcase").stdout.endswith("kcheck reproduce 'a case.kcase'\n")
    done = stored("reproduce", seed, "--script", "a bug.py")
    told = "wrote a bug.py: run it with python 'a bug.py', or without a GPU: kcheck exec -- python 'a bug.py'\n"
    assert done.stdout.endswith(told)
    assert "  kcheck exec -- python 'a bug.py'    without one\n" in (project / "a bug.py").read_text()
