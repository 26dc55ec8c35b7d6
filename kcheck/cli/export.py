"""``kcheck export``."""

from __future__ import annotations

import io
import os
import shlex
from pathlib import Path

import click

from kcheck.cli.exits import Exit
from kcheck.cli.params import CASE_SEED, OP, SEED


@click.command("export")
@click.argument("what", metavar="SEED", type=SEED, required=False)
@CASE_SEED
@OP
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Left out: OP-SEED.kcase.",
)
def command(what: int | None, *, seed: int | None, op: str, output: Path | None) -> int:
    """Write a case to a file that `kcheck reproduce FILE` runs anywhere, with the same inputs.

    \b
      kcheck export 17447113406779214469 --op softmax -o bug.kcase

    The file holds inputs, sizes, dtypes, layouts and the result of the case; no code. A case that is not stored is
    made from its seed.
    """
    from kcheck import __version__
    from kcheck.cases import Gone, materialize, recall, snapshot
    from kcheck.cli.resolve import one_of, resolve
    from kcheck.cli.stored import here, say
    from kcheck.errors import UserError
    from kcheck.store import Kcase, write_kcase

    given = one_of(what, seed)
    meant = resolve(given, op, here(), stored=True)
    known = meant.known
    taken = known.snapshot
    if taken is None:
        if meant.spec is None:
            raise UserError(f"no spec in specs/ has the op {meant.op!r} any more, and its inputs were not kept")
        try:
            taken = snapshot(materialize(meant.spec, recall(meant.spec, known.case)))
        except Gone as gone:
            raise UserError(f"{known.case.id} cannot be made any more, and was not kept: {gone}") from None
    target = output or Path(f"{meant.op}-{known.case.seed}.kcase")
    if target.suffix != ".kcase":
        raise click.UsageError(
            f"-o {target}: call it .kcase, which is how `kcheck reproduce` knows it from a seed"
        )
    content = io.BytesIO()
    write_kcase(content, Kcase(taken, meant.verdict, known.bits or {}), __version__)
    _write(target, content.getvalue())
    say(f"wrote {target}, {len(content.getvalue()):,} bytes: kcheck reproduce {shlex.quote(str(target))}")
    return Exit.GOOD


def _write(target: Path, content: bytes) -> None:
    """A file that is there whole or not at all."""
    beside = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        beside.write_bytes(content)
        beside.replace(target)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise click.UsageError(f"-o {target}: cannot be written: {error.strerror}") from None
