"""The ``kcheck`` command: find the subcommand, run it, turn every ending into an exit code.

Imports click and nothing heavier. A subcommand's module is imported when it is called.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module

import click
from click.core import ParameterSource

from kcheck.cli.exits import Exit
from kcheck.cli.help import HelpContext, prepared
from kcheck.errors import SpecError, UserError
from kcheck.interpreter import with_room
from kcheck.nearest import did_you_mean
from kcheck.version import __version__

SECTIONS = {
    "Start": {
        "init": "Create an example project, or draft a spec for a kernel.",
        "try": "Run the sanitizers on a kernel that has no spec.",
        "doctor": "Check the installation: versions, devices, caches, project.",
    },
    "Check kernels": {
        "run": "Run the cases of op specs and check the results.",
        "ci": "Validate, run, lint and compare specs; write all reports.",
        "validate": "Check op specs for mistakes without running anything.",
        "coverage": "Show which sizes, dtypes and lines the cases have covered.",
        "cases": "List the cases of a spec without running them.",
        "spec": "Print the YAML of a spec that is declared in Python.",
        "prove": "Prove memory safety and race freedom for all sizes.",
        "lint": "Report registers, spills, occupancy and slow code of kernels.",
        "grade": "Judge untrusted kernels, each in a confined process.",
        "exec": "Run a numba.cuda, Triton or CUDA C++ program on the cpu device.",
    },
    "Failures": {
        "failures": "List the failures that are not fixed.",
        "show": "Show a stored failure: inputs, worst elements, source lines.",
        "reproduce": "Run a failing case again to see whether it is fixed.",
        "minimize": "Find the smallest case that fails the same way.",
        "export": "Write a case to a file that `kcheck reproduce` runs anywhere.",
        "runs": "List the stored runs.",
        "report": "Write reports of stored runs.",
        "merge": "Write one report from the reports of several machines.",
        "keygen": "Generate a key pair for signing reports.",
        "verify": "Check the signature of a report.",
        "gc": "Delete old runs and stored inputs to free disk space.",
    },
    "Compare over time": {
        "baseline": "Save, list and remove baselines.",
        "diff": "Show regressions against a baseline.",
        "calibrate": "Measure errors of correct kernels, for calibrated tolerances.",
    },
    "Settings": {
        "lsp": "Start the language server: errors in specs as you type.",
        "config": "Show the project's settings and where each value comes from.",
        "completion": "Print the shell completion script, or explain how to install it.",
        "schema": "Print the JSON Schema of specs, settings or reports.",
    },
}
"""Every subcommand with its line in ``kcheck --help``.
Its function is ``command`` in the module of the same name."""
COMMANDS = {name: line for section in SECTIONS.values() for name, line in section.items()}


_MODULES = {"try": "try_"}  # `try` is a keyword of Python


class Subcommands(click.Group):
    """A group that imports a command when it is called, and suggests the nearest name for a mistyped one."""

    context_class = HelpContext

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Imports the command's module."""
        if cmd_name not in COMMANDS:
            return None
        return prepared(import_module(f"kcheck.cli.{_MODULES.get(cmd_name, cmd_name)}").command)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands, then the options."""
        self.format_commands(ctx, formatter)
        click.Command.format_options(self, ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Lists the commands from the table, so that help imports none of them."""
        width = max(map(len, COMMANDS))
        for title, commands in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), line) for name, line in commands.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Like click's, with a suggestion for a name that is not a command."""
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            fix = did_you_mean(name, COMMANDS) or "`kcheck --help` lists the commands"
            if os.path.exists(name):
                fix = f"to run it: kcheck run {name}"
            ctx.fail(f"no command '{name}'; {fix}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        """Run the command. A closed pipe is raised as PipeClosed: click would exit with 1, which is a verdict."""
        try:
            code: object = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError as error:
            raise PipeClosed from error
        return code


class PipeClosed(Exception):
    """The reader of stdout has gone, as in ``kcheck cases x.yaml | head``."""


@click.group(
    cls=Subcommands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 all checks passed, 1 a check failed, 2 usage or spec error, 3 internal error, "
    "5 nothing selected, 130 interrupted.",
)
@click.version_option(__version__, "-V", "--version", message="kcheck %(version)s")
@click.pass_context
def group(ctx: click.Context) -> None:
    """Find silent bugs in GPU kernels, with or without a GPU.

    \b
      kcheck run                         check every spec of this project
      kcheck run specs/softmax.yaml -x   one spec, up to its first failure
      kcheck COMMAND --help              examples and options of a command
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help(), err=True)  # nothing was checked, so this must not count as success
        ctx.exit(Exit.USAGE)


