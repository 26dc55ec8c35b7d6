"""Make PyTorch behave as if it had a CUDA device."""

from __future__ import annotations

import functools
import os
import sys
import warnings
from pathlib import Path
from typing import Any

from kcheck.driver.after_import import patch_now_or_after_import
from kcheck.driver.host_ranges import HostRanges
from kcheck.driver.machine import Machine
from kcheck.torch_cuda.answers import answers
from kcheck.torch_cuda.device import TorchDevice
from kcheck.torch_cuda.extensions import ExtensionLibraries, patch_extensions
from kcheck.torch_cuda.toolkit import DEFAULT_VERSION

_NOT_COMPILED = (
    "kcheck: torch.compile runs functions without compiling them: kernels that the functions launch are "
    "checked, kernels that it would generate are not"
)


def install(
    torch: Any,
    machine: Machine,
    ranges: HostRanges,
    device: TorchDevice,
    libraries: ExtensionLibraries,
    compiles: bool = True,
) -> None:
    """Change ``torch``: ``cuda`` is a device in host memory from now on.

    Args:
        torch: the module, just imported.
        machine: the device that runs kernels.
        ranges: the host memory that kernels may access.
        device: was loaded before PyTorch was.
        libraries: what extensions call.
        compiles: whether ``torch.compile`` compiles functions.

    Raises:
        DeviceUnavailable: this PyTorch does not accept the device.
    """
    device.install(ranges)
    for name, value in answers(torch, machine).items():
        setattr(torch.cuda, name, value)
    torch.cuda.nvtx.range_push = torch.cuda.nvtx.range_pop = torch.cuda.nvtx.mark = lambda *_, **__: 0
    torch._C._cuda_getCurrentRawStream = lambda device: 0
    torch.cuda.default_generators = (torch.ops.kcheck.default_generator(),)
    torch.backends.cuda.is_built = lambda: True
    torch.backends.cudnn.is_acceptable = lambda tensor: False  # a warning of PyTorch's own says so for each module
    _backward_here(torch)
    _extensions(torch, machine.cc, libraries)
    _compile(torch, libraries.compiled, compiles)
    _storages(torch)
    _quiet_replacements(torch)
    # PyTorch parses the arguments first, and accepts only its own streams.
    torch.Tensor.record_stream = lambda self, stream: None


def _extensions(torch: Any, cc: tuple[int, int], libraries: ExtensionLibraries) -> None:
    """PyTorch builds extensions for CUDA, and loads those that it has built before."""
    torch.version.cuda = libraries.toolkit.version if libraries.toolkit else DEFAULT_VERSION
    os.environ.setdefault("TORCH_EXTENSIONS_DIR", str(libraries.extensions))
    patch_now_or_after_import(
        {"torch.utils.cpp_extension": [functools.partial(patch_extensions, libraries=libraries, cc=cc)]}
    )
    libraries.load(only_if_built=True)


def _backward_here(torch: Any) -> None:
    """``backward()`` runs in the thread that calls it. PyTorch has a thread per device for that, which here only
    does work for which the caller waits: a signal would not reach its launches, and it may still need Python when
    the program ends."""
    plain = torch.autograd.graph._engine_run_backward

    @functools.wraps(plain)
    def run(*arguments: Any, **options: Any) -> Any:
        with torch.autograd.set_multithreading_enabled(False):
            return plain(*arguments, **options)

    for module in list(sys.modules.values()):
        if getattr(module, "__name__", "").startswith("torch.") and (
            vars(module).get("_engine_run_backward") is plain
        ):
            module._engine_run_backward = run  # type: ignore[attr-defined]


def _storages(torch: Any) -> None:
    """``torch.UntypedStorage(size, device="cuda")``, which PyTorch for the CPU rejects by name."""
    kind = torch.UntypedStorage
    plain = kind.__new__

    def new(cls: Any, *arguments: Any, device: Any = None, **options: Any) -> Any:
        if device is None or torch.device(device).type != "cuda" or cls is not kind:
            return plain(cls, *arguments, **({} if device is None else {"device": device}), **options)
        given = arguments[0] if arguments else options.get("size", 0)
        make = torch.empty if isinstance(given, int) else torch.tensor
        return make(given, dtype=torch.uint8, device=device).untyped_storage()

    kind.__new__ = new


def _quiet_replacements(torch: Any) -> None:
    """No warning if a program implements an operator for CUDA that PyTorch composes of others: kcheck has done so,
    too, but PyTorch itself has not."""
    plain = torch.library.Library.impl

    @functools.wraps(plain)
    def impl(self: Any, *arguments: Any, **options: Any) -> Any:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=r"\s*Warning only once for all operators")
            return plain(self, *arguments, **options)

    torch.library.Library.impl = impl


def _compile(torch: Any, cache: Path, is_on: bool) -> None:
    """``torch.compile``: Inductor generates Triton kernels, which run on the device.

    Args:
        cache: the folder for what it generates.
        is_on: otherwise functions run uncompiled, through PyTorch's own switch, and a note on stderr says so.
    """
    if is_on:
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(cache))
        os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")  # a worker would import PyTorch again
        patch_now_or_after_import({"torch._inductor.config": [_inductor]})
        torch._C._dynamo.guards._empty_strided_cuda = lambda size, stride, dtype: torch.empty_strided(
            size, stride, dtype=dtype, device="cuda"
        )
        return
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


def _inductor(config: Any) -> None:
    """Launch through Triton's driver, which is kcheck's, and not through PyTorch's own launcher for CUDA."""
    for name in ("use_static_cuda_launcher", "use_static_triton_launcher"):
        if hasattr(config, name):
            setattr(config, name, False)
