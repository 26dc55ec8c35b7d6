"""``kcheck doctor``."""

from __future__ import annotations

import os
import shutil
import textwrap
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kcheck.cli.exits import Exit
from kcheck.errors import KcheckError

if TYPE_CHECKING:
    from kcheck.cli.checkup import CheckupLine


@click.command("doctor")
def command() -> int:
    """Check the installation: versions, devices, caches, project.

    \b
      kcheck doctor

    Every warning and error comes with a fix. Exits with 0 if kcheck can run here, and with 2 if it cannot.
    """
    from kcheck.cli import checkup

    sections: tuple[tuple[str, Callable[[], Iterable[CheckupLine]]], ...] = (
        ("Versions", checkup.versions),
        ("Devices", lambda: checkup.devices(_device())),
        ("Machine", lambda: (*checkup.processor(), *checkup.caches(os.environ))),
        ("Project", checkup.project),
    )
    width = max(40, shutil.get_terminal_size((80, 24)).columns)
    counts = {"warn": 0, "error": 0}
    for title, lines in sections:
        click.echo(title)
        for line in lines():
            for text in _rows(line, width):
                click.echo(text)
            if line.status != "ok":
                counts[line.status] += 1
        click.echo()
    problems = [f"{count} {word}{'' if count == 1 else 's'}" for word, count in _words(counts) if count]
    click.echo(", ".join(problems) if problems else "no problems")
    return Exit.USAGE if counts["error"] else Exit.GOOD


def _words(counts: dict[str, int]) -> Iterator[tuple[str, int]]:
    yield "error", counts["error"]
    yield "warning", counts["warn"]


def _device() -> str:
    """The device in the settings; ``auto`` if they cannot be read,
    which :func:`kcheck.cli.checkup.project` reports."""
    from kcheck.specfile.project import Project, project_of

    try:
        settings = (project_of() or Project(Path())).settings(os.environ.get("KCHECK_PROFILE", ""))
    except KcheckError:
        return "auto"
    return os.environ.get("KCHECK_DEVICE") or settings.device


_NAME = 16
_WIDE = 60
"""On a narrower terminal, values continue below the names."""


def _rows(line: CheckupLine, width: int) -> Iterator[str]:
    mark = {"ok": "ok", "warn": "warning", "error": "error"}[line.status]
    head = f"  {mark:<7}  {line.name:<{_NAME}} "
    indent = " " * (len(head) if width >= _WIDE else 11)
    yield from textwrap.wrap(
        line.value, width, initial_indent=head, subsequent_indent=indent, break_on_hyphens=False
    )
    if line.fix:
        yield from textwrap.wrap(
            line.fix, width, initial_indent=f"{indent}→ ", subsequent_indent=f"{indent}  ", break_on_hyphens=False
        )
