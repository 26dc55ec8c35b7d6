"""``kcheck schema``."""

from __future__ import annotations

import click


@click.command("schema")
@click.argument("which", type=click.Choice(["op-spec", "report"]), default="op-spec")
def command(which: str) -> None:
    """Print the JSON Schema of op specs, or of `kcheck run --format json`.

    Editors complete and check specs with it:

    \b
      kcheck schema > op-spec.schema.json
      # yaml-language-server: $schema=op-spec.schema.json      (first line of a spec)
    """
    if which == "op-spec":
        from kcheck.specfile import schema_text
    else:
        from kcheck.report.schema import schema_text
    click.echo(schema_text(), nl=False)
