"""``kcheck ci``: everything that a CI job checks, with one exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kcheck.cli.exits import Exit, worst
from kcheck.cli.params import DEVICE
from kcheck.cli.settings import PROFILE, settings_for
from kcheck.dataclass import dataclass

if TYPE_CHECKING:
    from kcheck.model.baseline import Change

REPORTS = {
    "junit": "junit.xml",
    "sarif": "kcheck.sarif",
    "gitlab": "code-quality.json",
    "json": "report.json",
    "html": "report.html",
}
"""The reports that the run writes, by format."""
COMMENT = "comment.md"
QUICK_CASES = 5
QUICK_SECONDS = 40.0
"""Seconds after which `kcheck ci --quick` starts no more cases. The rest of the minute is for the cases that are
still running, and for the reports."""
LEAST_SECONDS = 5.0


@click.command("ci")
@click.argument("paths", nargs=-1, metavar="[PATH]...", type=click.Path(path_type=Path))
@PROFILE
@DEVICE
@click.option(
    "--quick",
    is_flag=True,
    help=f"Finish in less than a minute: run {QUICK_CASES} cases of each spec on all cores, changed specs first, "
    f"until {QUICK_SECONDS:g} s have passed, and skip `kcheck lint`.",
)
@click.option(
    "--prove",
    is_flag=True,
    help="Run `kcheck prove`, too: fail if something is refuted. What is only undecided does not fail.",
)
@click.option("--baseline", metavar="NAME", help="Compare with this baseline; fail on regressions.")
@click.option(
    "-o",
    "--output",
    "folder",
    metavar="DIR",
    default="kcheck-reports",
    show_default=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for the reports; created if it does not exist.",
)
def command(
    paths: tuple[Path, ...],
    *,
    profile: str,
    device: str,
    quick: bool,
    prove: bool,
    baseline: str | None,
    folder: Path,
) -> int:
    """Validate, run, lint and compare specs, and write all reports.

    \b
      kcheck ci                          every spec of this project
      kcheck ci --quick                  for each push
      kcheck ci --baseline main          also fail on regressions
      kcheck ci --prove                  also prove what holds for all sizes

    Every step runs even if an earlier one failed; the exit code is the most severe one. Writes junit.xml,
    kcheck.sarif, code-quality.json, report.json, report.html, lint.txt and comment.md to DIR, and proofs.json with
    --prove. Default profile: ci, or quick with --quick. Default paths: all specs of the project.
    """
    if quick and prove:
        raise click.UsageError("--quick and --prove cannot be combined: a proof may take 30 s for each spec")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise click.UsageError(f"-o {folder}: cannot create the folder: {error.strerror}") from None
    chosen = profile or ("quick" if quick else "ci")
    begun = time.monotonic()
    steps = _Steps(tuple(map(str, paths)), folder)
    on = () if device == "auto" else ("--device", device)
    steps.run("validate")
    if prove:  # before the run, whose reports have what is proved
        steps.run("prove", "--format", "json", into="proofs.json")
    few = _few(QUICK_SECONDS - (time.monotonic() - begun), settings_for(paths, chosen).jobs) if quick else ()
    formats = [word for name, file in REPORTS.items() for word in ("--format", name, "-o", str(folder / file))]
    steps.run("run", "--store", "--profile", chosen, *few, *on, *formats)
    if not quick:
        steps.run("lint", into="lint.txt")
    changes = _compared(steps, baseline, on) if baseline else []
    _comment(folder, changes)
    for line in steps.summary():
        click.echo(line)
    return worst(steps.codes.values())


def _few(seconds: float, jobs: int | str) -> tuple[str, ...]:
    """The options of `kcheck run` for a quick check.

    Args:
        seconds: the time that is left.
        jobs: from the settings.
    """
    chosen = jobs != 1 or "KCHECK_JOBS" in os.environ
    return (
        *("--cases", str(QUICK_CASES), "--no-lint", "--time-budget", f"{max(seconds, LEAST_SECONDS):.1f}"),
        *(() if chosen else ("--jobs", "auto")),
    )


@dataclass(slots=True)
class _Steps:
    """The commands of a job, each in its own process, so that a crash does not stop the following ones."""

    paths: tuple[str, ...]
    folder: Path
    codes: dict[str, Exit] = field(default_factory=dict)

    def run(self, command: str, *options: str, into: str = "") -> None:
        """Runs a command on the paths, and keeps its exit code.

        Args:
            into: the file in the folder that gets its stdout; it is printed otherwise.
        """
        words = [command, *options, *self.paths]
        click.echo(f"\n== kcheck {' '.join([command, *self.paths])}")
        arguments = [sys.executable, "-m", "kcheck", *words]
        if into:
            with (self.folder / into).open("w", encoding="utf-8") as file:
                done = subprocess.run(arguments, stdout=file, check=False)
        else:
            done = subprocess.run(arguments, check=False)
        known = done.returncode in {code.value for code in Exit}
        self.codes[command] = Exit(done.returncode) if known else Exit.FAULT

    def summary(self) -> list[str]:
        """A line for each step."""
        words = {
            Exit.GOOD: "passed",
            Exit.FAILED: "failed",
            Exit.USAGE: "an error in a spec, a reference or the settings",
            Exit.NOTHING: "nothing selected",
            Exit.INTERRUPTED: "interrupted",
        }
        lines = [f"{name:<9} {words.get(code, 'internal error')}" for name, code in self.codes.items()]
        return ["", *lines, f"reports   {self.folder}"]


def _compared(steps: _Steps, baseline: str, on: tuple[str, ...]) -> list[Change]:
    """What changed since a baseline. On the first run of a project there is none yet, which is not an error."""
    from kcheck.cli.measured import project
    from kcheck.store import baselines

    root = project(tuple(map(Path, steps.paths)))
    if not baselines.path_of(root, baseline).exists():
        click.echo(f"\nnote: there is no baseline {baseline!r} yet, so nothing was compared")
        return []
    steps.run("diff", baseline, "--fail-on-regression", "--format", "json", *on, into="diff.json")
    try:
        found = json.loads((steps.folder / "diff.json").read_text("utf-8"))
    except json.JSONDecodeError:  # the step failed and has said why
        return []
    changes = [_change(row) for row in found["changes"]]
    _tell(changes)
    return changes


def _change(row: dict[str, object]) -> Change:
    from kcheck.model.baseline import Change, Limit

    limit, where = row["limit"], row["where"]
    assert isinstance(limit, dict)
    assert isinstance(where, list)
    return Change(**{**row, "limit": Limit(**limit), "where": tuple(where)})  # type: ignore[arg-type]


def _tell(changes: list[Change]) -> None:
    from kcheck.cli.outputs import columns
    from kcheck.report.diff_text import change_lines

    for line in change_lines(changes, columns(), lambda text, role: text):
        click.echo(line)


def _comment(folder: Path, changes: list[Change]) -> None:
    """Write the comment for a pull request: the results of the stored run, and the regressions."""
    from kcheck.cli.stored import here
    from kcheck.report.collect import EventCollector
    from kcheck.report.markdown import page
    from kcheck.store import Store

    collector = EventCollector()
    with Store.open(here()) as store:
        newest = store.runs(1)
        for event in store.events(newest[0].id) if newest else []:
            collector.handle(event)
    (folder / COMMENT).write_text(page(collector.collected(), changes=changes), "utf-8")
