"""Triton kernels in specs on the cpu device: each row is a spec, and what a run reports."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from kinds_project import KindsProject

from kcheck.device.cpu import missing
from kcheck.device.kinds.triton import load
from kcheck.errors import KernelError, SpecError
from kcheck.generator.expand import expand
from kcheck.specfile import load_spec

pytestmark = [pytest.mark.skipif(bool(missing()), reason=missing())]

KERNELS = """
import triton
import triton.language as tl


@triton.jit
def twice(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, 2 * tl.load(x + i, mask=i < n), mask=i < n)


@triton.jit
def twice_unmasked(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i)
    tl.store(y + i, 2 * value, mask=i < n)


SIZES = [32, 64]


@triton.autotune([triton.Config({"BLOCK": b}, num_warps=w) for b in SIZES for w in (1, 2)], key=["n"])
@triton.heuristics({"EVEN": lambda given: given["n"] % given["BLOCK"] == 0})
@triton.jit
def tuned(x, y, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        tl.store(y + i, 2 * tl.load(x + i))
    else:
        tl.store(y + i, 2 * tl.load(x + i, mask=i < n), mask=i < n)


@triton.jit
def wrong_type(x, y, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y + i, x.undefined)


@triton.jit
def wrong_attribute(x):
    return x.missing


@triton.jit
def calls_wrong(x, y, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y + i, wrong_attribute(tl.load(x + i, mask=i < n)), mask=i < n)


@triton.jit
def times(x, y, a, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y + i, a * tl.load(x + i, mask=i < n), mask=i < n)


@triton.jit
def scaled(x, y, n, BLOCK: tl.constexpr, BY: tl.constexpr):
    i = tl.arange(0, BLOCK)
    factor = 2 if BY == "two" else 3
    tl.store(y + i, factor * tl.load(x + i, mask=i < n), mask=i < n)


@triton.jit
def by_default(x, y, n, BLOCK: tl.constexpr = 64, TIMES: tl.constexpr = 1):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, 2 * TIMES * tl.load(x + i, mask=i < n), mask=i < n)


@triton.jit
def by_constant(x, y, by, n, IS_ARRAY: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    if IS_ARRAY:
        factor = tl.load(by)
    else:
        factor = by
    tl.store(y + i, factor * tl.load(x + i, mask=i < n), mask=i < n)


@triton.jit
def narrowed(x, y, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n).to(tl.float8e4nv).to(tl.float32), mask=i < n)


def launch(x, y, N):
    twice[(triton.cdiv(N, 32),)](x, y, N, BLOCK=32)


def launch_wrong(x, y, N):
    calls_wrong[(1,)](x, y, N, BLOCK=128)


def launch_with_param(x, y, a, N):
    times[(1,)](x, y, a, N, BLOCK=128)
