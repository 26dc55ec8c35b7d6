"""``kcheck minimize``."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

import click

from kcheck.cli.casename import DEVICE_OF_CASE, USE_STORE, NamedCase, case_options, the_case
from kcheck.cli.exits import Exit
from kcheck.cli.params import SECONDS

if TYPE_CHECKING:
    from kcheck.cli.interrupt import Interrupts
    from kcheck.cli.resolve import Meant
    from kcheck.minimizer import Minimized, Minimizer, Strategy
    from kcheck.model import Case, Verdict
    from kcheck.report.detail import DetailRow


@click.command("minimize")
@case_options
@click.option(
    "--strategy",
    type=click.Choice(["dims", "values", "all"]),
    default="all",
    show_default=True,
    help="What to simplify: sizes, values, or both plus dtypes, layouts and params.",
)
@click.option(
    "--max-iters",
    type=click.IntRange(min=10),
    metavar="N",
    default=300,
    show_default=True,
    help="Maximum number of kernel runs.",
)
@DEVICE_OF_CASE
@click.option(
    "--timeout",
    type=SECONDS,
    metavar="SECONDS",
    default=10.0,
    show_default=True,
    help="Time limit per run.",
)
@USE_STORE
def command(
    what: NamedCase | None,
    *,
    seed: int | None,
    last: bool,
    op: str,
    strategy: Strategy,
    max_iters: int,
    device: str | None,
    timeout: float | None,
    stored: bool,
) -> int:
    """Shrink a failing case to the smallest one that fails the same way.

    \b
      kcheck minimize last
      kcheck minimize case.kcase --strategy dims

    Every step runs the kernel. Sizes get smaller first, then dtypes, layouts and params get simpler, then values
    become 0, 1 or small integers, as far as the spec allows. The case must keep failing under the same rule. At
    the end, kcheck tries sizes around the result to find the condition under which the kernel fails.

    The smallest case is stored: `kcheck reproduce` and `kcheck export` accept it, and the next `kcheck run` starts
    with it. Ctrl-C ends the search and keeps the best case so far.

    \b
    CASE is one of
      last          the most recent open failure; --last is the same
      3             a number from `kcheck failures`
      kzvm          an id from `kcheck failures`, or a prefix of one
      98765         a seed, with --op
      case.kcase    a file from `kcheck export`

    Exit code: 0 if a smallest case was found, 5 if the case passes now or no longer exists.
    """
    from kcheck.cli.interrupt import Interrupts
    from kcheck.cli.outputs import claimed_stdout
    from kcheck.cli.resolve import device_of, keep, resolve
    from kcheck.cli.stored import here, say, say_rows, say_title
    from kcheck.minimizer import Minimizer
    from kcheck.runner import as_judged

    meant = resolve(the_case(what, seed, last), op, here(), stored=stored)
    known = meant.known
    say_title(known.case.spec, known.case.id)
    case = _current(meant, stored)
    if case is None or meant.spec is None:
        return Exit.NOTHING
    chosen = device_of(device, meant)
    interrupts, interrupted = Interrupts(), False
    live = _live()
    with claimed_stdout(), interrupts.installed():
        minimizer = Minimizer(
            as_judged(meant.spec, known),
            replace(known, case=case),
            chosen,
            most=max_iters,
            timeout=timeout,
            tell=partial(_show, live, interrupts),
        )
        try:
            if minimizer.fails:
                minimizer.search(strategy)
        except KeyboardInterrupt:
            interrupted = True
        live("")
        found = minimizer.end(_ran(meant, minimizer) if stored else ()) if minimizer.fails else None
    if found is None:
        return _nothing(minimizer.first.verdict, chosen.name)
    say(_headline(found, interrupted, max_iters), bold=True)
    say_rows(_rows(found))
    if found.steady and stored:
        keep(meant.root, found.captured, found.executed.verdict, "this")
    return Exit.INTERRUPTED if interrupted else Exit.GOOD


def _show(live: Callable[[str], None], interrupts: Interrupts, number: int, tried: Case, fails: bool) -> None:
    """Show a run on the progress line."""
    with interrupts.held():
        live(f"run {number}  {' '.join(f'{k}={v}' for k, v in tried.dims.items())}  {'fails' if fails else '-'}")


def _ran(meant: Meant, minimizer: Minimizer) -> Sequence[tuple[Case, bool]]:
    """The cases of the op's last run that failed by the same rule or passed.

    Those that passed do not count for a sanitizer that skips cases to save time.
    """
    from kcheck.model import INSTRUMENTED
    from kcheck.store import Store, StoreError

    rule = minimizer.first.verdict.rule
    try:
        with Store.open(meant.root) as store:
            return [
                (case, fails) for case, fails in store.ended(meant.op, rule) if fails or rule not in INSTRUMENTED
            ]
    except StoreError as error:
        click.echo(f"kcheck: warning: {error}", err=True)
        return ()


def _current(meant: Meant, stored: bool) -> Case | None:
    """The case under the current spec. If the spec no longer has it, says why,
    stores the state and returns None."""
    from kcheck.cli.resolve import settle
    from kcheck.cli.stored import say, say_rows
    from kcheck.generator import Gone
    from kcheck.report.detail import sentence
    from kcheck.runner import current

    changed: tuple[str, ...] = (f"no spec declares the op {meant.op!r} any longer",)
    if meant.spec is not None:
        try:
            return current(meant.spec, meant.known)
        except Gone as gone:
            changed = gone.changed
    say("GONE  the spec no longer has this case", bold=True)
    say_rows(sentence("changed", change) for change in changed)
    if stored:
        settle(meant, "gone")
    return None


def _live() -> Callable[[str], None]:
    """Prints the progress in one line on a terminal; prints nothing elsewhere."""
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        return lambda text: None
    width = shutil.get_terminal_size((80, 24)).columns - 1
    return lambda text: click.echo(f"\r\x1b[K{text[:width]}", nl=False, err=True)


def _nothing(verdict: Verdict, device: str) -> Exit:
    """Say that the case does not fail now."""
    from kcheck.cli.stored import say, say_rows
    from kcheck.report.detail import finding_rows, sentence

    if verdict.status == "error":
        say("ERROR  the case could not be checked", bold=True)
        for finding in verdict.findings:
            say_rows(finding_rows(finding))
        return Exit.USAGE
    say(f"PASSES  on the {device}; there is nothing to shrink", bold=True)
    say_rows([sentence("next", "run `kcheck reproduce` to see whether it is fixed")])
    return Exit.NOTHING


def _headline(found: Minimized, interrupted: bool, most: int) -> str:
    from kcheck.report import wording

    cost = f"{wording.count(found.runs, 'kernel run')}, {wording.seconds(found.seconds)}"
    if interrupted:
        return f"INTERRUPTED  the smallest case so far, after {cost}"
    if not found.whole:
        return f"SMALLER  after {cost}; --max-iters {most} was reached"
    return f"SMALLEST  after {cost}"


def _rows(found: Minimized) -> Iterator[DetailRow]:
    from kcheck.cli.stored import reproduce_line
    from kcheck.model import CaseFinished
    from kcheck.report.detail import DetailRow, facts, rows, sentence
    from kcheck.report.error_map import error_map_rows
    from kcheck.report.inputs import input_rows

    for number, text in enumerate(found.matters):
        yield sentence("" if number else "matters", text)
    if not found.steady:
        yield sentence("note", "it passed when run again: the failure is intermittent", "warn")
    before = found.start
    yield facts("before", before.dims, before.dtypes)
    verdict = found.executed.verdict
    *detail, _, replay = rows(
        CaseFinished(
            found.spec.path, 1, verdict, reproduce_line(found.case.seed, found.case.op), datetime.now(UTC)
        )
    )
    yield from detail
    yield from input_rows(found.captured.snapshot)
    for comparison in verdict.comparisons:
        yield from error_map_rows(comparison)
    yield DetailRow("seed", (str(found.case.seed),))
    yield replay
