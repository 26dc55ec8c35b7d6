"""``make conformance-gpuverify`` itself: how it reads tests, what it makes of conditions, and what it counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.gpuverify import CHECKS, Row, compared, judge, page
from conformance.gpuverify_text import GpuverifyTest, NotApplicable, read, specs, translated

HEAD = "//{expected}\n//--blockDim={block} --gridDim=2 {more}\n{told}\n"


def written(
    folder: Path, body: str, expected: str = "pass", block: str = "64", more: str = "", told: str = ""
) -> GpuverifyTest:
    """A test in a folder, read."""
    path = folder / "one" / "kernel.cu"
    path.parent.mkdir(exist_ok=True)
    path.write_text(HEAD.format(expected=expected, block=block, more=more, told=told) + body)
    return read(path, folder)


def test_the_header_has_the_result_and_the_launch(tmp_path: Path) -> None:
    """A block of more threads than CUDA allows is cut."""
    found = written(tmp_path, "", "xfail:NOT_ALL_VERIFIED", "[64,32]", "--warp-sync=16 -DWIDTH=8", "//race on x")
    assert (found.name, found.expected, found.told) == ("one", "fail", ("race on x",))
    assert (found.block, found.grid, found.is_cut) == ((32, 32), (2,), True)
    assert (found.defines, found.lockstep) == ({"WIDTH": "8"}, 16)


def test_lines_keep_their_numbers(tmp_path: Path) -> None:
    """Of a kernel with a condition, an axiom and a function without a body."""
    body = (
        "#include <cuda.h>\n__axiom(blockIdx.x == 1);\n__device__ int other(int x);\n"
        "__global__ void k(int n) {\n  __requires(n > 0);\n  while (other(n)) { }\n}\n"
    )
    before = written(tmp_path, body)
    after = translated(before).split("\n")
    for number, line in enumerate(before.text.split("\n")):
        if "while" in line:
            assert after[number] == line
        if "__requires" in line:
            assert "__requires_of_kernel(n > 0)" in after[number]
        if "__global__" in line:
            assert "__requires_of_kernel(blockIdx.x == 1);" in after[number]
    assert "gpuverify_anything<int>()" in after[-1]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("__global__ void k(int* x) { __assert(__no_read(x)); }", "on the accesses so far"),
        ("__global__ void k(int* x) { __assert(__other_int(x[0]) != 1); }", "on two threads"),
        ("texture<int, 1> t; __global__ void k() { }", "texture references"),
        ("typedef int (*f_t)(int); __global__ void k(f_t f) { }", "parameter of type `f_t`"),
    ],
)
def test_what_is_not_about_a_kernel_that_runs_is_not_counted(tmp_path: Path, body: str, why: str) -> None:
    """With the reason."""
    found = written(tmp_path, body)
    with pytest.raises(NotApplicable, match=why):
        _made(found)


def _made(test: GpuverifyTest) -> None:
    translated(test)
    specs(test, "kernel.cu")


def test_arguments_are_arrays_sizes_and_structs(tmp_path: Path) -> None:
    """Members of a base and of structures inside another one are passed, too."""
    body = (
        "struct base { char *p[2]; };\nstruct s : base { struct { unsigned long long int n; } inner; };\n"
        "__global__ void k(const float *in, int n, s q) { }\n"
    )
    (kernel,) = specs(written(tmp_path, body), "kernel.cu", 1000)
    assert "  in_: {shape: [2097152], dtype: float32}\n" in kernel.spec
    assert "  n: 0..1000\n" in kernel.spec
    struct = "{struct: {p: [q_p_0, q_p_1], inner: {struct: {n: q_inner_n}}}}"
    assert f"args: [in_, n, {struct}, kcheck_unused]" in kernel.spec


BODIES = {
    "pass": "x[threadIdx.x + blockIdx.x * blockDim.x] = 1; __assert(n < 10);",
    "fail": "x[threadIdx.x + blockIdx.x * blockDim.x] = 1; __assert(n < 9);",
    "race": "x[threadIdx.x] = threadIdx.x + blockIdx.x;",
    "shared": "__shared__ int tile[32]; tile[threadIdx.x % 32] = threadIdx.x;",
}


@pytest.mark.parametrize(
    ("name", "ours"), [("pass", "proved"), ("fail", "memcheck refuted"), ("race", "racecheck")]
)
def test_a_kernel_is_decided(tmp_path: Path, name: str, ours: str) -> None:
    """What does not hold is code that accesses memory outside an array."""
    pytest.importorskip("cuda.bindings.nvrtc")
    body = f"__global__ void k(int* x, int n) {{ __requires(n < 10); {BODIES[name]} }}\n"
    expected = "pass" if name == "pass" else "xfail:NOT_ALL_VERIFIED"
    row = judge(written(tmp_path, body, expected))
    assert (row.word, row.ours.startswith(ours)) == ("agree", True), row


def test_a_race_in_shared_memory_that_is_only_written_is_found(tmp_path: Path) -> None:
    """The compiler would remove it."""
    pytest.importorskip("cuda.bindings.nvrtc")
    row = judge(written(tmp_path, f"__global__ void k() {{ {BODIES['shared']} }}\n", "xfail:NOT_ALL_VERIFIED"))
    assert (row.word, row.ours) == ("agree", "racecheck refuted"), row


def test_verdicts_are_compared(tmp_path: Path) -> None:
    """A proof of what has a race is wrong, and so is a finding in what has none."""

    def verdicts(race: str) -> list[dict[str, object]]:
        checks = {name: {"verdict": "proved", "reasons": [], "finding": ""} for name in CHECKS}
        checks["racecheck"] = {"verdict": race, "reasons": [], "finding": "two writes"}
        return [{"checks": checks}]

    words = [
        [
            compared(written(tmp_path, "", expected, more=more), verdicts(race)).word
            for race in ("proved", "refuted")
        ]
        for expected, more in (("pass", ""), ("xfail:NOT_ALL_VERIFIED", ""), ("pass", "--warp-sync=32"))
    ]
    assert words == [["agree", "wrong"], ["wrong", "agree"], ["agree", "not applicable"]]


def test_the_page_counts_and_explains(tmp_path: Path) -> None:
    """A test that is not applicable is in no share."""
    one = written(tmp_path, "")
    rows = [Row(one, word) for word in ("agree", "agree", "undecided", "wrong", "not applicable")]
    text = page(rows, {"one": "a reason"})
    assert "**2 of 4 tests agree**, 3 are decided (75%), 1 differ." in text
    assert "1 of 5 tests are not about a kernel that runs" in text
    assert "| one | pass |  | a reason |" in text
