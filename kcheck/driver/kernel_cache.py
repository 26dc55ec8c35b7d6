"""Compiled kernels from earlier processes, reused if nothing that Numba froze into them has changed. Numba
compiles a kernel once per signature, in about half a second. Its own cache (``cache=True``) only checks the
kernel's file, and would return a kernel whose constants or device functions have changed since. The key here has a
digest of all of these (:mod:`kcheck.driver.fingerprint`). A kernel with a value that has no digest is compiled
each time.
"""

from __future__ import annotations

import os
import pickle
import re
import sys
from importlib import import_module
from typing import Any

from kcheck.cpu.cache import ObjectCache
from kcheck.driver.fingerprint import fingerprint
from kcheck.driver.install import settings
from kcheck.version import __version__

_FORMAT = 4  # version of the cached format; 4 has the files of temporary folders by number
_COUNTS = re.compile(
    "OPT$|ALWAYS_WARN|DISABLE_PERF|BOUNDSCHECK|.*DEBUGINFO|FORCE_|CUDA_(ENABLE|USE|INCLUDE|NVRTC|FP16|BF16)"
    "|DISABLE_JIT|EXTEND_|LOOP_|SLP_|LLVM_REF|ENABLE_PROF|JIT_COV|PARFOR|.*NRT$"
)
"""The options of Numba that change what it compiles, or what it warns about."""


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
        self._looked_up: tuple[str, str | None] = "", None  # a signature and its key

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
        self._looked_up = str(signature), key
        stored = None if key is None else self._store.get(key)
        if stored is None:
            return None
        return import_module("numba.cuda.dispatcher")._Kernel._rebuild(**pickle.loads(stored))

    def save_overload(self, signature: Any, kernel: Any) -> None:
        """Store a kernel if Numba can pickle it: not if it links the user's files or has a device array."""
        looked_up, key = self._looked_up  # before the compilation, which may have imported more
        if looked_up != str(signature):
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
        place = device.compute_capability
        return repr(
            (_FORMAT, __version__, sys.version, versions, place, options, _settings(), str(signature), made)
        )

    def enable(self) -> None:
        """Part of numba-cuda's interface. No effect: the cache is always on."""

    disable = flush = enable


def _settings() -> list[tuple[str, str]]:
    """Numba's options that change what it compiles; programs may set them at any time."""
    modules = [
        sys.modules[name] for name in ("numba.core.config", "numba.cuda.core.config") if name in sys.modules
    ]
    for module in modules:
        module.reload_config()  # as a compilation begins: a program may have changed the environment
    return [
        (name, repr(value))
        for module in modules
        for name, value in sorted(vars(module).items())
        if _COUNTS.match(name)
    ]


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
