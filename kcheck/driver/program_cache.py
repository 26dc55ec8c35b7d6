"""What Numba compiles for programs under ``kcheck exec``, reused by later processes. Numba's own work takes most
of the time of a test suite that launches many small kernels.

A program cannot tell the difference: the statistics of a dispatcher count a compilation, and if the program reads
data that is not stored, such as the types of variables, the kernel is compiled then. Kernels whose compilation
warns or prints are compiled each time, as are those with ``debug=True``, extensions, linked files, or a cache that
the program chose.
"""

from __future__ import annotations

import functools
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from kcheck.cpu.cache import ObjectCache
from kcheck.driver.kernel_cache import KeptKernels
from kcheck.driver.link import NO_SOURCE

_PRINTS = re.compile("DUMP_|DEBUG|TRACE|CHROME_TRACE|ANNOTATE|HTML$|DIFF_IR|LLVM_PASS|JIT_COV|PARALLEL_DIAG")
_OFF = (None, 0, "", "none")


class ProgramKernels(KeptKernels):
    """The kernels of one dispatcher of a program. The arguments are those of :class:`KeptKernels`.

    Attributes:
        warned: whether the compilation since the last lookup has warned.
        found: whether the last lookup found a kernel.
    """

    warned = found = False

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        """As :meth:`KeptKernels.load_overload`; a program can use the kernel like one that was just compiled."""
        self.warned = False
        kernel = super().load_overload(signature, target_context)
        self.found = kernel is not None
        if self.found:
            compiled_class: Any = type(kernel)
            kernel.__class__ = _restored(compiled_class)
            kernel._kcheck_origin = self._dispatcher, tuple(kernel.signature.args)
        return kernel

    def save_overload(self, signature: Any, kernel: Any) -> None:
        """As :meth:`KeptKernels.save_overload`, if the compilation was silent."""
        if not self.warned:
            super().save_overload(signature, kernel)


@functools.cache
def _restored(kernel: Any) -> Any:
    """A subclass of numba-cuda's class of kernels, for kernels from the cache."""

    class Restored(kernel):  # type: ignore[misc]
        """A kernel from the cache. It compiles if a program reads what the cache does not have."""

        def _compiled(self) -> Any:
            made = self.__dict__.get("_kcheck_compiled")
            if made is None:
                dispatcher, types = self._kcheck_origin
                made = self._kcheck_compiled = kernel(dispatcher.py_func, types, **dispatcher.targetoptions)
            return made

        def __getattr__(self, name: str) -> Any:
            if name.startswith(("__", "_kcheck")):
                raise AttributeError(name)
            return getattr(self._compiled(), name)

        @property
        def _type_annotation(self) -> Any:
            return self._compiled()._type_annotation

        def _reduce_class(self) -> Any:
            return kernel

    return Restored


def keeping(store: ObjectCache) -> Callable[[Any], None]:
    """A patch of ``numba.cuda.dispatcher``: kernels are looked up in a store before they are compiled."""

    def patch(module: Any) -> None:
        kind, no_cache = module.CUDADispatcher, module.NullCache
        plain = kind.compile

        @functools.wraps(plain)
        def compile_or_load(dispatcher: Any, signature: Any) -> Any:
            before = dispatcher._cache
            if type(before) is not no_cache or not _is_plain(dispatcher):
                return plain(dispatcher, signature)
            kept = dispatcher._cache = ProgramKernels(dispatcher, store)
            try:
                with _noting_warnings(kept, not dispatcher.targetoptions.get("lineinfo")):
                    kernel = plain(dispatcher, signature)
            finally:
                dispatcher._cache = before
            if kept.found:
                _count_as_compiled(dispatcher)
            return kernel

        kind.compile = compile_or_load

    return patch


def _is_plain(dispatcher: Any) -> bool:
    """Whether a program cannot observe if a kernel was compiled or loaded."""
    options = dispatcher.targetoptions
    if options.get("debug") or options.get("extensions") or options.get("link"):
        return False
    modules = [sys.modules.get(name) for name in ("numba.core.config", "numba.cuda.core.config")]
    return not any(
        _PRINTS.match(name) and value not in _OFF for module in modules for name, value in vars(module).items()
    )


def _count_as_compiled(dispatcher: Any) -> None:
    """Count a kernel that was found as compiled, because the program did not request a cache."""
    hits = dispatcher._cache_hits
    dispatcher._cache_misses.update(hits)
    hits.clear()


@contextmanager
def _noting_warnings(kept: ProgramKernels, is_hidden: bool) -> Iterator[None]:
    """Set ``warned`` if anything warns. With ``is_hidden``, the warning about missing sources does not count."""
    places = [(warnings, "warn"), (warnings, "warn_explicit"), (import_module("numba.cuda.compiler"), "warn")]
    plain = [getattr(module, name) for module, name in places]

    def noting(warn: Callable[..., None], name: str) -> Callable[..., None]:
        def note_explicit(*arguments: Any, **options: Any) -> None:
            kept.warned = True
            warn(*arguments, **options)

        def note(message: Any, category: Any = None, stacklevel: int = 1, *arguments: Any, **options: Any) -> None:
            kept.warned |= not (is_hidden and str(message).startswith(NO_SOURCE))
            warn(message, category, stacklevel + 1, *arguments, **options)

        return note if name == "warn" else note_explicit

    for (module, name), warn in zip(places, plain, strict=True):
        setattr(module, name, noting(warn, name))
    try:
        yield
    finally:
        for (module, name), warn in zip(places, plain, strict=True):
            setattr(module, name, warn)
