"""``kcheck reproduce``."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kcheck.cli.casename import DEVICE_OF_CASE, USE_STORE, NamedCase, case_options, the_case
from kcheck.cli.exits import Exit
from kcheck.cli.params import time_limit_option

if TYPE_CHECKING:
    from kcheck.cli.outputs import ReportFile
    from kcheck.cli.resolve import Meant
    from kcheck.device import Device
    from kcheck.report.detail import DetailRow
    from kcheck.runner import Reproduced


@click.command("reproduce")
@case_options
@DEVICE_OF_CASE
@time_limit_option()
@click.option("--debug", is_flag=True, help="Open a Python prompt afterwards, with inputs, actual and expected.")
@click.option(
    "--script",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE.py",
    help="Write a Python file that shows the bug and needs only numba and NumPy.",
)
@USE_STORE
def command(
    what: NamedCase | None,
    *,
    seed: int | None,
    last: bool,
    op: str,
    device: str | None,
    timeout: float | None,
    debug: bool,
    script: Path | None,
    stored: bool,
) -> int:
    """Run a failing case again and report whether it is fixed.

    \b
      kcheck reproduce last
      kcheck reproduce 3 --debug
      kcheck reproduce 98765 --op softmax --script bug.py

    \b
    CASE is one of
      last          the most recent open failure; --last is the same
      3             a number from `kcheck failures`
      kzvm          an id from `kcheck failures`, or a prefix of one
      98765         a seed; with --op, any machine that has the spec can run it
      case.kcase    a file from `kcheck export`, with the exact inputs

    \b
    Result and exit code
      FIXED         it passes now                                          0
      STILL FAILS   with the same bits, or with different ones             1
      INCONCLUSIVE  it passes, but its sanitizer cannot run here           2
      GONE          the spec no longer has this case; says what changed    5
    """
    from kcheck.cli.outputs import ReportFile, claimed_stdout
    from kcheck.cli.resolve import device_of, resolve, settle
    from kcheck.cli.stored import here, say, say_rows, say_title
    from kcheck.report import plain
    from kcheck.runner import reproduce

    named = the_case(what, seed, last)
    with ExitStack() as stack:
        file = None
        if script is not None:
            _keep_others(script)
            file = ReportFile(script, "--script")  # before the run, so that a bad path is reported immediately
            stack.callback(file.discard)
        meant = resolve(named, op, here(), stored=stored)
        case = meant.known.case
        say_title(case.spec, case.id)
        if meant.spec is None:
            say("GONE")
            say(plain.line(f"  no spec declares the op {meant.op!r} any longer"))
            if stored:
                settle(meant, "gone")
            return Exit.NOTHING
        chosen = device_of(device, meant)
        with claimed_stdout():
            done = reproduce(meant.spec, meant.known, chosen, timeout=timeout)
        exit_code = _tell(meant, done)
        say_rows(_rows(meant, done, chosen))
        if stored:
            _store(meant, done)
        if file is not None and done.executed is not None:
            _write_script(file, done)
    if debug and done.executed is not None:
        from kcheck.cli.debug import prompt

        prompt(done)
    return exit_code


def _tell(meant: Meant, done: Reproduced) -> Exit:
    """Print the result in one line."""
    from kcheck.cli.stored import moment, say
    from kcheck.runner import ReplayResult

    before = "" if meant.seen is None else f" as on {moment(meant.seen)}"
    failed_before = bool(meant.known.rule)
    match done.result:
        case ReplayResult.PASSES:
            says = "FIXED" if failed_before else "PASSES  no earlier failure of this case is stored"
            code = Exit.GOOD
        case ReplayResult.FAILS:
            says = "STILL FAILS" if failed_before else "FAILS"
            if done.other_bits is not None:
                others = f"different bits than before in {', '.join(done.other_bits)}"
                says += f"  {others if done.other_bits else 'same bits' + before}"
            code = Exit.FAILED
        case ReplayResult.UNSEEN:
            says = f"INCONCLUSIVE  passes, but {meant.known.rule} cannot run on this device"
            code = Exit.USAGE
        case ReplayResult.GONE:
            says, code = "GONE  the spec no longer has this case", Exit.NOTHING
        case ReplayResult.ERROR:
            says, code = "ERROR  the case could not be checked", Exit.USAGE
    say(says, bold=True)
    return code


def _rows(meant: Meant, done: Reproduced, device: Device) -> Iterator[DetailRow]:
    from kcheck.cli.stored import reproduce_line
    from kcheck.model import CaseFinished
    from kcheck.report.detail import DetailRow, rows, sentence
    from kcheck.report.error_map import error_map_rows
    from kcheck.report.inputs import input_rows
    from kcheck.runner import ReplayResult

    yield from (sentence("changed", change) for change in done.changed)
    if done.executed is None:
        return
    yield DetailRow("device", (device.name,))
    yield from (sentence("note", note) for note in done.notes)
    if meant.others:
        yield sentence(
            "note", f"{meant.others} more stored with this seed; list them with `kcheck show {done.case.seed}`"
        )
    if done.result in (ReplayResult.PASSES, ReplayResult.UNSEEN):
        return
    replay = reproduce_line(done.case.seed, done.case.op)
    verdict = done.executed.verdict
    *detail, _, _ = rows(CaseFinished(done.spec.path, 1, verdict, replay, datetime.now(UTC)))
    yield from detail
    if done.captured is not None:
        yield from input_rows(done.captured.snapshot)
    for comparison in verdict.comparisons:
        yield from error_map_rows(comparison)
    yield DetailRow("seed", (str(done.case.seed),))


def _store(meant: Meant, done: Reproduced) -> None:
    """Store the result; print a warning if the store cannot be written."""
    from kcheck.cli.resolve import keep, settle
    from kcheck.runner import ReplayResult

    if done.result is ReplayResult.GONE:
        settle(meant, "gone")
    elif done.result is ReplayResult.PASSES and done.executed is not None:
        settle(meant, "fixed", done.executed.verdict.device)
    if done.result is not ReplayResult.FAILS or done.executed is None or done.captured is None:
        return
    keep(meant.root, done.captured, done.executed.verdict, "the result")


def _keep_others(script: Path) -> None:
    """Refuse to overwrite a file that ``--script`` did not write."""
    from kcheck.errors import UserError

    if script.is_file() and (text := script.read_bytes()) and b"Written by kcheck" not in text:
        raise UserError(f"--script {script}: the file exists and was not written by kcheck; choose another name")


def _write_script(file: ReportFile, done: Reproduced) -> None:
    from kcheck.cli.stored import say
    from kcheck.errors import UserError
    from kcheck.runner.script import script, without_gpu

    arrays = done.captured.snapshot.arrays if done.captured is not None else ()
    try:
        file.stream.write(script(done, file.path.name))
        file.commit()
    except OSError as error:
        raise UserError(f"--script {file.path}: not written: {error.strerror or error}") from None
    typed = shlex.quote(str(file.path))
    cpu = f"{without_gpu(arrays)}kcheck exec -- python {typed}"
    say(f"wrote {file.path}: run it with python {typed}, or without a GPU: {cpu}")
