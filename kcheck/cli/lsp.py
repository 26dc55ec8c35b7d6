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
    """Serve an editor: errors in specs while you type, failures when you save.

    \b
      kcheck lsp      wait for an editor on stdin

    An editor starts this command; docs/editor.md shows how. It speaks the Language Server Protocol over stdin and
    stdout. Needs the extra lsp: pip install 'kcheck[lsp]'.
    """
    if find_spec("pygls") is None:
        raise UserError("the language server needs pygls, which is not installed; pip install 'kcheck[lsp]'")
    from kcheck.lsp.server import serve

    serve()
