"""``kcheck schema``."""

from __future__ import annotations

import click


@click.command("schema")
@click.argument("which", type=click.Choice(["op-spec", "config", "report"]), default="op-spec")
def command(which: str) -> None:
    """Print a JSON Schema: of op specs, of kcheck.yaml (config), or of `kcheck run --format json` (report).

    Editors use it to complete and check files:

    \b
      kcheck schema > op-spec.schema.json
      # yaml-language-server: $schema=op-spec.schema.json      (first line of a spec)
    """
    if which == "report":
        from kcheck.report.schema import schema_text as report_schema_text

        click.echo(report_schema_text(), nl=False)
        return
    from kcheck.specfile.schema import schema_text

    click.echo(schema_text(f"{which}.schema.json"), nl=False)
