"""A process under ``kcheck exec`` that imports Triton or PyTorch, which are patched right after their import."""

from __future__ import annotations

import functools
import os
import sys
import time
from collections.abc import Callable, Mapping, MutableMapping
from pathlib import Path
from typing import Any, cast

from kcheck.cpu.cache import ObjectCache
from kcheck.cpu.executor import Executor
from kcheck.driver import session
from kcheck.driver.after_import import patch_after_import, patch_around_import, patch_now_or_after_import
from kcheck.driver.host_ranges import HostRanges
from kcheck.driver.install import settings
from kcheck.driver.machine import Machine
from kcheck.errors import DeviceUnavailable
from kcheck.triton.autotuning import try_first
from kcheck.triton.backend import disassemble_when_read, measure_when_read, stop_at_ptx, tell_files_apart
from kcheck.triton.cache import use_folder
from kcheck.triton.driver import Driver
from kcheck.triton.versions import read_version

TORCH_CUDA = "KCHECK_TORCH_CUDA"
"""The environment variable; if it is ``off``, PyTorch is not patched."""

TORCH_COMPILE = "KCHECK_TORCH_COMPILE"
"""The environment variable; if it is ``off``, ``torch.compile`` leaves functions as they are."""

AUTOTUNE = "KCHECK_AUTOTUNE"
"""The environment variable: how many configurations of a kernel the autotuner tries; unset for all."""


def start(variables: MutableMapping[str, str]) -> None:
    """Install the device in this process, and patch Triton and PyTorch when they are imported.

    Raises:
        DeviceUnavailable: see :func:`kcheck.driver.session.start`.
    """
    machine = session.start(variables).machine
    ranges = HostRanges(machine.memory)
    chosen = settings(variables)
    use_folder(variables, chosen.cache)
    with_torch = variables.get(TORCH_CUDA) != "off"
    patch_triton(machine, ranges, ObjectCache(chosen.cache / "code"), "cuda" if with_torch else "cpu")
    if limit := variables.get(AUTOTUNE):
        patch_after_import({"triton.runtime.autotuner": [functools.partial(try_first, limit=int(limit))]})
    if with_torch:
        patch_around_import("torch", functools.partial(_torch_device, machine, ranges, chosen.cache, variables))


def _torch_device(
    machine: Machine, ranges: HostRanges, cache: Path, variables: Mapping[str, str]
) -> Callable[[Any], None]:
    """What to do with PyTorch once it is imported. Its device is loaded now, before."""
    from kcheck.torch_cuda.device import TorchDevice  # lazy: few programs use PyTorch
    from kcheck.torch_cuda.extensions import ExtensionLibraries
    from kcheck.torch_cuda.install import install
    from kcheck.torch_cuda.toolkit import find_toolkit

    try:
        device = TorchDevice(cache, variables)
    except DeviceUnavailable as fault:
        print(f"kcheck: {fault}", file=sys.stderr)
        raise SystemExit(2) from None
    libraries = ExtensionLibraries(find_toolkit(variables), cache, variables)
    return functools.partial(
        install,
        machine=machine,
        ranges=ranges,
        device=device,
        libraries=libraries,
        compiles=variables.get(TORCH_COMPILE) != "off",
    )


def patch_triton(machine: Machine, ranges: HostRanges, cache: ObjectCache, torch_device: str) -> None:
    """Make Triton run its kernels on a device. Triton may be imported, but must not have compiled anything."""

    def backends(module: Any) -> None:
        from triton import __version__  # triton assigns it before it imports its submodules

        try:
            read_version(__version__)
        except DeviceUnavailable as fault:
            print(f"kcheck: {fault}", file=sys.stderr)
            raise SystemExit(2) from None
        driver = functools.cache(lambda: Driver(machine, ranges, torch_device))

        class Chosen:
            """Replaces the driver class: Triton calls ``is_active()``, then creates an instance."""

            is_active = staticmethod(Driver.is_active)

            def __new__(cls) -> Any:
                return driver()

        nvidia = module.backends["nvidia"]
        module.backends["nvidia"] = type(nvidia)(compiler=nvidia.compiler, driver=Chosen)

    patches: dict[str, list[Callable[[Any], None]]] = {
        "triton.backends": [backends],
        "triton.backends.nvidia.compiler": [stop_at_ptx],
        "triton.compiler.compiler": [
            tell_files_apart,
            functools.partial(measure_when_read, cache=cache),
            disassemble_when_read,
        ],
    }
    _patched.append(machine)
    patch_now_or_after_import(patches)


_patched: list[Machine] = []


def patch_triton_to_compile() -> None:
    """Make Triton compile in this process, which may have no device."""
    if not _patched:
        chosen = settings(os.environ)
        machine = Machine(chosen.cc, cast(Executor, None), time.perf_counter)
        use_folder(os.environ, chosen.cache)
        patch_triton(machine, cast(HostRanges, None), ObjectCache(chosen.cache / "code"), "cpu")


def main() -> None:
    """Start in this process, with its environment."""
    start(os.environ)
