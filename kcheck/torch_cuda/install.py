"""Make PyTorch behave as if it had a CUDA device."""

from __future__ import annotations

import functools
import importlib
import os
import sys
from typing import Any

from kcheck.driver.host_ranges import HostRanges
from kcheck.driver.machine import Machine
from kcheck.torch_cuda.answers import answers
from kcheck.torch_cuda.generators import patch_generators
from kcheck.torch_cuda.gradients import patch_gradients
from kcheck.torch_cuda.mode import host_cuda_mode, in_every_thread
from kcheck.torch_cuda.operators import TorchCall, patch_library
from kcheck.torch_cuda.storages import Storages

_NOT_COMPILED = (
    "kcheck: torch.compile runs functions without compiling them: kernels that the functions launch are "
    "checked, kernels that it would generate are not"
)


def install(torch: Any, machine: Machine, ranges: HostRanges) -> Storages:
    """Change ``torch``: ``cuda`` is host memory from now on.

    Args:
        torch: the module, just imported.
        machine: the device that runs kernels.
        ranges: the host memory that kernels may access.

    Returns:
        The storages that the device owns.
    """
    importlib.import_module("torch.utils._device")  # the mode reads the default device from it
    storages = Storages(ranges)
    for name, value in answers(torch, machine).items():
        setattr(torch.cuda, name, value)
    torch.cuda.nvtx.range_push = torch.cuda.nvtx.range_pop = torch.cuda.nvtx.mark = lambda *_, **__: 0
    torch.backends.cuda.is_built = lambda: True
    _compile(torch)
    _accelerator(torch)
    patch_generators(torch)
    _autocast(torch)
    # Replaced here, not by the mode: PyTorch parses the arguments first, and accepts only its own streams.
    torch.Tensor.record_stream = lambda self, stream: None
    call = TorchCall()
    mode = host_cuda_mode(torch, storages, call)
    patch_library(torch, storages, mode, call)
    patch_gradients(torch, storages, mode, call)
    in_every_thread(mode)
    return storages


def _accelerator(torch: Any) -> None:
    """``torch.accelerator``: it reports the CUDA device."""
    if hasattr(torch, "accelerator"):
        torch.accelerator.is_available = lambda: True
        torch.accelerator.device_count = lambda: 1
        torch.accelerator.current_accelerator = lambda check_available=False: torch.device("cuda")
        torch.accelerator.current_device_index = lambda: 0
        torch.accelerator.synchronize = lambda device=None: None
        torch.accelerator.current_stream = torch.cuda.current_stream
        for name in ("set_device_index", "set_device_idx", "set_stream"):
            setattr(torch.accelerator, name, lambda chosen: None)


def _compile(torch: Any) -> None:
    """``torch.compile``: functions run uncompiled, through PyTorch's own switch, and a note on stderr says so.

    Inductor compiles for the device that the C++ parts of PyTorch see, which is the CPU: its kernels would not be
    those of a GPU.
    """
    os.environ["TORCHDYNAMO_DISABLE"] = "1"
    config = sys.modules.get("torch._dynamo.config")
    if config is not None:
        config.disable = True  # type: ignore[attr-defined]
    plain = torch.compile
    say = functools.cache(lambda: print(_NOT_COMPILED, file=sys.stderr))

    @functools.wraps(plain)
    def compiled(*arguments: Any, **options: Any) -> Any:
        say()
        return plain(*arguments, **options)

    torch.compile = compiled


def _autocast(torch: Any) -> None:
    """``torch.autocast("cuda")`` acts like the CPU's, with the default dtype of a GPU."""
    kind = torch.amp.autocast_mode.autocast
    plain = kind.__init__

    @functools.wraps(plain)
    def with_host(self: Any, device_type: str, dtype: Any = None, *arguments: Any, **options: Any) -> None:
        if device_type == "cuda":
            device_type, dtype = "cpu", dtype or torch.float16
        plain(self, device_type, dtype, *arguments, **options)

    kind.__init__ = with_host
