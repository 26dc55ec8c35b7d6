"""``kcheck completion``."""

from __future__ import annotations

import click

from kcheck.cli.help import COMPLETION

_INSTALL = {
    "bash": 'eval "$(kcheck completion bash)"      # in ~/.bashrc',
    "zsh": 'eval "$(kcheck completion zsh)"       # in ~/.zshrc, after compinit',
    "fish": "kcheck completion fish | source       # in ~/.config/fish/config.fish",
}


@click.command("completion")
@click.argument("shell", required=False, type=click.Choice(list(_INSTALL)))
@click.pass_context
def command(ctx: click.Context, shell: str | None) -> None:
    """Print the shell completion script, or explain how to install it.

    \b
      kcheck completion          how to install it
      kcheck completion bash     the script for bash

    Completes commands, options, specs, ops, seeds of open failures, baselines, profiles and sanitizers.
    """
    if shell is None:
        click.echo("To install completion, add the line of your shell to its startup file:\n")
        for name, line in _INSTALL.items():
            click.echo(f"  {name:<5} {line}")
        return
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None  # click has all three
    group = ctx.find_root().command
    click.echo(kind(group, {}, "kcheck", COMPLETION).source())
