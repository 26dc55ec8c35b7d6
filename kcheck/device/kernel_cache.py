"""Compiled kernels from earlier runs, reused if nothing that Numba froze into them has changed. Numba compiles a
kernel once per signature, in about half a second, and freezes into it the value of every global and closure
variable that it uses, and every function that it calls. Numba's cache (``cache=True``) only checks the kernel's
file, and would return a kernel whose constants or device functions have changed since. The key here is a digest of
all of these. A kernel with a value that cannot be digested is compiled in every run.
"""

from __future__ import annotations

import enum
import functools
import hashlib
import os
import pickle
import re
import sys
import sysconfig
import types
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from kcheck.cpu.cache import ObjectCache
from kcheck.driver.install import settings
from kcheck.version import __version__

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_LIBRARIES = tuple(
    os.path.realpath(path) + os.sep
    for path in {*(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")), _PACKAGE}
)
_KNOWN = frozenset({"numba", "numba_cuda", "numpy", "ml_dtypes", "cuda", *sys.stdlib_module_names})
"""Packages whose objects are identified by their name and the versions in the key."""
_PLAIN = (bool, int, float, complex, str, bytes, type(None), np.generic, np.dtype, enum.Enum, types.EllipsisType)


_EXTENDS = re.compile(
    rb"extending|overload|intrinsic|templates|imputils|[Rr]egist|typeof|lower_|lowering|type_callable|infer|config"
)
"""Found in files that register functions or types with Numba or set its options. Other files may match, too, which
does no harm."""

_FORMAT = 2  # version of the cached format; 2 has the code that reports exceptions


class _Unknown(Exception):
    """A value that cannot be digested."""


def fingerprint(function: Callable[..., Any]) -> str | None:
    """A digest of a function's code and of everything that Numba would freeze into it; None if a value cannot be
    digested.

    Args:
        function: the Python function of a kernel.
    """
    digest = hashlib.blake2b(digest_size=16)
    for text in _sources():
        digest.update(text)
    try:
        _walk(function, digest.update, set())
    except _Unknown:
        return None
    return digest.hexdigest()


def _sources() -> Iterable[bytes]:
    modules = [module for name, module in list(sys.modules.items()) if name != "__main__"]
    return sources_that_count({_own(getattr(module, "__file__", None) or "") for module in modules} - {""})


def sources_that_count(paths: Iterable[str]) -> Iterable[bytes]:
    """The files of imported modules, as parts of the digest: all of them if one may change how Numba compiles,
    because kernels do not refer by name to code that registers overloads; otherwise no file.

    In the latter case it does not matter which kernels and references of other specs are imported, which differs
    between a run of one spec, a run of all specs, and worker processes.

    Args:
        paths: the files of the modules outside libraries, except the main module's, which does not register any.
    """
    texts = [(path, Path(path).read_bytes()) for path in sorted(paths) if os.path.exists(path)]
    if any(_EXTENDS.search(text) for _, text in texts):
        for path, text in texts:
            yield path.encode() + b"\0" + text


@functools.cache
def _own(path: str) -> str:
    """The real path of a Python file outside the libraries; empty for any other file."""
    if not path.endswith(".py") or path.startswith(_LIBRARIES):  # nearly all files: do not access the file system
        return ""
    real = os.path.realpath(path)
    return "" if real.startswith(_LIBRARIES) else real


def _walk(value: Any, tell: Callable[[bytes], None], seen: set[int]) -> None:
    """Digest everything about a value that compiled code may depend on. Raises _Unknown."""
    if isinstance(value, _PLAIN):
        tell(f"{type(value).__qualname__} {value!r}\0".encode())
        return
    if id(value) in seen:
        tell(b"again\0")
        return
    seen.add(id(value))
    python = getattr(value, "py_func", value)
    if isinstance(python, types.FunctionType) and not _is_known(python):
        tell(f"function {getattr(value, 'targetoptions', None)!r}\0".encode())
        _walk_function(python, tell, seen)
    elif isinstance(value, np.ndarray) and value.dtype.hasobject is False:
        tell(f"array {value.dtype.descr!r} {value.shape} {value.strides}\0".encode() + value.tobytes())
    elif isinstance(value, tuple | list):
        tell(f"{type(value).__name__} {len(value)}\0".encode())
        for part in value:
            _walk(part, tell, seen)
    elif _is_known(value):
        module = getattr(value, "__module__", None) or type(value).__module__
        name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None) or repr(value)
        tell(f"{module} {name}\0".encode())
    else:
        raise _Unknown


def _walk_function(function: types.FunctionType, tell: Callable[[bytes], None], seen: set[int]) -> None:
    names: dict[str, None] = {}
    _walk_code(function.__code__, tell, names)
    _walk(function.__defaults__, tell, seen)
    for cell in function.__closure__ or ():
        _walk(cell.cell_contents, tell, seen)
    for name in names:
        value = function.__globals__.get(name, _Unknown)
        if value is _Unknown:  # an attribute or a builtin: a part of the object that has it
            continue
        tell(name.encode() + b"\0")
        if isinstance(value, types.ModuleType) and not _is_known(value):
            for attribute in names:
                if hasattr(value, attribute):
                    _walk(getattr(value, attribute), tell, seen)
        else:
            _walk(value, tell, seen)


def _walk_code(code: types.CodeType, tell: Callable[[bytes], None], names: dict[str, None]) -> None:
    tell(f"{code.co_filename} {code.co_firstlineno} {code.co_varnames} {code.co_names}\0".encode())
    tell(code.co_code + code.co_linetable)
    names.update(dict.fromkeys(code.co_names))
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            _walk_code(constant, tell, names)
        else:
            tell(f"{constant!r}\0".encode())


def _is_known(value: Any) -> bool:
    """Whether a value belongs to a library whose version is in the key, and does not contain the user's values."""
    if isinstance(value, types.ModuleType):
        return value.__name__.partition(".")[0] in _KNOWN
    module = getattr(value, "__module__", None) if callable(value) else type(value).__module__
    return (isinstance(module, str) and module.partition(".")[0] in _KNOWN - {"builtins"}) or (
        isinstance(value, type | types.BuiltinFunctionType) and (module or "builtins") == "builtins"
    )


def kept_kernels() -> ObjectCache:
    """The cache of compiled kernels."""
    return ObjectCache(settings(os.environ).cache / "kernels")


class KeptKernels:
    """Compiled kernels on disk: implements numba-cuda's ``_Cache`` for one dispatcher.

    Args:
        dispatcher: the ``@cuda.jit`` object.
        store: where they are stored.
    """

    cache_path = None

    def __init__(self, dispatcher: Any, store: ObjectCache) -> None:
        self._dispatcher = dispatcher
        self._store = store

    def may_keep(self, signature: Any) -> bool:
        """Whether the kernel for a signature, a tuple of Numba's types, is not cached but probably can be."""
        key = self._key(signature)
        return key is not None and key not in self._store and _refused(key) not in self._store

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        """The kernel that was compiled for a signature; None if there is none, or it is out of date.

        Numba's own cache refreshes the target first, which imports everything that Numba can compile (0.3 s). A
        kernel that only runs does not need that, and a compilation refreshes the target itself.
        """
        key = self._key(signature)
        stored = None if key is None else self._store.get(key)
        if stored is None:
            return None
        return import_module("numba.cuda.dispatcher")._Kernel._rebuild(**pickle.loads(stored))

    def save_overload(self, signature: Any, kernel: Any) -> None:
        """Store a kernel if Numba can pickle it: not if it links the user's files or has a device array."""
        key = self._key(signature)
        if key is None:
            return
        if kernel.launch_config_sensitive:
            self._store.put(_refused(key), b"")
            return
        library = kernel.library
        linked = library._linking_files
        if all(_is_numbas_own(file) for file in linked):
            # Numba refuses to pickle a kernel that links files, because these may change. Its own files do not,
            # and the cubin contains the linked result.
            library._linking_files = {file for file in linked if not hasattr(file, "data")}
        try:
            content = import_module("numba.cuda.serialize").dumps(kernel._reduce_states())
        except (RuntimeError, pickle.PicklingError):  # Numba raises these if it cannot serialize the kernel
            self._store.put(_refused(key), b"")
            return
        finally:
            library._linking_files = linked
        self._store.put(key, content)

    def _key(self, signature: Any) -> str | None:
        made = fingerprint(self._dispatcher.py_func)
        if made is None:
            return None
        device = import_module("numba.cuda").get_current_device()
        versions = [import_module(name).__version__ for name in ("numba", "numba_cuda", "numpy")]
        options = sorted(self._dispatcher.targetoptions.items())
        return repr(
            (_FORMAT, __version__, sys.version, versions, device.compute_capability, options, str(signature), made)
        )

    def enable(self) -> None:
        """Part of numba-cuda's interface. No effect: the cache is always on."""

    disable = flush = enable


def _is_numbas_own(file: Any) -> bool:
    """Whether a file that a kernel links is numba-cuda's runtime, or one of the shims that it generates for
    bfloat16 and other types; the key has numba-cuda's version."""
    codegen = import_module("numba.cuda.codegen")
    if file == codegen.NRT_LIBRARY:
        return True
    source = type(getattr(file, "_data", None)).__module__
    return source.startswith("numba.cuda.") and not (file.setup_callback or file.teardown_callback)


def _refused(key: str) -> str:
    """The key under which the cache records that a kernel cannot be cached."""
    return key + "\0refused"


def keep_compiled(dispatcher: Any, store: ObjectCache) -> None:
    """Make a dispatcher use a store of compiled kernels instead of Numba's cache."""
    if not isinstance(dispatcher._cache, KeptKernels):
        dispatcher._cache = KeptKernels(dispatcher, store)
