"""What the commands on the store share: the project, moments in time, tables."""

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

from kcheck.report import TrendPoint, layout, plain
from kcheck.report.detail import DetailRow
from kcheck.report.wording import moment as moment

_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


class Since(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.2 only
    """A moment: ``2026-11-20`` or ``2026-11-20T14:30``, or an age: ``30m``, ``12h``, ``3d``, ``2w``."""

    name = "since"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """Reads the moment; a time without a zone is local time."""
        if isinstance(value, datetime):
            return value
        text = str(value).strip()
        ago = re.fullmatch(r"(\d{1,6})([mhdw])", text)
        try:
            if ago is not None:
                return datetime.now(UTC) - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
            return datetime.fromisoformat(text).astimezone(UTC)
        except (ValueError, OverflowError):
            self.fail(
                f"{text!r} is not a date or an age; write 2026-11-20, 2026-11-20T14:30, 30m, 12h, 3d or 2w",
                param,
                ctx,
            )


SINCE = Since()


def trend(most: int = 30, until: datetime | None = None) -> list[TrendPoint]:
    """The newest stored runs of the project of the current folder, the oldest first.

    Args:
        until: leave out runs that started later.
    """
    from kcheck.specfile.paths import nearest_root
    from kcheck.store import Store

    root = nearest_root(Path())
    if root is None:
        return []
    with Store.open(root) as store:
        runs = [run for run in store.runs(-1 if until else most) if until is None or run.started <= until]
    return [(run.started, run.passed, run.failed + run.errors) for run in reversed(runs[:most])]


def here() -> Path:
    """The root of the project that contains the current folder.

    Raises:
        click.UsageError: no project contains it.
    """
    from kcheck.specfile.paths import NO_PROJECT, nearest_root

    root = nearest_root(Path())
    if root is None:
        raise click.UsageError(f"{NO_PROJECT}; change to your project, or create an empty kcheck.yaml in its root")
    return root


def width() -> int:
    """Columns of the terminal, at least 40."""
    return max(40, shutil.get_terminal_size((80, 24)).columns)


def day_or_time(at: datetime) -> str:
    """The local time if it was today, else the day."""
    local = at.astimezone()
    return local.strftime("%H:%M" if local.date() == datetime.now().astimezone().date() else "%Y-%m-%d")


def reproduce_line(seed: int, op: str) -> str:
    """The command line that runs a stored case again."""
    return shlex.join(["kcheck", "reproduce", str(seed), "--op", op])


def say(text: str = "", *, bold: bool = False) -> None:
    """Print a line, without characters that the terminal cannot show."""
    text = layout.encodable(text, sys.stdout.encoding)
    click.echo(click.style(text, bold=True) if bold else text)


def say_title(*parts: str) -> None:
    """Print a title; a long one breaks between its parts."""
    for number, line in enumerate(layout.wrap(map(plain.line, parts), " · ", width())):
        say(("  " if number else "") + line, bold=True)


def say_rows(rows: Iterable[DetailRow], indent: int = 2) -> None:
    """Print labeled rows, as the report of a run does."""
    for row in rows:
        for left, text in layout.labeled(row, indent, width()):
            say((left + text).rstrip())


def say_table(
    rows: Sequence[Sequence[str]], *, right: Sequence[int] = (), indent: int = 0, wrapped: bool = False
) -> None:
    """Print columns as wide as their widest entry. The last column is cut at the edge of the terminal, or wrapped.

    Args:
        rows: the head, then the rows.
        right: columns that are aligned right.
    """
    for line in layout.table(
        [[plain.line(cell) for cell in row] for row in rows], width() - indent, right, wrapped=wrapped
    ):
        say(" " * indent + line)
