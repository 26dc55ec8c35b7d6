"""Where findings point on the cpu device, and what they call arrays and elements.

One process runs all kernels of the table, in a folder whose name is not ASCII.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from cpu_project import CpuProject

from kcheck.device.cpu import missing

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(missing()), reason=missing())]

SPEC = """
kcheck: 1
op: op
kernel: k.py:op
reference: r.py:op
dims: {N: [70]}
inputs: {x: [N]}
outputs: {y: [N]}
launch: {args: [x, y, N], grid: ["ceildiv(N, 32)"], block: [32]}
cases: {count: 1}
sanitize: {racecheck: off, initcheck: off, overflow: off}
"""
LAUNCH = 'launch: {args: [x, y, N], grid: ["ceildiv(N, 32)"], block: [32]}\n'
REFERENCE = "def op(x):\n    return {'y': 2 * x}\n"

IN_DEVICE_FUNCTIONS = """
@cuda.jit(device=True)
def inner(x, i):
    return x[i]  # inner

@cuda.jit(device=True)
def outer(x, i):
    return inner(x, i + 1) + inner(x, i)  # outer

@cuda.jit
def op(x, y, n):
    i = cuda.grid(1)
    if i < n:
        y[i] = outer(x, i)  # kernel
"""
IN_A_LIBRARY = """
from numba.cuda.random import xoroshiro128p_dtype, xoroshiro128p_uniform_float32

@cuda.jit
def op(x, y, n):
    i = cuda.grid(1)
    states = cuda.shared.array(4, xoroshiro128p_dtype)
    if i < n:
        y[i] = xoroshiro128p_uniform_float32(states, i)  # kernel
"""
ONE_LINE = """
@cuda.jit
def op(x, y, n):
    i = cuda.grid(1)
    t = cuda.threadIdx.x
    tile = cuda.shared.array((4, 8), float32)
    größe, other = cuda.shared.array(32, int32), cuda.shared.array(5, float32)
    LINE
"""
WRONG_INDEX = {
    # name: (the line, what the message says, what the fix says)
    "no_guard": ("y[i] = x[i]", "reads x[70], but axis 0 has size 70", "the grid has 96 threads along this axis"),
    "one_more": (
        "if i < n: y[i] = x[i + 1]",
        "reads x[70], but axis 0",
        "compare the index with x.shape[0]: it is the thread's number plus 1",
    ),
    "index_below_the_thread_number": (
        "if i == 8: y[i] = other[t - 3]",
        "reads other[5], but axis 0 has size 5",
        "it is one past the end: check the bound of the loop or the comparison",
    ),
    "negative": (
        "if i < n: y[i - 71] = x[i]",
        "writes y 1 element before its start",
        "below -70 does not wrap",
    ),
    "loaded": (
        "if i < n: y[i] = x[int(x[i] * 0) + 10**9]",
        "reads x[1000000000], but axis 0 has size 70",
        "the index is computed from values loaded at line 11",
    ),
    "loaded_and_small": (
        "if i == 0: y[i] = x[int(x[0] * 0) + 80]",
        "reads x[80], but axis 0 has size 70",
        "the index is computed from values loaded at line 11",
    ),
    "loop": (
        "for k in range(32, n + 1): y[k - i] = x[k] + i",
        "x[70], but axis 0 has size 70",
        "one past the end",
    ),
    "shared_by_grid": (
        "größe[i] = i; y[i % n] = größe[t]",
        "writes größe[32], but axis 0 has size 32",
        "threadIdx",
    ),
    "local_in_2d": (
        "own = cuda.local.array((SIDE, TWICE), dtype=np.float32)\n"
        "    for k in range(18): own[k // 6, k % 6] = i\n"
        "    if i < n: y[i] = own[i % 3, i % 6 + 4 * (i == 5)]\n"
        "SIDE = 3\nTWICE = 2 * SIDE",
        "of own[3, 3], but axis 0 has size 3",
        "",
    ),
    "shared_in_2d": (
        "tile[t // 7, t % 7] = i; y[i % n] = tile[0, t % 8]",
        "of tile[4, 0], but axis 0 has size 4",
        "",
    ),
    "one_past_the_last_column": (
        "tile[3, min(t % 8 + 1, 8)] = i; y[i % n] = tile[3, t % 8]",
        "of tile[4, 0], but axis 0 has size 4",
        "check the bound of every index: this is one past the last element",
    ),
}
RACES = {
    # name: (the line, what the message says)
    "race_in_2d": (
        "tile[t // 8, t % 8] = 3.25; y[i % n] = tile[(31 - t) // 8, (31 - t) % 8]",
        r"writes 3\.25 to tile\[\d, \d\], which thread",
    ),
    "race_of_integers": ("größe[t] = t - 50; y[i % n] = größe[31 - t]", r"writes -\d+ to größe\[\d+\], which"),
}
UNINITIALIZED = "if i < n: y[i] = other[t % 5] + 1"
KERNELS = {
    "device_functions": IN_DEVICE_FUNCTIONS,
    "library": IN_A_LIBRARY,
    **{name: ONE_LINE.replace("LINE", line) for name, (line, *_) in WRONG_INDEX.items()},
}
ONE_ROW = """
@cuda.jit
def op(x, y, n):
    b, i = cuda.blockIdx.y, cuda.grid(1)
    if i <= n:
        y[b, i] = x[b, i]  # kernel
