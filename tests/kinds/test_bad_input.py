"""What a spec says wrongly about a kernel that is not Numba's: one error each, exit code 2, with the fix."""

from __future__ import annotations

import pytest
from kinds_project import KindsProject
from test_cuda_kernels import DOUBLE, PTX

from kcheck.device.cpu import missing

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(missing()), reason=missing())]

CU = "kernel: kernels/twice.cu:twice"
ARGS = 'launch: {{args: {}, grid: ["ceildiv(N, 64)"], block: [64]}}'

ROWS = {
    # op: (spec, the message, the fix)
    "a_parameter_too_many": (
        f"{CU}\n{ARGS.format('[x, y, {N: int32}, {N: int32}]')}",
        "kernel 'twice' takes 3 arguments, but args has 4",
        "its parameters are const float* x, float* y, int n",
    ),
    "a_wide_dim": (
        f"{CU}\n{ARGS.format('[x, y, {N: int64}]')}",
        "'N' as int64 does not match parameter 3 of kernel 'twice', `int n`: it has 4 bytes, but int64 has 8",
        "write {N: int32}",
    ),
    "a_pointer_for_a_scalar": (
        f"{CU}\n{ARGS.format('[x, y, x]')}",
        "the float32 array 'x' does not match parameter 3 of kernel 'twice', `int n`: an array is passed as a "
        "pointer of 8 bytes, but this is an integer of 4 bytes",
        "pass a dim, a param or {stride: [x, 0]} here, or change the kernel",
    ),
    "a_scalar_for_a_pointer": (
        f"{CU}\n{ARGS.format('[N, y, {N: int32}]')}",
        "'N' as int64 does not match parameter 1 of kernel 'twice', `const float* x`: it is a pointer, but a "
        "scalar is passed",
        "pass an array here, or change the kernel",
    ),
    "a_scalar_for_a_struct": (
        f"kernel: kernels/struct.cu:twice\n{ARGS.format('[x, y, N]')}",
        "'N' as int64 does not match parameter 3 of kernel 'twice', `Sizes sizes`: it is a struct of 8 bytes",
        "change the kernel: a spec passes arrays and scalars",
    ),
    "other_elements": (
        f"{CU}\ninputs: {{x: {{shape: [N], dtype: float64}}}}",
        "the float64 array 'x' does not match parameter 1 of kernel 'twice', `const float* x`: it is a pointer "
        "to float32",
        "declare 'x' with dtype float32, or change the kernel",
    ),
    "a_pointer_to_pointers": (
        f"kernel: kernels/rows.cu:twice\n{ARGS.format('[x, y, {N: int32}]')}",
        "the float32 array 'x' does not match parameter 1 of kernel 'twice', `float** x`: it is a pointer "
        "to uint64",
        "declare 'x' with dtype uint64, or change the kernel",
    ),
    "a_missing_include": (
        "kernel: kernels/lost.cu:twice",
        'there is no file "nowhere.h" to include',
        "add its folder to compile, as in `compile: {include: [include]}`, or fix the name",
    ),
    "ptx_of_one_family": (
        "kernel: kernels/family.ptx:twice",
        "kernel: kernels/family.ptx:2: the .target is sm_100a, which is code for one family of GPUs only",
        "compile it for sm_80 or another target up to sm_90",
    ),
    "ptx_of_a_newer_target": (
        "kernel: kernels/newer.ptx:twice",
        "kernels/newer.ptx:twice is compiled for sm_90, but this device is sm_80",
        "set KCHECK_CC=9.0, or compile it for an older target",
    ),
    "a_wide_dim_for_ptx": (
        f"kernel: kernels/twice.ptx:twice\n{ARGS.format('[x, y, {N: int64}]')}",
        "'N' as int64 does not match parameter 3 of kernel 'twice', .u32 n: it has 4 bytes, but int64 has 8",
        "write {N: int32}",
    ),
    "a_function_of_another_file": (
        "kernel: kernels/calls.ptx:twice",
        "fancy is declared .extern, and the file does not define it",
        "link the file that defines it, and give the linked PTX",
    ),
    "a_variable_of_another_file": (
        "kernel: kernels/reads.ptx:twice",
        "table is declared .extern, and the file does not define it",
        "link the file that defines it, and give the linked PTX",
    ),
    "an_unknown_kernel": (
        "kernel: kernels/twice.cu:twise",
        "kernel: kernels/twice.cu has no __global__ function 'twise'",
        "did you mean 'twice'?",
    ),
    "an_unknown_entry": (
        "kernel: kernels/twice.ptx:twise",
        "kernel: kernels/twice.ptx has no entry 'twise'",
        "did you mean 'twice'?",
    ),
    "an_unknown_type": (
        'kernel: "kernels/twice.cu:twice<{U}>"',
        "{U} in the template arguments is not a type variable, a dim or a param",
        "available: T, N",
    ),
    "an_unknown_instance": (
        'kernel: "kernels/template.cu:twice<{T}>"',
        "twice is not an instance of a kernel in kernels/template.cu: cannot determine which instance of function "
        'template "twice" is intended',
        "give a value for each template parameter: twice<class T, int K>",
    ),
    "a_template_argument_of_no_type": (
        'kernel: "kernels/template.cu:twice<floot, 2>"',
        'twice is not an instance of a kernel in kernels/template.cu: identifier "floot" is undefined',
        "give a value for each template parameter: twice<class T, int K>",
    ),
    "an_unknown_key": (
        f"{CU}\ncompile: {{define: {{A: 1}}}}",
        "unknown key 'define' in 'compile'",
        "did you mean 'defines'?",
    ),
    "a_key_of_another_kind": (
        "kernel: kernels/twice.ptx:twice\ncompile: {std: c++20}",
        "unknown key 'std' in 'compile' for a kernel of PTX",
        "PTX is compiled already: remove this",
    ),
    "an_option_that_kcheck_sets": (
        f"{CU}\ncompile: {{options: [-arch=sm_90]}}",
        "the option '-arch=sm_90' is not allowed in a spec: kcheck compiles for the device and "
        "for `artifact: targets`",
        "remove it",
    ),
    "an_option_that_nvrtc_does_not_have": (
        f"{CU}\ncompile: {{options: [--use_fast_mth]}}",
        "NVRTC has no option '--use_fast_mth', which compile: {options: ...} passes to it",
        "use an option of NVRTC; it does not have all options of nvcc",
    ),
    "a_folder_that_is_not_there": (
        f"{CU}\ncompile: {{include: [includes]}}",
        "include: there is no folder 'includes' in the project",
        "did you mean 'include'?",
    ),
}


