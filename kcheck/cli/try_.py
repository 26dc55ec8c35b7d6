"""``kcheck try``."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kcheck.cli.init import split_kernel
from kcheck.cli.params import CASES, COLOR, DEVICE, SEED, TIME_LIMIT
from kcheck.cli.sanitize import Sanitize
from kcheck.cli.settings import given, sanitize_levels, settings_for
from kcheck.errors import SpecError, UserError
from kcheck.model import LEVELS, Level

if TYPE_CHECKING:
    from kcheck.draft import Sketch
    from kcheck.model import OpSpec

SANITIZE = Sanitize()
_CASES = 30


@click.command("try")
@click.argument("kernel", metavar="FILE:KERNEL")
@click.option(
    "--dims", metavar="M=1..64,...", default="", help="Sizes of each dimension: a range, a number or a list."
)
@click.option(
    "--args",
    metavar="x[M,N],...",
    default="",
    help="The kernel's arguments in order: x[M,N], x[M,N]:float16, alpha=0.5:float32, or a dimension.",
)
@click.option(
    "--grid", metavar="X[,Y[,Z]]", default="", help="Number of blocks along each axis, or an expression."
)
@click.option("--block", metavar="X[,Y[,Z]]", default="", help="Number of threads per block along each axis.")
@DEVICE
@click.option("--cases", type=CASES, metavar="N", default=_CASES, show_default=True, help="Number of cases.")
@click.option("--seed", type=SEED, metavar="S", default=0, show_default=True, help="Seed of the cases.")
@click.option("--case-seed", type=SEED, metavar="S", help="Run only the case with this seed.")
@click.option(
    "--sanitize",
    type=SANITIZE,
    multiple=True,
    metavar="NAME[=LEVEL]",
    help=f"Set the level of a sanitizer: {', '.join(LEVELS)} (default: error). "
    f"NAME is {', '.join(SANITIZE.names)}, or all. Repeatable.",
)
@TIME_LIMIT
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the draft of a spec to this file.",
)
@click.option("-v", "--verbose", is_flag=True, help="Show every failing case in full.")
@COLOR
def command(
    *,
    kernel: str,
    dims: str,
    args: str,
    grid: str,
    block: str,
    device: str,
    cases: int,
    seed: int,
    case_seed: int | None,
    sanitize: tuple[tuple[str, Level], ...],
    timeout: float | None,
    output: Path | None,
    verbose: bool,
    color: str,
) -> int:
    """Run the sanitizers on a kernel that has no spec.

    \b
      kcheck try ops.py:scale
      kcheck try ops.py:scale --dims 'M=1..64,N=1..2048' --args 'x[M,N],y[M,N]'
      kcheck try ops.py:scale --args 'x[N],alpha=0.5:float32,y[N],N:int32'

    Infers the options that you omit from the kernel's source, and prints them. Checks memory accesses, races,
    uninitialized memory, barriers and determinism on random inputs. Does not check results, which requires a
    reference. Prints the draft of a spec at the end.
    """
    from kcheck.draft import Words, apply, op_name, sketch, spec_text
    from kcheck.specfile.paths import nearest_root

    path, name = split_kernel(kernel)
    if output is not None and os.path.lexists(output):
        raise UserError(f"-o {output}: the file already exists; name another one")
    root = nearest_root(path) or Path(os.path.abspath(path)).parent
    drawn = apply(sketch(path, name), Words(dims, args, grid, block))
    place = f"{Path(os.path.relpath(path.resolve(), root.resolve())).as_posix()}:{drawn.kernel or name}"
    spec = _spec(spec_text(drawn, place, place), path, root, {"--dims": dims, "--args": args})
    for line in _plan(drawn, kernel, bool(args), bool(grid)):
        click.echo(line)
    settings = settings_for([path])
    code = _run(
        spec,
        verbosity=int(verbose),
        color=color,
        device=given("device", settings.device),
        timeout=given("timeout", settings.timeout),
        count=cases,
        seed=seed,
        case_seed=case_seed,
        sanitize=sanitize_levels(SANITIZE, sanitize),
        replay_by=_replay(kernel, dims, args, grid, block),
    )
    op = op_name(name)
    text = spec_text(drawn, place, f"references/{op}.py:{op}")
    click.echo("\nNot checked: results. To check them, write a reference in NumPy and a spec:")
    if output is None:
        click.echo(f"`kcheck init --kernel {shlex.quote(kernel)}` drafts both. The spec:\n")
        click.echo(text, nl=False)
    else:
        output.write_text(text, encoding="utf-8")
        click.echo(f"wrote {output}; `kcheck init --kernel {shlex.quote(kernel)}` also drafts the reference")
    return code


def _spec(text: str, path: Path, root: Path, typed: Mapping[str, str]) -> OpSpec:
    """The spec that is run. An error in its text is an error in the options, so it is reported without a line.

    Args:
        typed: options and their values, empty if they were not used.
    """
    from kcheck.specfile.build import spec_without_reference

    # Kernels often leave elements unwritten on purpose, and the signature does not say which inputs may change.
    levels = "sanitize: {unwritten: warn, mutated: off}\n"
    try:
        return spec_without_reference(text + levels, path, root)
    except SpecError as error:
        written = text.splitlines()
        lines = [
            f"{_option(written[: fault.span.line], typed)}{fault.what}{f'; {fault.fix}' if fault.fix else ''}"
            for fault in error.faults
        ]
        raise UserError("\n".join(dict.fromkeys(lines))) from None


_OPTIONS = {"dims": "--dims", "inputs": "--args", "outputs": "--args", "params": "--args"}


def _option(lines: Sequence[str], typed: Mapping[str, str]) -> str:
    """``--dims: `` if the last of some lines of a spec is from this option; empty if it is from no option."""
    keys = (line.partition(":")[0] for line in reversed(lines) if line[:1].isalpha())
    option = _OPTIONS.get(next(keys, ""), "")
    return f"{option}: " if typed.get(option) else ""


def _run(
    spec: OpSpec, *, verbosity: int, color: str, device: str, replay_by: tuple[str, ...], **asked: object
) -> int:
    from kcheck.cli.outputs import ReportOutput
    from kcheck.cli.reports import Reports
    from kcheck.device import choose
    from kcheck.runner import Options, run

    options = Options(
        command=shlex.join(["kcheck", *sys.argv[1:]]),
        device="" if device == "auto" else device,
        replay_by=replay_by,
        **asked,  # type: ignore[arg-type]  # names and types are those of Options
    )
    with Reports((ReportOutput("text", None),), verbosity=verbosity, color=color) as reports:
        return reports.consume(run([spec], options, choose(device, [])))


def _replay(kernel: str, dims: str, args: str, grid: str, block: str) -> tuple[str, ...]:
    words = ["kcheck", "try", kernel]
    for option, value in (("--dims", dims), ("--args", args), ("--grid", grid), ("--block", block)):
        words += [option, value] if value else []
    return tuple(words)


def _plan(drawn: Sketch, kernel: str, has_args: bool, has_grid: bool) -> Iterator[str]:
    """The lines that describe the run: each argument, the sizes and the launch, and how each was determined."""
    from kcheck.draft import default_sizes, guessed_values

    rows = []
    for argument in drawn.arguments:
        if argument.kind == "array":
            uses = {(True, False): "read", (False, True): "written", (True, True): "read and written"}
            what = f"[{', '.join(argument.shape)}] {argument.dtype or 'float32'}"
            rows.append((argument.name, what, uses[argument.loads, argument.stores]))
        elif argument.kind == "scalar":
            values = argument.values or guessed_values(argument.dtype)
            source = "launches in the file" if argument.is_launched else "--args" if argument.values else "a guess"
            rows.append((argument.name, f"{values} {argument.dtype}", source))
        elif argument.kind == "stride":
            array, _, axis = argument.stride.partition(", ")
            rows.append((argument.name, f"stride of {array}, axis {axis}", ""))
        else:
            rows.append((argument.name, f"dim {argument.dim}", ""))
    rows += [(name, value, "a constant") for name, value in (drawn.constants or {}).items()]
    for name in drawn.dims:
        sizes = drawn.domains.get(name)
        rows.append((name, sizes or default_sizes(drawn, name), "--dims" if sizes else "default"))
    unsure = any("grid" in guess for guess in drawn.guesses)
    grid_from = (
        "--grid" if has_grid else "a guess: check it, or use --grid" if unsure else "from the kernel's indexes"
    )
    rows.append(("grid", f"[{', '.join(drawn.grid)}]", grid_from))
    block_from = drawn.block_from or "default"
    if drawn.block_is_guess:
        block_from += ": check it, or use --block"
    if drawn.constants is None:  # otherwise Triton sets it
        rows.append(("block", f"[{', '.join(map(str, drawn.block))}]", block_from))
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    yield f"{kernel} · arguments {'from --args' if has_args else 'as read from the kernel'}"
    for name, what, source in rows:
        yield f"  {name:<{widths[0]}}  {what:<{widths[1]}}  {source}".rstrip()
    for guess in drawn.guesses:
        if "grid" not in guess:
            yield f"  note: {guess}"
    yield ""
