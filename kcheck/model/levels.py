"""The level of a sanitizer, which decides whether its findings make a case fail."""

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
    """A level that was set explicitly: STRICT for ``error``."""
    return STRICT if level == "error" else level


def level_word(name: str, level: Level) -> str:
    """The level of a sanitizer in the syntax of ``--sanitize``."""
    return name if level == "error" and not isinstance(level, Strict) else f"{name}={level}"


def is_as_strict(level: Level, as_level: Level) -> bool:
    """Whether ``level`` is at least as strict: everything that fails at ``as_level`` also fails at ``level``."""
    return _strictness(level) >= _strictness(as_level)


def strictest(levels: Mapping[str, Level], others: Mapping[str, Level]) -> dict[str, Level]:
    """The stricter of both levels for each sanitizer in ``levels``; ``others`` may lack some."""
    return {
        name: level if is_as_strict(level, others.get(name, "off")) else others[name]
        for name, level in levels.items()
    }


def _strictness(level: Level) -> int:
    return 3 if isinstance(level, Strict) else ("off", "warn", "error").index(level)
