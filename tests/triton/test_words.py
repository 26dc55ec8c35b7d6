"""Findings in Triton kernels, in Triton's words."""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np
import pytest

from kcheck.cpu.accesses import Told
from kcheck.cpu.triton_fixes import access_fix
from kcheck.driver.finding_log import told
from kcheck.model import Span
from tests.triton.conftest import Device


def launch(device: Device, kernel: str, *args: object, grid: int = 1, **constants: object) -> str:
    """Run a kernel that may fail; the findings without the place and the source of the first line of each."""
    with contextlib.suppress(RuntimeError):
        getattr(device.kernels, kernel)[(grid,)](*args, **constants)
    lines = [line for finding in device.found for line in told(finding)]
    return "\n".join(line.partition(": ")[2] if line.startswith("kcheck: ") else line.strip() for line in lines)


@pytest.mark.parametrize(
    ("kernel", "grid", "what", "source", "fix"),
    [
        (
            "add_without_mask",
            2,
            "memcheck in add_without_mask: reads y[100], but axis 0 has size 100",
            "tl.load(x + i, mask=i < n) + tl.load(y + i),",
            "add mask= to tl.load, true only where the index of axis 0 is below 100, and other= for the rest",
        ),
        (
            "wrong_mask",
            2,
            "memcheck in wrong_mask: writes out[100], but axis 0 has size 100",
            "tl.store(out + i, tl.load(x + i, mask=i < n, other=0.0), mask=i <= n)",
            "correct the index or mask= of tl.store: the mask must be true only where the index of axis 0 is "
            "below 100",
        ),
    ],
)
def test_an_access_out_of_bounds_names_mask_and_program(
    device: Device, kernel: str, grid: int, what: str, source: str, fix: str
) -> None:
    """No guard by ``if``, no block and no thread: Triton has none of them."""
    k = device.kernels
    arrays = [k.tensor(np.ones(100)) for _ in range(3 if kernel == "add_without_mask" else 2)]
    report = launch(device, kernel, *arrays, 100, grid=grid, BLOCK=64)
    assert what in report
    assert f"{source}\nprogram 1\n→ {fix}" in report


def test_the_mask_of_another_call_on_the_line_does_not_count(tmp_path: Path) -> None:
    """Of a call over several lines, and through a block pointer."""
    file = tmp_path / "kernel.py"
    file.write_text("x = f(tl.load(b, mask=m),\n      tl.load(a))\ny = tl.load(p, boundary_check=(0,))\n")
    told = Told("reads", "a[3, 9], but axis 1 has size 9", array="a", index=(3, 9), axis=1, size=9)
    start = "add mask= to tl.load, true only where the index of axis 1"
    assert access_fix(told, Span(str(file), 1)).startswith(start)
    assert access_fix(told, Span(str(file), 3)) == "name axis 1 in boundary_check="


@pytest.mark.parametrize(
    ("source", "verb", "start"),
    [
        ("x = tl.load(a + f(i, 2), i <= n, other=0.0)", "reads", "correct the index"),
        ("tl.store(a + i, x, i <= n)", "writes", "correct the index"),
        ("x = tl.load(a + f(i, 2), other=0.0)", "reads", "add mask="),
        ("tl.store(a + i, f(x, y))", "writes", "add mask="),
    ],
)
def test_a_mask_may_be_given_by_position(tmp_path: Path, source: str, verb: str, start: str) -> None:
    assert fix_of(tmp_path, source, verb, (9,), 9).startswith(start)


def fix_of(tmp_path: Path, source: str, verb: str, index: tuple[int, ...], size: int) -> str:
    """Of an access to ``a`` at a source line, at an index that is out of range along axis 0."""
    file = tmp_path / f"kernel{abs(hash(source))}.py"
    file.write_text(f"{source}\n")
    return access_fix(Told(verb, "", array="a", index=index, axis=0, size=size), Span(str(file), 1))


def test_past_the_last_row_any_index_may_be_too_large(tmp_path: Path) -> None:
    """Pointers are flat: the last row's element K is that of row M, column 0."""
    last, one_axis = (2, 0), (2,)
    load, block = "x = tl.load(a + i, mask=m)", "x = tl.load(p, boundary_check=(1,))"
    inside = "the mask must be true only where every index is inside a"
    every = f"correct the index or mask= of tl.load: {inside}; check the strides, too"
    assert fix_of(tmp_path, load, "reads", last, 2) == every
    assert fix_of(tmp_path, load, "reads", one_axis, 2).endswith("only where the index of axis 0 is below 2")
    assert fix_of(tmp_path, block, "reads", last, 2) == "name every axis in boundary_check="