"""
ROWS_AND_COLUMNS = """
@cuda.jit
def op(x, y, n):
    i, j = cuda.grid(2)
    y[j, i] = x[j, i]  # kernel
"""
A_BLOCK_PER_ROW = """
@cuda.jit
def op(x, y, n):
    row, column = cuda.blockIdx.x, cuda.threadIdx.x
    y[row, column] = x[row, column]  # kernel
"""
LAUNCHER = """
@cuda.jit
def shift(x, y):
    i = cuda.grid(1)
    if i < y.size:
        y[i] = x[i + 1]  # kernel

def op(x, y):
    shift[3, 32](cuda.device_array(70, np.float32), y)
"""
RAISING_LAUNCHER = """
def op(x, y):
    raise ValueError("x is too large")  # launcher
"""
CHECKED = {
    **{name: ONE_LINE.replace("LINE", line) for name, (line, _) in RACES.items()},
    "uninitialized": ONE_LINE.replace("LINE", UNINITIALIZED),
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> CpuProject:
    made = CpuProject(tmp_path_factory.mktemp("places") / "Prüfstand → 1")
    for name, kernel in KERNELS.items():
        made.add(name, SPEC, kernel, REFERENCE)
    for name, kernel in CHECKED.items():
        made.add(name, SPEC.partition("sanitize")[0], kernel, REFERENCE)
    of_rows = SPEC.replace("[N]}", "[N, 1]}").replace('["ceildiv(N, 32)"]', "[N]")
    made.add("block_per_row", of_rows, A_BLOCK_PER_ROW, REFERENCE)
    one = SPEC.replace("{N: [70]}", "{N: [1]}").replace("[N]}", "[1, N]}")
    made.add("one_row", one, ONE_ROW, REFERENCE)
    square = SPEC.replace("[N]}", "[N, 4]}").replace('["ceildiv(N, 32)"], block: [32]', "[1, 18], block: [4, 4]")
    made.add("rows_and_columns", square, ROWS_AND_COLUMNS, REFERENCE)
    launched = SPEC.replace("kernel:", "launcher:").replace(LAUNCH, "")
    made.add("launcher", launched, LAUNCHER, REFERENCE)
    made.add("raising_launcher", launched, RAISING_LAUNCHER, REFERENCE)
    return made


@pytest.fixture(scope="module")
def report(project: CpuProject, tmp_path_factory: pytest.TempPathFactory):
    """What ``kcheck run`` says of them all, in one process."""
    return project.report(KCHECK_CACHE_DIR=str(tmp_path_factory.mktemp("cache")))


def finding(report, name):
    """The first finding of the only case of a spec."""
    (case,) = report[name]["cases"]
    found, *_ = case["findings"]
    return found


def marks(project: CpuProject, places) -> list[str]:
    """The comment at the end of each line, or the file's name where it is a library's."""
    found = []
    for place in places:
        path = Path(project.root / place["file"])
        is_own = path.parent == project.root
        found.append(path.read_text().splitlines()[place["line"] - 1].partition("# ")[2] if is_own else path.name)
    return found


def test_a_finding_in_a_device_function_names_every_call_that_led_there(project, report) -> None:
    """The place is the innermost line; the chain goes on to the kernel's own line."""
    found = finding(report, "device_functions")
    assert marks(project, [found["place"]]) == ["inner"]
    assert marks(project, found["stack"]) == ["inner", "outer", "kernel"]


