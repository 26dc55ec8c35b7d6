"""Kernels of numba.cuda: Python functions under ``@cuda.jit``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from kcheck.model import CompileOptions
from kcheck.specfile.kinds.base import FoundKernel, Kind, Parameters
from kcheck.specfile.reader import Reader
from kcheck.specfile.yamltree import YamlMap, YamlNode


class Numba(Kind):
    """A name that a Python file defines and that no other kind owns."""

    title = "Numba"
    suffix = ".py"
    form = "file.py:name"
    keys = ("debug",)
    no_keys = "write its options in @cuda.jit(...), and remove this"

    def is_kernel(self, function: Callable[..., Any]) -> bool:
        """True, because the other kinds are tried first."""
        return True

    def find(self, reader: Reader, node: YamlNode, file: Path, name: str) -> FoundKernel | None:
        """A name at the top level of the file, and its signature, if no decorator can have changed it."""
        found = reader.definition(node, file, name, "kernel")
        if found is None:
            return None
        signature = found.definition.signature if found.definition is not None else None
        if signature is None:
            return FoundKernel(name)
        return FoundKernel(name, "", Parameters(signature.required, signature.optional, signature.positional))

    def options(self, reader: Reader, node: YamlMap) -> CompileOptions | None:
        """There are none."""
        return None
