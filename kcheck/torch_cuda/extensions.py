"""``torch.utils.cpp_extension``: ``load_inline``, ``load`` and ``CUDAExtension`` compile for kcheck's device.

PyTorch's own code runs, with a toolkit that kcheck finds, PTX and lines of the source in the binaries, and no
libraries that only PyTorch's build for CUDA has: those that extensions need are in the process already.
"""

from __future__ import annotations

import ctypes
import functools
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kcheck.driver.cudart import runtime_library
from kcheck.errors import DeviceUnavailable
from kcheck.torch_cuda.build import NATIVE, NativeLibrary, built, installed_torch, path_of
from kcheck.torch_cuda.toolkit import Toolkit

_HEADERS = NATIVE / "include"
_LIBRARIES = frozenset({"c10_cuda", "torch_cuda", "cudart", "cudart_static", "cuda", "cudadevrt"})
"""What is not linked: it is in the process, or is not needed."""

_SOURCES = ("cuda_api.cpp", "caching_allocator.cpp")
_NO_NVCC = (
    "kcheck: CUDA extensions need nvcc, which was not found: pip install 'kcheck[nvcc]', or set CUDA_HOME to a "
    "CUDA toolkit"
)
_MISSING = re.compile(r"undefined symbol: (\S+)")


class ExtensionLibraries:
    """The libraries that extensions call: the CUDA runtime, and those of PyTorch.

    Args:
        toolkit: with the headers of the runtime.
        cache: kcheck's cache folder.
    """

    def __init__(self, toolkit: Toolkit | None, cache: Path, variables: Mapping[str, str]) -> None:
        self.toolkit = toolkit
        self._cache = cache
        self._variables = variables
        self._loaded: list[object] = []

    @property
    def extensions(self) -> Path:
        """The folder in which PyTorch keeps the extensions that it builds, with PTX for this device only."""
        return self._cache / "torch_extensions" / f"py{sys.version_info[0]}{sys.version_info[1]}"

    @property
    def compiled(self) -> Path:
        """The folder for what ``torch.compile`` generates."""
        return self._cache / "inductor"

    def load(self, *, only_if_built: bool = False) -> None:
        """Load them, so that the extensions that are loaded later find their functions; if that fails, print why,
        and go on: the program may not need them.

        Args:
            only_if_built: do not compile them.
        """
        if self._loaded or self.toolkit is None:
            return
        include = (str(self.toolkit.home / "include"), str(_HEADERS))
        library = NativeLibrary(
            "libc10_cuda.so", _SOURCES, include, what="the functions that CUDA extensions call"
        )
        torch = installed_torch()
        if only_if_built and not path_of(library, torch, self._cache).exists():
            return
        try:
            runtime = runtime_library(self._cache, int(self.toolkit.version.partition(".")[0]))
            self._loaded.append(ctypes.CDLL(str(runtime), mode=ctypes.RTLD_GLOBAL))
            path = built(library, torch, self._cache, self._variables)
            self._loaded.append(ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL))
        except (DeviceUnavailable, OSError) as fault:
            print(f"kcheck: what CUDA extensions call does not load: {fault}", file=sys.stderr)


def patch_extensions(module: Any, libraries: ExtensionLibraries, cc: tuple[int, int]) -> None:
    """Change ``torch.utils.cpp_extension``.

    Args:
        module: it, just imported.
        libraries: are loaded, because an extension will probably be built or imported.
        cc: the compute capability to compile for.
    """
    toolkit = libraries.toolkit
    libraries.load()
    home = module.CUDA_HOME
    if toolkit is not None:
        module.CUDA_HOME = home = str(toolkit.home)
    module.CUDNN_HOME = None
    _flags(module, cc)
    _links(module)
    _paths(module)
    _imports(module)
    plain = module._check_cuda_version

    @functools.wraps(plain)
    def check(*arguments: Any) -> None:
        if not home or not os.path.isfile(os.path.join(home, "bin", "nvcc")):
            print(_NO_NVCC, file=sys.stderr)
        plain(*arguments)

    module._check_cuda_version = check


def _flags(module: Any, cc: tuple[int, int]) -> None:
    """PTX for the device, whatever GPUs the program asks for, and the lines of the source."""
    number = f"{cc[0]}{cc[1]}"

    def arch_flags(given: Sequence[str] | None = None) -> list[str]:
        # nvcc accepts no -gencode next to -arch, with which the binary has PTX, too.
        if any(flag.startswith(("-arch", "--gpu-architecture")) for flag in given or ()):
            return ["-lineinfo", "-no-compress"]
        return [f"-gencode=arch=compute_{number},code=compute_{number}", "-lineinfo", "-no-compress"]

    module._get_cuda_arch_flags = arch_flags


def _links(module: Any) -> None:
    prepare, extension = module._prepare_ldflags, module.CUDAExtension

    @functools.wraps(prepare)
    def prepare_ldflags(*arguments: Any) -> list[str]:
        return [flag for flag in prepare(*arguments) if flag.removeprefix("-l") not in _LIBRARIES]

    @functools.wraps(extension)
    def cuda_extension(*arguments: Any, **options: Any) -> Any:
        made = extension(*arguments, **options)
        made.libraries = [name for name in made.libraries if name not in _LIBRARIES]
        return made

    module._prepare_ldflags, module.CUDAExtension = prepare_ldflags, cuda_extension


def _paths(module: Any) -> None:
    """The headers that PyTorch's build for the CPU lacks come last."""
    plain = module.include_paths

    @functools.wraps(plain)
    def include_paths(device_type: str = "cpu", *arguments: Any, **options: Any) -> list[str]:
        found: list[str] = plain(device_type, *arguments, **options)
        return [*found, str(_HEADERS)] if device_type == "cuda" else found

    module.include_paths = include_paths


def _imports(module: Any) -> None:
    plain = module._import_module_from_library

    @functools.wraps(plain)
    def import_module(*arguments: Any, **options: Any) -> Any:
        try:
            return plain(*arguments, **options)
        except (ImportError, OSError) as error:
            if told := unsupported_function(error):
                raise ImportError(told) from error
            raise

    module._import_module_from_library = import_module


def unsupported_function(error: BaseException) -> str:
    """A message about an extension that does not load because it uses a function that kcheck does not have; empty
    for other errors."""
    found = _MISSING.search(str(error))
    if found is None:
        return ""
    name = _demangled(found[1])
    if not re.search(r"cuda|cublas|cusparse|cusolver|cudnn|cufft|curand|nccl", name, re.IGNORECASE):
        return ""
    return (
        f"this extension uses {name}, which kcheck's cpu device does not have; use PyTorch's operators "
        "(at::mm, ...) or a kernel instead"
    )


def _demangled(symbol: str) -> str:
    try:
        demangle = ctypes.CDLL("libstdc++.so.6").__cxa_demangle
    except (OSError, AttributeError):
        return symbol
    demangle.restype = ctypes.c_void_p
    status = ctypes.c_int()
    text = demangle(symbol.encode(), None, None, ctypes.byref(status))
    if not text:
        return symbol
    name = ctypes.string_at(text).decode()
    ctypes.CDLL(None).free(ctypes.c_void_p(text))
    return name
