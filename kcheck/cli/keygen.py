"""``kcheck keygen``."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("keygen")
@click.argument("file", metavar="[FILE]", default="kcheck.key", type=click.Path(path_type=Path, dir_okay=False))
def command(file: Path) -> None:
    """Generate a key pair for signing reports.

    \b
      kcheck keygen                 kcheck.key and kcheck.key.pub
      kcheck keygen ~/keys/me.key

    Writes the private key to FILE (default: kcheck.key). It is not encrypted: keep it out of git. Writes the
    public key, for `kcheck verify`, to FILE.pub. Both are PEM files that openssl can read. Requires the `sign`
    extra: pip install 'kcheck[sign]'.
    """
    from kcheck.cli.signing import make_keys

    public = file.with_name(file.name + ".pub")
    make_keys(file, public)
    click.echo(f"created {file}, the private key\ncreated {public}, the public key")
