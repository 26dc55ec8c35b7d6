"""``kcheck spec``: print."""

from __future__ import annotations

from pathlib import Path

import click

from kcheck.cli.exits import Exit


@click.group("spec")
def command() -> None:
    """Print the YAML of specs that are declared in Python with @kcheck.op.

    \b
      kcheck spec print kernels/softmax.py
    """


@command.command("print")
@click.argument("path", metavar="SPEC", type=click.Path(path_type=Path))
def print_(path: Path) -> int:
    """Print the YAML of a declared spec.

    \b
      kcheck spec print kernels/softmax.py
      kcheck spec print kernels/softmax.py::softmax > specs/softmax.yaml

    The YAML spec has the same cases and seeds. Name the op if the file declares several. If SPEC is a YAML file,
    prints it with the keys that it inherits by `extends`. Does not import your code.
    """
    from kcheck.specfile import load_spec
    from kcheck.specfile.declared import read_spec
    from kcheck.specfile.emit import as_yaml
    from kcheck.specfile.extends import extended
    from kcheck.specfile.paths import find_root

    load_spec(path)  # reports every error
    root = find_root(path)
    tree, _ = extended(path, read_spec(path)[0], root)
    click.echo(as_yaml(tree), nl=False)
    return Exit.GOOD
