"""Suggest the known name that is most similar to a mistyped one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import PurePath


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name most similar to ``name``, or None if none is close. ``n`` is close to ``N``."""
    by_folded: dict[str, str] = {}
    for candidate in known:
        by_folded.setdefault(candidate.casefold(), candidate)
    # difflib takes quadratic time, and no known name is longer.
    near = difflib.get_close_matches(name[:64].casefold(), by_folded, n=1)
    return by_folded[near[0]] if near else None


class Suggestion(str):
    """``did you mean 'softmax'?``; an editor can put ``name`` in the place of the wrong one."""

    name: str

    def __new__(cls, name: str) -> Suggestion:
        """The suggestion of a name."""
        made = super().__new__(cls, f"did you mean {name!r}?")
        made.name = name
        return made

    def __getnewargs__(self) -> tuple[str]:
        return (self.name,)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """``did you mean 'softmax'?``, or nothing."""
    near = nearest(name, known)
    return Suggestion(near) if near else ""


def nearest_file(name: str, known: Iterable[str]) -> str | None:
    """The file whose stem is most similar to ``name``'s, because suffixes are similar anyway. None if none is
    close.

    Among files with the same stem, prefers the one with the suffix of ``name``.
    """
    wanted = PurePath(name)
    by_stem: dict[str, str] = {}
    for candidate in known:
        path = PurePath(candidate)
        if path.stem not in by_stem or path.suffix == wanted.suffix:
            by_stem[path.stem] = candidate
    near = nearest(wanted.stem, by_stem)
    return None if near is None else by_stem[near]
