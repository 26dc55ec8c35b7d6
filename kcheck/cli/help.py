"""Help pages: examples come first, then the text, then the options."""

from __future__ import annotations

import os
import re
import shutil
import textwrap
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import click

COMPLETION = "_KCHECK_COMPLETE"
"""Set by the completion script of a shell."""
_VERBATIM = "\b"  # click's mark for a paragraph that is not to be wrapped
_NARROW = 60
"""On a narrower terminal, the text of an option is below its name."""


class Formatter(click.HelpFormatter):
    """Click's formatter, which moves the examples of a help text up, under a heading.

    An example is a line in a paragraph marked with ``\\b`` whose first line is a command line of kcheck.
    Click writes at least 50 columns; this one fits the terminal.
    """

    def __init__(self, indent_increment: int = 2, width: int | None = None, max_width: int | None = None) -> None:
        if width is None:
            width = max(min(shutil.get_terminal_size().columns, max_width or 80) - 2, 20)
        super().__init__(indent_increment, width, max_width)

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        """Write the usage line. It breaks only at spaces, not at the hyphen in `[op-...`."""
        self._write_lines(_folded(f"{prefix or 'Usage: '}{prog} {args}", self.width, ""))

    def write_text(self, text: str) -> None:
        """Write a help text: its first sentence, its examples, the rest."""
        parts = [part for part in re.split(r"\n[ \t]*\n", text) if part.strip()]
        if not parts:
            return
        first, *rest = parts
        examples = [part for part in rest if _is_example(part)]
        self._write_paragraph(first)
        if examples:
            self.dedent()
            with self.section("Examples"):
                for line in (line for part in examples for line in _lines(part)):
                    self._write_example(line)
            self.indent()
        for part in rest:
            if part not in examples:
                self.write_paragraph()
                self._write_paragraph(part)

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        """Write options or commands in two columns, or on a narrow terminal each text below its name."""
        if self.width >= _NARROW:
            super().write_dl(list(rows), col_max, col_spacing)
            return
        indent = " " * self.current_indent
        for name, text in rows:
            choices = _folded(name.replace("|", "| "), self.width, indent)  # breaks after a "|"
            self._write_lines(line.replace("| ", "|") for line in choices)
            for paragraph in text.splitlines():
                self._write_lines(_folded(paragraph, self.width, indent * 2, indent * 2))

    def _write_paragraph(self, part: str) -> None:
        """Write a paragraph that is not an example.
        If it is a table that is too wide, each text is below its name."""
        indent = " " * self.current_indent
        if part.split(maxsplit=1)[0] != _VERBATIM:
            self._write_lines(_folded(part, self.width, indent, indent))
            return
        lines = [indent + line for line in _lines(part)]
        if max(map(len, lines)) <= self.width + 2:
            self._write_lines(lines)
            return
        for line in lines:
            name, _, text = line.strip().partition("  ")
            deeper = line[: len(line) - len(line.lstrip())]
            self._write_lines([deeper + name] if text else _folded(name, self.width, deeper))
            self._write_lines(_folded(text.strip(), self.width, deeper + "    ", deeper + "    "))

    def _write_example(self, line: str) -> None:
        """Write one command line. If it does not fit, continue it with `\\`, and write its comment below."""
        indent = " " * self.current_indent
        if len(indent + line) <= self.width + 2:
            self._write_lines([indent + line])
            return
        command, _, comment = line.partition("   ")
        quoted = re.sub(r"'[^']*'", lambda words: words[0].replace(" ", "\0"), command)
        *first, last = (piece.replace("\0", " ") for piece in _folded(quoted, self.width, indent))
        self._write_lines([*(f"{piece} \\" for piece in first), last])
        self._write_lines(_folded(comment.strip(), self.width, indent * 3, indent * 3))

    def _write_lines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(f"{line}\n")


def _folded(text: str, width: int, indent: str, more: str | None = None) -> list[str]:
    """The lines of a text, broken at spaces.
    The first starts with `indent`, the others with `more`; default: `indent` and four spaces."""
    rest = indent + "    " if more is None else more
    return textwrap.wrap(
        text, width, initial_indent=indent, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False
    )


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
        """Call a command's function. Errors that it raises itself get no
        usage line: their messages name the fix."""
        if isinstance(callback, click.Command):
            return super().invoke(callback, *args, **kwargs)
        with self:
            return callback(*args, **kwargs)


def prepared(command: click.Command) -> click.Command:
    """Set this module's context class on a command and its subcommands; returns the command."""
    command.context_class = HelpContext
    if COMPLETION in os.environ:
        from kcheck.cli.complete import install

        install(command)
    for inner in command.commands.values() if isinstance(command, click.Group) else ():
        prepared(inner)
    return command
