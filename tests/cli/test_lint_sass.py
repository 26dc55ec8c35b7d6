"""Machine code in ``kcheck lint`` and ``kcheck run``: patterns and counts where nvdisasm is, what is said where it
is not."""

from __future__ import annotations

import importlib.util
import json
import shlex
import sys
from pathlib import Path

import pytest
from small_project import Kcheck

from kcheck.device.disassembler import find_disassembler, no_disassembler

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("nvidia") is None, reason="NVVM is not installed (cu12, cu13)"),
]

# Lists every kernel of the cubin as the same few instructions, the last but one compiled from line 8 of k.py.
FAKE = """\
import re, sys
code = open(sys.argv[-1], "rb").read()
for name in sorted(set(re.findall(rb"[.]text[.](\\w+)", code))):
    print(f".text.{name.decode()}:")
    print("        /*0000*/                   MOV R1, c[0x0][0x28] ;")
    print(f'\\t//## File "PROJECT/kernels/k.py", line 8')
    print("        /*0010*/              @!P0 FADD R2, R2, R2 ;")
    print("        /*0020*/                   EXIT ;")
    print("        /*0030*/                   NOP ;")
"""


@pytest.fixture
def fake(tmp_path: Path, project: Path) -> str:
    """The folder of an nvdisasm that is none."""
    (tmp_path / "fake.py").write_text(FAKE.replace("PROJECT", str(project)))
    # Not "#!" and the interpreter, whose path may have a blank.
    command = shlex.join([sys.executable, str(tmp_path / "fake.py")])
    return program(tmp_path / "an nvdisasm", f'#!/bin/sh\nexec {command} "$@"\n')


def program(folder: Path, text: str) -> str:
    """The folder, with a program ``nvdisasm`` in it."""
    folder.mkdir()
    (folder / "nvdisasm").write_text(text)
    (folder / "nvdisasm").chmod(0o755)
    return str(folder)


def asks(project: Path, *names: str, **artifact: object) -> None:
    """These specs ask for more of their kernels."""
    for name in names:
        with (project / f"specs/{name}.yaml").open("a") as file:
            file.write(f"artifact: {json.dumps({'targets': ['sm_80'], **artifact})}\n")


def flat(text: str) -> str:
    """Without white space: a long path is broken anywhere."""
    return "".join(text.split())


def test_counts_are_shown(kcheck: Kcheck, fake: str) -> None:
    """How many instructions, in the table where there is room and below it, and of what kinds; in JSON too."""
    done = kcheck("lint", "specs/good.yaml", NVDISASM_PATH=fake, COLUMNS="100")
    assert (done.returncode, done.stderr) == (0, "")
    head, row = (line.split() for line in done.stdout.splitlines()[2:4])
    assert row[head.index("sass")] == "3"
    assert "    SASS  3  float32 33%  move 33%  branch 33%  1 branch" in done.stdout.splitlines()
    narrow = kcheck("lint", "specs/good.yaml", NVDISASM_PATH=fake, COLUMNS="70").stdout
    assert "    SASS  3  float32 33%" in narrow
    assert max(map(len, narrow.splitlines())) <= 70
    told = json.loads(kcheck("lint", "specs/good.yaml", "--format", "json", NVDISASM_PATH=fake).stdout)
    assert told["disassembler"] == f"{fake}/nvdisasm"
    (metric,) = told["lint"][0]["metrics"]
    assert metric["sass"] == {"instructions": 3, "families": {"float32": 1, "move": 1, "branch": 1}}


@pytest.mark.parametrize("command", ["lint", pytest.param("run", marks=pytest.mark.soak)])
def test_patterns_are_checked(kcheck: Kcheck, project: Path, fake: str, command: str) -> None:
    """Forbidden and required ones, with the instruction and the line of Python: exit 1; what is fine is exit 0."""
    asks(project, "good", required_sass_patterns=["FADD R2"], forbidden_sass_patterns=["DADD", "NOP"])
    assert kcheck(command, "specs/good.yaml", NVDISASM_PATH=fake).returncode == 0
    asks(project, "loud", required_sass_patterns=["HMMA"], forbidden_sass_patterns=[r"@!P\d FADD"])
    done = kcheck(command, "specs/loud.yaml", NVDISASM_PATH=fake)
    assert done.returncode == 1
    told = flat(done.stdout)
    assert flat("no SASS matches the required pattern `HMMA`") in told
    assert flat("in the SASS: `@!P0 FADD R2, R2, R2 ;`, at 0x0010") in told
    assert "kernels/k.py:8" in told


