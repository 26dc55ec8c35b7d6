"""``kcheck lint``: what a person at the terminal gets."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest
from small_project import Kcheck

needs_nvvm = pytest.mark.skipif(
    importlib.util.find_spec("nvidia") is None, reason="NVVM is not installed (the extras cu12 and cu13)"
)
pytestmark = pytest.mark.slow

PTX = """\
.version 8.0
.target sm_80
.address_size 64
.visible .entry first(.param .u64 p)
{
	.reg .b64 %rd<3>;
	.reg .b32 %r<3>;
	ld.param.u64 %rd1, [p];
	mov.u32 %r1, %tid.x;
	st.global.u32 [%rd1], %r1;
	ret;
}
.visible .entry second(.param .u64 p)
{
	.reg .b64 %rd<3>;
	.reg .b32 %r<3>;
	.shared .b32 s[16];
	ld.param.u64 %rd1, [p];
	mov.u32 %r1, %tid.x;
	st.shared.u32 [s], %r1;
	ld.shared.u32 %r2, [s+4];
	st.global.u32 [%rd1], %r2;
	ret;
}
"""


@needs_nvvm
def test_a_spec_is_measured_for_every_target(kcheck: Kcheck) -> None:
    """One row for each target and specialization, in 80 columns, and the sum; nothing wrong is exit 0."""
    done = kcheck("lint", "specs/good.yaml", "--target", "sm_80", "--target", "9.0", COLUMNS="80")
    assert (done.returncode, done.stderr) == (0, "")
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith("    sm_")]
    assert [row[0] for row in rows] == ["sm_80", "sm_90"]
    assert all(int(row[1]) > 0 and row[-2:] == ["float32", "CC"] for row in rows)
    assert done.stdout.splitlines()[-1] == "2 specializations of 1 kernel: 0 violations, 0 warnings"
    assert max(map(len, done.stdout.splitlines())) <= 80


@needs_nvvm
def test_a_kernel_with_a_signature_is_measured(kcheck: Kcheck, project: Path) -> None:
    """Numba compiles it when its file is imported, for which it wants a device; lint needs no GPU."""
    kernel = project / "kernels/k.py"
    text = kernel.read_text()
    assert "@cuda.jit\n" in text
    kernel.write_text(text + '\n\n@cuda.jit("void(float32[:])")\ndef with_a_signature(x):\n    x[0] = 1\n')
    done = kcheck("lint", "specs/good.yaml")
    assert (done.returncode, done.stderr) == (0, "")


@needs_nvvm
def test_a_violated_threshold_is_exit_1_and_named(kcheck: Kcheck, project: Path) -> None:
    """The finding says measured and allowed, and the threshold's name."""
    spec = project / "specs/good.yaml"
    spec.write_text(spec.read_text() + "artifact: {max_registers: 2, targets: [sm_80]}\n")
    done = kcheck("lint", "specs/good.yaml")
    assert done.returncode == 1
    assert "the limit is 2 (max_registers)" in " ".join(done.stdout.split())


@needs_nvvm
def test_what_does_not_compile_is_told_once_at_its_line(kcheck: Kcheck, project: Path) -> None:
    """One finding, with the line that the compiler stopped at, and nothing of the source around it."""
    kernels = project / "kernels/k.py"
    kernels.write_text(kernels.read_text().replace("x[i] + x[i]", "x[i].nothing"))
    done = kcheck("lint", "specs/good.yaml", COLUMNS="80")
    assert done.returncode == 1
    assert done.stdout.count("does not compile: TypingError: Unknown attribute 'nothing'") == 1
    assert "8 │ y[i] = x[i].nothing" in done.stdout
    assert "elided" not in done.stdout


@needs_nvvm
def test_json_holds_what_the_table_shows(kcheck: Kcheck) -> None:
    """Registers, spills, occupancy and families by name, for each specialization."""
    (linted,) = json.loads(kcheck("lint", "specs/good.yaml", "--format", "json").stdout)["lint"]
    (metric,) = linted["metrics"]
    assert linted["op"] == "good"
    assert metric["target"] == "sm_80"
    assert metric["types"] == "float32[:], float32[:]"
    assert metric["resources"]["registers"] > 0
    assert metric["resources"]["spills"] == 0
    assert metric["occupancy"]["block"] == 8
    assert sum(metric["families"].values()) == metric["instructions"]


@needs_nvvm
def test_entries_of_a_ptx_file(kcheck: Kcheck, project: Path) -> None:
    """All of a file, or the one that a part of its name picks; the target is the file's."""
    (project / "two kernels.ptx").write_text(PTX)
    done = kcheck("lint", "--ptx", "two kernels.ptx", "--block", "16,16")
    assert done.returncode == 0
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith("    sm_80")]
    assert [row[4] for row in rows] == ["0", "64"]  # bytes of shared memory
    (heads,) = {line.strip() for line in done.stdout.splitlines() if line.startswith("    target")}
    assert {row[heads.split().index("occupancy")] for row in rows} == {"100%"}
    done = kcheck("lint", "--ptx", "two kernels.ptx", "--entry", "sec")
    assert [line.split()[0] for line in done.stdout.splitlines() if "two kernels.ptx:" in line] == ["second"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--ptx", "two.ptx", "specs/good.yaml"), "--ptx and specs cannot be combined"),
        (("--ptx", "two.ptx", "--entry", "third"), "there is no entry 'third'; its entries: first, second"),
        (("--ptx", "two.ptx", "--entry", "s"), "2 entries match 's'"),
        (("--ptx", "bad.ptx"), "bad.ptx:3:"),
        (("--ptx", "binary.ptx"), "binary.ptx: not PTX: it is not text"),
        (("--entry", "first"), "--entry and --block need --ptx"),
        (("specs/good.yaml", "--target", "ampere"), "'ampere' is not a target; write sm_80"),
        (("--ptx", "two.ptx", "--block", "64,64"), "at most 1024 threads"),
        (("specs/nowhere.yaml",), "specs/nowhere.yaml"),
    ],
)
def test_what_cannot_be_linted_is_exit_2_and_says_why(
    kcheck: Kcheck, project: Path, arguments: tuple[str, ...], said: str
) -> None:
    """A mistake on the line, or in the file, is named with its fix."""
    (project / "two.ptx").write_text(PTX)
    (project / "bad.ptx").write_text(PTX.replace(".address_size 64", "gibberish"))
    (project / "binary.ptx").write_bytes(b"\x7fELF\xff\xfe")
    done = kcheck("lint", *arguments)
    assert done.returncode == 2, done.stdout
    assert said in done.stderr + done.stdout
