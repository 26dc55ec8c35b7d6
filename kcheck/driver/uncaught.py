"""What a program under ``kcheck exec`` prints when an exception ends it: the user's frames, and kcheck's
explanation if Numba's own would point into Numba's files.
"""

from __future__ import annotations

import ast
import linecache
import os
import re
import sys
import traceback
import warnings
from collections.abc import Callable
from types import TracebackType
from typing import TextIO

from kcheck.driver.compile_errors import explain, is_compiler_error
from kcheck.driver.finding_log import FindingLog, told
from kcheck.model import Finding, Span
from kcheck.span import as_typed, is_users

_ADVICE = r"Grid size \d+ will likely result in|Host array used in CUDA kernel will incur"
"""How numba-cuda's warnings about speed on a GPU begin."""
_KCHECK = __file__.rpartition("driver")[0]
_NOT_A_KERNEL = "'CPUDispatcher' object is not subscriptable"


def ignore_advice() -> None:
    """Ignore numba-cuda's warnings about speed on a GPU, unless the user's filters say otherwise."""
    warnings.filterwarnings("ignore", message=_ADVICE, append=True)


def explain_uncaught(log: FindingLog, stream: TextIO) -> None:
    """Change how an exception that ends the program is printed, if a compiler or the device raised it.

    Args:
        log: what this process has reported.
        stream: where to print.
    """
    plain: Callable[..., object] = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        lines = _explained(error, trace, log.is_empty)
        if lines is None:
            plain(kind, error, trace)
        else:
            print("\n".join(lines), file=stream, flush=True)

    sys.excepthook = hook


def _explained(error: BaseException, trace: TracebackType | None, is_first: bool) -> list[str] | None:
    """The lines to print for an exception; None if Python's own traceback is as good.

    Args:
        is_first: nothing was reported before it.
    """
    frames = traceback.extract_tb(trace)
    users = [frame for frame in frames if _is_of_user(frame.filename)]
    if not users:
        return None
    if is_compiler_error(error):
        why = explain(error)
        reason = told(Finding("compile", why.what, place=why.place, fix=why.fix))
    elif frames[-1] is users[-1] and isinstance(error, TypeError) and str(error) == _NOT_A_KERNEL:
        name = _subscripted(users[-1])
        message = f"{name} is compiled for the CPU by @njit"
        place = Span(as_typed(users[-1].filename), users[-1].lineno or 1)
        reason = told(Finding("launch", message, place=place, fix="decorate it with @cuda.jit"))
    elif not is_first and (result := re.search(r"\bCUDA_ERROR_\w+", str(error))) is not None:
        reason = [f"{type(error).__name__}: {result[0]}: see the finding above"]
    else:
        return None
    shown = "".join(traceback.format_list(users)).rstrip("\n")
    return ["Traceback (most recent call last):", shown, *reason]


def _is_of_user(file: str) -> bool:
    """Whether a frame is in the user's program; frames of Cython libraries name files that do not exist."""
    return is_users(file) and os.path.exists(file) and not file.startswith(_KCHECK)


def _subscripted(frame: traceback.FrameSummary) -> str:
    """The name of the function that a line launches: ``f`` in ``f[grid, block](x)``; a phrase if it is unclear."""
    text = linecache.getline(frame.filename, frame.lineno or 0).strip()
    try:
        found = [n.value for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Subscript)]
    except SyntaxError:  # the line is part of a longer statement
        found = []
    names = [ast.unparse(value) for value in found if isinstance(value, ast.Name | ast.Attribute)]
    return names[0] if len(names) == 1 else "the function that is launched"
