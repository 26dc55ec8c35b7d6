"""A process under ``kcheck exec`` that imports CuPy.

CuPy's wheel contains NVIDIA's runtime, linked statically into the module through which CuPy calls it. That module
is changed when it is loaded, as programs that nvcc built are (``native/preload.c``): it then calls kcheck's
runtime, which finds the device in this process. CuPy compiles its kernels with NVRTC, to PTX here. NumPy draws
cuRAND's numbers and does Thrust's sorts; what else CuPy's wheel has as machine code, and NVIDIA's other libraries,
are refused by name.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import importlib
import importlib.abc
import importlib.util
import os
import re
import sys
from collections.abc import Callable, MutableMapping
from pathlib import Path
from types import FrameType
from typing import Any

from kcheck.driver import curand, session, thrust
from kcheck.driver.after_import import patch_after_import, patch_around_import
from kcheck.driver.install import settings
from kcheck.driver.stub import Stub

_RUNTIME = "cupy_backends.cuda.api.runtime"
_LIBRARIES = {
    "cupy_backends.cuda.libs.cublas": "cuBLAS",
    "cupy_backends.cuda.libs.cusolver": "cuSOLVER",
    "cupy_backends.cuda.libs.cusparse": "cuSPARSE",
    "cupy_backends.cuda.libs.cusparselt": "cuSPARSELt",
    "cupy_backends.cuda.libs.cutensor": "cuTENSOR",
    "cupy_backends.cuda.libs.nccl": "NCCL",
    "cupy.cuda.cufft": "cuFFT",
}
_CURAND = "cupy_backends.cuda.libs.curand"
_WHEEL = {"cupy.cuda.cub": "CUB"}
_REFUSED = (
    "kcheck: this function of CuPy needs {}, which is machine code that the cpu device cannot run; kcheck runs "
    "kernels that CuPy compiles: compute this part with NumPy (cupy.asnumpy, cupy.asarray)"
)
_NO_LIBRARY = (
    "kcheck: CuPy needs kcheck's CUDA runtime, which kcheck exec builds with a C compiler; install gcc or clang, "
    "or set CC"
)
_CHANGED = "kcheck: {} does not contain NVIDIA's CUDA runtime; install CuPy 14 from PyPI (cupy-cuda13x)"
_KERNEL = re.compile(r"__global__\s+void\s+(?:__launch_bounds__\([^)]*\)\s*)?(\w+)")


def start(variables: MutableMapping[str, str]) -> None:
    """Install the device in this process, and change CuPy when it is imported.

    Raises:
        DeviceUnavailable: see :func:`kcheck.driver.session.start`.
    """
    stub = session.start(variables).stub
    stub.answer_dlsym()
    folder = settings(variables).cache / "cupy"
    variables["CUPY_COMPILE_WITH_PTX"] = "1"
    variables["CUPY_CACHE_DIR"] = str(folder)  # its kernels have lines, unlike those of the user's own folder
    variables["CUPY_ACCELERATORS"] = ""  # they are CUB's machine code
    sys.modules[_CURAND] = curand
    sys.meta_path.insert(0, _Refusing())
    patch_around_import(_RUNTIME, functools.partial(_redirect, stub))
    refusing = {name: [functools.partial(_refuse, needed=needed)] for name, needed in _WHEEL.items()}
    patch_after_import(
        {
            "cupy": [_without_pool],
            "cupy.cuda.compiler": [functools.partial(_with_lines, folder=folder / "sources")],
            "cupy.cuda": [_import_at_once],
            "cupy_backends.cuda.libs": [_import_at_once],
            "cupy.cuda.thrust": [_sort_on_the_host],
            "cupy.random._generator_api": [_draw_on_the_host],
            "cupy.random._bit_generator": [_seed_on_the_host],
            **refusing,
        }
    )


def _redirect(stub: Stub) -> Callable[[Any], None]:
    """Make CuPy's module, which is loaded and has not run yet, call kcheck's runtime."""
    spec = importlib.util.find_spec(_RUNTIME)
    origin = "" if spec is None else spec.origin or ""
    try:
        library = ctypes.CDLL(None)
        redirect, launches = library.kcheck_redirect, library.kcheck_launches
    except AttributeError:
        print(_NO_LIBRARY, file=sys.stderr)
        raise SystemExit(2) from None
    if not redirect(os.fsencode(origin)):
        print(_CHANGED.format(origin), file=sys.stderr)
        raise SystemExit(2)
    # CuPy calls the driver for launches and the runtime for the rest: captured launches are those of the runtime.
    launches.restype, launches.argtypes = ctypes.c_uint64, [ctypes.c_uint64]
    stub.wrap("cuLaunchKernel", launches)
    return lambda module: None


def _without_pool(cupy: Any) -> None:
    """Each array gets its own allocation, so that an access beyond an array is found."""
    cupy.cuda.set_allocator(None)


def _with_lines(compiler: Any, folder: Path) -> None:
    """Compile kernels with the lines of their source: those of the Python file that contains its text, or those of
    a file that is written to ``folder``."""
    plain = compiler._compile_with_cache_cuda

    @functools.wraps(plain)
    def compile_with_lines(source: str, options: tuple[str, ...], *arguments: Any, **keywords: Any) -> Any:
        path, line = _in_program(source) or (_written(source, folder), 1)
        source = f'#line {line} "{path}"\n{source}'
        return plain(source, (*options, "-lineinfo"), *arguments, **keywords)

    compiler._compile_with_cache_cuda = compile_with_lines


def _in_program(source: str) -> tuple[str, int] | None:
    """The file of a caller that contains a kernel's text as it is, and the line where it begins."""
    frame: FrameType | None = sys._getframe(2)
    seen = set()
    while frame is not None:
        path = frame.f_code.co_filename
        if path not in seen and not frame.f_globals.get("__name__", "").startswith("cupy"):
            seen.add(path)
            with contextlib.suppress(OSError, UnicodeDecodeError):
                text = Path(path).read_text(encoding="utf-8")
                if (at := text.find(source)) >= 0:
                    return os.path.abspath(path), text.count("\n", 0, at) + 1
        frame = frame.f_back
    return None


