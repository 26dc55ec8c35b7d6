"""Project settings on the command line: ``--profile``, the KCHECK_* variables, and which value wins.

The order is: the command line, KCHECK_* variables, the spec, the profile, the file, the default. A spec's part is
merged where the spec is read (``kcheck.specfile``); the others are merged here.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from kcheck.cli.sanitize import Sanitize
from kcheck.errors import UserError
from kcheck.model import Level

if TYPE_CHECKING:
    from kcheck.specfile.project import Settings

PROFILE = click.option(
    "--profile",
    metavar="NAME",
    default="",
    envvar="KCHECK_PROFILE",
    show_envvar=True,
    help="Profile to use: quick, ci, nightly, or one from kcheck.yaml.",
)
SANITIZE_VARIABLE = "KCHECK_SANITIZE"


def settings_for(paths: Sequence[Path], profile: str = "") -> Settings:
    """The settings of the project of the first path, or of the current folder; the defaults outside a project.

    Raises:
        UserError: there is no such profile, or the settings are wrong.
    """
    from kcheck.specfile.project import Project, project_of

    project = project_of(next((path for path in paths if path.exists()), None)) or Project(Path())
    return project.settings(profile)


def given(name: str, otherwise: Any) -> Any:
    """The value of an option if the command line or a KCHECK_* variable sets it, otherwise ``otherwise``."""
    ctx = click.get_current_context()
    source = ctx.get_parameter_source(name)
    is_given = source in (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT)
    return ctx.params[name] if is_given else otherwise


def on_command_line(name: str) -> bool:
    """Whether the command line itself sets an option."""
    return click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE


def sanitize_levels(kind: Sanitize, chosen: Sequence[tuple[str, Level]]) -> dict[str, Level]:
    """Levels by sanitizer: ``--sanitize`` comes before KCHECK_SANITIZE, which is like ``all,racecheck=warn``.

    Raises:
        UserError: the variable holds something else.
    """
    levels = kind.levels(chosen)
    return {**sanitize_variable(kind), **levels}


def sanitize_variable(kind: Sanitize) -> dict[str, Level]:
    """The levels that KCHECK_SANITIZE sets."""
    words = [word for word in os.environ.get(SANITIZE_VARIABLE, "").split(",") if word.strip()]
    try:
        return kind.levels([kind.convert(word, None, None) for word in words])
    except click.BadParameter as error:
        raise UserError(f"{SANITIZE_VARIABLE}: {error.message}") from None