def test_a_finding_in_a_library_is_placed_at_the_call_of_it(project, report) -> None:
    """The place is the user's line; the library's lines below it are in the chain."""
    found = finding(report, "library")
    assert marks(project, [found["place"]]) == ["kernel"]
    *library, last = marks(project, found["stack"])
    assert last == "kernel"
    assert set(library) == {"random.py"}


def test_the_text_report_has_the_chain_and_the_source_in_any_folder(project) -> None:
    """A folder's name that is not ASCII is neither escaped nor in the way of the source line."""
    text = project.run("device_functions.yaml", "library.yaml").stdout
    assert "return x[i]  # inner" in text
    assert "called from device_functions_k.py" in text
    assert "in numba_cuda/numba/cuda/random.py:" in text
    assert "\\303" not in text


@pytest.mark.parametrize("name", WRONG_INDEX)
def test_memcheck_names_index_and_axis_with_a_fix_that_suits_them(report, name) -> None:
    """The element that was meant, the axis that it is outside of, and the likely reason."""
    _, message, fix = WRONG_INDEX[name]
    found = finding(report, name)
    assert found["rule"] == "memcheck"
    assert message in found["message"]
    assert fix in found["fix"]


@pytest.mark.parametrize("name", RACES)
def test_a_race_in_shared_memory_names_the_element_and_its_value(report, name) -> None:
    """As the source calls the array, with one index per axis; the value is one of its dtype."""
    found = finding(report, name)
    assert found["rule"] == "racecheck"
    assert re.match(RACES[name][1], found["message"])


def test_an_uninitialized_element_of_shared_memory_has_its_name(report) -> None:
    """Of two arrays that one line allocates, the right one."""
    found = finding(report, "uninitialized")
    assert found["rule"] == "initcheck"
    assert re.search(r"other\[\d\], which is uninitialized", found["message"])


def test_an_array_that_only_the_kernel_calls_so_is_not_the_array_of_the_spec(report) -> None:
    """A launcher may pass its own array for a parameter ``x``: the message has the kernel's name for it, and the
    finding names no array of the spec."""
    found = finding(report, "launcher")
    assert found["message"].startswith("reads x[70], but axis 0 has size 70")
    assert (found["array"], found["index"]) == (None, None)


def test_an_exception_of_a_launcher_is_not_called_one_of_the_launch(report, project: CpuProject) -> None:
    """The message names what raised, and the finding has its line."""
    found = finding(report, "raising_launcher")
    assert (found["rule"], found["message"]) == ("launch", "the launcher raised ValueError: x is too large")
    assert marks(project, [found["place"]]) == ["launcher"]


def test_a_block_for_each_row_is_read_as_such(report) -> None:
    """In a matrix of one column, ``x[0, 70]`` has the address of ``x[70, 0]``: with a block for each row, the
    column is what is out of range, and the block is what has too many threads."""
    memcheck = finding(report, "block_per_row")
    assert re.search(r"of x\[\d+, \d+\], but axis 1 has size 1", memcheck["message"]), memcheck
    assert memcheck["fix"].startswith("the block has 32 threads along this axis: guard the access with `if j <")


def test_an_axis_is_not_guessed_from_a_small_index(report) -> None:
    """In a matrix of one row, ``x[0, 1]`` has the address of ``x[1, 0]``, and 1 is the thread's number by chance.
    In a grid with two axes, the indices of the thread are those of the element."""
    unclear, clear = finding(report, "one_row"), finding(report, "rows_and_columns")
    assert unclear["fix"].startswith("check the bound of every index: this is one past the last element. If the")
    assert clear["fix"].startswith("the grid has 72 threads along this axis: guard the access with `if i <")
