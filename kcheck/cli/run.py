"""``kcheck run``."""

from __future__ import annotations

import gc
import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

from kcheck.cli.code_host import with_annotations
from kcheck.cli.exits import Exit
from kcheck.cli.outputs import Output, PairedCommand, pair
from kcheck.cli.params import CASES, COLOR, DEVICE, SEED, TIME_LIMIT
from kcheck.cli.sanitize import Sanitize
from kcheck.cli.settings import PROFILE, given, on_command_line, sanitize_levels, settings_for
from kcheck.model import LEVELS, Level, OpSpec, SpecRefused
from kcheck.report import REPORTERS

SANITIZE = Sanitize()


@click.command("run", cls=PairedCommand)
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
@click.option("-r", "--recursive", is_flag=True, help="Run the specs in folders below, too.")
@PROFILE
@DEVICE
@click.option(
    "--cases",
    type=CASES,
    metavar="N",
    envvar="KCHECK_CASES",
    show_envvar=True,
    help="Number of cases per spec (default: the spec's). 0 runs only the spec's examples.",
)
@click.option("--seed", type=SEED, metavar="S", help="Master seed of the cases (default: the spec's).")
@click.option("--case-seed", type=SEED, metavar="S", help="Run only the case of this seed.")
@click.option(
    "-k",
    "keyword",
    metavar="EXPR",
    default="",
    help="Run the cases that match EXPR: parts of a case's id, or tags, with and, or, not.",
)
@click.option(
    "-t",
    "--tag",
    "tags",
    multiple=True,
    metavar="TAG",
    help="Run the specs that have this tag. Repeatable.",
)
@click.option(
    "--sanitize",
    "sanitize",
    type=SANITIZE,
    multiple=True,
    metavar="NAME[=LEVEL]",
    help=f"Set the level of a sanitizer in every spec: {', '.join(LEVELS)} (default: error). It then checks every "
    f"case. NAME is {', '.join(SANITIZE.names)}, or all. Repeatable.",
)
@click.option(
    "--strict",
    is_flag=True,
    help="Fail (exit 1) if a kernel that writes zeros, a constant or a copy of an input would pass a spec. "
    "Default: warn.",
)
@click.option(
    "--lint/--no-lint", default=True, help="Note the linter's warnings about the compiled kernels (default)."
)
@click.option(
    "--lf", "--last-failed", "last_failed", is_flag=True, help="Run only the open failures in the store."
)
@click.option("-x", "--fail-fast", is_flag=True, help="Stop after the first failure.")
@click.option("--max-failures", type=click.IntRange(min=1), metavar="N", help="Stop after N failures.")
@TIME_LIMIT
@click.option(
    "--format",
    "formats",
    type=click.Choice(list(REPORTERS)),
    multiple=True,
    help="Format of the report. Repeatable; each can have its own -o.",
)
@click.option(
    "-o",
    "--output",
    "files",
    multiple=True,
    metavar="FILE",
    help="Output file of the preceding --format (default: stdout).",
)
@click.option("-v", "--verbose", is_flag=True, help="Show every failing case in full.")
@click.option("-q", "--quiet", is_flag=True, help="Show only what is wrong.")
@COLOR
@click.option(
    "--store/--no-store",
    "stored",
    default=True,
    envvar="KCHECK_STORE",
    help="Store results and the inputs of failures in .kcheck/ (default). KCHECK_STORE=off is the same as "
    "--no-store.",
)
@click.option(
    "--touched",
    is_flag=True,
    help="PATHS are changed files: run the specs among them and the specs that use them. No error if nothing "
    "matches, or if the device does not support a kernel.",
)
@click.option(
    "--watch",
    is_flag=True,
    help="Keep running: after a save, run the specs that the edit touches, failing ones first. Ctrl-C stops.",
)
@click.pass_context
def command(
    ctx: click.Context,
    *,
    paths: tuple[Path, ...],
    recursive: bool,
    profile: str,
    device: str,
    cases: int | None,
    seed: int | None,
    case_seed: int | None,
    keyword: str,
    tags: tuple[str, ...],
    sanitize: tuple[tuple[str, Level], ...],
    strict: bool,
    lint: bool,
    last_failed: bool,
    fail_fast: bool,
    max_failures: int | None,
    timeout: float | None,
    formats: tuple[str, ...],
    files: tuple[str, ...],
    verbose: bool,
    quiet: bool,
    color: str,
    stored: bool,
    touched: bool,
    watch: bool,
) -> int:
    """Run the cases of op specs and judge them.

    PATHS are specs, folders of specs, or the source files of kernels and references, which stand for the specs
    that use them. Without PATHS: specs/.

    \b
      kcheck run                                   every spec of this project
      kcheck run specs/softmax.yaml -x             stop at the first failure
      kcheck run kernels/softmax.py                the specs that use this file
      kcheck run -k 'float16 and not buggy'        cases by id or tag
      kcheck run --lf                              open failures only
      kcheck run kernels/softmax.py --watch        again after each save
      kcheck run --sanitize all                    every case with every sanitizer
      kcheck run --format junit -o r.xml --format json -o r.json
    """
    if verbose and quiet:
        raise click.UsageError("-v and -q exclude each other")
    if case_seed is not None and (on_command_line("cases") or seed is not None):
        raise click.UsageError("--case-seed is one case and takes neither --cases nor --seed")
    if last_failed:
        _check_last_failed(stored, drawn=on_command_line("cases") or seed is not None or case_seed is not None)
    if touched and not paths:
        return Exit.GOOD
    outputs = with_annotations(pair(ctx.meta["kcheck.order"], formats, files), os.environ)
    this_round = ctx.obj
    if watch and this_round is None:
        return _watch(paths, recursive, profile, device, outputs, touched)
    if this_round is not None:
        paths = this_round.paths

    with _kept():
        from kcheck.cli.recall import recalled
        from kcheck.cli.reports import Reports
        from kcheck.cli.specs import collect, no_tag, none_found, project_specs
        from kcheck.cli.stored import trend
        from kcheck.cli.unchecked import unchecked
        from kcheck.runner import Options, parse_keyword, select
        from kcheck.store import Recorder

    if keyword:
        parse_keyword(keyword)
    settings = settings_for(paths, profile)
    device, timeout = given("device", settings.device), given("timeout", settings.timeout)
    paths = paths or project_specs("run")
    found = collect(paths, recursive=recursive, touched=touched, profile=profile)
    specs = select(found, tags)
    if this_round is not None:
        specs = tuple(sorted(specs, key=lambda spec: spec.path not in this_round.first))
    if not specs:
        if not touched:
            why = no_tag(found, tags) if found else none_found(paths, may_recurse=not recursive)
            click.echo(f"kcheck: {why}", err=True)
        return Exit.GOOD if touched else Exit.NOTHING
    recalls = stored and case_seed is None and (last_failed or not keyword)
    options = Options(
        command=shlex.join(["kcheck", *sys.argv[1:]]),
        count=cases,
        seed=seed,
        case_seed=case_seed,
        keyword=keyword,
        max_failures=1 if fail_fast else max_failures,
        timeout=timeout,
        capture=stored,
        recalled=recalled(specs, _not_stored, only_open=last_failed) if recalls else {},
        device="" if device == "auto" else device,
        strict=strict,
        sanitize=sanitize_levels(SANITIZE, sanitize),
        profile=profile,
        only_failed=last_failed,
        lint=lint,
        skip_unsupported=touched,
    )
    if last_failed and not options.recalled and not any(isinstance(spec, SpecRefused) for spec in specs):
        click.echo("kcheck: nothing selected: no failure is open in the store", err=True)
        return Exit.GOOD if touched else Exit.NOTHING
    recorder = Recorder(_not_stored) if stored else None
    early = this_round is not None
    with Reports(
        outputs,
        verbosity=verbose - quiet,
        color=color,
        recorder=recorder,
        early=early,
        trend=trend if stored else list,
    ) as reports:
        with _kept():
            from kcheck.device import choose_for, unused
            from kcheck.runner import run

            runs = [spec for spec in specs if isinstance(spec, OpSpec)]
            chosen = choose_for(runs, device, _targets(specs)) if runs else unused(device)
        code = reports.consume(run(specs, options, chosen))
    if this_round is not None:
        this_round.failing = list(reports.summary.failing)
    if touched and (line := unchecked(reports.summary, chosen)):
        click.echo(line, err=True)
    if code is Exit.NOTHING and not touched:
        click.echo(f"kcheck: nothing selected: {_no_case(keyword, cases)}", err=True)
    return Exit.GOOD if touched and code is Exit.NOTHING else code