"""
LAUNCH = 'launch: {args: [x, y, N], grid: ["ceildiv(N, BLOCK)"]}'
GOOD = {
    "constants": f"kernel: kernels/k.py:twice\n"
    f"compile: {{constexprs: {{BLOCK: [64, 32]}}, num_warps: 1}}\n{LAUNCH}",
    "strings": "kernel: kernels/k.py:scaled\ncompile: {constexprs: {BLOCK: 128, BY: [two, three]}}\n"
    "launch: {args: [x, y, N], grid: [1]}\nreference: references/by.py:scaled",
    "width": "kernel: kernels/k.py:twice\ncompile: {constexprs: {BLOCK: next_pow2(N)}}\n"
    "launch: {args: [x, y, {N: int64}], grid: [1]}",
    "each": f"kernel: kernels/k.py:tuned\n{LAUNCH}",
    "best": f"kernel: kernels/k.py:tuned\ncompile: {{config: best}}\n{LAUNCH}",
    "best_by_reference": f"kernel: kernels/k.py:tuned\ncompile: {{config: best}}\n{LAUNCH}\n"
    "reference: references/block.py:double",
    "default": f"kernel: kernels/k.py:by_default\n{LAUNCH}",
    "by_constant": "kernel: kernels/k.py:by_constant\n"
    "compile: {constexprs: {BLOCK: 128, IS_ARRAY: false}}\nlaunch: {args: [x, y, two, N], grid: [1]}\n"
    "params: {two: {dtype: int32, values: [2]}}",
    "artifact": f"kernel: kernels/k.py:twice\ncompile: {{constexprs: {{BLOCK: 64}}}}\n{LAUNCH}\n"
    "artifact: {max_registers: 64, max_spills: 0, max_shared_bytes: 0}",
    "launcher": "launcher: kernels/k.py:launch",
    "param": "launcher: kernels/k.py:launch_with_param\nreference: references/r.py:scale\n"
    "params: {a: {dtype: float32, values: [0.5, 2.0]}}",
}
BAD = {
    "unmasked": f"kernel: kernels/k.py:twice_unmasked\ncompile: {{constexprs: {{BLOCK: 64}}}}\n{LAUNCH}",
    "narrowed": f"kernel: kernels/k.py:narrowed\ncompile: {{constexprs: {{BLOCK: 128}}}}\n{LAUNCH}",
    "callee": f"kernel: kernels/k.py:calls_wrong\ncompile: {{constexprs: {{BLOCK: 64}}}}\n{LAUNCH}",
    "callee_of_launcher": "launcher: kernels/k.py:launch_wrong",
    "compiles": f"kernel: kernels/k.py:wrong_type\ncompile: {{constexprs: {{BLOCK: 64}}}}\n{LAUNCH}",
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> KindsProject:
    made = KindsProject(tmp_path_factory.mktemp("triton") / "project")
    made.write("kernels/k.py", KERNELS)
    made.write("references/by.py", "def scaled(x, BY):\n    return {'two': 2, 'three': 3}[BY] * x\n")
    made.write("references/block.py", "def double(x, BLOCK):\n    return 2 * x if BLOCK in (32, 64) else 0 * x\n")
    for op, text in (GOOD | BAD).items():
        made.spec(op, text + "\ndims: {N: [1, 70, 128]}")
    return made


@pytest.fixture(scope="module")
def reports(project: KindsProject) -> dict[str, dict[str, Any]]:
    return project.report()


@pytest.mark.slow
@pytest.mark.parametrize("op", GOOD)
def test_a_right_kernel_passes(reports: dict[str, dict[str, Any]], op: str) -> None:
    """Constants by list and expression, configurations that kcheck draws or Triton chooses, a launcher."""
    assert reports[op]["status"] == "passed", reports[op]


@pytest.mark.slow
def test_limits_of_the_artifact_are_checked(project: KindsProject) -> None:
    """Registers by the assembler that Triton brings; a limit that is too low fails the spec."""
    project.write(
        "limits/few.yaml", (project.root / "specs/artifact.yaml").read_text().replace("64, max_s", "4, max_s")
    )
    (few,) = project.report("limits").values()
    assert few["status"] == "failed"
    assert "registers" in str(few["findings"])


@pytest.mark.slow
def test_lint_reports_a_triton_kernel(project: KindsProject) -> None:
    done = project.kcheck("lint", "specs/artifact.yaml")
    assert done.returncode == 0, done.stderr
    assert "twice<BLOCK=64>" in done.stdout
    assert "target  regs  spills  stack  shared" in done.stdout


@pytest.mark.slow
def test_kernels_of_a_launcher_are_measured(project: KindsProject) -> None:
    """Also for another target than the one that they ran as; and their registers are limited."""
    done = project.kcheck("lint", "specs/launcher.yaml", "--target", "sm_80", "--target", "sm_90")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "twice<BLOCK=32>  kernels/k.py" in done.stdout
    assert all(re.search(rf"{target} +\d+ +0 .*float32 AA", done.stdout) for target in ("sm_80", "sm_90"))
    text = (project.root / "specs/launcher.yaml").read_text() + "artifact: {max_registers: 4}\n"
    project.write("limits/launcher.yaml", text)
    (limited,) = project.report("limits/launcher.yaml").values()
    assert limited["status"] == "failed"
    assert "registers" in str(limited["findings"])


def test_code_for_sm_90_has_its_registers(project: KindsProject) -> None:
    """Triton writes ``.target sm_90a`` for it, which ptxas assembles only for sm_90a."""
    done = project.kcheck("lint", "specs/artifact.yaml", "--target", "sm_90")
    assert done.returncode == 0, done.stdout
    assert re.search(r"sm_90 +\d+ +0 ", done.stdout), done.stdout


@pytest.mark.slow
def test_a_triton_kernel_is_tried_without_a_spec(project: KindsProject) -> None:
    done = project.kcheck("try", "kernels/k.py:twice", "--cases", "3")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "BLOCK" in done.stdout
    assert "block  " not in done.stdout  # Triton sets it


@pytest.mark.slow
def test_a_script_of_a_triton_kernel_is_refused(project: KindsProject, reports: dict[str, dict[str, Any]]) -> None:
    seed = reports["unmasked"]["cases"][0]["seed"]
    done = project.kcheck("reproduce", str(seed), "--op", "unmasked", "--script", "bug.py")
    assert done.returncode == 2
    assert "kernels/k.py:twice_unmasked is Triton; a script can launch only numba.cuda kernels" in done.stderr
    assert not (project.root / "bug.py").exists()


@pytest.mark.parametrize(
    ("version", "what", "fix"),
    [
        ("3.2.0", "triton 3.2.0 is not supported: kcheck supports 3.6 to 3.8", 'pip install "triton>=3.6,<3.9"'),
        (None, "kernels/k.py:twice needs Triton, which is not installed", 'pip install "kcheck[cu13,triton]"'),
    ],
)
def test_another_version_of_triton_is_refused(
    project: KindsProject, monkeypatch: pytest.MonkeyPatch, version: str | None, what: str, fix: str
) -> None:
    """Before it is imported; so is none."""
    spec = load_spec(project.root / "specs/constants.yaml")
    if version is None:
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    else:
        monkeypatch.setattr("importlib.metadata.version", lambda name: version)
    with pytest.raises(KernelError) as refused:
        load(spec)
    assert (refused.value.fault.what, refused.value.fault.fix) == (what, fix)


def test_triton_after_tensorflow_is_refused_because_the_process_would_crash(
    project: KindsProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both contain LLVM; Triton's library ends the process while it is loaded, if it is the second."""
    monkeypatch.setitem(sys.modules, "tensorflow", ModuleType("tensorflow"))
    monkeypatch.delitem(sys.modules, "triton", raising=False)
    with pytest.raises(KernelError) as refused:
        load(load_spec(project.root / "specs/constants.yaml"))
    assert refused.value.fault.what.startswith("TensorFlow is loaded in this process")
    assert refused.value.fault.fix == "run this spec by itself, or import triton before tensorflow"


