"""Triton's own launches, on arrays of NumPy: right results, and findings in the terms of the Triton source."""

from __future__ import annotations

import inspect
from types import SimpleNamespace

import numpy as np
import pytest

from tests.triton.conftest import Device


def line_of(function, text: str) -> int:
    """The line of a file at which the source of a kernel says something."""
    source, start = inspect.getsourcelines(function.fn)
    return start + next(n for n, line in enumerate(source) if text in line)


def test_a_kernel_computes_what_it_computes_on_a_gpu(device: Device) -> None:
    k = device.kernels
    x = np.linspace(-4, 4, 3 * 100, dtype=np.float32).reshape(3, 100)
    out = np.zeros_like(x)
    k.softmax[(3,)](k.Tensor(out), k.Tensor(x), 100, 100, BLOCK=128)
    expected = np.exp(x) / np.exp(x).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(out, expected, rtol=1e-6)
    assert device.found == []


def test_scalars_have_the_bytes_of_their_types(device: Device) -> None:
    """Half precision and booleans by annotation, 64 bits by value."""
    k = device.kernels
    out = k.tensor([0] * 7)
    k.scalars[(1,)](out, 1.5, 2.5, 3.5, -4, 5 << 32, 4_000_000_000, True)
    assert out.array.tolist() == [1.5, 2.5, 3.5, -4, 5, 4_000_000_000, 1]


def test_a_finding_names_argument_element_program_and_line(device: Device) -> None:
    """The load of ``y`` lacks the mask that the load of ``x`` beside it has."""
    k = device.kernels
    x, y, out = (k.tensor(np.ones(100)) for _ in range(3))
    with pytest.raises(RuntimeError, match=r"Triton Error \[CUDA\]: an illegal memory access was encountered"):
        k.add_without_mask[(2,)](x, y, out, 100, BLOCK=64)
    (finding,) = device.found
    assert (finding.rule, finding.array, finding.index, finding.block) == ("memcheck", "y", (100,), (1, 0, 0))
    assert finding.kernel == "add_without_mask"
    assert finding.place is not None
    assert finding.place.line == line_of(k.add_without_mask, "tl.load(y + i)")
    device.found.clear()
    k.add[(2,)](x, y, out, 100, BLOCK=64)
    assert device.found == []


def test_tensors_that_share_memory_are_one_allocation(device: Device) -> None:
    """Two halves of an array, and the array: none of them ends where another one begins."""
    k = device.kernels
    whole = np.ones(128, np.float32)
    k.add[(1,)](k.Tensor(whole[:64]), k.Tensor(whole[32:]), k.Tensor(whole), 64, BLOCK=64)
    assert whole.tolist() == [2] * 64 + [1] * 64
    assert device.found == []
    assert not list(device.machine.memory)[1:], "host memory is released after the launch"


def test_a_compiled_kernel_needs_no_constants(device: Device) -> None:
    """A program may keep what a launch returns, and launch it again with the other arguments only."""
    k = device.kernels
    x, y, out = (k.tensor(np.ones(64)) for _ in range(3))
    compiled = k.add[(1,)](x, y, out, 64, BLOCK=64)
    out.array[:] = 0
    compiled[(1, 1, 1)](x, y, out, 64)
    assert out.array.tolist() == [2] * 64
    compiled[(1, 1, 1)](x, y, out, 64, 64, "not a parameter")
    with pytest.raises(TypeError, match="the launch passes 2 arguments, but none for out, n"):
        compiled[(1, 1, 1)](x, y)


class TypedPointer:
    """An address with a type, but no size, such as a program makes from a tensor and an offset."""

    dtype = "fp32"

    def __init__(self, address: int) -> None:
        self.address = address

    def data_ptr(self) -> int:
        return self.address

    def untyped_storage(self) -> TypedPointer:
        return self


@pytest.mark.parametrize("checks", [(), ("racecheck",)])
def test_an_address_in_a_tensor_is_an_array_up_to_its_end(device: Device, checks: tuple[str, ...]) -> None:
    """The memory is accessible, because the tensor that it belongs to is."""
    k = device.kernels
    device.check(*checks)
    whole = np.ones(100, np.float32)
    with device.held(whole):
        rest = TypedPointer(whole.ctypes.data + 4 * 60)
        k.add[(1,)](rest, rest, rest, 40, BLOCK=64)
        assert whole.tolist() == [1] * 60 + [2] * 40
        assert device.found == []
        with pytest.raises(RuntimeError, match="an illegal memory access"):
            k.add[(1,)](rest, rest, rest, 41, BLOCK=64)
    assert {(finding.rule, finding.index) for finding in device.found} == {("memcheck", (40,))}


def test_memory_is_accessible_only_during_the_launch(device: Device) -> None:
    """An address in place of a tensor is one that a launch before has used."""
    k = device.kernels
    x = k.tensor(np.ones(64))
    k.add[(1,)](x, x, x, 64, BLOCK=64)

    stale = TypedPointer(x.data_ptr())
    with pytest.raises(TypeError, match="the size of a TypedPointer is unknown; give it a shape or numel"):
        k.add[(1,)](stale, stale, stale, 64, BLOCK=64)


def test_programs_that_write_one_element_race(device: Device) -> None:
    """racecheck watches tensors that are host memory, and what was written reaches them."""
    k = device.kernels
    device.check("racecheck")
    out = k.tensor([-1], np.int32)
    k.all_to_one[(3,)](out)
    (finding,) = device.found
    assert (finding.rule, finding.array, finding.index) == ("racecheck", "out", (0,))
    assert out.array[0] in (0, 1, 2)
    device.found.clear()
    k.all_to_one[(1,)](out)
    assert device.found == []


def test_autotuning_and_heuristics_choose_and_run(device: Device) -> None:
    """Every configuration is run and one is taken; a heuristic sees the arguments."""
    k = device.kernels
    x, out = k.tensor(np.arange(300)), k.tensor(np.zeros(300))
    k.tuned[lambda given: (-(-300 // given["BLOCK"]),)](x, out, 300)
    assert out.array.tolist() == (2 * np.arange(300)).tolist()
    assert k.tuned.best_config.kwargs["BLOCK"] in (64, 256)
    assert len(k.tuned.configs_timings) == 2


def test_registers_are_counted_by_tritons_assembler(device: Device) -> None:
    k = device.kernels
    x = k.tensor(np.ones(64))
    compiled = k.add[(1,)](x, x, x, 64, BLOCK=64)
    assert 8 <= compiled.n_regs <= 255
    assert compiled.n_spills == 0


def test_a_program_can_read_the_machine_code(device: Device) -> None:
    """Triton's own ptxas and disassembler make it when it is read."""
    k = device.kernels
    x = k.tensor(np.ones(64))
    assert "STG.E" in k.add[(1,)](x, x, x, 64, BLOCK=64).asm["sass"]


def test_an_empty_grid_launches_nothing(device: Device) -> None:
    k = device.kernels
    out = k.tensor([-1], np.int32)
    k.all_to_one[(0,)](out)
    assert out.array.tolist() == [-1]


def test_a_kernel_for_clusters_is_refused(device: Device) -> None:
    from kcheck.triton.launcher import Launcher

    compiled = SimpleNamespace(signature={}, num_ctas=2)
    with pytest.raises(RuntimeError, match=r"num_ctas=2 is not supported on kcheck's cpu device; use 1"):
        Launcher(device.machine, None, compiled, compiled)  # type: ignore[arg-type]
