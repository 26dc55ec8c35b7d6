"""``kcheck schema``."""

from __future__ import annotations

import click


@click.command("schema")
@click.argument("which", type=click.Choice(["op-spec", "config", "report"]), default="op-spec")
def command(which: str) -> None:
    """Print the JSON Schema of op specs, of kcheck.yaml (config), or of JSON reports.

    \b
      kcheck schema > op-spec.schema.json
      kcheck schema config > kcheck.schema.json

    Editors use it to complete and check files. For the YAML language server, start a spec with:

    \b
    # yaml-language-server: $schema=op-spec.schema.json
    """
    if which == "report":
        from kcheck.report.schema import schema_text as report_schema_text

        click.echo(report_schema_text(), nl=False)
        return
    from kcheck.specfile.schema_files import schema_text

    click.echo(schema_text(f"{which}.schema.json"), nl=False)
