"""``@kcheck.op``: a spec next to its kernel.

The decorator returns the function unchanged and records its arguments; nothing is checked when the file is
imported. The command line reads the arguments from the text of the file (``kcheck.specfile.declared``).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from kcheck.dataclass import dataclass

F = TypeVar("F")


@dataclass(frozen=True, eq=False, slots=True)
class Declaration:
    """The arguments of a decorator.

    Attributes:
        function: the decorated function.
        op: the name of the op; empty: the name of the function.
        keys: the keys of the spec, as Python values.
        file, line: the place of the decorator.
    """

    function: object
    op: str
    keys: Mapping[str, Any]
    file: str
    line: int


_declared: dict[int, Declaration] = {}  # by the id of the function, which the declaration keeps alive


def op(name: str = "", /, **keys: Any) -> Callable[[F], F]:
    """Declare the spec of a kernel or an array function beside it. The function is returned unchanged.

    ``kcheck run kernels/softmax.py`` runs the specs that a file declares. It reads the arguments from the text of
    the file, so they must be literals, constants of the file, dtypes, and names of functions of the file;
    ``kcheck.check(softmax)`` takes any values. docs/python.md has a kernel; a function looks like this:

    >>> import kcheck
    >>> import numpy as np
    >>> def reference(x):
    ...     return np.maximum(x, 0)
    >>> @kcheck.op(dims={"N": range(1, 65)}, inputs={"x": ["N"]}, outputs={"y": ["N"]}, reference=reference)
    ... def relu(x):
    ...     return np.abs(x)
    >>> kcheck.check(relu, cases=5).ok
    False

    Args:
        name: the name of the op; default: the name of the function.
        keys: the other keys of a spec (docs/spec.md). ``kernel`` and ``function`` are not allowed: the decorated
            function is the kernel if ``@cuda.jit`` of Numba or ``@triton.jit`` compiles it or if ``launch`` or
            ``launcher`` is given, otherwise it is the array function.
    """
    frame = sys._getframe(1)
    file, line = frame.f_code.co_filename, frame.f_lineno

    def declare(function: F) -> F:
        _declared[id(function)] = Declaration(function, name, keys, file, line)
        return function

    return declare


def declaration_of(function: object) -> Declaration | None:
    """Return the declaration of a function,
    or of the Python function that it was compiled from; None without one."""
    while function is not None:
        found = _declared.get(id(function))
        if found is not None:
            return found
        inner = getattr(function, "py_func", None) or getattr(function, "fn", None)
        function = inner if inner is not function else None
    return None
