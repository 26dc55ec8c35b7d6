"""``kcheck prove``: its verdicts, exit codes and messages."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from forked_python import run_module

PTX = """.version 8.0
.target sm_80
.address_size 64
.visible .entry copy(.param .u64 x, .param .u64 y, .param .u32 n) {{
    .reg .pred %p<2>;
    .reg .u32 %r<6>;
    .reg .u64 %a<6>;
    ld.param.u64 %a0, [x];
    ld.param.u64 %a1, [y];
    ld.param.u32 %r0, [n];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %ctaid.x;
    mad.lo.u32 %r3, %r2, 64, %r1;
    setp.{guard}.u32 %p0, %r3, %r0;
    @%p0 bra END;
    mul.wide.u32 %a2, %r3, 4;
    add.u64 %a3, %a0, %a2;
    ld.global.u32 %r4, [%a3];
    {more}
    add.u64 %a4, %a1, %a2;
    st.global.u32 [%a4], %r4;
END:
    ret;
}}
"""
SPEC = """kcheck: 1
op: copy
dims: {{N: 1..1000}}
inputs: {{x: {{shape: [N], dtype: int32{values}}}}}
outputs: {{y: {{shape: [N], dtype: int32}}}}
kernel: copy.ptx:copy
launch: {{args: [x, y, {{N: int32}}], grid: ["ceildiv(N, 64)"], block: [64]}}
reference: none
sanitize: {{unwritten: off}}
"""
SCATTER = "mul.wide.u32 %a2, %r4, 4;"


def project(folder: Path, guard: str = "ge", more: str = "", values: str = "") -> Path:
    """A project with one kernel in PTX."""
    (folder / "kcheck.yaml").write_text("")
    (folder / "copy.ptx").write_text(PTX.format(guard=guard, more=more))
    (folder / "specs").mkdir()
    (folder / "specs/copy.yaml").write_text(SPEC.format(values=values))
    return folder


def kcheck(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A command in a project."""
    return run_module(["kcheck", *words], folder, os.environ, 300)


def prove(folder: Path, *words: str) -> tuple[int, dict[str, dict[str, object]]]:
    """(exit code, checks) of ``kcheck prove specs/copy.yaml --format json``."""
    done = kcheck(folder, "prove", "specs/copy.yaml", "--format", "json", *words)
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, json.loads(done.stdout)["proofs"][0]["checks"]


def test_a_correct_kernel_is_proved_for_all_sizes(tmp_path: Path) -> None:
    """Each of the four checks."""
    code, checks = prove(project(tmp_path))
    assert {name: check["verdict"] for name, check in checks.items()} == dict.fromkeys(checks, "proved")
    assert code == 0


def test_a_guard_that_is_off_by_one_is_refuted_by_a_case_that_was_run(tmp_path: Path) -> None:
    """The case is stored, so it can be reproduced."""
    code, checks = prove(project(tmp_path, guard="gt"))
    assert code == 1
    assert checks["memcheck"]["verdict"] == "refuted"
    assert checks["synccheck"]["verdict"] == "proved"
    again = kcheck(tmp_path, "reproduce", str(checks["memcheck"]["case_seed"]), "--op", "copy")
    assert again.returncode == 1, again.stdout + again.stderr


@pytest.mark.parametrize(
    ("values", "memcheck", "racecheck"),
    [
        (", values: {integers: [0, N - 1]}", "proved", "undecided"),
        (", values: permutation", "proved", "proved"),
    ],
)
def test_the_distribution_of_an_index_array_decides(
    tmp_path: Path, values: str, memcheck: str, racecheck: str
) -> None:
    """``y[x[i]] = x[i]`` is inside if x is, and free of races if no two elements are equal."""
    _, checks = prove(project(tmp_path, more=SCATTER, values=values))
    assert checks["memcheck"]["verdict"] == memcheck
    assert checks["racecheck"]["verdict"] in (racecheck, "refuted" if racecheck == "undecided" else racecheck)


@pytest.mark.parametrize("rows", [1000, 3_000_000])
def test_overflow_follows_a_number_that_is_stored_in_32_bits(rows: int, tmp_path: Path) -> None:
    """``shl`` and ``shr`` keep the lower half of a 64-bit product, as compilers do for an index in an ``int``."""
    product = "mul.wide.u32 %a5, %r3, 1024;"
    stored = "shl.b64 %a4, %a5, 32; shr.s64 %a4, %a4, 32; shr.s64 %a2, %a4, 8;"
    spec = project(tmp_path, more=f"{product} {stored}") / "specs/copy.yaml"
    spec.write_text(spec.read_text().replace("1..1000", f"1..{rows}"))
    _, checks = prove(tmp_path)
    assert (checks["overflow"]["verdict"] == "proved") == (rows == 1000)