ABSENT = "there is no nvdisasm in {folder}, the folder in NVDISASM_PATH"
BROKEN = "{folder}/nvdisasm ended with 1: nvdisasm fatal : Unsupported SM"


@pytest.mark.parametrize("why", [ABSENT, pytest.param(BROKEN, marks=pytest.mark.soak)], ids=["absent", "broken"])
def test_patterns_that_cannot_be_checked_are_a_note(
    kcheck: Kcheck, project: Path, tmp_path: Path, why: str
) -> None:
    """Said once for all specs, with the reason: exit 0. With --strict exit 1: what was asked for was not done."""
    folder = str(tmp_path / "nothing")
    if why == BROKEN:
        program(Path(folder), "#!/bin/sh\necho 'nvdisasm fatal : Unsupported SM' >&2\nexit 1\n")
    asks(project, "good", "loud", required_sass_patterns=["FADD"])
    reason = why.format(folder=folder)
    done = kcheck("lint", NVDISASM_PATH=folder, COLUMNS="80")
    assert done.returncode == 0
    assert flat(done.stdout).count(flat(f"SASS patterns of good, loud were not checked: {reason}")) == 1
    assert flat(done.stdout).count(flat(reason)) == 1
    assert flat(done.stdout).endswith(flat(", 2 specs not checked in full"))
    strict = kcheck("lint", "specs/good.yaml", "--strict", "--format", "json", NVDISASM_PATH=folder)
    assert strict.returncode == 1
    told = json.loads(strict.stdout)
    assert told["lint"][0]["unchecked"] == [f"SASS patterns were not checked: {reason}"]
    ran = kcheck("run", "specs/good.yaml", "specs/loud.yaml", NVDISASM_PATH=folder)
    assert ran.returncode == 0
    assert flat(ran.stdout).count(flat(f"SASS patterns were not checked: {reason}")) == 1


def test_without_patterns_it_is_only_said(kcheck: Kcheck, tmp_path: Path) -> None:
    """Counts that nobody asked for do not fail --strict, and `kcheck run` does not mention them."""
    done = kcheck("lint", "specs/good.yaml", "--strict", NVDISASM_PATH=str(tmp_path))
    assert done.returncode == 0
    assert flat(f"note: SASS was not examined: {ABSENT.format(folder=tmp_path)}") in flat(done.stdout)
    assert "SASS" not in kcheck("run", "specs/good.yaml", NVDISASM_PATH=str(tmp_path)).stdout


def test_of_a_ptx_file(kcheck: Kcheck, project: Path, fake: str) -> None:
    """Each entry of a file is counted; without nvdisasm that is said once."""
    head, entry = ".version 8.0\n.target sm_80\n.address_size 64\n", ".visible .entry {}()\n{{\n\tret;\n}}\n"
    (project / "two.ptx").write_text(head + entry.format("first") + entry.format("second"))
    done = kcheck("lint", "--ptx", "two.ptx", NVDISASM_PATH=fake)
    assert done.returncode == 0
    assert done.stdout.count("SASS 3 ") == 2
    done = kcheck("lint", "--ptx", "two.ptx", NVDISASM_PATH=str(project))
    assert done.returncode == 0
    assert done.stdout.count("SASS was not examined") == 1


@pytest.mark.skipif(not find_disassembler(), reason=no_disassembler())
def test_of_the_real_nvdisasm(kcheck: Kcheck, project: Path) -> None:
    """A kernel that adds floats has FADD at its line, no float64, and every instruction is of a known kind."""
    asks(project, "good", required_sass_patterns=[r"\bFADD\b.*;", "STG"], forbidden_sass_patterns=[r"\bDADD\b"])
    asks(project, "loud", forbidden_sass_patterns=[r"\bFADD\b"])
    targets = [part for target in ("sm_80", "sm_90", "sm_100") for part in ("--target", target)]
    done = kcheck("lint", "specs/good.yaml", "specs/loud.yaml", *targets, "--format", "json")
    good, loud = json.loads(done.stdout)["lint"]
    assert good["findings"] == good["unchecked"] == good["no_sass"] == []
    for metric in (*good["metrics"], *loud["metrics"]):
        assert metric["sass"]["instructions"] == sum(metric["sass"]["families"].values())
        assert "other" not in metric["sass"]["families"]
    (finding,) = loud["findings"]
    assert finding["count"] == 3
    assert (finding["place"]["file"], finding["place"]["line"]) == ("kernels/k.py", 24)
