"""Kernels are compiled and assembled as a GPU would get them, with no GPU."""

import dataclasses
import importlib.util
import time
from itertools import product

import psutil
import pytest

from kcheck.device.artifact import Compilation
from kcheck.device.assembler import assemble, link, read_ptxas_log
from kcheck.device.launched import signature_of_values
from kcheck.device.specialize import signatures
from kcheck.driver.cubin import read_resources
from kcheck.errors import InternalError
from kcheck.generator.layouts import GUARDS, allocate, geometry
from kcheck.linter.check import check
from kcheck.linter.ptx_text import find_entry
from kcheck.model import DTYPES, Artifact, FunctionRef, Span
from kcheck.model.compiled import ArrayType, Resources, ScalarType
from kcheck.rng import Xorshift128Plus

needs_nvvm = pytest.mark.skipif(
    importlib.util.find_spec("nvidia") is None, reason="NVVM is not installed (the extras cu12 and cu13)"
)

LOG = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'k' for 'sm_80'
ptxas info    : Function properties for k
ptxas         .     400 bytes stack frame, 12 bytes spill stores, 20 bytes spill loads
ptxas info    : Used 25 registers, used 1 barriers, 256 bytes smem, 464 bytes cmem[0]
"""

KERNEL = """
@cuda.jit
def k(x, n, y):
    tile = cuda.shared.array(64, dtype=np.float32)
    i = cuda.grid(1)
    tile[cuda.threadIdx.x] = x[i] if i < n else 0
    cuda.syncthreads()
    if i < n:
        y[i] = tile[63 - cuda.threadIdx.x]
"""
SPEC = """
kcheck: 1
op: k
dims: {N: 1..64}
dtypes: [float32, float16]
inputs: {x: {shape: [N], layouts: [contiguous, strided, offset, reversed]}}
outputs: {y: [N]}
kernel: k.py:k
launch: {args: [x, {N: int32}, y], grid: [1], block: [64]}
reference: r.py:r
"""


def test_ptxas_log_is_read() -> None:
    """Of each entry: registers, spills, stack frame, static shared and constant memory, as ptxas says them."""
    other = LOG.replace("'k'", "'other'").replace("25 registers", "31 registers")
    mine = Resources(registers=25, spill_stores=12, spill_loads=20, stack=400, shared=256, constant=464)
    assert read_ptxas_log(LOG + other) == {"k": mine, "other": dataclasses.replace(mine, registers=31)}
    assert mine.spills == 32


def test_a_log_without_registers_is_our_fault() -> None:
    """What ptxas does not report is not taken for zero."""
    with pytest.raises(InternalError, match="no registers"):
        read_ptxas_log("ptxas info : 0 bytes gmem")
    with pytest.raises(InternalError, match="no registers of k"):
        read_ptxas_log(LOG.replace("Used", "Spent"))


DIVIDES = """\
.version 8.0
.target sm_80
.address_size 64
.visible .entry plain(.param .u64 p)
{
	.reg .b64 %rd<3>;
	ld.param.u64 %rd1, [p];
	st.global.u64 [%rd1], %rd1;
	ret;
}
.visible .entry divides(.param .u64 p)
{
	.reg .b64 %rd<5>;
	ld.param.u64 %rd1, [p];
	ld.global.u64 %rd2, [%rd1];
	ld.global.u64 %rd3, [%rd1+8];
	div.s64 %rd4, %rd2, %rd3;
	st.global.u64 [%rd1], %rd4;
	ret;
}
"""


@pytest.mark.slow
@needs_nvvm
@pytest.mark.parametrize("target", ["sm_80", "sm_90", "sm_100"])
def test_registers_are_those_of_a_launch(target: str) -> None:
    """A division of 64-bit integers is a subroutine that takes more than the kernel's own code, of which the log
    tells; the cubin has what a launch allocates. Nothing else changes."""
    code, log = link(DIVIDES, target)
    told, found = read_ptxas_log(log), assemble(DIVIDES, target)
    for entry in ("plain", "divides"):
        assert found[entry].registers == read_resources(code, entry, has_system_shared=False).registers
        assert dataclasses.replace(found[entry], registers=told[entry].registers) == told[entry]
    assert found["plain"] == told["plain"]
    assert found["divides"].registers > told["divides"].registers


def test_signatures_are_those_of_the_dtypes_and_layouts(project) -> None:
    """Each dtype with each of Numba's layouts once: strided and reversed are A, offset is C."""
    spec = project.spec(SPEC, kernel=KERNEL, reference="def r(x): return x")
    assert signatures(spec) == tuple(
        (ArrayType(dtype, 1, layout), ScalarType("int32"), ArrayType(dtype, 1, "C"))
        for dtype in ("float32", "float16")
        for layout in ("C", "A")
    )


# What Numba takes arrays of three axes for
LETTERS = {
    "contiguous": "C",
    "offset": "C",
    "padded": "AC",
    "strided": "AC",
    "swapped": "AC",
    "transposed": "AC",
    "reversed": "AC",
    "broadcast": "A",
    "channels_last": "AC",
}


@pytest.mark.parametrize("layout", LETTERS)
def test_arrays_of_every_shape_are_of_a_declared_signature(layout: str) -> None:
    """Also where axes have one element, so that nothing is compiled that ``artifact:`` did not look at: an array
    of three axes is no Fortran-contiguous one in any layout, and a C-contiguous one at most."""
    row = DTYPES["float32"]
    for shape in product((1, 2, 5), repeat=3):
        for seed in range(8):
            where = geometry(shape, 4, layout, Xorshift128Plus(seed), range(3))
            made = allocate("x", "output", row, shape, where, GUARDS[0], None)
            (kind,) = signature_of_values([made.view()])
            assert kind.layout in LETTERS[layout], (shape, where.strides)


