"""``kcheck show``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from kcheck.cli.casename import NamedCase, case_options, stored_failures, the_case, unknown
from kcheck.cli.exits import Exit

if TYPE_CHECKING:
    from pathlib import Path

    from kcheck.model import Case, Comparison, Snapshot, Verdict
    from kcheck.report.detail import DetailRow
    from kcheck.store import Store, StoredFailure, StoredVerdict


@click.command("show")
@case_options
def command(what: NamedCase | None, *, seed: int | None, last: bool, op: str) -> int:
    """Show a stored case without running it.

    \b
      kcheck show last
      kcheck show 98765 --op softmax

    Shows its inputs, the worst elements, a small map of the wrong elements, and earlier results.

    \b
    CASE is one of
      last          the most recent open failure; --last is the same
      3             a number from `kcheck failures`
      kzvm          an id from `kcheck failures`, or a prefix of one
      98765         a seed, with --op if cases of several ops have it
      case.kcase    a file from `kcheck export`
    """
    from kcheck.cli.stored import here, say, say_rows, say_title
    from kcheck.store import Store

    named = the_case(what, seed, last)
    if named.kind == "file":
        return _show_file(named.value)  # type: ignore[arg-type]  # a Path, as its kind says
    with Store.open(here()) as store:
        failures = stored_failures(store, named, op)
        if not failures and not isinstance(named.value, int):
            raise click.UsageError(unknown(named, op))
        seed = failures[0].case.seed if failures else int(str(named.value))
        history = store.history(seed, failures[0].case.op if named.kind != "seed" and failures else op)
        if not failures and not history:
            raise click.UsageError(f"{unknown(named, op)}; `kcheck failures` lists what failed")
        for number, failure in enumerate(failures):
            if number:
                say()
            say_title(failure.path, failure.case.id)
            say_rows(_failure(store, failure, history))
        if not failures:
            say_title(history[0].path, history[0].case.id)
            say_rows(_history(history))
    return Exit.GOOD


def _show_file(path: Path) -> int:
    import shlex

    from kcheck.cli.stored import say_rows, say_title
    from kcheck.report.detail import DetailRow, sentence
    from kcheck.report.inputs import input_rows
    from kcheck.store.kcase import read_kcase

    held = read_kcase(path)
    again = shlex.join(["kcheck", "reproduce", str(path)])
    case = held.snapshot.case if held.verdict is None else held.verdict.case
    say_title(str(path), case.id)
    if held.verdict is None:
        say_rows([sentence("state", "exported without a result")])
        say_rows(input_rows(held.snapshot))
        say_rows([DetailRow("seed", (str(case.seed),)), DetailRow("replay", (again,), role="paste")])
    else:
        say_rows(_judged(held.verdict, held.snapshot, again))
    return Exit.GOOD


def _judged(verdict: Verdict, snapshot: Snapshot | None, again: str, path: str = "") -> Iterator[DetailRow]:
    """The rows of a failing case: what is wrong, its inputs, the worst elements, its seed, how to run it."""
    from datetime import UTC, datetime

    from kcheck.model import CaseFinished
    from kcheck.report.detail import DetailRow, rows, sentence
    from kcheck.report.inputs import input_rows
    from kcheck.store.recorder import NEW_SNAPSHOTS

    finished = CaseFinished(path or verdict.case.spec, 1, verdict, again, datetime.now(UTC))
    *detail, _, replay = rows(finished)
    yield from detail
    if snapshot is not None:
        yield from input_rows(snapshot)
    else:
        yield sentence(
            "inputs",
            f"not stored: a run stores those of {NEW_SNAPSHOTS} new failures per spec; "
            "the seed generates them again",
        )
    yield from _error_maps(verdict.comparisons)
    yield DetailRow("seed", (str(verdict.case.seed),))
    yield replay


def _error_maps(comparisons: tuple[Comparison, ...]) -> Iterator[DetailRow]:
    from kcheck.report.error_map import error_map_rows

    for comparison in comparisons:
        yield from error_map_rows(comparison)


def _failure(store: Store, failure: StoredFailure, history: list[StoredVerdict]) -> Iterator[DetailRow]:
    from kcheck.cli.stored import moment, reproduce_line
    from kcheck.report import wording
    from kcheck.report.detail import DetailRow, sentence

    state = f"{failure.state}, failed {wording.count(failure.times, 'time')} on the {failure.device}, first"
    state += f" {moment(failure.first_seen)}, last {moment(failure.last_seen)}"
    if failure.closed is not None:
        state += f", {failure.state} {moment(failure.closed)}"
    yield DetailRow("id", (failure.short,))
    yield sentence("state", state)
    again = reproduce_line(failure.case.seed, failure.case.op)
    *detail, seed, replay = _judged(failure.verdict, store.snapshot(failure), again, failure.path)
    yield from detail
    yield from _history([each for each in history if _same(each.case, failure.case)])
    yield seed
    yield replay


def _same(one: Case, other: Case) -> bool:
    """Whether two cases are the same except for their labels."""
    return (one.op, one.dims, one.dtypes, one.layouts) == (other.op, other.dims, other.dtypes, other.layouts)


def _history(history: list[StoredVerdict]) -> Iterator[DetailRow]:
    from kcheck.cli.stored import moment
    from kcheck.report.detail import DetailRow

    for number, each in enumerate(history):
        words = (f"run {each.run}", moment(each.at), each.device, each.case.label, each.status.value, each.rule)
        yield DetailRow("" if number else "runs", tuple(word for word in words if word))
