"""The level of a sanitizer: whether what it finds fails a case."""

from __future__ import annotations

from typing import Literal, TypeAlias, cast

Level: TypeAlias = Literal["error", "warn", "off"]
LEVELS: tuple[Level, ...] = ("error", "warn", "off")


class Strict(str):
    """The level ``error`` where a spec, a project or the command line sets it, as opposed to the default.

    It equals ``"error"``. Findings that are warnings by default (``Finding.lenient``) are errors at this level.
    """

    __slots__ = ()


STRICT = cast(Level, Strict("error"))


def as_set(level: Level) -> Level:
    """A level that somebody set: STRICT for ``error``."""
    return STRICT if level == "error" else level


def level_word(name: str, level: Level) -> str:
    """The level of a sanitizer as ``--sanitize`` reads it."""
    return name if level == "error" and not isinstance(level, Strict) else f"{name}={level}"
