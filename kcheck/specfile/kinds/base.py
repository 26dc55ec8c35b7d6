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
        required, optional: the names of the parameters without and with a default.
        most: the maximum number of arguments; None: any number.
        pointers, numbers: the parameters that accept only an array, and those that accept only a number, as far as
            the text shows it.
    """

    required: tuple[str, ...]
    optional: tuple[str, ...] = ()
    most: int | None = None
    pointers: frozenset[str] = frozenset()
    numbers: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class FoundKernel:
    """A kernel, as the text of its file shows it.

    Attributes:
        name: its name for the compiler, without template arguments.
        arguments: the template arguments, as written in the spec.
        parameters: None if the text does not show them.
    """

    name: str
    arguments: str = ""
    parameters: Parameters | None = None


class Kind(Protocol):
    """One kind of kernel. Nothing here imports or compiles the user's code.

    Attributes:
        title: its name in messages: ``CUDA C++``.
        suffix: the suffix of its files, with the dot.
        form: how a spec names a kernel: ``file.cu:name``.
        keys: the keys that ``compile:`` may have.
        no_keys: the fix for other keys, if they are set elsewhere.
    """

    title: str
    suffix: str
    form: str
    keys: tuple[str, ...] = ()
    no_keys: str = ""

    def owns(self, file: Path, name: str) -> bool:
        """Whether a kernel in a file with the suffix is of this kind; by default, every one is.
        The first kind that returns True is used."""
        return True

    def is_kernel(self, function: Callable[..., Any]) -> bool:
        """Whether a Python object, in a spec that is built in Python,
        is a kernel of this kind; by default, False."""
        return False

    def find(self, reader: Reader, node: YamlNode, file: Path, name: str) -> FoundKernel | None:
        """The kernel that ``kernel:`` names; None, after a fault, if the file cannot define it.

        Args:
            name: the text after ``file:``; the schema has checked its form.
        """

    def options(self, reader: Reader, node: YamlMap) -> CompileOptions | None:
        """The options in ``compile:``, whose keys are all in :attr:`keys`;
        None, after a fault, if a value is invalid."""
