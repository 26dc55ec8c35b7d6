"""What the commands over the store have in common: which project, how a table is laid out."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click

from kcheck.report import layout, plain
from kcheck.report.detail import Row
from kcheck.report.wording import moment as moment

_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


class Since(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.2 only
    """A moment: ``2026-11-20``, ``2026-11-20T14:30``, or how long ago: ``30m``, ``12h``, ``3d``, ``2w``."""

    name = "since"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """Reads the moment; without a time zone, that of this machine."""
        if isinstance(value, datetime):
            return value
        text = str(value).strip()
        ago = re.fullmatch(r"(\d{1,6})([mhdw])", text)
        try:
            if ago is not None:
                return datetime.now(UTC) - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
            return datetime.fromisoformat(text).astimezone(UTC)
        except (ValueError, OverflowError):
            self.fail(f"{text!r} is no moment; write 2026-11-20, 2026-11-20T14:30, 30m, 12h, 3d or 2w", param, ctx)


SINCE = Since()


def here() -> Path:
    """The root of the project that the current folder is in.

    Raises:
        click.UsageError: it is in none.
    """
    from kcheck.specfile.paths import ROOT_MARKERS, nearest_root

    root = nearest_root(Path())
    if root is None:
        raise click.UsageError(
            f"this folder is in no project: none above it holds {', '.join(ROOT_MARKERS)}; go to yours, or put an "
            f"empty {ROOT_MARKERS[0]} into its root"
        )
    return root


def width() -> int:
    """Columns that text is laid out for."""
    return max(40, shutil.get_terminal_size((80, 24)).columns)


def reproduce_line(seed: int, op: str) -> str:
    """The command line that runs a stored case again."""
    return shlex.join(["kcheck", "reproduce", str(seed), "--op", op])


def say(text: str = "", *, bold: bool = False) -> None:
    """A line on stdout that any terminal can show."""
    text = layout.encodable(text, sys.stdout.encoding)
    click.echo(click.style(text, bold=True) if bold else text)


def say_title(*parts: str) -> None:
    """What the lines below are about; broken between its parts where it is too long."""
    for number, line in enumerate(layout.wrap(map(plain.line, parts), " · ", width())):
        say(("  " if number else "") + line, bold=True)


def say_rows(rows: Iterable[Row], indent: int = 2) -> None:
    """Labeled rows, as in the report of a run."""
    for row in rows:
        for left, text in layout.labeled(row, indent, width()):
            say((left + text).rstrip())


def say_table(rows: Sequence[Sequence[str]], *, right: Sequence[int] = (), indent: int = 0) -> None:
    """Columns as wide as their widest entry; the last one is cut at the terminal's edge.

    Args:
        rows: the head first.
        right: the columns of numbers, aligned to the right.
    """
    for line in layout.table([[plain.line(cell) for cell in row] for row in rows], width() - indent, right):
        say(" " * indent + line)
