"""The known name that a mistyped one was meant to be."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import PurePath


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name most similar to ``name``, or None if none is close. ``n`` is close to ``N``."""
    by_folded: dict[str, str] = {}
    for candidate in known:
        by_folded.setdefault(candidate.casefold(), candidate)
    # difflib takes quadratic time, and no name that anyone meant is longer.
    near = difflib.get_close_matches(name[:64].casefold(), by_folded, n=1)
    return by_folded[near[0]] if near else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """``did you mean 'softmax'?``, or nothing."""
    near = nearest(name, known)
    return f"did you mean {near!r}?" if near else ""


def nearest_file(name: str, known: Iterable[str]) -> str | None:
    """The file most like ``name`` by the stem: suffixes are alike anyway. None if none is close.

    Of files with the same stem, the one with the suffix of ``name`` is meant.
    """
    wanted = PurePath(name)
    by_stem: dict[str, str] = {}
    for candidate in known:
        path = PurePath(candidate)
        if path.stem not in by_stem or path.suffix == wanted.suffix:
            by_stem[path.stem] = candidate
    near = nearest(wanted.stem, by_stem)
    return None if near is None else by_stem[near]
