"""``kcheck run``."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kcheck.cli.code_host import with_annotations
from kcheck.cli.exits import Exit
from kcheck.cli.formats import FILES, FORMATS
from kcheck.cli.outputs import PairedCommand, ReportOutput, pair
from kcheck.cli.params import (
    COLOR,
    DEVICE,
    SEED,
    SHARD_OF,
    TIME_BUDGET,
    TIME_LIMIT,
    cases_option,
    tags_option,
    where_options,
)
from kcheck.cli.sanitize import Sanitize
from kcheck.cli.settings import PROFILE, given, sanitize_levels, settings_for
from kcheck.cli.wanted import Wanted
from kcheck.interpreter import keep_freed_memory, kept
from kcheck.model import LEVELS, OpSpec, SpecRefused

if TYPE_CHECKING:
    from kcheck.cli.watch import Round
    from kcheck.report import TrendPoint
    from kcheck.runner import Options, Recalled
    from kcheck.runner.options import MoreCases
    from kcheck.store import Recorder

SANITIZE = Sanitize()


@click.command("run", cls=PairedCommand)
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
@click.option("-r", "--recursive", is_flag=True, help="Include specs in subfolders.")
@PROFILE
@DEVICE
@where_options
@click.option(
    "--shard",
    type=SHARD_OF,
    metavar="I/N",
    help="Run only part I of N, to split a run across N machines. `kcheck merge` combines the reports.",
)
@cases_option(" per spec (default: the spec's). 0 runs only the spec's examples.")
@click.option("--seed", type=SEED, metavar="S", help="Master seed of the cases (default: the spec's).")
@click.option("--case-seed", type=SEED, metavar="S", help="Run only the case with this seed.")
@click.option(
    "-k",
    "keyword",
    metavar="EXPR",
    default="",
    help="Run only cases that match EXPR: tags or parts of a case's id, combined with and, or, not.",
)
@tags_option("Run only specs")
@click.option(
    "--sanitize",
    "sanitize",
    type=SANITIZE,
    multiple=True,
    metavar="NAME[=LEVEL]",
    help=f"Set the level of a sanitizer in every spec: {', '.join(LEVELS)} (default: error), and apply it to "
    f"every case. NAME is {', '.join(SANITIZE.names)}, or all. Repeatable.",
)
@click.option(
    "--strict",
    is_flag=True,
    help="Fail (exit 1) if a kernel that writes zeros, a constant or a copy of an input would pass a spec. "
    "Default: warn.",
)
@click.option(
    "--lint/--no-lint", default=True, help="Show lint warnings about the compiled kernels as notes (default)."
)
@click.option(
    "--lf", "--last-failed", "last_failed", is_flag=True, help="Run only the open failures in the store."
)
@click.option("-x", "--fail-fast", is_flag=True, help="Stop after the first failure.")
@click.option("--max-failures", type=click.IntRange(min=1), metavar="N", help="Stop after N failures.")
@TIME_LIMIT
@TIME_BUDGET
@FORMATS
@FILES
@click.option(
    "--coverage",
    is_flag=True,
    help="Record which lines of the kernel each case reaches, and show the lines that no case reached (cpu "
    "device). Default: record only the cases that run under racecheck, initcheck or overflow.",
)
@click.option(
    "--debug-code",
    is_flag=True,
    help="Run code that is compiled without optimizations, as with `compile: {debug: true}` in every spec: "
    "sanitizers see accesses that the compiler would remove (CUDA C++, HIP, numba.cuda).",
)
@click.option(
    "--huge",
    type=click.Choice(["on", "off"]),
    default="on",
    help="Add cases with sizes whose arrays do not fit in memory, of which some blocks run (cpu device). Default: "
    "on, for specs whose ranges allow such sizes.",
)
@click.option(
    "--reach/--no-reach",
    default=None,
    help="Add cases that meet conditions in the kernel which no other case meets, (cpu device, pip install "
    "'kcheck[prove]'). Default: at most 5 such cases, of kernels that are not long.",
)
@click.option(
    "--prove",
    is_flag=True,
    help="Run `kcheck prove` first, so that the report says what is proved for all sizes (pip install "
    "'kcheck[prove]'). Default: the report has what an earlier `kcheck prove` has proved.",
)
@click.option("-v", "--verbose", is_flag=True, help="Show every failing case in full, and coverage.")
@click.option("-q", "--quiet", is_flag=True, help="Show only failures, no warnings or notes.")
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
    help="Treat PATHS as changed files: run the specs among them and the specs that use them. No error if nothing "
    "matches, or if the device does not support a kernel.",
)
@click.option(
    "--watch",
    is_flag=True,
    help="Watch for changes: after each save, run the affected specs, failing ones first. Ctrl-C stops.",
)
@click.pass_context
def command(ctx: click.Context, /, **typed: Any) -> int:
    """Run the cases of op specs and check the results.

    PATHS are specs, folders of specs, or source files of kernels and references, which select the specs that use
    them. Default: all specs of the project.

    \b
      kcheck run                                   every spec of this project
      kcheck run specs/softmax.yaml -x             stop at the first failure
      kcheck run kernels/softmax.py                the specs that use this file
      kcheck run -k 'float16 and not buggy'        cases by id or tag
      kcheck run --lf                              open failures only
      kcheck run kernels/softmax.py --watch        again after each save
      kcheck run --sanitize all                    every case with every sanitizer
      kcheck run --jobs auto                       on all cores
      kcheck run --executor dask --scheduler tcp://head:8786    on a Dask cluster
      kcheck run --shard 1/3 --format json -o 1.json    first of three machines
      kcheck run --format junit -o r.xml --format json -o r.json
    """
    wanted = Wanted(**typed)
    wanted.check()
    if wanted.touched and not wanted.paths:
        return Exit.GOOD
    outputs = with_annotations(pair(ctx.meta["kcheck.order"], wanted.formats, wanted.files), os.environ)
    this_round: Round | None = ctx.obj
    if wanted.watch and this_round is None:
        return _watch(wanted, outputs)
    if this_round is not None:
        wanted = replace(wanted, paths=this_round.paths)
    return _run(wanted, outputs, this_round)


def _run(wanted: Wanted, outputs: tuple[ReportOutput, ...], this_round: Round | None) -> int:
    """Run once. ``this_round`` is None without ``--watch``."""
    with kept():
        from kcheck.cli.reports import Reports
        from kcheck.cli.specs import no_case, project_specs
        from kcheck.runner import parse_keyword

    if wanted.keyword:
        parse_keyword(wanted.keyword)
    settings = settings_for(wanted.paths, wanted.profile)
    device, timeout = given("device", settings.device), given("timeout", settings.timeout)
    jobs = given("jobs", settings.jobs)
    paths = wanted.paths or project_specs("run", with_failures=wanted.last_failed)
    wanted = replace(wanted, device=device, jobs=jobs, timeout=timeout, paths=paths)
    specs = _selected(wanted, this_round)
    if not specs:
        return wanted.without_cases
    if wanted.prove:
        from kcheck.cli.proving import prove_first

        prove_first(specs)
    options = replace(_options(wanted, specs), cases_first=this_round is not None)
    if wanted.last_failed and not options.recalled and not any(isinstance(s, SpecRefused) for s in specs):
        click.echo("kcheck: nothing selected: no open failures in the store", err=True)
        return wanted.without_cases
    every = specs
    if wanted.shard is not None:
        from kcheck.runner.sharding import shared_out

        specs, options = shared_out(specs, options, *wanted.shard)
    with (
        ExitStack() as ending,
        Reports(
            outputs,
            verbosity=wanted.verbose - wanted.quiet,
            color=wanted.color,
            recorder=_recorder() if wanted.stored else None,
            early=this_round is not None,
            coverage=wanted.coverage,
            trend=_trend if wanted.stored else list,
        ) as reports,
    ):
        with kept():
            from kcheck.cli.executors import executor_for
            from kcheck.runner import run_with

            keep_freed_memory()

            runs = [spec for spec in every if isinstance(spec, OpSpec)]  # so all shards choose the same device
            executor = ending.enter_context(executor_for(runs, options, device, wanted.jobs, _targets(every)))
        code = reports.consume(run_with(executor, specs, options))
    if this_round is not None:
        this_round.failing = list(reports.summary.failing)
    if wanted.touched:
        from kcheck.cli.unchecked import unchecked

        if line := unchecked(reports.summary, executor.name):
            click.echo(line, err=True)
    if code is not Exit.NOTHING:
        return code
    if options.shard is not None and options.shard.others_run(len(specs)):
        return Exit.GOOD
    if not wanted.touched:
        click.echo(f"kcheck: {no_case(wanted.keyword, wanted.cases)}", err=True)
    return wanted.without_cases


def _selected(wanted: Wanted, this_round: Round | None) -> tuple[OpSpec | SpecRefused, ...]:
    """The specs to run; says why if there are none."""
    from kcheck.cli.changed import changed_first
    from kcheck.cli.specs import collect, no_tag, none_found
    from kcheck.runner import select

    found = collect(wanted.paths, recursive=wanted.recursive, touched=wanted.touched, profile=wanted.profile)
    specs = select(found, wanted.tags)
    if not specs and not wanted.touched:
        why = no_tag(found, wanted.tags) if found else none_found(wanted.paths, may_recurse=not wanted.recursive)
        click.echo(f"kcheck: {why}", err=True)
    if wanted.time_budget is not None:
        return changed_first(specs, Path(), os.environ)
    if this_round is None:
        return specs
    first = this_round.first
    return tuple(sorted(specs, key=lambda spec: spec.path not in first))


def _options(wanted: Wanted, specs: Sequence[OpSpec | SpecRefused]) -> Options:
    """The options of the run, with the failures in the store that it repeats."""
    with kept():
        from kcheck.runner import Deadline, Options

    recalls = wanted.stored and wanted.case_seed is None and (wanted.last_failed or not wanted.keyword)
    return Options(
        command=shlex.join(["kcheck", *sys.argv[1:]]),
        count=wanted.cases,
        seed=wanted.seed,
        case_seed=wanted.case_seed,
        keyword=wanted.keyword,
        max_failures=1 if wanted.fail_fast else wanted.max_failures,
        timeout=wanted.timeout,
        capture=wanted.stored,
        recalled=_recalled(specs, wanted.last_failed) if recalls else {},
        device="" if wanted.device == "auto" else wanted.device,
        strict=wanted.strict,
        sanitize=sanitize_levels(SANITIZE, wanted.sanitize),
        profile=wanted.profile,
        only_failed=wanted.last_failed,
        lint=wanted.lint,
        skip_unsupported=wanted.touched,
        coverage=wanted.coverage,
        debug_code=wanted.debug_code,
        huge=wanted.huge == "on",
        more=_more(wanted),
        proved=_proved,
        deadline=Deadline.of(wanted.time_budget, wanted.begun),
    )


def _more(wanted: Wanted) -> MoreCases | None:
    """What adds cases that meet conditions in the kernel. A shard has none, because no device has loaded a kernel
    when cases are shared out."""
    with kept():
        from kcheck.prover.reach import DEFAULT, EXPLICIT, ConditionReach, has_solver

    if wanted.reach is True:
        from kcheck.prover.prover import require_solver

        require_solver("--reach")
    if wanted.reach is False or wanted.shard is not None or not has_solver():
        return None
    if wanted.reach:
        return ConditionReach(EXPLICIT, "--reach")
    return ConditionReach(DEFAULT)


def _proved(spec: OpSpec) -> Collection[str]:
    """The sanitizers of which no case of a spec has a finding, as far as `kcheck prove` has proved that."""
    with kept():
        from kcheck.prover.kept import KeptProofs

    return [proof.check for proof in KeptProofs().recorded(spec) if proof.word == "proved"]


def _recorder() -> Recorder:
    with kept():
        from kcheck.store import Recorder

    return Recorder(_not_stored)


def _trend() -> list[TrendPoint]:
    from kcheck.cli.stored import trend

    return trend()


def _recalled(
    specs: Sequence[OpSpec | SpecRefused], only_open: bool
) -> Mapping[tuple[str, str], Sequence[Recalled]]:
    """The failures in the store that the run starts with; a run without the store does not read them."""
    with kept():
        from kcheck.cli.recall import recalled

    return recalled(specs, _not_stored, only_open=only_open)


def _watch(wanted: Wanted, outputs: tuple[ReportOutput, ...]) -> int:
    """``--watch``: this process watches, and each round is a process that runs the same command once."""
    is_shown = [(output.format, output.path) for output in outputs] == [("text", None)]
    if not is_shown or wanted.touched or wanted.executor != "local":
        raise click.UsageError("--watch is for the terminal; remove --format, -o, --touched and --executor")
    if not hasattr(os, "fork"):
        raise click.UsageError("--watch needs Linux or macOS")

    with kept():
        from kcheck.cli import changed, executors, reports  # noqa: F401  # every round needs these
        from kcheck.cli.main import main
        from kcheck.cli.specs import collect, project_specs
        from kcheck.cli.watch import in_child, watch
        from kcheck.device.choose import warm
        from kcheck.report import console  # noqa: F401

    paths = wanted.paths or project_specs("run")
    arguments = sys.argv[1:]

    def device_and_targets() -> object:
        there = [path for path in paths if path.exists()]
        specs = collect(there, recursive=wanted.recursive, profile=wanted.profile)
        return given("device", settings_for(paths, wanted.profile).device), _targets(specs)

    def warm_up() -> None:
        if (answer := in_child(device_and_targets)) is not None:  # the first round reports any error
            warm(*answer)

    return watch(paths, recursive=wanted.recursive, run=lambda this: main(arguments, this), warm=warm_up)


def _not_stored(why: str) -> None:
    click.echo(f"kcheck: warning: {why}", err=True)


def _targets(specs: Sequence[OpSpec | SpecRefused]) -> list[str]:
    """The first target of each spec that names any."""
    artifacts = [spec.artifact for spec in specs if isinstance(spec, OpSpec)]
    return [artifact.targets[0] for artifact in artifacts if artifact is not None and artifact.targets]
