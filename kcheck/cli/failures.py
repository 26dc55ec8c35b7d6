"""``kcheck failures``."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import click

from kcheck.cli.exits import Exit
from kcheck.cli.stored import SINCE

_SHOWN = 10  # of one op, unless all are asked for


@click.command("failures")
@click.option("--op", metavar="NAME", default="", help="Of this op only.")
@click.option("--rule", metavar="RULE", default="", help="Of this rule only: mismatch, racecheck, memcheck ...")
@click.option("--since", type=SINCE, metavar="WHEN", help="Seen failing since: 2026-11-20, 12h, 3d.")
@click.option("-a", "--all", "everything", is_flag=True, help="Those that are fixed or gone, too, and every one.")
def command(op: str, rule: str, since: datetime | None, everything: bool) -> int:
    """List the failures that are not fixed, the latest first.

    \b
      kcheck failures                    open failures of this project
      kcheck failures --op softmax       of one op

    A failure is open until the same case passes. The next `kcheck run` starts with open failures.
    """
    from kcheck.cli.stored import here, moment, reproduce_line, say, say_table, say_title
    from kcheck.report import wording
    from kcheck.store import Store

    states = ("open", "fixed", "gone") if everything else ("open",)
    with Store.open(here()) as store:
        found = store.failures(op=op, rule=rule, since=since, states=states)
    if not found:
        say("no such failure is stored" if op or rule or since or everything else "no failure is open")
        return Exit.GOOD
    by_op: dict[tuple[str, str], list[int]] = {}
    for number, failure in enumerate(found):
        by_op.setdefault((failure.case.op, failure.path), []).append(number)
    for (name, path), numbers in by_op.items():
        say_title(name, path, wording.count(len(numbers), "failure"))
        shown = numbers if everything else numbers[:_SHOWN]
        rows = [("seed", "rule", "times", "last seen", "state" if everything else "case")]
        for failure in (found[number] for number in shown):
            case = _facts(failure.case.dims, failure.case.dtypes)
            rows.append(
                (
                    str(failure.case.seed),
                    failure.rule,
                    str(failure.times),
                    moment(failure.last_seen),
                    f"{failure.state:<5}  {case}" if everything else case,
                )
            )
        say_table(rows, right=(0, 2), indent=2)
        if len(numbers) > len(shown):
            say(f"  and {len(numbers) - len(shown):,} more (-a shows all)")
        say()
    say("The first of them again:")
    say(f"  {reproduce_line(found[0].case.seed, found[0].case.op)}")
    return Exit.GOOD


def _facts(*pairs: Mapping[str, object]) -> str:
    return " ".join(f"{name}={value}" for each in pairs for name, value in each.items())
