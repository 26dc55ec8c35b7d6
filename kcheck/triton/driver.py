"""Triton's driver object, which Triton's runtime queries about the GPU, for kcheck's device."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from kcheck.driver.device import MAX_THREADS_PER_BLOCK, MULTIPROCESSORS, attributes, shared_per_multiprocessor
from kcheck.driver.host_ranges import HostRanges
from kcheck.driver.machine import Machine
from kcheck.errors import PtxError
from kcheck.model.multiprocessor import REGISTERS, RESERVED_SHARED, WARP
from kcheck.torch_cuda.streams import TorchEvent, TorchStream
from kcheck.triton.launcher import Launcher, LoadedFunction

_CLOCK, _MEMORY_CLOCK, _BUS = 13, 36, 37  # CUdevice_attribute


class Utilities:
    """Triton's ``driver.utils``."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def load_binary(
        self, name: str, kernel: bytes | str, shared: int, device: int
    ) -> tuple[Any, LoadedFunction, int, int, int]:
        """The module, the kernel, registers and spills (0: not measured here), and the most threads in a block.

        Raises:
            RuntimeError: ``kernel`` is not PTX, or uses something that is not supported.
        """
        executor = self._machine.executor
        try:
            text = kernel if isinstance(kernel, str) else kernel.decode()
            module = executor.load(text)
            entry = module.entries[name]
        except (PtxError, UnicodeDecodeError) as fault:
            executor.report_compile_error(name, fault)
            raise RuntimeError(f"Triton Error [CUDA]: {fault}") from fault
        most_threads = min(entry.max_threads or MAX_THREADS_PER_BLOCK, MAX_THREADS_PER_BLOCK)
        return module, LoadedFunction(module, entry), 0, 0, most_threads

    def unload_module(self, module: Any) -> None:
        """Free the variables of a module."""
        module.unload()

    def get_device_properties(self, device: int) -> dict[str, int]:
        """The limits by which Triton and programs choose the size of launches."""
        known = attributes(self._machine.cc)
        return {
            "max_shared_mem": shared_per_multiprocessor(self._machine.cc) - RESERVED_SHARED,
            "max_num_regs": REGISTERS,
            "multiprocessor_count": MULTIPROCESSORS,
            "warpSize": WARP,
            "sm_clock_rate": known[_CLOCK],
            "mem_clock_rate": known[_MEMORY_CLOCK],
            "mem_bus_width": known[_BUS],
        }

    def set_printf_fifo_size(self, size: int) -> None:
        """No effect: the size of the printf buffer is fixed."""

    def get_default_stream(self, device: int) -> int:
        """The only stream."""
        return 0


class Driver:
    """A driver with the interface of Triton's ``DriverBase``.

    Args:
        machine: the device.
        ranges: the host memory that kernels may access.
        torch_device: the device that PyTorch's tensors are on: ``cuda`` or ``cpu``.
    """

    def __init__(self, machine: Machine, ranges: HostRanges, torch_device: str) -> None:
        self._machine = machine
        self._torch_device = torch_device
        self.utils = Utilities(machine)
        self.launcher_cls = functools.partial(Launcher, machine, ranges)

    @staticmethod
    def is_active() -> bool:
        """There is always a device."""
        return True

    def get_current_target(self) -> Any:
        """The target to compile for: the machine's compute capability."""
        from triton.backends.compiler import GPUTarget

        major, minor = self._machine.cc
        return GPUTarget("cuda", 10 * major + minor, WARP)

    def get_current_device(self) -> int:
        """The only device."""
        return 0

    def set_current_device(self, device: int) -> None:
        """No effect: there is only one device."""

    def get_current_stream(self, device: int) -> int:
        """The only stream."""
        return 0

    def get_device_capability(self, device: int = 0) -> tuple[int, int]:
        """The compute capability: major, minor."""
        return self._machine.cc

    def get_active_torch_device(self) -> Any:
        """The device on which a program creates its tensors."""
        import torch

        return torch.device(self._torch_device, 0) if self._torch_device == "cuda" else torch.device("cpu")

    def get_device_interface(self) -> Any:
        """``torch.cuda``, or the part of it that benchmarks use."""
        if self._torch_device == "cuda":
            import torch

            return torch.cuda
        return SimpleNamespace(
            Event=TorchEvent,
            Stream=TorchStream,
            synchronize=lambda device=None: None,
            current_device=lambda: 0,
            current_stream=lambda device=None: TorchStream(),
        )

    def get_benchmarker(self) -> Callable[..., Sequence[float]]:
        """The timer for autotuning: milliseconds of one call, after a first call that may compile."""

        def measure(call: Callable[[], object], *, quantiles: Sequence[float], **_: Any) -> list[float]:
            call()
            begun = time.perf_counter()
            call()
            return [1000 * (time.perf_counter() - begun)] * len(quantiles)

        return measure

    def get_empty_cache_for_benchmark(self) -> Any:
        """None. A benchmark clears a GPU's cache by writing to a large buffer; there is no such cache here."""
        return None

    def clear_cache(self, cache: Any) -> None:
        """No effect: there is no cache to clear."""

    def allocate_default_profile_scratch(self, size: int, alignment: int, stream: Any) -> Any:
        """Memory for instrumented kernels.

        Raises:
            RuntimeError: always.
        """
        raise RuntimeError("instrumented kernels are not supported on kcheck's cpu device")

    def map_python_to_cpp_type(self, kind: str) -> str:
        """The C++ type of an argument, for ahead-of-time compilation, which needs no device."""
        from triton.backends.nvidia.driver import ty_to_cpp

        return str(ty_to_cpp(kind))

    def assemble_tensormap_to_arg(self, info: Any, args: Any) -> Any:
        """The arguments unchanged: there are no tensor maps."""
        return args
