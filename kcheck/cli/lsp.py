"""``kcheck lsp``."""

from __future__ import annotations

from importlib.util import find_spec

import click

from kcheck.errors import UserError


@click.command("lsp")
@click.option(
    "--stdio", is_flag=True, help="Use stdin and stdout, which is the default. Some editors add this option."
)
def command(stdio: bool) -> None:
    """Start the language server: errors in specs as you type, failures when you save.

    \b
      kcheck lsp      as an editor starts it

    Your editor starts this command; docs/editor.md shows how to set it up. Speaks the Language Server Protocol on
    stdin and stdout. Requires the `lsp` extra: pip install 'kcheck[lsp]'.
    """
    if find_spec("pygls") is None:
        raise UserError("the language server needs pygls, which is not installed; pip install 'kcheck[lsp]'")
    from kcheck.lsp.server import serve

    serve()
