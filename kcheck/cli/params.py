"""Types of option values, and options that several commands share."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, TypeVar

import click

from kcheck.model.limits import TIMEOUT

_Command = TypeVar("_Command", bound=Callable[..., Any])

MAX_SEED = 2**64 - 1
MAX_CASES = 1_000_000
MAX_JOBS = 256
MAX_SHARDS = 1000


class Seed(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.2 only
    """A 64-bit unsigned integer, decimal or ``0x``."""

    name = "seed"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Read the number; refuse text that is not a number, and numbers that do not fit."""
        if isinstance(value, int):
            return value
        text = str(value).strip()
        try:
            number = int(text, 16 if text.lower().lstrip("+-").startswith("0x") else 10)
        except ValueError:
            self.fail(f"{text!r} is not a seed; write an integer, decimal or hexadecimal (0x1f)", param, ctx)
        if number < 0:
            self.fail(f"{text} is negative; a seed is a number from 0 to {MAX_SEED}", param, ctx)
        if number > MAX_SEED:
            self.fail(f"{text} does not fit in 64 bits; a seed is a number from 0 to {MAX_SEED}", param, ctx)
        return number


class Count(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.2 only
    """A number of cases: an integer from 0 to MAX_CASES."""

    name = "count"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Read the number; refuse one out of range."""
        try:
            number = int(value)
        except ValueError:
            self.fail(f"{value!r} is not an integer", param, ctx)
        if not 0 <= number <= MAX_CASES:
            self.fail(f"{number} is out of range; write a number from 0 to {MAX_CASES}", param, ctx)
        return number


class Seconds(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.2 only
    """A duration in seconds, above 0; 0 means no limit and becomes None."""

    name = "seconds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float | None:
        """Read the number; refuse NaN, infinity and negative numbers."""
        try:
            seconds = float(value)
        except ValueError:
            self.fail(f"{value!r} is not a number of seconds", param, ctx)
        if not math.isfinite(seconds) or seconds < 0:
            self.fail(f"{value} is not a positive number of seconds; 0 means no limit", param, ctx)
        return seconds or None


class Jobs(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.2 only
    """A number of worker processes, or ``auto``: as many as there are cores."""

    name = "jobs"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        """Read the number; refuse one out of range."""
        if str(value).strip() == "auto":
            return "auto"
        try:
            number = int(value)
        except ValueError:
            self.fail(f"{value!r} is not a number of processes; write an integer, or auto", param, ctx)
        if not 1 <= number <= MAX_JOBS:
            self.fail(f"{number} is out of range; write a number from 1 to {MAX_JOBS}, or auto", param, ctx)
        return number


class ShardOf(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.2 only
    """A part of a run: ``2/3``."""

    name = "shard"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        """Read the two numbers; refuse a part that does not exist."""
        if isinstance(value, tuple):
            return value
        number, slash, of = str(value).strip().partition("/")
        if not (slash and number.isdecimal() and of.isdecimal()):
            self.fail(f"{value!r} is not a shard; write 1/3 for the first of three", param, ctx)
        if not 1 <= int(number) <= int(of) <= MAX_SHARDS:
            self.fail(f"{value} does not exist; write 1/{of} to {of}/{of}, of at most {MAX_SHARDS}", param, ctx)
        return int(number), int(of)


class Bytes(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.2 only
    """A size: ``200MB``, ``1.5GiB``; ``B`` alone, or nothing, is bytes."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Read the number and its unit; refuse anything else."""
        if isinstance(value, int):
            return value
        found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmg]?)(i?)b?", str(value).strip(), re.IGNORECASE)
        if found is None or (found[3] and not found[2]):
            self.fail(f"{value!r} is not a size; write 200MB, 1.5GiB or a number of bytes", param, ctx)
        power = " kmg".index(found[2].lower() or " ")
        return int(float(found[1]) * (1024 if found[3] else 1000) ** power)


SEED = Seed()
SHARD_OF = ShardOf()
JOBS_KIND = Jobs()
SECONDS = Seconds()
CASES = Count()
SIZE = Bytes()


def time_limit_option(more: str = "") -> Callable[[_Command], _Command]:
    """``--timeout``, for commands that run cases. ``more`` is appended to its help."""
    return click.option(
        "--timeout",
        type=SECONDS,
        metavar="SECONDS",
        default=TIMEOUT,
        show_default=True,
        envvar="KCHECK_TIMEOUT",
        show_envvar=True,
        help=f"Time limit per case; 0 means no limit.{more}",
    )


def cases_option(more: str) -> Callable[[_Command], _Command]:
    """``--cases``, whose default is the number in the spec. ``more`` is appended to its help."""
    return click.option(
        "--cases",
        type=CASES,
        metavar="N",
        envvar="KCHECK_CASES",
        show_envvar=True,
        help=f"Number of cases{more}",
    )


def tags_option(what: str) -> Callable[[_Command], _Command]:
    """``-t``. ``what`` is the start of its help: what the command does with the specs that have the tag."""
    return click.option(
        "-t",
        "--tag",
        "tags",
        multiple=True,
        metavar="TAG",
        help=f"{what} with this tag. Repeatable.",
    )


TIME_LIMIT = time_limit_option(" A spec stops at its first case that times out.")

TIME_BUDGET = click.option(
    "--time-budget",
    type=SECONDS,
    metavar="SECONDS",
    help="Start no more cases after this time; 0 means no limit. Specs with files that changed (git) run first. "
    "The report says how many cases were not run.",
)

DEVICE = click.option(
    "--device",
    type=click.Choice(["auto", "gpu", "cpu", "simulator"]),
    default="auto",
    envvar="KCHECK_DEVICE",
    show_envvar=True,
    help="Where kernels run. auto: the GPU if there is one, otherwise cpu, otherwise simulator.",
)
JOBS = click.option(
    "-j",
    "--jobs",
    type=JOBS_KIND,
    metavar="N",
    default=1,
    show_default=True,
    envvar="KCHECK_JOBS",
    show_envvar=True,
    help="Worker processes. auto: one per core.",
)
EXECUTOR = click.option(
    "--executor",
    type=click.Choice(["local", "dask"]),
    default="local",
    show_default=True,
    envvar="KCHECK_EXECUTOR",
    show_envvar=True,
    help="Where cases run: on this machine, or on the workers of a Dask cluster.",
)
SCHEDULER = click.option(
    "--scheduler",
    metavar="ADDRESS",
    default="",
    envvar="KCHECK_SCHEDULER",
    show_envvar=True,
    help="Address of the Dask scheduler, such as tcp://HOST:8786 (default: DASK_SCHEDULER_ADDRESS).",
)


def where_options(command: _Command) -> _Command:
    """``--jobs``, ``--executor`` and ``--scheduler``, as :func:`kcheck.cli.executors.executor_for` reads them."""
    return JOBS(EXECUTOR(SCHEDULER(command)))


COLOR = click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    help="Use colors. auto: on a terminal, unless NO_COLOR is set.",
)
