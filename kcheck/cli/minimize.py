"""``kcheck minimize``."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kcheck.cli.exits import Exit
from kcheck.cli.params import CASE_SEED, OP, SECONDS
from kcheck.cli.resolve import SeedOrFile

if TYPE_CHECKING:
    from kcheck.cli.resolve import Meant
    from kcheck.minimize import Minimized, Strategy
    from kcheck.model import Case, Verdict
    from kcheck.report.detail import Row


@click.command("minimize")
@click.argument("what", metavar="SEED|FILE.kcase", type=SeedOrFile(), required=False)
@CASE_SEED
@OP
@click.option(
    "--strategy",
    type=click.Choice(["dims", "values", "all"]),
    default="all",
    show_default=True,
    help="What is made simpler: sizes; values; or these, dtypes, layouts and params.",
)
@click.option(
    "--max-iters",
    type=click.IntRange(min=10),
    metavar="N",
    default=300,
    show_default=True,
    help="Run the kernel so often at most.",
)
@click.option(
    "--device",
    type=click.Choice(["auto", "gpu", "cpu", "simulator"]),
    help="Where to run it; left out: where it failed, if that is here, else auto.",
)
@click.option("--timeout", type=SECONDS, metavar="SECONDS", default=10.0, show_default=True, help="For one run.")
@click.option("--store/--no-store", "stored", default=True, envvar="KCHECK_STORE", help="Ask and tell .kcheck/.")
def command(
    what: int | Path | None,
    *,
    seed: int | None,
    op: str,
    strategy: Strategy,
    max_iters: int,
    device: str | None,
    timeout: float | None,
    stored: bool,
) -> int:
    """Shrink a failing case to the smallest one that fails alike, and say what matters.

    The kernel is run at every step. Sizes become smaller (constraints hold; nothing is taken for monotone), then
    dtypes, layouts and params simpler, then values: 0, 1, small whole numbers, as far as the spec allows them. The
    same rule stays broken. Sizes around the result tell when it fails. docs/minimize.md says what is simpler.

    The smallest case is stored: `kcheck reproduce` and `kcheck export` take it, and the next `kcheck run` begins
    with it. Ctrl-C ends the search; what was found by then counts.

    \b
      kcheck minimize 98765 --op softmax
      kcheck minimize case.kcase --strategy dims

    Exit: 0 a smallest case was found, 5 there is nothing to shrink, since it passes now, or is gone.
    """
    from kcheck.cli.interrupt import Interrupts
    from kcheck.cli.outputs import claimed_stdout
    from kcheck.cli.resolve import device_of, one_of, resolve
    from kcheck.cli.stored import here, say, say_rows, say_title
    from kcheck.minimize import Minimizer

    meant = resolve(one_of(what, seed), op, here(), stored=stored)
    known = meant.known
    say_title(known.case.spec, known.case.id)
    case = _current(meant)
    if case is None or meant.spec is None:
        return Exit.NOTHING
    chosen = device_of(device, meant)
    interrupts, interrupted = Interrupts(), False
    live = _live()

    def tell(number: int, tried: Case, fails: bool) -> None:
        with interrupts.held():
            live(
                f"run {number}  {' '.join(f'{k}={v}' for k, v in tried.dims.items())}  {'fails' if fails else '-'}"
            )

    with claimed_stdout(), interrupts.installed():
        minimizer = Minimizer(
            *(meant.spec, case, known.snapshot, chosen, known.rule), most=max_iters, timeout=timeout, tell=tell
        )
        try:
            if minimizer.fails:
                minimizer.search(strategy)
        except KeyboardInterrupt:
            interrupted = True
        live("")
        found = minimizer.end() if minimizer.fails else None
    if found is None:
        return _nothing(minimizer.first.verdict, chosen.name)
    say(_headline(found, interrupted, max_iters), bold=True)
    say_rows(_rows(found))
    if found.steady and stored:
        _store(meant, found)
    return Exit.INTERRUPTED if interrupted else Exit.GOOD


def _current(meant: Meant) -> Case | None:
    """The case as its spec has it today; None, and why, where it has none."""
    from kcheck.cases import Gone
    from kcheck.cli.stored import say, say_rows
    from kcheck.report.detail import sentence
    from kcheck.runner import current

    changed: tuple[str, ...] = (f"no spec in specs/ has the op {meant.op!r} any more",)
    if meant.spec is not None:
        try:
            return current(meant.spec, meant.known)
        except Gone as gone:
            changed = gone.changed
    say("GONE  the spec has no such case any more", bold=True)
    say_rows(sentence("changed", change) for change in changed)
    return None


def _live() -> Callable[[str], None]:
    """Shows what is being done, on a terminal: one line, which the next one replaces."""
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        return lambda text: None
    width = shutil.get_terminal_size((80, 24)).columns - 1
    return lambda text: click.echo(f"\r\x1b[K{text[:width]}", nl=False, err=True)


def _nothing(verdict: Verdict, device: str) -> Exit:
    """It does not fail here and now."""
    from kcheck.cli.stored import say, say_rows
    from kcheck.report.detail import finding_rows, sentence

    if verdict.status == "error":
        say("NOT JUDGED", bold=True)
        for finding in verdict.findings:
            say_rows(finding_rows(finding))
        return Exit.USAGE
    say(f"PASSES  on the {device}, so there is nothing to shrink", bold=True)
    say_rows([sentence("next", "`kcheck reproduce` says whether it is fixed")])
    return Exit.NOTHING


def _headline(found: Minimized, interrupted: bool, most: int) -> str:
    from kcheck.report import wording

    cost = f"{wording.count(found.runs, 'kernel run')}, {wording.seconds(found.seconds)}"
    if interrupted:
        return f"INTERRUPTED  the smallest case until then, after {cost}"
    if not found.whole:
        return f"SMALLER  after {cost}, all that --max-iters {most} allows"
    return f"SMALLEST  after {cost}"


def _rows(found: Minimized) -> Iterator[Row]:
    from kcheck.cli.stored import reproduce_line
    from kcheck.model import CaseFinished
    from kcheck.report.detail import Row, facts, rows, sentence
    from kcheck.report.inputs import input_rows
    from kcheck.report.spread import spread_rows

    for number, text in enumerate(found.matters):
        yield sentence("" if number else "matters", text)
    if not found.steady:
        yield sentence("note", "it passed when it ran again: this kernel fails now and then", "warn")
    before = found.start
    yield facts("before", {**before.dims, **before.dtypes})
    verdict = found.executed.verdict
    *detail, _, replay = rows(
        CaseFinished(
            found.spec.path, 1, verdict, reproduce_line(found.case.seed, found.case.op), datetime.now(UTC)
        )
    )
    yield from detail
    yield from input_rows(found.captured.snapshot)
    for comparison in verdict.comparisons:
        yield from spread_rows(comparison)
    yield Row("seed", (str(found.case.seed),))
    yield replay


def _store(meant: Meant, found: Minimized) -> None:
    """Keep the smallest case; a store that cannot be told is no reason to fail."""
    from kcheck.store import Store, StoreError

    try:
        with Store.open(meant.root, writing=True) as store:
            store.keep(found.captured, found.executed.verdict, datetime.now(UTC))
    except StoreError as error:
        click.echo(f"kcheck: warning: {error}; this is not stored", err=True)
