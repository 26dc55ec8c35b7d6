"""The interface of a kind of kernel: how specs name its kernels, and how they say how to compile them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from kcheck.dataclass import dataclass
from kcheck.model import CompileOptions
from kcheck.specfile.reader import Reader
from kcheck.specfile.yamltree import YamlMap, YamlNode


@dataclass(frozen=True, slots=True)
class Parameters:
    """The parameters that a kernel takes, in order.

    Attributes:
        required, optional: by name, as messages show them.
        most: how many arguments it takes at most; None: any number.
        pointers, numbers: those that can only take an array, and only a number, as far as the text shows it.
    """

    required: tuple[str, ...]
    optional: tuple[str, ...] = ()
    most: int | None = None
    pointers: frozenset[str] = frozenset()
    numbers: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class FoundKernel:
    """A kernel as its file's text shows it.

    Attributes:
        name: as the compiler knows it, without template arguments.
        arguments: of a template, as the spec has them.
        parameters: None where the text does not show them.
    """

    name: str
    arguments: str = ""
    parameters: Parameters | None = None


class Kind(Protocol):
    """One kind of kernel. Nothing here imports or compiles the user's code.

    Attributes:
        title: what messages call it: ``CUDA C++``.
        suffix: of its files, with the dot.
        form: how a spec names a kernel: ``file.cu:name``.
        keys: those of ``compile:``.
        no_keys: the fix for a ``compile:`` where there are no keys.
    """

    title: str
    suffix: str
    form: str
    keys: tuple[str, ...] = ()
    no_keys: str = ""

    def owns(self, file: Path, name: str) -> bool:
        """Whether a kernel in a file with the suffix is of this kind; by default every one is. The first kind that
        says so is taken."""
        return True

    def is_kernel(self, function: Callable[..., Any]) -> bool:
        """Whether a Python object, in a spec that is built in Python, is a kernel of this kind; by default none
        is."""
        return False

    def find(self, reader: Reader, node: YamlNode, file: Path, name: str) -> FoundKernel | None:
        """The kernel that ``kernel:`` names; None, and a fault, if the file cannot have it.

        Args:
            name: what follows ``file:``; the schema has checked its form.
        """

    def options(self, reader: Reader, node: YamlMap) -> CompileOptions | None:
        """``compile:``, whose keys are known to be among :attr:`keys`; None, and a fault, if a value is wrong."""