@pytest.mark.slow
def test_a_missing_mask_is_found_at_its_line_and_column(reports: dict[str, dict[str, Any]]) -> None:
    findings = [f for case in reports["unmasked"]["cases"] for f in case["findings"] if f["rule"] == "memcheck"]
    place = {"file": "kernels/k.py", "line": line_of("value = tl.load(x + i)"), "column": 13}
    assert findings
    assert all((f["array"], f["place"]) == ("x", place) for f in findings), findings[0]["place"]


@pytest.mark.slow
def test_a_kernel_that_does_not_compile_fails_with_tritons_words(reports: dict[str, dict[str, Any]]) -> None:
    findings = [f for case in reports["compiles"]["cases"] for f in case["findings"]]
    assert {f["rule"] for f in findings} == {"compile"}
    assert {f["place"]["line"] for f in findings} == {line_of("x.undefined")}


@pytest.mark.slow
@pytest.mark.parametrize("op", ["callee", "callee_of_launcher"])
def test_a_function_that_does_not_compile_is_named_with_its_line(
    reports: dict[str, dict[str, Any]], op: str
) -> None:
    """Triton's error for the kernel has no message; the function that it calls has one."""
    findings = [f for case in reports[op]["cases"] for f in case["findings"]]
    assert {(f["rule"], f["kernel"]) for f in findings} == {("compile", "calls_wrong")}
    assert {f["place"]["line"] for f in findings} == {line_of("x.missing")}
    assert all("no attribute 'missing'" in f["message"] for f in findings), findings[0]["message"]


