"""Replacements for the functions of ``torch.cuda``: there is one device, and its memory is host memory."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator
from types import FunctionType, SimpleNamespace
from typing import Any

from kcheck.driver.device import (
    MAX_THREADS_PER_BLOCK,
    MAX_THREADS_PER_MULTIPROCESSOR,
    MULTIPROCESSORS,
    SHARED_PER_BLOCK,
    attributes,
    shared_per_multiprocessor,
)
from kcheck.driver.machine import Machine
from kcheck.model.multiprocessor import REGISTERS, RESERVED_SHARED, WARP
from kcheck.torch_cuda.streams import TorchEvent, TorchStream

_L2_BYTES = 38
"""The number of CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE."""


def properties(machine: Machine) -> SimpleNamespace:
    """``torch.cuda.get_device_properties()``."""
    major, minor = machine.cc
    return SimpleNamespace(
        name=machine.name,
        major=major,
        minor=minor,
        total_memory=machine.memory.capacity,
        multi_processor_count=MULTIPROCESSORS,
        max_threads_per_multi_processor=MAX_THREADS_PER_MULTIPROCESSOR,
        max_threads_per_block=MAX_THREADS_PER_BLOCK,
        regs_per_multiprocessor=REGISTERS,
        shared_memory_per_block=SHARED_PER_BLOCK,
        shared_memory_per_block_optin=shared_per_multiprocessor(machine.cc) - RESERVED_SHARED,
        shared_memory_per_multiprocessor=shared_per_multiprocessor(machine.cc),
        L2_cache_size=attributes(machine.cc)[_L2_BYTES],
        warp_size=WARP,
        is_integrated=0,
        is_multi_gpu_board=0,
        uuid=machine.name,
        gcnArchName="",
    )


@contextlib.contextmanager
def _nothing(*_: Any, **__: Any) -> Iterator[None]:
    yield


def _done(*_: Any, **__: Any) -> None:
    """For calls that have no effect here."""


def _memory_answers(machine: Machine) -> dict[str, Callable[..., Any]]:
    """The counts are 0: tensors come from PyTorch's host allocator, which does not count."""

    def info(device: Any = None) -> tuple[int, int]:
        return machine.memory.capacity, machine.memory.capacity

    counts = [f"{most}memory_{what}" for most in ("", "max_") for what in ("allocated", "reserved", "cached")]
    resets = [f"reset_{what}_memory_stats" for what in ("peak", "accumulated")]
    return {
        "mem_get_info": info,
        "memory_stats": lambda device=None: {},
        **dict.fromkeys(counts, lambda device=None: 0),
        **dict.fromkeys((*resets, "reset_max_memory_allocated", "empty_cache"), _done),
    }


def _context(name: str) -> type:
    """A class of context managers without effect. Classes stay classes: programs annotate functions with them."""
    return type(name, (), {"__init__": _done, "__enter__": _done, "__exit__": _done})


def answers(torch: Any, machine: Machine) -> dict[str, Any]:
    """The replacements for attributes of ``torch.cuda``, by name.

    Each name gets a separate function object: ``torch.compile`` has a rule for each name, and rejects an object
    that has two.
    """
    shared = _shared_answers(torch, machine)
    return {name: _copy(name, value) if inspect.isfunction(value) else value for name, value in shared.items()}


def _copy(name: str, function: FunctionType) -> FunctionType:
    """A copy of a function as a separate object, named ``name``."""
    copy = FunctionType(function.__code__, function.__globals__, name, function.__defaults__, function.__closure__)
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


def _shared_answers(torch: Any, machine: Machine) -> dict[str, Any]:
    shown = properties(machine)
    stream = TorchStream(torch.device("cuda", 0))

    def no_graphs(*_: Any, **__: Any) -> None:
        raise NotImplementedError("CUDA graphs are not supported on kcheck's cpu device; call the function itself")

    def external(self: TorchStream, handle: int, device: Any = None, **_: Any) -> None:
        TorchStream.__init__(self, torch.device("cuda", 0))

    def generator() -> Any:
        return torch.cuda.default_generators[0]

    def seed(number: int) -> None:
        generator().manual_seed(number)

    return {
        **_memory_answers(machine),
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "init": _done,
        "_lazy_init": _done,
        "device_count": lambda: 1,
        "_is_compiled": lambda: True,
        "current_device": lambda: 0,
        "_exchange_device": lambda device: 0,
        "_maybe_exchange_device": lambda device: 0,
        "set_device": _done,
        "device": _context("device"),
        "device_of": _context("device_of"),
        "get_device_name": lambda device=None: machine.name,
        "get_device_capability": lambda device=None: machine.cc,
        "get_device_properties": lambda device=None: shown,
        "get_arch_list": lambda: [f"sm_{machine.cc[0]}{machine.cc[1]}"],
        "is_bf16_supported": lambda including_emulation=True: machine.cc >= (8, 0),
        "is_tf32_supported": lambda: machine.cc >= (8, 0),
        "can_device_access_peer": lambda device, peer: False,
        "synchronize": _done,
        "Event": TorchEvent,
        "Stream": TorchStream,
        "ExternalStream": type("ExternalStream", (TorchStream,), {"__init__": external}),
        "stream": lambda chosen: chosen if chosen is not None else _nothing(),
        "current_stream": lambda device=None: stream,
        "default_stream": lambda device=None: stream,
        "set_stream": _done,
        "is_current_stream_capturing": lambda: False,
        "CUDAGraph": type("CUDAGraph", (), {"__init__": no_graphs}),
        "graph": type("graph", (), {"__init__": no_graphs}),
        "make_graphed_callables": no_graphs,
        "manual_seed": seed,
        "manual_seed_all": seed,
        "seed": lambda: generator().seed(),
        "seed_all": lambda: generator().seed(),
        "initial_seed": lambda: generator().initial_seed(),
        "get_rng_state": lambda device=None: generator().get_state(),
        "set_rng_state": lambda state, device=None: generator().set_state(state),
        "get_rng_state_all": lambda: [generator().get_state()],
        "set_rng_state_all": lambda states: generator().set_state(next(iter(states))),
        "ipc_collect": _done,
        "utilization": lambda device=None: 0,
    }
