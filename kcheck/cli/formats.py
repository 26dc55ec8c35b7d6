"""``--format`` and ``-o``, of commands that write reports."""

from __future__ import annotations

import click

from kcheck.report import REPORTERS

FORMATS = click.option(
    "--format",
    "formats",
    type=click.Choice(list(REPORTERS)),
    multiple=True,
    help="Format of the report. Repeatable; each can have its own -o.",
)
FILES = click.option(
    "-o",
    "--output",
    "files",
    multiple=True,
    metavar="FILE",
    help="Output file of the preceding --format (default: stdout).",
)
