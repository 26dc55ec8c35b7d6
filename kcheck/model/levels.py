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


class Mild(str):
    """The level ``warn`` as a default, as opposed to one that a spec, a project or the command line sets.

    It equals ``"warn"``. Findings of something that has certainly gone wrong (``Finding.certain``) are errors.
    """

    __slots__ = ()


class OfAll(str):
    """A level that ``all`` sets. It does not replace an ``off`` of a spec."""

    __slots__ = ()


class StrictOfAll(Strict, OfAll):
    """``all=error``."""

    __slots__ = ()


STRICT = cast(Level, Strict("error"))
MILD = cast(Level, Mild("warn"))


def as_set(level: Level) -> Level:
    """A level that was set explicitly: STRICT for ``error``."""
    return STRICT if level == "error" else level


def of_all(level: Level) -> Level:
    """The same level, as set by ``all``."""
    return cast(Level, (StrictOfAll if isinstance(level, Strict) else OfAll)(level))


def overridden(own: Mapping[str, Level], given: Mapping[str, Level]) -> dict[str, Level]:
    """The levels of a spec, replaced by those of the command line.

    A spec switches a sanitizer off for a reason, so only its own name switches it on again; ``all`` does not.
    """
    stays = {name for name, level in given.items() if _is_of_all(level) and own.get(name) == "off"}
    return {**own, **{name: level for name, level in given.items() if name not in stays}}


def level_words(levels: Mapping[str, Level]) -> tuple[str, ...]:
    """The shortest arguments of ``--sanitize`` that set these levels, in order."""
    every = [level for level in levels.values() if _is_of_all(level)][:1]
    rest = [level_word(name, level) for name, level in levels.items() if not _is_of_all(level)]
    return (*(level_word("all", level) for level in every), *rest)


def _is_of_all(level: Level) -> bool:
    return isinstance(level, OfAll)


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
