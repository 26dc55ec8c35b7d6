"""Change modules right after they are imported, since programs import them themselves."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any, TypeAlias

Patches: TypeAlias = Mapping[str, Sequence[Callable[[Any], None]]]
"""By full name of a module: the functions that are called with the module after its code has run."""


def patch_after_import(patches: Patches) -> None:
    """Patch modules when they are imported. Modules that are already imported are unchanged."""
    sys.meta_path.insert(0, _Finder(patches))


def patch_now_or_after_import(patches: Patches) -> None:
    """Patch the modules that are imported, and the others when they are imported."""
    for name in patches.keys() & sys.modules.keys():
        for patch in patches[name]:
            patch(sys.modules[name])
    patch_after_import({name: patches[name] for name in patches.keys() - sys.modules.keys()})


def patch_around_import(name: str, before: Callable[[], Callable[[Any], None]]) -> None:
    """Call ``before()`` when a module is about to run, and what that returns with the module afterwards."""
    patches: list[Callable[[Any], None]] = []
    sys.meta_path.insert(0, _Finder({name: patches}, lambda: patches.append(before())))


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the modules to patch with the other finders, and patches each one after its code has run."""

    def __init__(self, patches: Patches, before: Callable[[], None] = lambda: None) -> None:
        self._patches = patches
        self._before = before

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name not in self._patches:
            return None
        for finder in sys.meta_path[sys.meta_path.index(self) + 1 :]:  # the earlier ones did not find it
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                assert spec.loader is not None
                spec.loader = _Loader(spec.loader, self._patches[name], self._before)
                return spec
        return None


class _Loader(importlib.abc.Loader):
    def __init__(self, loader: Any, patches: Sequence[Callable[[Any], None]], before: Callable[[], None]) -> None:
        self._loader = loader
        self._patches = patches
        self._before = before

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        made: ModuleType | None = self._loader.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        self._before()
        self._loader.exec_module(module)
        for patch in self._patches:
            patch(module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)  # get_source and others, for tracebacks and inspect
