"""Which functions of the libraries a candidate has replaced: a way to fake a result, and never a need."""

from __future__ import annotations

import os
import site
import sys
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

_PACKAGES = ("builtins", "time", "os", "socket", "json", "pickle", "numpy", "torch", "numba", "triton", "kcheck", "cuda")
_LEFT_OUT = ("torch._dynamo", "torch._inductor", "numba.core", "triton._C")
"""Parts that replace their own functions while they work."""
_INSTALLED = tuple({*site.getsitepackages(), sys.prefix, sys.base_prefix, os.path.dirname(os.path.dirname(__file__))})
_KINDS = (FunctionType, BuiltinFunctionType, type)


class Integrity:
    """The functions and classes of the libraries as they are now."""

    def __init__(self) -> None:
        self._known = {
            name: {key: _mark(name, value) for key, value in vars(module).items() if isinstance(value, _KINDS)}
            for name, module in list(sys.modules.items())
            if isinstance(module, ModuleType) and _is_watched(name)
        }

    def changed(self, most: int = 5) -> list[str]:
        """The names of those that are something else now, such as ``torch.allclose``."""
        found = []
        for name, known in self._known.items():
            module = sys.modules.get(name)
            if module is None:
                found.append(name)
                continue
            now = vars(module)
            for key, mark in known.items():
                if key in now and _mark(name, now[key]) != mark and not _by_library(key, now[key]):
                    found.append(f"{name}.{key}")
        return sorted(found)[:most]


def _is_watched(name: str) -> bool:
    return name.partition(".")[0] in _PACKAGES and not name.startswith(_LEFT_OUT)


def _by_library(key: str, value: Any) -> bool:
    """Whether a library has replaced its own function, as PyTorch does when parts of it are imported late: by one
    of the same name, from a file of a library."""
    code = getattr(value, "__code__", None)
    is_installed = code is None or code.co_filename.startswith(_INSTALLED)
    return is_installed and getattr(value, "__name__", "") == key


def _mark(module: str, value: Any) -> tuple[int, ...]:
    """What changes if a function is replaced, or its code, or a method of a class. Classes of kcheck write their
    methods when they are first called."""
    if isinstance(value, FunctionType):
        return id(value), id(value.__code__)
    if isinstance(value, type) and not module.startswith("kcheck"):
        methods = (id(each) for each in vars(value).values() if isinstance(each, FunctionType))
        return (id(value), hash(tuple(sorted(methods))))
    return (id(value),)