def _written(source: str, folder: Path) -> Path:
    """A file with a kernel's text, named after the kernel."""
    name = found[1] if (found := _KERNEL.search(source)) else "kernel"
    digest = hashlib.blake2b(source.encode(), digest_size=4).hexdigest()
    path = folder / f"{name[:64]}-{digest}.cu"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        aside = path.with_suffix(f".{os.getpid()}")
        aside.write_text(source, encoding="utf-8")
        os.replace(aside, path)
    return path


class _Refusing(importlib.abc.MetaPathFinder):
    """Refuses libraries before CuPy loads them."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> None:
        if name in _LIBRARIES:
            raise ImportError(_REFUSED.format(_LIBRARIES[name]), name=name)


def _import_at_once(package: Any) -> None:
    """Import modules that need a library without first looking for the library."""
    plain = package.__getattr__

    def look_up(name: str) -> Any:
        if (full := f"{package.__name__}.{name}") in _LIBRARIES or full == _CURAND:
            return importlib.import_module(full)
        return plain(name)

    package.__getattr__ = look_up


def _sort_on_the_host(module: Any) -> None:
    module.sort, module.argsort, module.lexsort = thrust.sort, thrust.argsort, thrust.lexsort


def _refuse(module: Any, needed: str) -> None:
    """Let functions of a module raise NotImplementedError."""
    for name, value in list(vars(module).items()):
        if not name.startswith("_") and callable(value) and not isinstance(value, type):
            setattr(module, name, functools.partial(_raise, needed))


def _draw_on_the_host(module: Any) -> None:
    module.Generator = curand.Generator


def _seed_on_the_host(module: Any) -> None:
    for name in ("BitGenerator", "XORWOW", "MRG32k3a", "Philox4x3210"):
        setattr(module, name, type(name, (curand.BitGenerator,), {}))


def _raise(needed: str, *arguments: Any, **keywords: Any) -> None:
    raise NotImplementedError(_REFUSED.format(needed))