def test_a_tensor_descriptor_has_no_mask(tmp_path: Path) -> None:
    """Its shape bounds the access."""
    store = "y.store([tl.program_id(1) * B, 0], v)"
    fix = "correct shape= and strides= of the tensor descriptor, which bound the access"
    assert fix_of(tmp_path, store, "writes", (8, 0), 8) == fix


def test_a_race_between_warps_names_debug_barrier(device: Device) -> None:
    """Within a program too, what one warp stores another one may not see without a barrier."""
    k = device.kernels
    device.check("racecheck")
    x, scratch, out = (k.tensor(n * np.arange(128)) for n in (1, 0, 0))
    report = launch(device, "reverse", x, scratch, out, BLOCK=128, WAITS=False)
    assert "which another warp of the program reads with no synchronization between them" in report
    assert "program 0, against itself at" in report
    assert "→ put tl.debug_barrier() between the two accesses" in report
    device.found.clear()
    assert launch(device, "reverse", x, scratch, out, BLOCK=128, WAITS=True) == ""
    assert out.array.tolist() == list(range(127, -1, -1))


def test_a_lost_update_of_a_program_names_an_atomic(device: Device) -> None:
    """A barrier between the load and the store would not keep the update of another warp."""
    k = device.kernels
    device.check("racecheck")
    report = launch(device, "counted", k.tensor(np.arange(128)), k.tensor(np.zeros(32)), BLOCK=128)
    assert "→ store each element once per program, or use an atomic such as tl.atomic_add" in report
    assert "debug_barrier" not in report


def test_a_race_between_programs_names_an_atomic(device: Device) -> None:
    k = device.kernels
    device.check("racecheck")
    report = launch(device, "all_to_one", k.tensor([0], np.int32), grid=2)
    assert "writes 1 to out[0], which program (0, 0, 0) writes" in report
    assert "program 1, against program 0" in report
    assert "→ give each program its own elements, or use an atomic such as tl.atomic_add" in report


@pytest.mark.parametrize("warps", [1, 4, 8])
def test_the_result_of_a_reduction_is_no_race(device: Device, warps: int) -> None:
    """Each warp stores the same sum."""
    k = device.kernels
    device.check("racecheck")
    x, out = k.tensor(np.arange(3 * 200)), k.tensor(np.zeros(3))
    assert launch(device, "sum_of_row", x, out, 200, grid=3, BLOCK=256, num_warps=warps) == ""
    assert out.array.tolist() == [sum(range(200 * n, 200 * n + 200)) for n in range(3)]


@pytest.mark.parametrize("size", [1, 16, 80])
def test_a_small_tensor_may_change_in_place(device: Device, size: int) -> None:
    """Four warps, and fewer elements than threads: all warps load them, and one stores."""
    k = device.kernels
    device.check("racecheck")
    block = 1 << (size - 1).bit_length()
    values = np.linspace(-1, 1, size, dtype=np.float32)
    x, y = k.tensor(values), k.tensor(values)
    assert launch(device, "add_in_place", x, y, size, BLOCK=block) == ""
    assert launch(device, "softmax_in_place", y, size, BLOCK=block) == ""
    np.testing.assert_allclose(x.array, 2 * values)
    np.testing.assert_allclose(y.array, np.exp(values) / np.exp(values).sum(), rtol=1e-5)


def test_a_small_tile_may_change_in_place_after_a_reduction(device: Device) -> None:
    k = device.kernels
    device.check("racecheck")
    values = np.arange(21, dtype=np.float32).reshape(3, 7)
    tile = k.tensor(values)
    assert launch(device, "center_in_place", tile, 3, 7, ROWS=4, COLUMNS=8) == ""
    np.testing.assert_allclose(tile.array, values - values.mean(axis=0))


@pytest.mark.parametrize("waits", [False, True])
def test_a_tensor_that_every_warp_needs_may_change_after_a_barrier(device: Device, waits: bool) -> None:
    """Each warp stores its part of the outer sum: what it loaded is not dead."""
    k = device.kernels
    device.check("racecheck")
    x, y, out = k.tensor(np.arange(16)), k.tensor(np.arange(64)), k.tensor(np.zeros((16, 64)))
    report = launch(device, "double_and_add_outer", x, y, out, ROWS=16, COLUMNS=64, WAITS=waits)
    assert ("which another warp of the program reads" in report) == (not waits)
    assert ("→ put tl.debug_barrier() between the two accesses" in report) == (not waits)


def test_a_division_by_zero_is_a_warning(device: Device) -> None:
    """The pipeliner divides for an iteration after the last one, and drops the result."""
    report = launch(device, "remainder", device.kernels.tensor([0], np.int32), 0)
    assert "warning: division in remainder: divides an integer by zero: the result is undefined" in report
    assert "→ check that the divisor is not 0" in report
