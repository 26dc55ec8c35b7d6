"""``kcheck coverage``."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kcheck.cli.exits import Exit
from kcheck.cli.settings import PROFILE
from kcheck.cli.stored import SINCE
from kcheck.dataclass import dataclass

if TYPE_CHECKING:
    from kcheck.generator import Covered
    from kcheck.model import Case, CodeCoverage, OpSpec
    from kcheck.prover.unreached import ReachAnswer


@dataclass(frozen=True, slots=True)
class _CoveredSpec:
    """A spec with the coverage of its stored runs.

    Attributes:
        code: the line coverage of the current version of its kernel; None if no stored run has measured it.
        is_old: whether a stored run has measured the line coverage of any version of the kernel.
        reached: what reaches the lines and branches that no case reached; None: that was not asked.
    """

    spec: OpSpec
    cases: Covered
    code: CodeCoverage | None
    is_old: bool
    reached: Sequence[ReachAnswer] | None = None


@click.command("coverage")
@click.argument("paths", nargs=-1, metavar="[PATH]...", type=click.Path(path_type=Path))
@PROFILE
@click.option("--since", type=SINCE, metavar="WHEN", help="Only runs since WHEN: 24h, 3d, 2026-11-20.")
@click.option(
    "--pairs",
    "most",
    type=click.IntRange(min=0),
    metavar="N",
    default=5,
    show_default=True,
    help="Maximum number of missing pairs to list.",
)
@click.option(
    "--reach",
    is_flag=True,
    help="Also find the sizes that reach lines and branches which no case reached, or prove that none does "
    '(pip install "kcheck[prove]").',
)
@click.option(
    "--format",
    "format_",
    type=click.Choice(["text", "json", "lcov", "html"]),
    default="text",
    help="Output format.",
)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="Output file. Default: stdout."
)
def command(
    paths: tuple[Path, ...],
    *,
    profile: str,
    since: datetime | None,
    most: int,
    reach: bool,
    format_: str,
    output: Path | None,
) -> int:
    """Show what the stored runs cover: sizes, dtypes, layouts, distributions, params and pairs of these, and lines
    and branches of the kernels.

    \b
      kcheck coverage
      kcheck coverage specs/softmax.yaml --since 24h
      kcheck coverage specs/softmax.yaml --reach
      kcheck coverage --format html -o coverage.html
      kcheck coverage --format lcov -o lcov.info

    Counts the cases of the stored runs that the spec still allows, and compares them with the cases that the spec
    can generate. Default paths: all specs of the project.
    """
    from kcheck.cli.measured import specs_of
    from kcheck.cli.specs import none_found, project_specs

    if reach:
        from kcheck.prover.prover import require_solver

        require_solver("--reach")
        if format_ not in ("text", "json"):
            raise click.UsageError(f"--reach and --format {format_} cannot be combined")
    paths = paths or project_specs("coverage")
    specs = specs_of(paths)
    if not specs:
        click.echo(f"kcheck: {none_found(paths, may_recurse=False)}", err=True)
        return Exit.NOTHING
    text = _written([_covered(spec, since, most, reach=reach) for spec in specs], format_)
    if output is None:
        click.echo(text, nl=False)
        return Exit.GOOD
    from kcheck.cli.outputs import ReportFile

    file = ReportFile(output, "--output")
    file.stream.write(text)
    file.commit()
    return Exit.GOOD


def _covered(spec: OpSpec, since: datetime | None, most: int, *, reach: bool) -> _CoveredSpec:
    from kcheck.generator import covered
    from kcheck.generator.covered import allowed
    from kcheck.report.reached import combined, is_as_run
    from kcheck.store import Store

    with Store.open(Path(spec.root)) as store:
        stored = store.cases(spec.op, since)
        cases = covered(spec, stored, most)
        runs = store.code_coverage(spec.path, spec.op, since)
    now = [
        coverage
        for coverage, digests in runs
        if all(is_as_run(spec.root, file.path, digests) for file in coverage.files)
    ]
    code = combined(now) if now else None
    reached = _reached(spec, code, allowed(spec, stored)) if reach and code is not None else None
    return _CoveredSpec(spec, cases, code, bool(runs), reached)


def _reached(spec: OpSpec, code: CodeCoverage, known: Sequence[Case]) -> Sequence[ReachAnswer]:
    """What reaches the lines and branches of a kernel that its cases did not."""
    from kcheck.device import choose_for
    from kcheck.prover.reach import EXPLICIT
    from kcheck.prover.unreached import UnreachedPlace, reach_answers

    places = [
        UnreachedPlace(os.path.join(spec.root, file.path), line, branch)
        for file in code.files
        for line, branch in sorted([*((n, False) for n in file.missed), *((n, True) for n in file.one_sided)])
    ]
    return reach_answers(EXPLICIT, spec, choose_for([spec], "cpu"), known, places)[0] if places else ()


def _written(found: Sequence[_CoveredSpec], format_: str) -> str:
    from kcheck.report.html.coverage import coverage_page
    from kcheck.report.reached import combined, lcov

    if format_ == "json":
        return json.dumps([_document(each) for each in found], indent=1) + "\n"
    if format_ == "html":
        return coverage_page([(each.spec, each.cases, each.code) for each in found]) + "\n"
    if format_ == "lcov":
        whole = [_rooted(each.code, each.spec.root) for each in found if each.code is not None]
        return lcov(combined(whole), "")
    lines = (line for number, each in enumerate(found) for line in [*([""] if number else []), *_lines(each)])
    return "".join(f"{line}\n" for line in lines)


def _document(found: _CoveredSpec) -> dict[str, object]:
    from kcheck.generator.grid_limits import unreached_limits

    code, limits = None if found.code is None else asdict(found.code), list(unreached_limits(found.spec))
    document = {
        "spec": found.spec.path,
        "op": found.spec.op,
        **asdict(found.cases),
        "limits": limits,
        "code": code,
    }
    if found.reached is not None:
        document["reach"] = [_reach_document(found.spec, answer) for answer in found.reached]
    return document


def _reach_document(spec: OpSpec, answer: ReachAnswer) -> dict[str, object]:
    """What reaches a place. ``verdict``: ``sizes``, ``contents`` (they may reach it, if the contents of arrays are
    right, too), ``never`` or ``undecided``."""
    place, sizes = answer.place, answer.sizes
    return {
        "file": os.path.relpath(place.file, spec.root),
        "line": place.line,
        "branch": place.branch,
        "verdict": "contents" if sizes is not None and answer.by_contents else answer.word,
        "dims": {} if sizes is None else dict(sizes.dims),
        "params": {} if sizes is None else dict(sizes.params),
        "dtypes": {} if sizes is None else dict(sizes.dtypes),
        "values": {} if sizes is None else {name: str(drawn) for name, drawn in sizes.values.items()},
        "reason": answer.reason,
    }


def _rooted(code: CodeCoverage, root: str) -> CodeCoverage:
    """The coverage with absolute paths, because the specs may be from several projects."""
    return replace(code, files=tuple(replace(file, path=os.path.join(root, file.path)) for file in code.files))


def _lines(found: _CoveredSpec) -> Iterator[str]:
    """The lines about a spec, wrapped to the terminal: a row for each factor, then the pairs, then the kernel."""
    from kcheck.cli.outputs import columns
    from kcheck.generator.grid_limits import unreached_limits
    from kcheck.report import layout, plain, wording

    width, path, covered = columns(), plain.line(found.spec.path), found.cases
    yield from layout.wrap([path, f"· {wording.count(covered.cases, 'case')}"], " ", width)
    if not covered.cases:
        yield "  none of its cases has run; run: kcheck run " + path
        return
    label = max(len(factor.name) for factor in covered.factors)
    for factor in covered.factors:
        every = len(factor.run) + len(factor.missing)
        parts = [f"{len(factor.run):>3} of {every:<3}"]
        parts += [f"not run: {', '.join(factor.missing)}"] if factor.missing else []
        parts += [f"impossible: {', '.join(factor.never)}"] if factor.never else []
        yield from _row(plain.line(factor.name), label, parts, width)
    share = 100 * covered.pairs / covered.possible if covered.possible else 100
    yield f"  {'pairs':<{label}}  {covered.pairs:>3,} of {covered.possible:,} ({share:.0f}%)"
    for one, other in covered.missing:
        yield f"  {'':<{label}}    not run: {plain.line(one)} with {plain.line(other)}"
    for number, limit in enumerate(unreached_limits(found.spec)):
        yield from _row("" if number else "limits", label, [limit], width)
    yield from _code_lines(found, label, width)


def _code_lines(found: _CoveredSpec, label: int, width: int) -> Iterator[str]:
    from kcheck.report import plain
    from kcheck.report.reached import ranges

    if found.code is None:
        why = "the kernel has changed since its lines were counted" if found.is_old else "no run counted its lines"
        yield f"  {'lines':<{label}}  {why}; run: kcheck run {plain.line(found.spec.path)} --coverage"
        return
    for file in found.code.files:
        every, missed = len(file.lines), file.missed
        parts = [f"{every - len(missed):>3} of {every:<3}", f"{plain.line(file.path)}"]
        parts += [f"not reached: {', '.join(ranges(missed))}"] if missed else []
        yield from _row("lines", label, parts, width)
        if file.branches:
            both = sum(all(ways) for _, ways in file.branches)
            parts = [f"{both:>3} of {len(file.branches):<3}"]
            parts += [f"one way only: {', '.join(ranges(file.one_sided))}"] if file.one_sided else []
            yield from _row("branches", label, parts, width)
    yield from _reach_lines(found, label, width)


def _reach_lines(found: _CoveredSpec, label: int, width: int) -> Iterator[str]:
    """For each line and branch that no case reached, what does."""
    from kcheck.report import plain

    answers = found.reached or ()
    files = {answer.place.file for answer in answers}
    for number, answer in enumerate(answers):
        place = answer.place
        where = (
            f"{place.line}:"
            if len(files) == 1
            else f"{os.path.relpath(place.file, found.spec.root)}:{place.line}:"
        )
        where = f"{where[:-1]}, other way:" if place.branch else where
        yield from _row("" if number else "reach", label, [plain.line(f"{where} {_what_reaches(answer)}")], width)
    if any(answer.sizes is not None for answer in answers):
        yield from _row(
            "", label, [f"to run cases of such sizes: kcheck run {plain.line(found.spec.path)} --reach"], width
        )


def _what_reaches(answer: ReachAnswer) -> str:
    if answer.sizes is None:
        return "no size reaches it" if answer.word == "never" else f"undecided, because {answer.reason}"
    sizes = answer.sizes
    given = {**sizes.dims, **sizes.params, **sizes.values}
    shown = " ".join(f"{name}={value}" for name, value in given.items()) or "any size"
    return f"{shown}, if the values are right, too" if answer.by_contents else shown


def _row(name: str, label: int, parts: Sequence[str], width: int) -> Iterator[str]:
    from kcheck.report import layout

    head = f"  {name:<{label}}  "
    words = "  ".join(parts).split(" ")
    for number, line in enumerate(layout.wrap(words, " ", max(20, width - len(head)))):
        yield (head if number == 0 else " " * (len(head) + 12)) + line.rstrip()
