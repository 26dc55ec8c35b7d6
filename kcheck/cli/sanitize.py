"""``--sanitize NAME[=LEVEL]`` of ``run`` and ``exec``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import click

from kcheck.model import LEVELS, SANITIZERS, Level, as_set
from kcheck.model.levels import of_all
from kcheck.nearest import did_you_mean

ALL = "all"


class Sanitize(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.2 only
    """``NAME`` or ``NAME=LEVEL`` as a pair; the default level is error.

    Args:
        names: the sanitizers of the command; ``all`` means every one of them.
        elsewhere: sanitizers that the command does not have, with the reason.
        apart: further sanitizers of the command, which ``all`` leaves as they are.
    """

    name = "sanitize"

    def __init__(
        self,
        names: Iterable[str] = SANITIZERS,
        elsewhere: dict[str, str] | None = None,
        apart: Iterable[str] = (),
    ) -> None:
        self._in_all = tuple(names)
        self.names = (*self._in_all, *apart)
        self._elsewhere = elsewhere or {}

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, Level]:
        """Read the pair; refuse an unknown name or level, and list the known ones."""
        if isinstance(value, tuple):
            return value
        name, _, level = str(value).partition("=")
        name, level = name.strip(), level.strip()
        if name in self._elsewhere:
            self.fail(f"{name}: {self._elsewhere[name]}", param, ctx)
        if name not in (*self.names, ALL):
            self.fail(f"unknown sanitizer {name!r}; {_choices(name, (*self.names, ALL))}", param, ctx)
        if "=" not in str(value):
            level = "error"
        if level not in LEVELS:
            self.fail(f"unknown level {level!r} for {name}; {_choices(level, LEVELS)}", param, ctx)
        return name, as_set(level) if "=" in str(value) else level

    def levels(self, chosen: Sequence[tuple[str, Level]]) -> dict[str, Level]:
        """Level by sanitizer, for those that were named; the last one on the command line wins."""
        found: dict[str, Level] = {}
        for name, level in chosen:
            found.update(dict.fromkeys(self._in_all, of_all(level)) if name == ALL else {name: level})
        return {name: found[name] for name in self.names if name in found}


def _choices(word: str, known: Sequence[str]) -> str:
    near = did_you_mean(word, known)
    listed = f"choose from {', '.join(known)}"
    return f"{near} {listed[0].upper()}{listed[1:]}" if near else listed
