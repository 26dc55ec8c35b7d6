"""The arguments and options of ``kcheck run``."""

from __future__ import annotations

import time
from dataclasses import field
from pathlib import Path

import click

from kcheck.cli.exits import Exit
from kcheck.cli.settings import on_command_line
from kcheck.dataclass import dataclass
from kcheck.model import Level


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """The arguments and options of the command line."""

    paths: tuple[Path, ...]
    recursive: bool
    profile: str
    device: str
    jobs: int | str
    executor: str
    scheduler: str
    shard: tuple[int, int] | None
    cases: int | None
    seed: int | None
    case_seed: int | None
    keyword: str
    tags: tuple[str, ...]
    sanitize: tuple[tuple[str, Level], ...]
    strict: bool
    lint: bool
    last_failed: bool
    fail_fast: bool
    max_failures: int | None
    timeout: float | None
    time_budget: float | None
    formats: tuple[str, ...]
    files: tuple[str, ...]
    coverage: bool
    debug_code: bool
    huge: str
    reach: bool | None
    prove: bool
    verbose: bool
    quiet: bool
    color: str
    stored: bool
    touched: bool
    watch: bool
    begun: float = field(default_factory=time.monotonic)

    def check(self) -> None:
        """Refuse options that contradict each other."""
        if self.verbose and self.quiet:
            raise click.UsageError("-v and -q cannot be combined")
        drawn = on_command_line("cases") or self.seed is not None
        if self.case_seed is not None and drawn:
            raise click.UsageError("--case-seed selects one case; remove --cases and --seed")
        if self.last_failed and not self.stored:
            raise click.UsageError("--lf needs the store; remove --no-store and KCHECK_STORE=off")
        if self.last_failed and (drawn or self.case_seed is not None):
            raise click.UsageError("--lf runs stored failures; remove --cases, --seed and --case-seed")
        if self.shard is not None and (self.touched or self.watch):
            raise click.UsageError(f"--shard and {'--touched' if self.touched else '--watch'} cannot be combined")
        if self.reach and self.shard is not None:
            raise click.UsageError("--reach and --shard cannot be combined")
        if self.time_budget is not None and (self.shard is not None or self.watch):
            other = "--watch" if self.watch else "--shard"
            raise click.UsageError(f"--time-budget and {other} cannot be combined")

    @property
    def without_cases(self) -> int:
        """The exit code if no case is run."""
        return Exit.GOOD if self.touched else Exit.NOTHING
