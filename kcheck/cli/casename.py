"""The name of a case on the command line: a seed, a number, an id, ``last`` or a file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from kcheck.cli.params import SEED
from kcheck.dataclass import dataclass

if TYPE_CHECKING:
    from kcheck.store import Store, StoredFailure

STATES = ("open", "fixed", "gone")
METAVAR = "[CASE]"


@dataclass(frozen=True, slots=True)
class NamedCase:
    """A case as it was typed.

    Attributes:
        kind: ``number`` is a seed or a position in ``kcheck failures``; ``seed`` is a seed in any event.
        value: int of a number or seed, Path of a file, the letters of an id, or empty.
    """

    kind: Literal["number", "seed", "id", "last", "file"]
    value: int | str | Path = ""

    def __str__(self) -> str:
        return "last" if self.kind == "last" else str(self.value)


class CaseName(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.2 only
    """A case: a seed, its number or id in ``kcheck failures``, ``last``, or the path of a ``.kcase`` file."""

    name = "case"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> NamedCase:
        """Distinguishes the kinds: files end in ``.kcase``, ids have only letters from k to z."""
        if isinstance(value, NamedCase):
            return value
        text = str(value).strip()
        if text.endswith(".kcase"):
            return NamedCase("file", Path(text))
        if text == "last":
            return NamedCase("last")
        if re.fullmatch("[k-z]+", text, re.IGNORECASE):
            return NamedCase("id", text.lower())
        if re.fullmatch(r"[+-]?(0x[0-9a-f]+|\d+)", text, re.IGNORECASE) is None:
            self.fail(
                f"{text!r} names no case; give a number or an id from `kcheck failures`, a seed, 'last' or a "
                ".kcase file",
                param,
                ctx,
            )
        return NamedCase("number", SEED.convert(text, param, ctx))


def case_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the argument and the options that name a case: ``what``, ``seed``, ``last`` and ``op``."""
    for decorate in (
        click.option("--op", metavar="NAME", default="", help="The op of the case. With it, a number is a seed."),
        click.option("--last", is_flag=True, help="The most recent open failure. The same as `last`."),
        click.option("--seed", type=SEED, metavar="S", help="The seed of the case, from 0 to 2^64 - 1."),
        click.argument("what", metavar=METAVAR, type=CaseName(), required=False),
    ):
        command = decorate(command)
    return command


DEVICE_OF_CASE = click.option(
    "--device",
    type=click.Choice(["auto", "gpu", "cpu", "simulator"]),
    help="Where to run the case. Default: the device it failed on if available, otherwise auto.",
)
USE_STORE = click.option(
    "--store/--no-store",
    "stored",
    default=True,
    envvar="KCHECK_STORE",
    help="Read and update the store in .kcheck/ (default). KCHECK_STORE=off is the same as --no-store.",
)


def the_case(what: NamedCase | None, seed: int | None, last: bool) -> NamedCase:
    """The case that the argument, ``--seed`` or ``--last`` names.

    Raises:
        click.UsageError: none of them is given, or more than one.
    """
    given = [one for one in (what, None if seed is None else NamedCase("seed", seed)) if one is not None]
    given += [NamedCase("last")] * last
    if len(given) > 1:
        raise click.UsageError("give one of CASE, --seed and --last")
    if not given:
        raise click.UsageError("give a case: a number or an id from `kcheck failures`, a seed, or --last")
    return given[0]


def numbered(open_ones: Iterable[StoredFailure]) -> list[StoredFailure]:
    """The open failures in the order in which ``kcheck failures`` numbers them, from 1: grouped by spec.

    Args:
        open_ones: the newest first.
    """
    by_spec: dict[tuple[str, str], list[StoredFailure]] = {}
    for failure in open_ones:
        by_spec.setdefault((failure.op, failure.path), []).append(failure)
    return [failure for failures in by_spec.values() for failure in failures]


def stored_failures(store: Store, named: NamedCase, op: str) -> list[StoredFailure]:
    """The stored failures that a name stands for: several only if they share a seed.

    Args:
        op: only failures of this op; empty for any.

    Raises:
        click.UsageError: an id or number that names no failure, or an id that names several.
    """
    of_op = f" of {op}" if op else ""
    if named.kind == "last":
        if found := store.failures(op=op, most=1):
            return found
        raise click.UsageError(f"no open failures{of_op}; `kcheck failures -a` lists closed ones")
    if named.kind == "id":
        found = store.failures(op=op, prefix=str(named.value), states=STATES)
        if len(found) > 1:
            raise click.UsageError(f"{named.value!r} is ambiguous; it may be\n{_candidates(found)}")
        if not found:
            raise click.UsageError(f"no stored failure{of_op} has the id {named.value}; see `kcheck failures -a`")
        return found
    assert isinstance(named.value, int)
    found = store.failures(seed=named.value, op=op, states=STATES)
    if found or named.kind == "seed" or op:
        return found
    return _of_list(store, named.value)


def _of_list(store: Store, number: int) -> list[StoredFailure]:
    """The failure with this number in the last list that ``kcheck failures`` printed, or in a new list if it never
    ran.

    Raises:
        click.UsageError: the failure has been deleted from the store since.
    """
    ids = store.listed()
    if not ids:
        return numbered(store.failures())[number - 1 : number] if number >= 1 else []
    if not 1 <= number <= len(ids):
        return []
    found = store.failures(prefix=ids[number - 1], states=STATES)
    if not found:
        raise click.UsageError(
            f"failure {number} of the last list is no longer stored; run `kcheck failures` for a new list"
        )
    state = found[0].state
    if state != "open":
        what = "is fixed" if state == "fixed" else "has left its spec"
        click.echo(
            f"note: failure {number} of the last list {what}; `kcheck failures` lists the open ones", err=True
        )
    return found


def _candidates(found: list[StoredFailure]) -> str:
    lines = [f"  {one.short}  {one.case.op}  seed {one.case.seed}  {one.rule}  {one.state}" for one in found[:10]]
    return "\n".join(lines + [f"  and {len(found) - 10} more"] * (len(found) > 10))


def is_position(named: NamedCase) -> bool:
    """Whether a number is small enough to be a position in the list of failures rather than a 64-bit seed."""
    return named.kind == "number" and isinstance(named.value, int) and named.value <= _LIST_NUMBERS


def unknown(named: NamedCase, op: str) -> str:
    """The message for a number or seed that no stored failure has."""
    if not op and is_position(named):
        return f"`kcheck failures` has no number {named}, and no case with the seed {named} is stored"
    return f"no case with the seed {named}{f' of {op}' if op else ''} is stored"


_LIST_NUMBERS = 10_000
