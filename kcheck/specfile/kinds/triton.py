"""Kernels of Triton: Python functions under ``@triton.jit``, perhaps autotuned."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from kcheck.model import CompileOptions, TritonOptions
from kcheck.specfile.kinds.base import FoundKernel, Kind, Parameters
from kcheck.specfile.kinds.tritonfile import read_triton
from kcheck.specfile.reader import Reader
from kcheck.specfile.yamltree import YamlMap, YamlNode


class Triton(Kind):
    """Functions under ``@triton.jit``."""

    title = "Triton"
    suffix = ".py"
    form = "file.py:name"
    keys: tuple[str, ...] = ("constexprs", "num_warps", "num_stages", "config")

    def owns(self, file: Path, name: str) -> bool:
        """A function that ``@triton.jit`` decorates."""
        return name in read_triton(file)

    def is_kernel(self, function: Callable[..., Any]) -> bool:
        """A ``JITFunction``, or the object that autotuning and heuristics wrap around one."""
        return type(function).__module__.startswith("triton.runtime")

    def find(self, reader: Reader, node: YamlNode, file: Path, name: str) -> FoundKernel | None:
        """The kernel, with the parameters that ``args`` must match: all except the constants."""
        kernel = read_triton(file)[name]
        required = tuple(argument for argument in kernel.arguments if argument not in kernel.optional)
        optional = tuple(argument for argument in kernel.arguments if argument in kernel.optional)
        return FoundKernel(
            name, "", Parameters(required, optional, len(kernel.arguments), kernel.pointers, kernel.numbers)
        )

    def options(self, reader: Reader, node: YamlMap) -> CompileOptions | None:
        """None: :mod:`kcheck.specfile.constexprs` reads them, because expressions can use their names."""
        return TritonOptions()
