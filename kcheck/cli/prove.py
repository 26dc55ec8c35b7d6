"""``kcheck prove``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kcheck.cli.exits import Exit, worst
from kcheck.cli.params import COLOR

if TYPE_CHECKING:
    from kcheck.model import OpSpec, SpecRefused
    from kcheck.prover.proofs import Proof, Proved


@click.command("prove")
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path), metavar="[SPEC]...")
@click.option("-r", "--recursive", is_flag=True, help="Include specs in subfolders.")
@click.option("--strict", is_flag=True, help="Exit with 1 even if something is only undecided.")
@click.option(
    "--format",
    "format_",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="The format of the report.",
)
@click.option("--verbose", "-v", is_flag=True, help="Show the assumptions, and every reason.")
@COLOR
def command(
    paths: tuple[Path, ...], *, recursive: bool, strict: bool, format_: str, verbose: bool, color: str
) -> int:
    """Prove memcheck, racecheck, synccheck and overflow for all sizes.

    For each kernel and each check: *proved* for every size, param, layout and block that the spec allows;
    *refuted* by a case that was run and fails; or *undecided*, with the line and the reason. What the spec says is
    assumed, and nothing else. Needs the solver z3: pip install "kcheck[prove]". Default paths: all specs of the
    project.

    \b
      kcheck prove specs/matmul.yaml
      kcheck prove -v specs/matmul.yaml         with the assumptions
      kcheck prove --strict --format json
    """
    from kcheck.cli.outputs import claimed_stdout
    from kcheck.cli.specs import collect, none_found, project_specs
    from kcheck.prover.prover import require_solver

    require_solver()
    paths = paths or project_specs("prove")
    found = collect(paths, recursive=recursive)
    if not found:
        click.echo(f"kcheck: {none_found(paths, may_recurse=not recursive)}", err=True)
        return Exit.NOTHING
    done: list[Proved] = []
    codes: list[Exit] = []
    with claimed_stdout() as out:
        for one in _proved(found, codes):
            done.append(one)
            if format_ == "text":
                for line in _lines(one, verbose):
                    click.echo(line, file=out, color={"always": True, "never": False}.get(color))
        if format_ == "json":
            click.echo(json.dumps({"proofs": [as_json(one) for one in done]}, indent=1), file=out)
        elif done:
            click.echo(_totals(done), file=out)
    words = {proof.word for one in done for proof in one.proofs}
    if "refuted" in words or (strict and "undecided" in words):
        codes.append(Exit.FAILED)
    return worst(codes)


def _proved(found: Sequence[OpSpec | SpecRefused], codes: list[Exit]) -> Iterator[Proved]:
    """The verdicts of each spec; a spec that cannot be read or loaded is reported on stderr, and is a code."""
    from kcheck.device import choose_for
    from kcheck.errors import KernelError, SpecError
    from kcheck.model import OpSpec
    from kcheck.prover.kept import KeptProofs
    from kcheck.prover.refute import refute
    from kcheck.prover.verdicts import decide
    from kcheck.store import Recorder

    specs = [spec for spec in found if isinstance(spec, OpSpec)]
    for refused in found:
        if not isinstance(refused, OpSpec):
            codes.append(Exit.USAGE)
            for fault in refused.faults:
                click.echo(f"kcheck: {fault}", err=True)
    if not specs:
        return
    device, kept = choose_for(specs, "cpu"), KeptProofs()
    for spec in specs:
        try:
            answer = refute(decide(spec, device, kept=kept), device)
        except (SpecError, KernelError) as error:
            codes.append(Exit.USAGE)
            click.echo(f"kcheck: {error}", err=True)
            continue
        if answer.events:
            recorder = Recorder(lambda why: click.echo(f"kcheck: {why}", err=True))
            for event in answer.events:
                recorder.handle(event)
        kept.record(answer.proved)
        yield answer.proved


_COLORS = {"proved": "green", "refuted": "red", "undecided": "yellow", "off": None}


def _lines(one: Proved, verbose: bool) -> Iterator[str]:
    """A spec in at most 80 columns: a line with the verdicts, then what is not proved."""
    yield click.style(one.spec.op, bold=True) + f"  {one.seconds:.1f} s"
    if verbose:
        for row in one.assumptions:
            yield f"  assumed    {row}"
    for proof in one.proofs:
        yield f"  {proof.check:<10} " + click.style(proof.word, fg=_COLORS[proof.word])
        yield from _why(one.spec, proof, verbose)


def _why(spec: OpSpec, proof: Proof, verbose: bool) -> Iterator[str]:
    import textwrap

    indent = " " * 13
    if proof.word == "refuted":
        yield from textwrap.wrap(proof.finding, 80, initial_indent=indent, subsequent_indent=indent)
        yield f"{indent}→ kcheck reproduce {proof.seed} --op {spec.op}"
        return
    for reason in proof.reasons if verbose else proof.reasons[:1]:
        yield from textwrap.wrap(reason.text, 80, initial_indent=indent, subsequent_indent=indent)
        if reason.fix:
            yield from textwrap.wrap(f"→ {reason.fix}", 80, initial_indent=indent, subsequent_indent=indent + "  ")


def _totals(done: Sequence[Proved]) -> str:
    words = [proof.word for one in done for proof in one.proofs]
    told = [f"{words.count(word)} {word}" for word in ("proved", "refuted", "undecided") if word in words]
    return "\n" + ", ".join(told)


def as_json(one: Proved) -> dict[str, Any]:
    """A spec's verdicts as data."""
    return {
        "op": one.spec.op,
        "spec": one.spec.path,
        "seconds": round(one.seconds, 3),
        "kernels": one.kernels,
        "assumptions": list(one.assumptions),
        "checks": {
            proof.check: {
                "verdict": proof.word,
                "reasons": [
                    {
                        "message": reason.message,
                        "fix": reason.fix,
                        "line": None if reason.place is None else reason.place.line,
                    }
                    for reason in proof.reasons
                ],
                "case_seed": proof.seed,
                "finding": proof.finding,
            }
            for proof in one.proofs
        },
    }
