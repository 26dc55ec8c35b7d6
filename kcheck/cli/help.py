"""Help pages: examples come first, then the text, then the options."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from typing import Any

import click

COMPLETION = "_KCHECK_COMPLETE"
"""Set by the completion script of a shell."""
_VERBATIM = "\b"  # click's mark for a paragraph that is not to be wrapped


class Formatter(click.HelpFormatter):
    """Click's formatter, which moves the examples of a help text up, under a heading.

    An example is a line in a paragraph marked with ``\\b`` whose first line is a command line of kcheck.
    """

    def write_text(self, text: str) -> None:
        """Write a help text: its first sentence, its examples, the rest."""
        first, *rest = [part for part in re.split(r"\n[ \t]*\n", text) if part.strip()] or [""]
        examples = [part for part in rest if _is_example(part)]
        super().write_text(first)
        if examples:
            self.dedent()
            with self.section("Examples"):
                for line in (line for part in examples for line in _lines(part)):
                    self.write(f"{'':>{self.current_indent}}{line}\n")
            self.indent()
        for part in rest:
            if part not in examples:
                self.write_paragraph()
                super().write_text(part)


def _is_example(part: str) -> bool:
    lines = part.strip("\n").splitlines()
    return lines[0].strip() == _VERBATIM and any(line.strip().startswith("kcheck") for line in lines[1:2])


def _lines(part: str) -> Iterator[str]:
    lines = [line for line in part.splitlines() if line.strip() and line.strip() != _VERBATIM]
    margin = min(len(line) - len(line.lstrip()) for line in lines)
    for line in lines:
        yield line[margin:].rstrip()


class HelpContext(click.Context):
    """The context of every command of kcheck."""

    formatter_class = Formatter

    def invoke(self, callback: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call a command's function. What it raises itself gets no usage line: its message names the fix."""
        if isinstance(callback, click.Command):
            return super().invoke(callback, *args, **kwargs)
        with self:
            return callback(*args, **kwargs)


def prepared(command: click.Command) -> click.Command:
    """The command, with this module's context; those below it, too."""
    command.context_class = HelpContext
    if COMPLETION in os.environ:
        from kcheck.cli.complete import install

        install(command)
    for inner in command.commands.values() if isinstance(command, click.Group) else ():
        prepared(inner)
    return command
