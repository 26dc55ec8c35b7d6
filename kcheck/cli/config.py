"""``kcheck config``."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kcheck.cli.params import CASES, JOBS_KIND, SECONDS
from kcheck.cli.sanitize import Sanitize
from kcheck.cli.settings import PROFILE, SANITIZE_VARIABLE, sanitize_variable
from kcheck.errors import UserError

if TYPE_CHECKING:
    from kcheck.specfile.project import Project, Settings

_DEVICES = click.Choice(["auto", "gpu", "cpu", "simulator"])
_VARIABLES: dict[str, Any] = {"device": _DEVICES, "jobs": JOBS_KIND, "cases": CASES, "timeout": SECONDS}
"""Settings with a KCHECK_* variable, and the type that checks its value."""

Row = tuple[str, Any, str]


@click.command("config")
@PROFILE
@click.option("--format", "format_", type=click.Choice(["text", "json"]), default="text", help="Output format.")
def command(profile: str, format_: str) -> None:
    """Show the project's settings and where each value comes from.

    \b
      kcheck config                       the settings of `kcheck run`
      kcheck config --profile nightly     those of `kcheck run --profile nightly`

    Settings are in kcheck.yaml in the project root, or in [tool.kcheck] of pyproject.toml. Precedence, highest
    first: the command line, KCHECK_* variables, the spec (cases and sanitize), the profile, the file, the default.
    """
    from kcheck.specfile.project import Project, project_of

    project = project_of() or Project(Path())
    settings = project.settings(profile)
    rows = list(_rows(settings))
    if format_ == "json":
        document = {
            "root": None if project.root == Path() else str(project.root),
            "file": project.file or None,
            "profile": profile or None,
            "profiles": list(project.profiles),
            "settings": {key: {"value": value, "from": source} for key, value, source in rows},
        }
        click.echo(json.dumps(document, indent=1))
        return
    for line in _text(project, profile, rows):
        click.echo(line)


def _rows(settings: Settings) -> Iterator[Row]:
    """(key, value, where it is from) of every setting, in the order of the documentation."""
    yield "specs", list(settings.specs), settings.source_of("specs")
    for key, kind in _VARIABLES.items():
        name = f"KCHECK_{key.upper()}"
        text = os.environ.get(name)
        if text:
            try:
                yield key, kind.convert(text, None, None), name
            except click.BadParameter as error:
                raise UserError(f"{name}: {error.message}") from None
        else:
            yield key, getattr(settings, key), settings.source_of(key)
    varied = sanitize_variable(Sanitize())
    for name, level in settings.sanitize.items():
        key = f"sanitize.{name}"
        if name in varied:
            yield key, varied[name], SANITIZE_VARIABLE
        else:
            yield key, level, settings.source_of(key)
    for name, limit in settings.regression.items():
        yield f"regression.{name}", str(limit), settings.source_of(f"regression.{name}")
    yield "targets", list(settings.targets), settings.source_of("targets")


def _text(project: Project, profile: str, rows: list[Row]) -> Iterator[str]:
    root = "none: no kcheck.yaml, pyproject.toml or .git here or above" if project.root == Path() else project.root
    yield f"project   {root}"
    yield f"file      {project.file or 'none: every setting has its default'}"
    yield f"profile   {profile or 'none'}   (available: {', '.join(project.profiles)})"
    yield ""
    shown = [("setting", "value", "from"), *((key, _shown(key, value), source) for key, value, source in rows)]
    widths = [max(len(row[column]) for row in shown) for column in (0, 1)]
    for key, value, source in shown:
        yield f"{key:<{widths[0]}}  {value:<{widths[1]}}  {source}".rstrip()


def _shown(key: str, value: Any) -> str:
    if key == "timeout":
        return "no limit" if value is None else f"{value:g} s"
    return ", ".join(value) if isinstance(value, list) else str(value)
