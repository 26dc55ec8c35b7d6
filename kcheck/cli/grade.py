"""``kcheck grade``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kcheck.cli.exits import Exit
from kcheck.cli.params import JOBS, SEED, SHARD_OF, SIZE

if TYPE_CHECKING:
    from kcheck.grading.grader import Graded

FORMATS = ("text", "json", "junit", "html")


@click.command("grade")
@click.argument("problem", metavar="PROBLEM", type=click.Path(path_type=Path))
@click.argument("candidates", metavar="CANDIDATE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--cases", type=click.IntRange(min=1), default=30, show_default=True, metavar="N", help="Cases drawn."
)
@click.option("--seed", type=SEED, default=0, show_default=True, help="Seed of the cases.")
@JOBS
@click.option(
    "--shard",
    type=SHARD_OF,
    metavar="I/N",
    help="Grade only part I of N of the candidates, to split them across N machines.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="Time limit of a case.",
)
@click.option("--memory", type=SIZE, default="2GB", show_default=True, help="Memory of a candidate's process.")
@click.option(
    "--isolate",
    type=click.Choice(["on", "off"]),
    default="on",
    show_default=True,
    help="Confine each candidate: no network, no other process, no file but its own.",
)
@click.option(
    "--own-kernels",
    type=click.Choice(["on", "off"]),
    default="on",
    show_default=True,
    help="A ModelNew whose work PyTorch's operators do is a cheat.",
)
@click.option("--all", "every", is_flag=True, help="Run all cases of a candidate that fails.")
@click.option(
    "--format", "form", type=click.Choice(FORMATS), default="text", show_default=True, help="The output."
)
@click.option("--reward", is_flag=True, help="Print only a number in [0, 1] for each candidate, in their order.")
@click.option("--feedback", is_flag=True, help="Print only what an author needs to repair each candidate.")
def command(
    problem: Path,
    candidates: tuple[Path, ...],
    cases: int,
    seed: int,
    jobs: int | str,
    shard: tuple[int, int] | None,
    timeout: float,
    memory: int,
    isolate: str,
    own_kernels: str,
    every: bool,
    form: str,
    reward: bool,
    feedback: bool,
) -> int:
    """Judge untrusted kernels against a problem.

    \b
      kcheck grade specs/softmax.yaml candidates/*.py
      kcheck grade problem.py mine.py --format json
      kcheck grade problem.py candidates/*.py --jobs auto --shard 1/3 --format json > 1.jsonl

    PROBLEM is a spec, or a Python file with Model and get_inputs(), whose candidates define ModelNew.

    Each candidate runs in a confined process that never has the reference, the expected values or the seed.

    A candidate is correct, wrong, cheat, error or timeout. Exit code: 0 if all are correct, 1 otherwise.
    """
    from kcheck.cli.stored import say, say_table, width
    from kcheck.errors import KernelError, SpecError
    from kcheck.grading import report
    from kcheck.grading.grader import GradingOptions
    from kcheck.grading.isolated import Isolation
    from kcheck.grading.jobs import graded
    from kcheck.grading.problem import read_problem
    from kcheck.grading.sandbox import lacking
    from kcheck.runner.processes import cores

    if reward + feedback + (form != "text") > 1:
        raise click.UsageError("use one of --reward, --feedback and --format")
    missing = [path for path in candidates if not path.is_file()]
    if missing:
        raise click.UsageError(f"there is no file {missing[0]}")
    if shard is not None:
        number, of = shard
        candidates = candidates[number - 1 :: of]
    found = read_problem(problem, own_kernels == "on")
    options = GradingOptions(cases, seed, Isolation(isolate == "on", memory, timeout), every or reward)
    is_text = form == "text" and not reward and not feedback
    if is_text and isolate == "on":
        for what in lacking():
            click.echo(f"kcheck: candidates are confined less than elsewhere: {what}", err=True)
    names = max((len(str(path)) for path in candidates), default=0)
    by_name: dict[str, Graded] = {}
    try:
        for each in graded(found, candidates, options, cores() if jobs == "auto" else int(jobs)):
            by_name[each.candidate] = each
            if is_text:
                say("\n".join(report.text(each, names, width())))
            elif form == "json":
                click.echo(report.lines_of_json([each]), nl=False)
    except KernelError as error:
        raise SpecError([error.fault]) from error
    ended = [by_name[str(path)] for path in candidates]
    if reward:
        say("\n".join(f"{each.reward:g}" for each in ended))
    elif feedback:
        say("\n\n".join(map(report.feedback, ended)))
    elif form == "junit":
        click.echo(report.junit(found.name, ended), nl=False)
    elif form == "html":
        click.echo(report.page(found.name, ended), nl=False)
    elif is_text:
        if ended:
            say()
            say_table(report.rows(ended))
            say()
        say(report.totals(ended))
    return Exit.GOOD if all(each.verdict == "correct" for each in ended) else Exit.FAILED
