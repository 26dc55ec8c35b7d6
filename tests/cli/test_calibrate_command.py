"""``kcheck calibrate``, and ``kcheck run`` on what it wrote."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from small_project import SPEC, Kcheck

DEVICE = ("--device", "simulator")


@pytest.fixture
def calibrated(project: Path) -> Path:
    """specs/good.yaml and specs/buggy/bad.yaml say `tolerance: calibrated`, as an op of integers does."""
    for path in ("specs/good.yaml", "specs/buggy/bad.yaml"):
        (project / path).write_text((project / path).read_text() + "tolerance: calibrated\n")
    words = {"op": "whole", "tag": "clean", "kernel": "double", "reference": "double"}
    text = SPEC.format(**words).replace("{x: [N]}", "{x: {shape: [N], dtype: int32}}")
    text = text.replace("{y: [N]}", "{y: {shape: [N], dtype: int32}}") + "tolerance: calibrated\n"
    (project / "specs/whole.yaml").write_text(text)
    return project


def test_from_no_calibration_to_a_run_that_passes(kcheck: Kcheck, calibrated: Path) -> None:
    """Refused with the command to run; that command; then it runs, and the report says what judged."""
    before = kcheck("run", *DEVICE, "specs/good.yaml")
    assert before.returncode == 2
    assert re.search(r"specs/good.yaml:\d+:12: `tolerance: calibrated`, but", before.stdout)
    told = re.search(r"run: kcheck (calibrate specs/good.yaml)$", before.stdout, re.M)
    assert told is not None, before.stdout
    done = kcheck(*told[1].split(), *DEVICE)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("kcheck ")
    assert re.fullmatch(r"op +output +cases +median +95% +largest +envelope", lines[2])
    assert re.fullmatch(r"good +float32 +100( +\d\.\de[-+]\d\d){4}", lines[3])
    assert lines[-1] == "wrote calibration.yaml: 1 op"
    assert max(map(len, lines)) <= 80
    after = kcheck("run", *DEVICE, "specs/good.yaml", "specs/whole.yaml", "--format", "json")
    assert after.returncode == 0, after.stdout
    assert '"method": "calibrated"' in after.stdout


def test_an_op_is_replaced_and_others_are_kept(kcheck: Kcheck, calibrated: Path) -> None:
    """The same command writes the same bytes; an op that is not run stays; integers need none."""
    first = kcheck("calibrate", *DEVICE, "specs/good.yaml", "specs/loud.yaml", "specs/whole.yaml", "--cases", "20")
    assert first.returncode == 0
    assert "integers: nothing to calibrate" in first.stdout
    assert "a kernel prints" not in first.stdout
    text = (calibrated / "calibration.yaml").read_text()
    again = kcheck("calibrate", *DEVICE, "specs/good.yaml", "--cases", "20")
    assert again.stdout.splitlines()[-1] == "wrote calibration.yaml: 1 op, 1 replaced; 1 op kept"
    assert (calibrated / "calibration.yaml").read_text() == text
    other = kcheck("calibrate", *DEVICE, "specs/good.yaml", "--cases", "21", "--seed", "5")
    assert other.returncode == 0
    changed = (calibrated / "calibration.yaml").read_text()
    assert "    seed: 5\n    cases: 21\n" in changed
    assert changed[changed.index("  loud:") :] == text[text.index("  loud:") :]


def test_what_is_not_right_is_not_measured(kcheck: Kcheck, calibrated: Path) -> None:
    """A failing kernel (1), a reference that raises (2): told with a command; the others are written."""
    done = kcheck("calibrate", *DEVICE, "specs/good.yaml", "specs/buggy/bad.yaml", "--cases", "20")
    assert done.returncode == 1
    told = re.search(r"→ kcheck (run specs/buggy/bad.yaml --cases 20 --seed \d+)", done.stdout)
    assert told is not None, done.stdout
    assert "of 20 cases failed: the kernel may be wrong" in done.stdout
    assert (calibrated / "calibration.yaml").read_text().count("envelopes:") == 1
    done = kcheck("calibrate", *DEVICE, "specs/broken/lost.yaml", "specs/broken/typo.yaml", "--cases", "20")
    assert done.returncode == 2
    assert "could not be checked" in done.stdout
    assert "did you mean 'dims'" in done.stderr
    assert "nothing to write to calibration.yaml" in done.stdout
    assert "op: bad" not in (calibrated / "calibration.yaml").read_text()
    asked = kcheck("calibrate", *DEVICE, "specs/buggy/bad.yaml", "--cases", "20", "--allow-failing")
    assert asked.returncode == 0, asked.stdout


def test_a_damaged_file_stops_everything_before_it_runs(kcheck: Kcheck, calibrated: Path) -> None:
    """A file with a mistake is exit 2 with its place, to run as to calibrate, and stays as it is."""
    (calibrated / "calibration.yaml").write_text("calibration: 1\nops:\n  good: {seed: x}\n")
    for command in ("run", "calibrate"):
        done = kcheck(command, *DEVICE, "specs/good.yaml")
        assert done.returncode == 2
        printed = " ".join((done.stdout + done.stderr).split())
        assert "calibration.yaml:3:16: 'seed' must be a finite, non-negative whole number" in printed
        assert "kcheck calibrate" in printed
    assert (calibrated / "calibration.yaml").read_text().endswith("{seed: x}\n")
    assert kcheck("run", *DEVICE, "specs/loud.yaml").returncode == 0  # who does not use it is not bothered


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written(kcheck: Kcheck, calibrated: Path) -> None:
    """Said before anything runs."""
    calibrated.chmod(0o555)
    try:
        done = kcheck("calibrate", *DEVICE, "specs/good.yaml")
    finally:
        calibrated.chmod(0o755)
    assert done.returncode == 2
    assert "the file" in done.stderr
    assert "op " not in done.stdout


@pytest.mark.parametrize("cases", ["2000", "100000"])
def test_interrupted_nothing_is_written(kcheck: Kcheck, calibrated: Path, cases: str) -> None:
    """Ctrl-C while cases run, or while they are drawn, leaves 130, the file as it was, and nothing beside it."""
    process = subprocess.Popen(
        kcheck.command("calibrate", *DEVICE, "specs/good.yaml", "--cases", cases),
        cwd=calibrated,
        env=kcheck.environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    while not process.stdout.readline().startswith("op "):
        pass
    process.send_signal(2)
    rest = process.communicate(timeout=60)[0]
    assert process.returncode == 130
    assert "interrupted: nothing was written" in rest
    assert not [path.name for path in calibrated.iterdir() if "calibration" in path.name]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [((), 2), (("nowhere.yaml",), 2), (("specs", "-t", "absent"), 5), (("specs", "--cases", "x"), 2)],
)
def test_usage(kcheck: Kcheck, arguments: tuple[str, ...], code: int) -> None:
    """Each ending has its code."""
    done = kcheck("calibrate", *arguments)
    assert done.returncode == code
    assert "Traceback" not in done.stdout + done.stderr


def test_two_projects_with_the_same_spec_path_keep_their_own_errors(
    kcheck: Kcheck, calibrated: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Both projects have specs/good.yaml; each calibration file gets the envelopes of its own inputs."""
    other = tmp_path_factory.mktemp("other")
    shutil.copytree(calibrated, other, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".kcheck"))
    spec = other / "specs/good.yaml"
    spec.write_text(spec.read_text().replace("count: 2", "count: 2, seed: 7"))
    done = kcheck("calibrate", *DEVICE, "specs/good.yaml", str(spec), "--cases", "20")
    assert done.returncode == 0, done.stderr
    seeds = [
        yaml.safe_load((root / "calibration.yaml").read_text())["ops"]["good"]["seed"]
        for root in (calibrated, other)
    ]
    assert seeds[0] != seeds[1]
