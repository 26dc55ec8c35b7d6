"""Finds calls of kernels with one explicit signature whose arguments have other types.

Numba does not check the arguments of such a kernel: it would read a float32 array as float64, past its end.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any


class SignatureMismatch(TypeError):
    """A launch whose arguments do not match the kernel's only signature.

    Attributes:
        function: the kernel's Python function.
        message, fix: what is wrong, and how to fix it.
    """

    def __init__(self, function: Any, message: str, fix: str) -> None:
        super().__init__(f"{function.__name__} is {message}; {fix}")
        self.function, self.message, self.fix = function, message, fix


def check_signature(dispatcher: Any, args: Sequence[Any]) -> None:
    """Compare the arguments of a launch with the kernel's explicit signature, if it has just one.

    Raises:
        SignatureMismatch: an argument is of another dtype, number of dimensions or layout.
    """
    if dispatcher._can_compile or not dispatcher.specialized or dispatcher.extensions:
        return
    (expected,) = dispatcher.overloads
    if len(expected) != len(args):
        return  # Numba rejects the launch
    names = dispatcher.py_func.__code__.co_varnames
    wrong = []
    for name, kind, value in zip(names, expected, args, strict=False):
        try:
            actual = dispatcher.typeof_pyval(value)
        except (TypeError, ValueError):  # Numba reports an argument without a type
            return
        if (found := _differ(kind, actual)) is not None:
            wrong.append((name, *found))
    if wrong:
        name, wanted, given = wrong[0]
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        raise SignatureMismatch(
            dispatcher.py_func,
            f"compiled for {wanted}, called with {given}: argument {name}{more}",
            f"pass {wanted}, or remove the signature from @cuda.jit",
        )


def patch_dispatcher(module: Any) -> None:
    """Change ``numba.cuda.dispatcher``: check the arguments before a launch."""
    plain = module.CUDADispatcher.call

    @functools.wraps(plain)
    def call(dispatcher: Any, args: Any, launch_config: Any) -> Any:
        check_signature(dispatcher, args)
        return plain(dispatcher, args, launch_config)

    module.CUDADispatcher.call = call


def _differ(expected: Any, actual: Any) -> tuple[str, str] | None:
    """The two types as signatures write them; None if the actual type can be passed as the expected one."""
    arrays = [all(hasattr(kind, name) for name in ("dtype", "ndim", "layout")) for kind in (expected, actual)]
    if arrays == [False, False]:
        return None  # numbers are converted
    if arrays != [True, True]:
        return _told(expected, arrays[0]), _told(actual, arrays[1])
    if (_bits_of(expected.dtype), expected.ndim) != (_bits_of(actual.dtype), actual.ndim):
        return _told(expected, True), _told(actual, True)
    if expected.layout not in ("A", actual.layout):
        return _told(expected, True, layout=True), _told(actual, True, layout=True)
    return None


def _bits_of(dtype: Any) -> str:
    """A dtype without its signedness: programs, such as numba-cuda's own tests, pass int32 for uint32."""
    name = str(dtype)
    return name[1:] if name.startswith("uint") else name


def _told(kind: Any, is_array: bool, *, layout: bool = False) -> str:
    """``float32[:, :]``; with its layout ``float32[:, ::1]``."""
    if not is_array:
        return str(kind)
    axes = [":"] * kind.ndim
    if layout and kind.layout in ("C", "F") and axes:
        axes[-1 if kind.layout == "C" else 0] = "::1"
    return f"{kind.dtype}[{', '.join(axes)}]"
