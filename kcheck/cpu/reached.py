"""The tables in which compiled code records what launches reach."""

from __future__ import annotations

import ctypes
from functools import lru_cache
from hashlib import blake2b
from typing import Any

from kcheck.model.coverage import Reached
from kcheck.ptx.program import Program


def new_table(program: Program) -> Any:
    """A byte for each point of a program. Zero means not reached."""
    return (ctypes.c_uint8 * max(len(program.points), 1))()


class ReachedCode:
    """What launches have reached since the last :meth:`take`, in a table for each program."""

    def __init__(self) -> None:
        self._tables: dict[int, tuple[Program, str, Any]] = {}

    def table(self, program: Program, text: str) -> Any:
        """The table for a launch of a program. The launch must end before the next :meth:`take`.

        Args:
            text: the PTX of its module.
        """
        if id(program) not in self._tables:
            self._tables[id(program)] = program, text, new_table(program)
        return self._tables[id(program)][2]

    def take(self) -> tuple[Reached, ...]:
        """What was reached since the last call."""
        tables, self._tables = self._tables, {}
        return tuple(
            Reached(f"{program.entry} {_digest(text)}", program.points, bytes(table))
            for program, text, table in tables.values()
        )


@lru_cache(256)
def _digest(text: str) -> str:
    """A digest that is the same in every process, because workers and shards report on the same code."""
    return blake2b(text.encode(), digest_size=16).hexdigest()