@pytest.mark.slow
@needs_nvvm
def test_a_kernel_compiles_for_each_signature_and_target(project) -> None:
    """PTX with the entry and its lines, and ptxas's resources, for every signature on every target."""
    spec = project.spec(SPEC, kernel=KERNEL, reference="def r(x): return x")
    compiled = Compilation(spec.root, spec.kernel, signatures(spec), ("sm_80", "sm_90")).result()
    assert [kernel.target for kernel in compiled] == ["sm_80"] * 4 + ["sm_90"] * 4
    for kernel in compiled:
        assert not kernel.problem
        assert kernel.resources.shared == 256
        assert kernel.resources.registers > 4
        entry = find_entry(kernel.ptx, kernel.entry)
        assert f".target {kernel.target}" in kernel.ptx
        assert "bar.sync" in entry.text
        (finding,) = check(Artifact(kernel.place, forbidden_patterns=("bar",)), [kernel])
        assert "syncthreads" in (project.root / "k.py").read_text().splitlines()[finding.place.line - 1]


@pytest.mark.slow
@needs_nvvm
def test_what_does_not_compile_says_so(project) -> None:
    """A kernel that Numba cannot type is a problem of the specialization, not an exception."""
    project.write("k.py", "from numba import cuda\n\n@cuda.jit\ndef k(x):\n    x[0] = 'text'\n")
    function = FunctionRef("k.py", "k", Span("op.yaml", 9, 9))
    (kernel,) = Compilation(str(project.root), function, [(ArrayType("float32", 1, "C"),)], ("sm_80",)).result()
    assert kernel.problem.startswith("does not compile: TypingError: ")
    assert kernel.place.line == 5
    assert kernel.resources is None


@pytest.mark.slow
@needs_nvvm
def test_a_kernel_may_call_device_functions(project) -> None:
    """Numba asks the current device what to compile them for; here there is none."""
    project.write(
        "k.py",
        "from numba import cuda\n\n@cuda.jit(device=True)\ndef twice(value):\n    return value + value\n\n"
        "@cuda.jit\ndef k(x):\n    x[0] = twice(x[0])\n",
    )
    function = FunctionRef("k.py", "k", Span("op.yaml", 9, 9))
    signature = (ArrayType("float32", 1, "C"),)
    kernels = Compilation(str(project.root), function, [signature], ("sm_80", "sm_90")).result()
    assert [kernel.problem for kernel in kernels] == ["", ""]
    assert all("add.f32" in kernel.ptx.replace(".rn", "") for kernel in kernels)


@pytest.mark.slow
@needs_nvvm
def test_bfloat16_compiles(project) -> None:
    """Its shims do not link with line tables; the kernel is compiled without them then."""
    project.write(
        "k.py",
        "from numba import cuda, float32\n\n@cuda.jit\ndef k(x, y):\n    y[0] = float32(x[0])\n",
    )
    signature = (ArrayType("bfloat16", 1, "C"), ArrayType("float32", 1, "C"))
    function = FunctionRef("k.py", "k", Span("op.yaml", 9, 9))
    (kernel,) = Compilation(str(project.root), function, [signature], ("sm_80",)).result()
    assert not kernel.problem


@pytest.mark.slow
@needs_nvvm
def test_a_kernel_whose_variables_cannot_be_described_has_lines(project) -> None:
    """The compiler rejects what numba-cuda's line information says about variables of this kernel."""
    head = "from numba import cuda\n@cuda.jit\ndef insert(keys, table):\n    k = keys[cuda.grid(1)]\n"
    body = """    slot = (k * 2654435761) % 1024
    while True:
        old = table[slot]
        if old == -1:
            table[slot] = k
        if old == -1 or old == k:
            return
        slot = (slot + 1) % 1024
"""
    (project.root / "kernels.py").write_text(head + body)
    function = FunctionRef("kernels.py", "insert", Span("spec.yaml", 1))
    array = ArrayType("int32", 1, "C")
    (kernel,) = Compilation(str(project.root), function, [(array, array)], ("sm_80",)).result()
    assert kernel.problem == ""
    assert ".loc" in kernel.ptx


@pytest.mark.slow
@needs_nvvm
def test_a_disassembler_that_hangs_ends_with_the_compilation(project, monkeypatch, tmp_path) -> None:
    """Whoever cancels leaves no process behind."""
    begun = tmp_path / "begun"
    program = project.write(
        "nvdisasm", f'#!/bin/sh\necho $$ >"{begun}.new"\nmv "{begun}.new" "{begun}"\nexec sleep 300\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("NVDISASM_PATH", str(program.parent))
    project.write("k.py", "from numba import cuda\n\n@cuda.jit\ndef k(x):\n    x[0] = 1\n")
    function = FunctionRef("k.py", "k", Span("op.yaml", 9, 9))
    compilation = Compilation(
        str(project.root), function, [(ArrayType("float32", 1, "C"),)], ("sm_80",), sass=True
    )
    try:
        limit = time.monotonic() + 120
        while not begun.exists() and time.monotonic() < limit:
            time.sleep(0.05)
        hanging = psutil.Process(int(begun.read_text()))
        assert compilation.running
    finally:
        compilation.cancel()
    assert psutil.wait_procs([hanging], timeout=10)[1] == []