def _watch(
    paths: tuple[Path, ...],
    recursive: bool,
    profile: str,
    device: str,
    outputs: tuple[Output, ...],
    touched: bool,
) -> int:
    """``--watch``: this process watches, and each round is a process that runs the same command once."""
    if [output.format for output in outputs] != ["text"] or outputs[0].path is not None or touched:
        raise click.UsageError("--watch writes the text report to the terminal; remove --format, -o and --touched")
    if not hasattr(os, "fork"):
        raise click.UsageError("--watch needs Linux or macOS")

    with _kept():
        from kcheck.cli.main import main
        from kcheck.cli.reports import Reports  # noqa: F401  # every round needs these
        from kcheck.cli.specs import collect, project_specs
        from kcheck.cli.watch import apart, watch
        from kcheck.device.choose import warm
        from kcheck.report import console  # noqa: F401

    paths = paths or project_specs("run")
    arguments = sys.argv[1:]

    def device_and_targets() -> object:
        specs = collect([path for path in paths if path.exists()], recursive=recursive, profile=profile)
        return given("device", settings_for(paths, profile).device), _targets(specs)

    def warm_up() -> None:
        if (answer := apart(device_and_targets)) is not None:  # else the first round reports the error
            warm(*answer)

    return watch(paths, recursive=recursive, run=lambda this: main(arguments, this), warm=warm_up)


def _check_last_failed(stored: bool, *, drawn: bool) -> None:
    """Refuse options that contradict ``--lf``."""
    if not stored:
        raise click.UsageError("--lf needs the store; remove --no-store and KCHECK_STORE=off")
    if drawn:
        raise click.UsageError("--lf runs stored failures; it takes none of --cases, --seed and --case-seed")


def _no_case(keyword: str, count: int | None) -> str:
    if keyword:
        return "-k matches no case; `kcheck cases SPEC` lists them"
    if count == 0:
        return "--cases 0 runs only the examples of a spec, and there are none"
    return "the specs have no cases"


def _not_stored(why: str) -> None:
    click.echo(f"kcheck: warning: {why}", err=True)


@contextmanager
def _kept() -> Iterator[None]:
    """Exclude what is imported here from garbage collection: it stays for the whole run, and a pass over Numba's
    objects takes 0.1 s, a tenth of a run from full caches."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()


def _targets(specs: Sequence[OpSpec | SpecRefused]) -> list[str]:
    """The first target of each spec that names any."""
    artifacts = [spec.artifact for spec in specs if isinstance(spec, OpSpec)]
    return [artifact.targets[0] for artifact in artifacts if artifact is not None and artifact.targets]
