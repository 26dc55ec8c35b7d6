"""Which functions of the libraries a candidate has replaced: a way to fake a result, and never a need."""

from __future__ import annotations

import os
import site
import sys
from collections.abc import Collection, Iterator
from types import FunctionType, ModuleType
from typing import Any

_PACKAGES = (
    "builtins",
    "time",
    "os",
    "socket",
    "json",
    "pickle",
    "numpy",
    "torch",
    "numba",
    "triton",
    "kcheck",
    "cuda",
)
_LEFT_OUT = ("torch._dynamo", "torch._inductor", "numba.core", "triton._C")
"""Parts that replace their own functions while they work."""
_OWN_PATCHES = (os.path.join("torch", "_dynamo", "mutation_guard.py"),)
"""Files whose functions PyTorch puts in the place of others, under other names, for ``torch.compile``."""
_INSTALLED = tuple(
    {*site.getsitepackages(), sys.prefix, sys.base_prefix, os.path.dirname(os.path.dirname(__file__)), "<frozen"}
)


class Integrity:
    """The functions, and the methods of classes, of the libraries as they are now. It takes longer than to load a
    candidate, so the process that candidates' processes are forked from makes it."""

    def __init__(self) -> None:
        self._known: dict[str, dict[str, tuple[int, int]]] = {}
        self.extend()

    def extend(self, changed: Collection[str] = ()) -> None:
        """Add the libraries that were imported since. ``changed``: modules that kcheck has changed since."""
        for name in changed:
            self._known.pop(name, None)
        for name, module in list(sys.modules.items()):
            if name not in self._known and isinstance(module, ModuleType) and _is_watched(name):
                self._known[name] = {key: _mark(value) for key, value in _callables(name, module)}

    def changed(self, most: int = 5) -> list[str]:
        """The names of the changed ones, such as ``torch.allclose``."""
        found = []
        for name, known in self._known.items():
            module = sys.modules.get(name)
            if not isinstance(module, ModuleType):
                found.append(name)
                continue
            for key, value in _callables(name, module):
                mark = known.get(key)
                if mark is not None and _mark(value) != mark and not _by_library(key, value):
                    found.append(f"{name}.{key}")
        return sorted(found)[:most]


def _is_watched(name: str) -> bool:
    return name.partition(".")[0] in _PACKAGES and not name.startswith(_LEFT_OUT)


def _callables(name: str, module: ModuleType) -> Iterator[tuple[str, Any]]:
    """What a module defines, and the methods of its classes, except those of kcheck, which appear when needed."""
    for key, value in list(vars(module).items()):
        # Not isinstance, which asks deprecated objects of PyTorch for their class, and these then warn.
        if issubclass(type(value), ModuleType) or not callable(value):
            continue
        yield key, value
        if isinstance(value, type) and value.__module__ == name and not name.startswith("kcheck"):
            for part, method in list(vars(value).items()):
                if isinstance(method, FunctionType):
                    yield f"{key}.{part}", method


def _by_library(key: str, value: Any) -> bool:
    """Whether a library has replaced its own function, as PyTorch does when parts of it are imported late: by one
    of the same name, from a file of a library."""
    code = getattr(value, "__code__", None)
    if code is not None and code.co_filename.endswith(_OWN_PATCHES) and code.co_filename.startswith(_INSTALLED):
        return True
    is_installed = code is None or code.co_filename.startswith(_INSTALLED)
    return is_installed and getattr(value, "__name__", "") == key.rpartition(".")[2]


def _mark(value: Any) -> tuple[int, int]:
    """What changes if a function is replaced, or its code."""
    return id(value), id(getattr(value, "__code__", None))