@pytest.mark.slow
def test_a_type_that_the_device_does_not_have_names_the_capability(reports: dict[str, dict[str, Any]]) -> None:
    findings = [f for case in reports["narrowed"]["cases"] for f in case["findings"]]
    assert {f["fix"] for f in findings} == {
        "set KCHECK_CC=8.9, or artifact: {targets: [sm_89]}: float8_e4m3fn needs compute capability 8.9"
    }


def line_of(text: str) -> int:
    """The line of the kernels' file that has a text."""
    return next(n for n, line in enumerate(KERNELS.strip().splitlines(), 1) if text in line)


def spec_of(project: KindsProject, text: str) -> Any:
    return load_spec(project.spec("tried", text))


def test_what_is_drawn_is_a_coordinate_of_the_case(project: KindsProject) -> None:
    """Constants, warps and configurations are params: shown, replayed, minimized to the first of the list."""
    spec = spec_of(project, GOOD["constants"])
    assert (spec.params["BLOCK"].values, spec.params["BLOCK"].in_order) == ((64, 32), True)
    assert {expand(spec, seed).params["BLOCK"] for seed in range(20)} == {64, 32}
    tuned = spec_of(project, GOOD["each"])
    drawn = {tuple(expand(tuned, seed).params.values()) for seed in range(40)}
    assert drawn == {(0, 32, 1, 3), (1, 32, 2, 3), (2, 64, 1, 3), (3, 64, 2, 3)}
    assert list(tuned.params) == ["config", "BLOCK", "num_warps", "num_stages"]


ONE = "{config: {BLOCK: 32, num_warps: 2}}"
FAULTS = {
    "a constant without a value": (
        f"kernel: kernels/k.py:twice\n{LAUNCH}",
        "the tl.constexpr parameter BLOCK of kernel 'twice' has no value; add compile: {constexprs: {BLOCK: ...}}",
    ),
    "an unknown constant": (
        f"kernel: kernels/k.py:twice\ncompile: {{constexprs: {{BLOK: 32, BLOCK: 32}}}}\n{LAUNCH}",
        "kernel 'twice' has no tl.constexpr parameter 'BLOK'; did you mean 'BLOCK'?",
    ),
    "a constant among the arguments": (
        "kernel: kernels/k.py:twice\ncompile: {constexprs: {BLOCK: 32}}\n"
        "launch: {args: [x, y, N, BLOCK], grid: [1]}",
        "'BLOCK' in args is a constant, not an argument",
    ),
    "an argument too many": (
        "kernel: kernels/k.py:twice\ncompile: {constexprs: {BLOCK: 32}}\nlaunch: {args: [x, y, N, N], grid: [1]}",
        "kernel 'twice' takes 3 arguments, but args has 4; its parameters are x, y, n",
    ),
    "an array for a number": (
        "kernel: kernels/k.py:twice\ncompile: {constexprs: {BLOCK: 32}}\nlaunch: {args: [x, y, x], grid: [1]}",
        "the array 'x' does not match parameter 3 of kernel 'twice', 'n', which the kernel uses as a number",
    ),
    "a number for an array": (
        "kernel: kernels/k.py:twice\ncompile: {constexprs: {BLOCK: 32}}\nlaunch: {args: [N, y, N], grid: [1]}",
        "a number does not match parameter 1 of kernel 'twice', 'x', which the kernel uses as a pointer",
    ),
    "a block": (
        "kernel: kernels/k.py:twice\ncompile: {constexprs: {BLOCK: 32}}\n"
        "launch: {args: [x, y, N], grid: [1], block: [128]}",
        "Triton sets 'block' of its kernels; set num_warps instead",
    ),
    "strings and numbers in one list": (
        f"kernel: kernels/k.py:twice\ncompile: {{constexprs: {{BLOCK: [32, next_pow2(N)]}}}}\n{LAUNCH}",
        "BLOCK must be a number, true or false, or a list of strings; an expression cannot be in a list",
    ),
    "a constant in a shape": (
        f"kernel: kernels/k.py:twice\ncompile: {{constexprs: {{BLOCK: 32}}}}\n{LAUNCH}\ninputs: {{x: [BLOCK]}}",
        "'BLOCK' in shape [BLOCK] is a constant",
    ),
    "a configuration that fits twice": (
        f"kernel: kernels/k.py:tuned\ncompile: {{config: {{BLOCK: 32}}}}\n{LAUNCH}",
        "2 configurations fit BLOCK: 32; name arguments that only one configuration has",
    ),
    "a configuration of what is not tuned": (
        f"kernel: kernels/k.py:twice\ncompile: {{constexprs: {{BLOCK: 32}}, config: best}}\n{LAUNCH}",
        "kernel 'twice' is not autotuned; remove `config`",
    ),
    "a constant that a configuration sets": (
        f"kernel: kernels/k.py:tuned\ncompile: {{constexprs: {{BLOCK: 32}}}}\n{LAUNCH}",
        "the configurations of 'tuned' set 'BLOCK'; remove it",
    ),
    "what heuristics compute, in the grid": (
        'kernel: kernels/k.py:tuned\nlaunch: {args: [x, y, N], grid: ["N + EVEN"]}',
        "grid cannot use 'EVEN': @triton.heuristics computes it from the arguments of a launch; "
        "write what it computes, from N",
    ),
    "C++ options": (
        f"kernel: kernels/k.py:twice\ncompile: {{std: c++17}}\n{LAUNCH}",
        "unknown key 'std' in 'compile' for a kernel of Triton",
    ),
}


