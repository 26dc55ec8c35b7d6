"""``grid.sync()`` of cooperative groups in CUDA C++ and HIP: barriers, races around them, launches without one."""

from __future__ import annotations

import pytest
from cuda.bindings import nvrtc
from kinds_project import KindsProject

from kcheck.device.kinds.nvrtc import toolkit_folders

HEAD = """#include <cooperative_groups.h>
namespace cg = cooperative_groups;
extern "C" __global__ void op(const float* x, float* y, int n) {
  auto grid = cg::this_grid();
  int i = grid.thread_rank();
"""
MIRRORED = "  if (i < n) y[n - 1 - i] = x[n - 1 - i];\n"
ADDED = "  if (i < n) y[i] += x[i];\n}\n"
SYNC = "  grid.sync();\n"
KERNELS = {
    "synchronized": HEAD + MIRRORED + SYNC + ADDED,
    "in_two_halves": HEAD
    + MIRRORED
    + "  auto token = grid.barrier_arrive();\n  grid.barrier_wait(std::move(token));\n"
    + ADDED,
    "in_a_loop": HEAD
    + "  for (int k = 0; k < 3; ++k) {\n"
    + "    if (i < n) y[n - 1 - i] = k == 2 ? x[n - 1 - i] : 0;\n    grid.sync();\n  }\n"
    + ADDED,
    "in_a_function": HEAD.replace("extern", "__device__ void wait() { cg::this_grid().sync(); }\nextern", 1)
    + MIRRORED
    + "  wait();\n"
    + ADDED,
    "after_another_header": HEAD.replace("groups.h>", "groups/reduce.h>") + MIRRORED + SYNC + ADDED,
}
UNSYNCHRONIZED = HEAD + MIRRORED + ADDED
OF_ANOTHER_BLOCK = HEAD + MIRRORED + "  __syncthreads();\n" + ADDED
EXITED = HEAD + "  if (i >= n) return;\n" + MIRRORED + SYNC + ADDED
FALLS_BACK = HEAD + "  if (i >= n) return;\n  y[i] = grid.is_valid() ? 0 : 2 * x[i];\n}\n"
LAUNCHER = """
import kcheck


def launch(x, y):
    kernel = kcheck.kernels["op"]
    kernel.cooperative[(x.size + 63) // 64, 64](x, y, x.size)
"""


def ptx_of_another_compiler(text: str, lines: str) -> str:
    """PTX with line numbers (``lines``: an option), and with the barrier of CUDA's own header in place."""
    _, program = nvrtc.nvrtcCreateProgram(text.encode(), b"other.cu", 0, [], [])
    options = ["--gpu-architecture=compute_80", lines, *(f"-I{folder}" for folder in toolkit_folders())]
    (code,) = nvrtc.nvrtcCompileProgram(program, len(options), [option.encode() for option in options])
    assert not int(code)
    ptx = bytes(nvrtc.nvrtcGetPTXSize(program)[1])
    nvrtc.nvrtcGetPTX(program, ptx)
    return ptx.rstrip(b"\0").decode()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The project's report: specs by op."""
    project = KindsProject(tmp_path_factory.mktemp("grids") / "project")
    launch = 'launch: {args: [x, y, {N: int32}], grid: ["ceildiv(N, 64)"], block: [64]'
    kernels = {
        **KERNELS,
        "unsynchronized": UNSYNCHRONIZED,
        "of_another_block": OF_ANOTHER_BLOCK,
        "exited": EXITED,
    }
    for op, text in kernels.items():
        project.write(f"kernels/{op}.cu", text)
        project.spec(op, f"kernel: kernels/{op}.cu:op\n{launch}, cooperative: true}}")
    in_hip = KERNELS["synchronized"].replace("<cooperative_groups", "<hip/hip_cooperative_groups")
    project.write("kernels/synchronized.hip", in_hip)
    project.spec("hip", f"kernel: kernels/synchronized.hip:op\n{launch}, cooperative: true}}")
    project.spec("plain_launch", f"kernel: kernels/synchronized.cu:op\n{launch}}}")
    project.write("kernels/falls_back.cu", FALLS_BACK)
    project.spec("falls_back", f"kernel: kernels/falls_back.cu:op\n{launch}}}")
    inlined = {
        "other": (KERNELS["in_a_loop"], "-lineinfo"),
        "debug": (KERNELS["synchronized"], "-G"),  # keeps the address of the workspace in memory
        "other_exited": (EXITED, "-lineinfo"),
        "other_of_another_block": (OF_ANOTHER_BLOCK, "-lineinfo"),
    }
    for op, (text, lines) in inlined.items():
        project.write(f"kernels/{op}.ptx", ptx_of_another_compiler(text, lines))
        project.spec(op, f"kernel: kernels/{op}.ptx:op\n{launch}, cooperative: true}}")
    project.write("kernels/launch.py", LAUNCHER)
    project.spec("launched", "kernel: kernels/synchronized.cu:op\nlauncher: kernels/launch.py:launch")
    return project.report()


def _found(made, op):
    return [finding for case in made[op]["cases"] for finding in case["findings"]]


@pytest.mark.parametrize("op", [*KERNELS, "hip", "launched", "falls_back", "other", "debug"])
def test_blocks_see_what_others_wrote_before_a_grid_barrier(made, op):
    assert made[op]["status"] == "passed", made[op]["cases"]


@pytest.mark.parametrize("op", ["unsynchronized", "of_another_block", "other_of_another_block"])
def test_a_missing_grid_barrier_is_a_race_between_blocks(made, op):
    races = [
        found
        for found in _found(made, op)
        if found["rule"] == "racecheck" and found["block"] != found["other"]["block"]
    ]
    assert races
    lines = KERNELS["synchronized"].splitlines()
    first = lines.index(MIRRORED.rstrip("\n")) + 1
    assert {races[0]["place"]["line"], races[0]["other_place"]["line"]} == {
        first,
        first + 1 + (op != "unsynchronized"),
    }
    assert races[0]["fix"].startswith("blocks run in any order: put grid.sync() between the ")


@pytest.mark.parametrize("op", ["exited", "other_exited"])
def test_threads_that_exit_before_a_grid_barrier_are_reported_at_it(made, op):
    found = next(finding for finding in _found(made, op) if finding["rule"] == "synccheck")
    assert "grid barrier" in found["message"]
    assert found["place"]["line"] == EXITED.splitlines().index(SYNC.rstrip("\n")) + 1


def test_a_grid_barrier_in_a_plain_launch_names_the_key_to_add(made):
    found = next(finding for finding in _found(made, "plain_launch") if finding["rule"] == "trap")
    assert (found["message"], found["fix"]) == (
        "grid.sync() needs a cooperative launch",
        "launch with cudaLaunchCooperativeKernel; in a spec, add cooperative: true to launch",
    )
    assert found["place"]["line"] == KERNELS["synchronized"].splitlines().index(SYNC.rstrip("\n")) + 1