@pytest.fixture(scope="module")
def refused(tmp_path_factory):
    """(message, fix) of each spec's errors, by op, and the exit code of the run."""
    project = KindsProject(tmp_path_factory.mktemp("bad") / "a project")
    project.write("kernels/twice.cu", DOUBLE)
    template = DOUBLE.replace("__global__", "template <class T, int K> __global__")
    project.write("kernels/template.cu", template.replace('extern "C" ', ""))
    struct = "struct Sizes { int n; float factor; };\n" + DOUBLE.replace("int n", "Sizes sizes")
    project.write("kernels/struct.cu", struct.replace("int i =", "int n = sizes.n, i ="))
    rows = DOUBLE.replace("const float* x", "float** x").replace("x[i]", "x[0][i]")
    project.write("kernels/rows.cu", rows)
    project.write("kernels/lost.cu", '#include "nowhere.h"\n' + DOUBLE)
    project.write("kernels/twice.ptx", PTX)
    others = ".extern .func fancy ();\n.extern .global .f32 table[16];\n.visible .entry"
    for op, line in {"calls": "call.uni fancy, ();", "reads": "ld.global.f32 %f1, [table];"}.items():
        project.write(
            f"kernels/{op}.ptx", PTX.replace(".visible .entry", others).replace("ret;", line + "\n    ret;")
        )
    project.write("kernels/family.ptx", PTX.replace("sm_75", "sm_100a"))
    project.write("kernels/newer.ptx", PTX.replace("sm_75", "sm_90"))
    for op, (spec, _, _) in ROWS.items():
        project.spec(op, spec)
    found = {}
    for op, spec in project.report().items():
        findings = [finding for case in spec.get("cases", ()) for finding in case["findings"]]
        found[op] = [(one["message"], one["fix"]) for one in findings]
        found[op] += [(one["what"], one["fix"]) for one in spec.get("faults", ())]
    return found, project.kcheck("run", "specs/a_wide_dim.yaml", "--device", "cpu").returncode


@pytest.mark.parametrize("op", ROWS)
def test_one_error_with_the_fix(refused, op):
    assert refused[0][op] == [ROWS[op][1:]]


def test_such_an_error_ends_with_2(refused):
    assert refused[1] == 2