@pytest.mark.parametrize("what", FAULTS)
def test_a_wrong_spec_is_one_error_with_the_fix(project: KindsProject, what: str) -> None:
    text, message = FAULTS[what]
    with pytest.raises(SpecError) as refused:
        spec_of(project, text)
    assert message in str(refused.value)
    assert len(refused.value.faults) == 1, str(refused.value)


def test_a_constant_with_a_default_is_a_name_of_expressions(project: KindsProject) -> None:
    """Unless a dim, or the spec, sets it."""
    spec = spec_of(project, GOOD["default"])
    assert {name: param.values for name, param in spec.params.items()} == {"BLOCK": (64,), "TIMES": (1,)}
    spec = spec_of(project, f"{GOOD['default']}\ncompile: {{constexprs: {{BLOCK: 32, TIMES: [1, 2]}}}}")
    assert {name: param.values for name, param in spec.params.items()} == {"BLOCK": (32,), "TIMES": (1, 2)}
    spec = spec_of(project, f"{GOOD['default']}\ndims: {{N: [1, 70], TIMES: [1, 2]}}")
    assert set(spec.params) == {"BLOCK"}


def test_one_configuration_can_be_named(project: KindsProject) -> None:
    spec = spec_of(project, f"kernel: kernels/k.py:tuned\ncompile: {ONE}\n{LAUNCH}")
    assert {name: param.values for name, param in spec.params.items()} == {
        "BLOCK": (32,),
        "num_warps": (2,),
        "num_stages": (3,),
    }


def test_a_kernel_is_tritons_by_what_decorates_it(tmp_path: Path) -> None:
    """Whatever the file calls Triton; ``jit`` of Numba is Numba's."""
    from kcheck.specfile.kinds.tritonfile import read_triton

    file = tmp_path / "k.py"
    file.write_text(
        "import triton as t\nfrom triton import jit as compiled\nfrom numba import jit\n"
        "@t.jit\ndef a(x): pass\n@compiled\ndef b(x): pass\n@jit\ndef c(x): pass\ndef d(x): pass\n"
    )
    assert list(read_triton(file)) == ["a", "b"]
