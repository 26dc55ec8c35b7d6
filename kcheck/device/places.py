"""Finds the user's own line of code."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from dataclasses import replace
from types import TracebackType
from typing import Any

from kcheck.model import Finding, OpSpec, Span
from kcheck.model.watched import NearStore
from kcheck.span import as_typed, is_users

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_STANDARD = tuple(
    os.path.realpath(path) + os.sep for path in {os.path.dirname(os.__file__), sys.prefix, sys.base_prefix}
)


def user_place(frames: Iterable[tuple[str, int]], root: str) -> Span | None:
    """The innermost frame in the user's code: below the root, and neither in kcheck nor in a library.

    Args:
        frames: (file, line), innermost first.
    """
    base = os.path.realpath(root) + os.sep
    for file, line in frames:
        path = os.path.realpath(file)
        if not path.startswith(base) or path.startswith(_PACKAGE) or "site-packages" in path:
            continue
        if not os.path.exists(path):  # frozen, or the relative name of a library's compiled source
            continue
        if any(path.startswith(library) and not base.startswith(library) for library in _STANDARD):
            continue
        return Span(as_typed(path), line)
    return None


def error_place(error: BaseException, root: str) -> Span | None:
    """The innermost line of the user's code in the traceback of an exception, or of its causes."""
    seen: BaseException | None = error
    while seen is not None:
        place = user_place(reversed(traceback_frames(seen.__traceback__)), root)
        if place is not None:
            return place
        seen = seen.__cause__ or seen.__context__
    return None


def traceback_frames(traceback: TracebackType | None) -> list[tuple[str, int]]:
    """(file, line) of each frame, outermost first."""
    frames = []
    while traceback is not None:
        frames.append((traceback.tb_frame.f_code.co_filename, traceback.tb_lineno))
        traceback = traceback.tb_next
    return frames


def function_place(function: Any) -> Span | None:
    """Where a kernel or plain function is defined; None if that is unknown."""
    code = getattr(getattr(function, "py_func", function), "__code__", None)
    if code is None:
        return None
    return Span(as_typed(os.path.realpath(code.co_filename)), code.co_firstlineno)


def users_place(place: Span | None, spec: OpSpec) -> Span | None:
    """The user's line. If there is none, or it is in a library, the place of the function in the spec."""
    if place is not None and is_users(place.file):
        return replace(place, file=as_typed(place.file))
    function = spec.launcher or spec.kernel
    return None if function is None else function.span


def users_store(store: NearStore) -> NearStore:
    """A store with its line in the user's code, with paths as the user types them."""
    lines = [line for line in (store.place, *store.stack) if line is not None and is_users(line.file)]
    place = replace(lines[0], file=as_typed(lines[0].file)) if lines else None
    stack = tuple(replace(call, file=as_typed(call.file)) for call in store.stack)
    return replace(store, place=place, stack=stack if place in stack and len(stack) > 1 else ())


def users_stack(finding: Finding, place: Span | None) -> tuple[Span, ...]:
    """The chain of calls of a finding, with paths as the user types them. ``place`` ends it if the finding's own
    place is in a library."""
    calls = finding.stack or ((finding.place,) if finding.place is not None else ())
    typed = tuple(replace(call, file=as_typed(call.file)) for call in calls)
    whole = typed if place is None or place in typed else (*typed, place)
    return whole if len(whole) > 1 else ()


def one_line(error: BaseException) -> str:
    """An exception as one line of text: its type and message."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
