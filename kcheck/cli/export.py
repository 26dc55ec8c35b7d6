"""``kcheck export``."""

from __future__ import annotations

import io
import os
import shlex
from contextlib import suppress
from pathlib import Path

import click

from kcheck.cli.casename import NamedCase, case_options, the_case
from kcheck.cli.exits import Exit
from kcheck.cli.outputs import unwritable


@click.command("export")
@case_options
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Output file. Default: OP-SEED.kcase.",
)
def command(what: NamedCase | None, *, seed: int | None, last: bool, op: str, output: Path | None) -> int:
    """Write a case to a file that `kcheck reproduce` runs on any machine.

    \b
      kcheck export last
      kcheck export 98765 --op softmax -o softmax.kcase

    The file has the exact inputs, sizes, dtypes and layouts of the case, and its result. It contains no code. A
    case that is not stored is generated from its seed.

    \b
    CASE is one of
      last          the most recent open failure; --last is the same
      3             a number from `kcheck failures`
      kzvm          an id from `kcheck failures`, or a prefix of one
      98765         a seed, with --op
    """
    from kcheck.cli.resolve import resolve
    from kcheck.cli.stored import here, say
    from kcheck.errors import UserError
    from kcheck.generator import Gone, materialize, recall, snapshot
    from kcheck.store.kcase import Kcase, write_kcase
    from kcheck.version import __version__

    named = the_case(what, seed, last)
    if named.kind == "file":
        raise click.UsageError(f"{named} is already an exported case")
    if output is not None and output.suffix != ".kcase":
        raise click.UsageError(
            f"-o {output}: the name must end in .kcase, so that `kcheck reproduce` recognizes it"
        )
    meant = resolve(named, op, here(), stored=True)
    known = meant.known
    taken = known.snapshot
    if taken is None:
        if meant.spec is None:
            raise UserError(f"no spec declares the op {meant.op!r} any longer, and its inputs are not stored")
        try:
            taken = snapshot(materialize(meant.spec, recall(meant.spec, known.case)))
        except Gone as gone:
            raise UserError(f"{known.case.id}: its inputs are not stored, and the spec changed: {gone}") from None
    target = output or Path(f"{meant.op}-{known.case.seed}.kcase")
    content = io.BytesIO()
    write_kcase(content, Kcase(taken, meant.verdict, known.bits or {}), __version__)
    _write(target, content.getvalue())
    say(f"wrote {target} ({len(content.getvalue()):,} bytes)")
    say(f"run it with: kcheck reproduce {shlex.quote(str(target))}")
    return Exit.GOOD


def _write(target: Path, content: bytes) -> None:
    """Write the whole file or nothing.

    Raises:
        UserError: the folder or the disk cannot take it.
    """
    beside = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        beside.write_bytes(content)
        beside.replace(target)
    except OSError as error:
        with suppress(OSError):  # the folder may be read-only
            beside.unlink(missing_ok=True)
        raise unwritable(target, error) from None