def test_sizes_beyond_memory_are_run_as_a_sampled_launch(tmp_path: Path) -> None:
    """``4 * i`` in 32 bits is below 0 only in arrays of more than 2 GiB."""
    spec = project(tmp_path, more="shl.b32 %r5, %r3, 2; cvt.s64.s32 %a2, %r5;") / "specs/copy.yaml"
    spec.write_text(spec.read_text().replace("1..1000", "1..1_000_000_000") + "cases: {memory: 64MB}\n")
    code, checks = prove(tmp_path)
    assert code == 1
    assert checks["memcheck"]["verdict"] == "refuted"
    again = kcheck(tmp_path, "reproduce", str(checks["memcheck"]["case_seed"]), "--op", "copy")
    assert again.returncode == 1, again.stdout + again.stderr


def test_a_kernel_without_sizes_is_refuted_by_its_only_case(tmp_path: Path) -> None:
    """The solver has no sizes to propose: each thread writes its number to the same word."""
    spec = project(tmp_path, more="mov.u64 %a2, 0; mov.u32 %r4, %r1;") / "specs/copy.yaml"
    text = spec.read_text().replace("dims: {N: 1..1000}\n", "").replace("ceildiv(N, 64)", "1")
    spec.write_text(text.replace("[N]", "[64]").replace("{N: int32}", "{value: 64, dtype: int32}"))
    code, checks = prove(tmp_path)
    assert code == 1
    assert {name: check["verdict"] for name, check in checks.items()} == {
        "memcheck": "proved",
        "racecheck": "refuted",
        "synccheck": "proved",
        "overflow": "proved",
    }


def test_a_trap_that_a_case_comes_to_refutes_memcheck(tmp_path: Path) -> None:
    """A run reports the trap itself."""
    code, checks = prove(project(tmp_path, more="setp.eq.u32 %p1, %r3, 700; @%p1 trap;"))
    assert code == 1
    assert checks["memcheck"]["verdict"] == "refuted"
    assert "trap" in str(checks["memcheck"]["finding"])
    assert checks["synccheck"]["verdict"] == "proved"


STRUCT = """
struct Row { short pad; int size; };
struct Call { const float* x; Row rows[2]; float* y; };
extern "C" __global__ void copy(Call c) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i GUARD c.rows[1].size) c.y[i] = c.x[i];
}
"""


@pytest.mark.parametrize(("guard", "word"), [("<", "proved"), ("<=", "refuted")])
def test_the_members_of_a_struct_are_what_the_spec_passes(tmp_path: Path, guard: str, word: str) -> None:
    """Where the compiler puts them: behind padding, in an array of structs."""
    pytest.importorskip("cuda.bindings.nvrtc")
    folder = project(tmp_path)
    (folder / "copy.cu").write_text(STRUCT.replace("GUARD", guard))
    spec = folder / "specs/copy.yaml"
    rows = "[{struct: {pad: 1, size: 7}}, {struct: {pad: 2, size: N}}]"
    text = spec.read_text().replace("copy.ptx", "copy.cu").replace("int32", "float32")
    spec.write_text(text.replace("[x, y, {N: float32}]", f"[{{struct: {{x: x, rows: {rows}, y: y}}}}]"))
    _, checks = prove(folder)
    assert {name: check["verdict"] for name, check in checks.items() if name != "memcheck"} == {
        "racecheck": "proved" if word == "proved" else "undecided",
        "synccheck": "proved",
        "overflow": "proved",
    }
    assert checks["memcheck"]["verdict"] == word


def test_undecided_says_what_would_decide_it(tmp_path: Path) -> None:
    """An index array without a distribution may contain anything; with --strict, that is exit 1."""
    folder = project(tmp_path, more=SCATTER)
    _, checks = prove(folder)
    assert checks["memcheck"]["verdict"] in ("undecided", "refuted")
    (reason, *_) = checks["memcheck"]["reasons"]
    assert "loaded from memory: x[...]" in reason["message"]
    assert "give x a distribution" in reason["fix"]


def test_a_limit_of_time_is_named_as_it_was_given(tmp_path: Path) -> None:
    """Not the default one."""
    project(tmp_path)
    code = (
        "from pathlib import Path; from kcheck.device import choose_for; from kcheck.specfile import load_spec; "
        "from kcheck.prover.verdicts import decide; spec = load_spec(Path('specs/copy.yaml')); "
        "found = decide(spec, choose_for([spec], 'cpu'), 0.0); "
        "print({reason.message for proof in found.proofs for reason in proof.reasons})"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout == "{'it takes longer than 0 s'}\n", done.stderr


def test_strict_counts_undecided_as_a_failure(tmp_path: Path) -> None:
    """Exit 0 without it."""
    folder = project(tmp_path, more="membar.gl;\n    brkpt;")
    assert prove(folder)[0] == 0
    assert prove(folder, "--strict")[0] == 1


def test_without_the_solver_the_message_says_what_to_install(tmp_path: Path) -> None:
    """Exit 2."""
    project(tmp_path)
    code = (
        "import sys; sys.modules['z3'] = None; import importlib.util as u; f = u.find_spec; "
        "u.find_spec = lambda n, *a: None if n == 'z3' else f(n, *a); "
        "from kcheck.cli.main import main; sys.exit(main(['prove', 'specs/copy.yaml']))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "pip install 'kcheck[prove]'" in done.stderr