@with_room
def main(arguments: Sequence[str] | None = None, obj: object = None) -> int:
    """Run ``kcheck`` and return its exit code. Every kind of ending gets its exit code and its message here.

    Args:
        arguments: without the program's name; default: those of the process.
        obj: ``ctx.obj`` of the command.
    """
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    # Python has None for a stream that was closed when it started, as by `kcheck run >&-`.
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115  # open until the process ends
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    try:
        code = group.main(arguments, prog_name="kcheck", standalone_mode=False, obj=obj)
        return int(code) if code is not None else Exit.GOOD
    except PipeClosed:
        # Python flushes stdout at exit, and nothing reads it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.PIPE
    except click.Abort:
        click.echo("kcheck: interrupted", err=True)
        return Exit.INTERRUPTED
    except KeyboardInterrupt:
        click.echo("kcheck: interrupted", err=True)
        return Exit.INTERRUPTED
    except click.ClickException as error:
        _show(error)
        return Exit.USAGE
    except SpecError as error:
        click.echo(str(error), err=True)  # each line begins with file:line:column
        return Exit.USAGE
    except UserError as error:
        click.echo(f"kcheck: error: {error}", err=True)
        return Exit.USAGE
    except Exception as error:
        from kcheck.cli.full import full_disk

        if says := full_disk(error):
            return _no_space(says)
        if isinstance(error, UnicodeEncodeError) and sys.getfilesystemencoding() != "utf-8":
            from kcheck.specfile.paths import ASCII_NAMES, UTF_8

            click.echo(f"kcheck: error: {ASCII_NAMES}; {UTF_8}", err=True)
            return Exit.USAGE
        return internal_error(error, arguments)


def _no_space(says: str) -> Exit:
    """Report a full disk: stdout, the store or the cache."""
    click.echo(f"kcheck: error: {says}", err=True)
    try:
        sys.stdout.flush()
    except OSError:  # stdout itself is full: leave nothing to flush when Python exits
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return Exit.USAGE


def _show(error: click.ClickException) -> None:
    """Print what is wrong with the command line, with the usage line if an option or argument is wrong.

    Click adds the context to errors that it raises while it parses. Errors that a command raises have no context:
    their messages say what to do.
    """
    if isinstance(error, click.BadParameter):
        _name_where_given(error)
    message = error.format_message()
    if isinstance(error, click.NoSuchOption) and error.possibilities:
        *others, last = [f"'{name}'" for name in sorted(error.possibilities)]
        message = f"{error.message.rstrip('.')}; did you mean {', '.join(others)}{' or ' if others else ''}{last}?"
    if message[1:2].islower():
        message = message[0].lower() + message[1:]
    click.echo(f"kcheck: error: {message.rstrip('.')}", err=True)
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is not None:
        click.echo(f"\n{context.get_usage()}\nFor help: {context.command_path} --help", err=True)


def _name_where_given(error: click.BadParameter) -> None:
    """Name the option or the variable that holds a bad value: click names the variable in any event."""
    param, context = error.param, error.ctx
    if error.param_hint is not None or param is None or context is None or not getattr(param, "envvar", None):
        return
    source = context.get_parameter_source(param.name or "")
    if source is ParameterSource.ENVIRONMENT:
        error.param_hint = f"the variable {param.envvar}"
    elif source is ParameterSource.COMMANDLINE:
        error.param_hint = f"'{' / '.join(param.opts)}'"


def internal_error(error: BaseException, arguments: Sequence[str]) -> Exit:
    """Report an error in kcheck itself, and the log to attach to a bug report."""
    from kcheck.cli.crash import write_log

    what = f"kcheck: internal error: {type(error).__name__}: {error}"
    try:
        log = write_log(error, arguments)
    except OSError as unwritable:
        click.echo(f"{what}\nkcheck: please report it with this traceback (no log: {unwritable}):", err=True)
        sys.excepthook(type(error), error, error.__traceback__)
    else:
        click.echo(f"{what}\nkcheck: please report it and attach {log}", err=True)
    return Exit.FAULT
