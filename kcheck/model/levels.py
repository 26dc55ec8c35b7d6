"""The level of a sanitizer: whether what it finds fails a case."""

from __future__ import annotations

from collections.abc import Mapping
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


def is_as_strict(level: Level, as_level: Level) -> bool:
    """Whether whatever fails at ``as_level`` fails at ``level`` too."""
    return _strictness(level) >= _strictness(as_level)


def strictest(levels: Mapping[str, Level], others: Mapping[str, Level]) -> dict[str, Level]:
    """For each sanitizer of ``levels`` the stricter of two levels; ``others`` may lack some."""
    return {
        name: level if is_as_strict(level, others.get(name, "off")) else others[name]
        for name, level in levels.items()
    }


def _strictness(level: Level) -> int:
    return 3 if isinstance(level, Strict) else ("off", "warn", "error").index(level)
