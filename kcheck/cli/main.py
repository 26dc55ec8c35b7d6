"""The ``kcheck`` command: finds the subcommand, and turns every ending into an exit code.

Imports click and nothing heavier; a subcommand's module is imported when it is called.
"""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Sequence
from importlib import import_module

import click

from kcheck import __version__
from kcheck.cli.exits import Exit
from kcheck.errors import SpecError, UserError

COMMANDS = {
    "run": "Run the cases of op specs and judge them.",
    "validate": "Check op specs for mistakes, running nothing.",
    "cases": "List the cases of a spec, running nothing.",
    "calibrate": "Measure how far correct kernels are off, for `tolerance: calibrated`.",
    "runs": "List the runs that were stored.",
    "failures": "List the cases that failed and are not fixed.",
    "show": "Show a stored failure: inputs, worst elements, where the error lies.",
    "reproduce": "Run a case that failed once more: fixed, still failing, or gone.",
    "minimize": "Find the smallest case that fails as a stored one does, and what matters.",
    "export": "Write a case into a file that `kcheck reproduce` runs anywhere.",
    "gc": "Forget old runs and snapshots, and give the space back.",
    "lint": "Measure compiled kernels: registers, spills, occupancy, what is slow.",
    "baseline": "Keep what kernels are like now, to hold later ones against it.",
    "diff": "Say what has become worse since a baseline.",
    "exec": "Run any numba.cuda program on the cpu device.",
    "config": "Show the project's settings, and where each value is from.",
    "schema": "Print the JSON Schema of op specs or of reports.",
}
"""Every subcommand with its line in ``kcheck --help``; its code is ``command`` in the module of its name."""


class Subcommands(click.Group):
    """A group whose commands are imported one at a time, and which guesses what a mistyped one meant."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order of the table: what is used most comes first."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Imports the command's module."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"kcheck.cli.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Lists the commands from the table, so that help imports none of them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does it, with a guess for a name that is not a command."""
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            near = difflib.get_close_matches(name, COMMANDS, n=1, cutoff=0.5)
            if near:
                mend = f"did you mean '{near[0]}'?"
            elif os.path.exists(name):
                mend = f"to run it: kcheck run {name}"
            else:
                mend = f"the commands are {', '.join(COMMANDS)}"
            ctx.fail(f"no command '{name}'; {mend}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        """Runs the command. A closed pipe leaves here as PipeClosed: click would exit with 1, a verdict."""
        try:
            code: object = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError as error:
            raise PipeClosed from error
        return code


class PipeClosed(Exception):
    """Nobody reads stdout any more, as in ``kcheck cases x.yaml | head``."""


@click.group(
    cls=Subcommands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 all good, 1 a check failed, 2 usage or spec error, 3 a fault of kcheck, "
    "5 nothing selected, 130 interrupted.",
)
@click.version_option(__version__, message="kcheck %(version)s")
@click.pass_context
def group(ctx: click.Context) -> None:
    """Find the silent bugs of GPU kernels: seeded cases, fp64 references, one YAML file per op."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help(), err=True)  # nothing was checked, so this is no success
        ctx.exit(Exit.USAGE)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs ``kcheck`` and returns its exit code; every kind of ending is told apart here.

    Args:
        arguments: without the program's name; those of the process when left out.
    """
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    # Python has None for a stream that was closed when it started, as by `kcheck run >&-`.
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115  # open until the process ends
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    try:
        code = group.main(arguments, prog_name="kcheck", standalone_mode=False)
        return int(code) if code is not None else Exit.GOOD
    except PipeClosed:
        # What Python would flush at its end has nowhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.PIPE
    except click.Abort:
        click.echo("kcheck: interrupted", err=True)
        return Exit.INTERRUPTED
    except KeyboardInterrupt:
        click.echo("kcheck: interrupted", err=True)
        return Exit.INTERRUPTED
    except click.ClickException as error:
        error.show()
        return Exit.USAGE
    except SpecError as error:
        click.echo(str(error), err=True)  # each fault begins with its place
        return Exit.USAGE
    except UserError as error:
        click.echo(f"kcheck: {error}", err=True)
        return Exit.USAGE
    except Exception as error:
        return fault(error, arguments)


def fault(error: BaseException, arguments: Sequence[str]) -> Exit:
    """Says that kcheck itself is at fault, and where the log is."""
    from kcheck.cli.crash import write_log

    click.echo(f"kcheck: a fault of kcheck, not of your kernel: {type(error).__name__}: {error}", err=True)
    try:
        log = write_log(error, arguments)
    except OSError as unwritable:
        click.echo(f"kcheck: the log could not be written ({unwritable}); the traceback:", err=True)
        sys.excepthook(type(error), error, error.__traceback__)
    else:
        click.echo(f"kcheck: the log is {log}; please attach it when you report this", err=True)
    return Exit.FAULT
