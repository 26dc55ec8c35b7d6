"""``kcheck reproduce``."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kcheck.cli.exits import Exit
from kcheck.cli.params import CASE_SEED, OP, SECONDS
from kcheck.cli.resolve import SeedOrFile
from kcheck.model.limits import TIMEOUT

if TYPE_CHECKING:
    from kcheck.cli.resolve import Meant
    from kcheck.device import Device
    from kcheck.report.detail import Row
    from kcheck.runner import Reproduced


@click.command("reproduce")
@click.argument("what", metavar="SEED|FILE.kcase", type=SeedOrFile(), required=False)
@CASE_SEED
@OP
@click.option(
    "--device",
    type=click.Choice(["auto", "gpu", "cpu", "simulator"]),
    help="Where to run it; left out: where it failed, if that is here, else auto.",
)
@click.option(
    "--timeout",
    type=SECONDS,
    metavar="SECONDS",
    default=TIMEOUT,
    show_default=True,
    envvar="KCHECK_TIMEOUT",
    show_envvar=True,
    help="Time limit per case; 0 means no limit.",
)
@click.option("--debug", is_flag=True, help="Then open a Python prompt with inputs, actual, expected at hand.")
@click.option(
    "--script",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE.py",
    help="Also write a Python file that shows it with numba and numpy alone.",
)
@click.option(
    "--store/--no-store", "stored", default=True, envvar="KCHECK_STORE", help="Ask .kcheck/, and tell it the end."
)
def command(
    what: int | Path | None,
    *,
    seed: int | None,
    op: str,
    device: str | None,
    timeout: float | None,
    debug: bool,
    script: Path | None,
    stored: bool,
) -> int:
    """Run a case that failed once more, and say whether it is fixed.

    \b
      FIXED         it passes now                                    exit 0
      STILL FAILS   with the same bits, or with others               exit 1
      GONE          the spec has no such case any more, and why      exit 5

    A seed is enough on any machine that has the spec; a file of `kcheck export` holds the very inputs, whatever
    has become of generators since.

    \b
      kcheck reproduce 98765 --op softmax
      kcheck reproduce case.kcase --debug
      kcheck reproduce --seed 98765 --op softmax --script bug.py
    """
    from kcheck.cli.outputs import claimed_stdout
    from kcheck.cli.resolve import device_of, one_of, resolve
    from kcheck.cli.stored import here, say, say_rows, say_title
    from kcheck.report import plain
    from kcheck.runner import reproduce

    meant = resolve(one_of(what, seed), op, here(), stored=stored)
    case = meant.known.case
    say_title(case.spec, case.id)
    if meant.spec is None:
        say("GONE")
        say(plain.line(f"  no spec in specs/ has the op {meant.op!r} any more"))
        return Exit.NOTHING
    chosen = device_of(device, meant)
    with claimed_stdout():
        done = reproduce(meant.spec, meant.known, chosen, timeout=timeout)
    exit_code = _tell(meant, done)
    say_rows(_rows(meant, done, chosen))
    if stored:
        _store(meant, done)
    if script is not None and done.executed is not None:
        _write_script(script, done)
    if debug and done.executed is not None:
        from kcheck.cli.debug import prompt

        prompt(done)
    return exit_code


def _tell(meant: Meant, done: Reproduced) -> Exit:
    """The line that says how it ended."""
    from kcheck.cli.stored import moment, say
    from kcheck.runner import Result

    before = "" if meant.seen is None else f" as on {moment(meant.seen)}"
    failed_before = bool(meant.known.rule)
    match done.result:
        case Result.PASSES:
            says = "FIXED" if failed_before else "PASSES  it is not known here to have failed before"
            code = Exit.GOOD
        case Result.FAILS:
            says = "STILL FAILS" if failed_before else "FAILS"
            if done.other_bits is not None:
                others = f"other bits than before in {', '.join(done.other_bits)}"
                says += f"  {others if done.other_bits else 'same bits' + before}"
            code = Exit.FAILED
        case Result.UNSEEN:
            says = f"INCONCLUSIVE  passes, but {meant.known.rule} cannot run on this device"
            code = Exit.USAGE
        case Result.GONE:
            says, code = "GONE  the spec has no such case any more", Exit.NOTHING
        case Result.ERROR:
            says, code = "NOT JUDGED", Exit.USAGE
    say(says, bold=True)
    return code


def _rows(meant: Meant, done: Reproduced, device: Device) -> Iterator[Row]:
    from kcheck.cli.stored import reproduce_line
    from kcheck.model import CaseFinished
    from kcheck.report.detail import Row, rows, sentence
    from kcheck.report.inputs import input_rows
    from kcheck.report.spread import spread_rows
    from kcheck.runner import Result

    yield from (sentence("changed", change) for change in done.changed)
    if done.executed is None:
        return
    yield Row("device", (device.name,))
    yield from (sentence("note", note) for note in done.notes)
    if meant.others:
        yield sentence(
            "note", f"{meant.others} more stored with this seed; `kcheck show {done.case.seed}` has all"
        )
    if done.result in (Result.PASSES, Result.UNSEEN):
        return
    replay = reproduce_line(done.case.seed, done.case.op)
    verdict = done.executed.verdict
    *detail, _, _ = rows(CaseFinished(done.spec.path, 1, verdict, replay, datetime.now(UTC)))
    yield from detail
    if done.captured is not None:
        yield from input_rows(done.captured.snapshot)
    for comparison in verdict.comparisons:
        yield from spread_rows(comparison)
    yield Row("seed", (str(done.case.seed),))


def _store(meant: Meant, done: Reproduced) -> None:
    """Tell the store how it ended; a store that cannot be told is no reason to fail."""
    from kcheck.runner import Result
    from kcheck.store import Store, StoreError

    now = datetime.now(UTC)
    try:
        if done.result is Result.FAILS and done.executed is not None and done.captured is not None:
            with Store.open(meant.root, writing=True) as store:
                store.keep(done.captured, done.executed.verdict, now)
        elif done.result in (Result.PASSES, Result.GONE):
            state = "fixed" if done.result is Result.PASSES else "gone"
            with Store.open(meant.root) as store:
                for failure in store.failures(seed=done.case.seed, op=meant.op, states=("open", "gone")):
                    same_device = done.executed is None or failure.device == done.executed.verdict.device
                    if failure.case == meant.known.case and same_device and failure.state != state:
                        store.settle(failure, state, now)
    except StoreError as error:
        click.echo(f"kcheck: warning: {error}; this is not stored", err=True)


def _write_script(path: Path, done: Reproduced) -> None:
    from kcheck.cli.outputs import ReportFile
    from kcheck.cli.stored import say
    from kcheck.runner.script import script

    file = ReportFile(path, "--script")
    try:
        file.stream.write(script(done, path.name))
        file.commit()
    finally:
        file.discard()
    typed = shlex.quote(str(path))
    say(f"wrote {path}: python {typed}, or without a GPU: kcheck exec -- python {typed}")
