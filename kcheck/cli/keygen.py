"""``kcheck keygen``."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("keygen")
@click.argument("file", metavar="[FILE]", default="kcheck.key", type=click.Path(path_type=Path, dir_okay=False))
def command(file: Path) -> None:
    """Make a pair of keys to sign reports with.

    \b
      kcheck keygen                 kcheck.key and kcheck.key.pub
      kcheck keygen ~/keys/me.key

    FILE gets the private key, which is not encrypted: keep it out of git. FILE.pub gets the public key, for
    `kcheck verify`. Both are PEM files that openssl can read. Needs the extra sign: pip install 'kcheck[sign]'.
    """
    from kcheck.cli.signing import make_keys

    public = file.with_name(file.name + ".pub")
    make_keys(file, public)
    click.echo(f"created {file}, the private key\ncreated {public}, the public key")
