"""Where reports go: each ``-o`` belongs to the ``--format`` before it; files are replaced atomically."""

from __future__ import annotations

import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path
from typing import TextIO

import click

from kcheck.cli.full import FULL
from kcheck.dataclass import dataclass
from kcheck.errors import UserError

_BY_SUFFIX = {".html": "html", ".json": "json", ".md": "markdown", ".sarif": "sarif"}
"""The format to suggest for a file; for any other suffix, ``junit``."""


@dataclass(frozen=True, slots=True)
class ReportOutput:
    """One report: its format and its file, None for stdout, or for stderr with ``to_stderr``."""

    format: str
    path: Path | None
    to_stderr: bool = False


class PairedCommand(click.Command):
    """A command that remembers the order of its options: each ``-o`` belongs to the ``--format`` before it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Record the order in ``ctx.meta``, then parse as usual."""
        _, _, order = self.make_parser(ctx).parse_args(args=list(args))
        ctx.meta["kcheck.order"] = [param.name for param in order if param.name in ("formats", "files")]
        return super().parse_args(ctx, args)


def pair(order: Sequence[str], formats: Sequence[str], files: Sequence[str]) -> tuple[ReportOutput, ...]:
    """The requested reports; text on stdout is added if no other report goes to stdout.

    Args:
        order: ``formats`` and ``files``, one for each option in the order given.
        formats: the values of ``--format``.
        files: the values of ``-o``; ``-`` is stdout.

    Raises:
        click.UsageError: a file without a format, two files for one format, two reports for one file.
    """
    found: list[ReportOutput] = []
    remaining_formats, remaining_files = list(formats), list(files)
    open_format = False
    for name in order:
        if name == "formats":
            found.append(ReportOutput(remaining_formats.pop(0), None))
            open_format = True
            continue
        file = remaining_files.pop(0)
        if not open_format:
            said = f"after '-o {found[-1].path}'" if found else "before it"
            name = _BY_SUFFIX.get(Path(file).suffix, "junit")
            raise click.UsageError(f"-o {file}: no --format {said}; write '--format {name} -o {file}'")
        open_format = False
        if file != "-":
            found[-1] = ReportOutput(found[-1].format, Path(file))
    on_stdout = [output.format for output in found if output.path is None]
    if len(on_stdout) > 1:
        raise click.UsageError(
            f"--format {' and --format '.join(on_stdout)} both go to stdout; give all but one a file with -o"
        )
    places = [output.path.resolve() for output in found if output.path is not None]
    twice = next((place for place in places if places.count(place) > 1), None)
    if twice is not None:
        raise click.UsageError(f"-o {twice} is given twice; each report needs its own file")
    return tuple(found) if on_stdout else (ReportOutput("text", None), *found)


class ReportFile:
    """A file that appears whole or not at all: written to a temporary file next to it, then renamed.

    A special file (``/dev/null``, a pipe) is written directly. A symbolic link stays a link.

    Args:
        option: the option that names the file, for messages.

    Raises:
        click.UsageError: the file cannot be written. Raised before anything runs.
    """

    def __init__(self, path: Path, option: str = "-o") -> None:
        self.path = path
        self._option = option
        self._target = Path(os.path.realpath(path))
        self._temporary: str | None = None
        try:
            self.stream = self._open()
        except FileNotFoundError:
            raise click.UsageError(f"{option} {path}: no such folder: '{path.parent}'; create it first") from None
        except OSError as error:
            raise click.UsageError(f"{option} {path}: cannot write the file: {error.strerror}") from None

    def _open(self) -> TextIO:
        try:
            mode = self._target.stat().st_mode
        except FileNotFoundError:
            mode = None
        if mode is not None and stat.S_ISDIR(mode):
            raise click.UsageError(f"{self._option} {self.path} is a folder; name a file in it")
        if mode is not None and not stat.S_ISREG(mode):
            return self._target.open("w", encoding="utf-8", newline="\n")
        handle, self._temporary = tempfile.mkstemp(dir=self._target.parent, prefix=f".{self._target.name}.")
        os.fchmod(handle, stat.S_IMODE(mode) if mode is not None else 0o666 & ~_umask())
        return os.fdopen(handle, "w", encoding="utf-8", newline="\n")

    def commit(self) -> None:
        """Move the file into place.

        Raises:
            OSError: the disk is full, or the folder has gone.
        """
        self.stream.close()
        if self._temporary is not None:
            os.replace(self._temporary, self._target)
            self._temporary = None

    def discard(self) -> None:
        """Delete the temporary file; an earlier output file stays."""
        try:
            with suppress(OSError):  # a full disk cannot take the buffered text, which is discarded anyway
                self.stream.close()
        finally:
            if self._temporary is not None:
                os.unlink(self._temporary)
                self._temporary = None


def unwritable(path: Path | str, error: OSError, option: str = "-o") -> UserError:
    """The error of an output file that cannot be written."""
    full = error.errno in FULL
    reason = "the disk is full" if full else error.strerror or str(error)
    fix = "free some space, or choose another disk" if full else "choose another folder"
    return UserError(f"{option} {path}: cannot be written: {reason}; {fix}")


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


@contextmanager
def claimed_stdout() -> Iterator[TextIO]:
    """Stdout for the report only: output of kernels, references and libraries goes to stderr meanwhile.

    Redirects the file descriptor as well as ``sys.stdout``, because ``print`` on a GPU writes to the descriptor.
    """
    real = sys.stdout
    real.flush()
    try:
        number, elsewhere = real.fileno(), sys.stderr.fileno()
    except OSError:  # not files: a Python program calls us with its own streams
        with redirect_stdout(sys.stderr):
            yield real
        return
    report = os.fdopen(os.dup(number), "w", encoding=real.encoding, errors="backslashreplace")
    os.dup2(elsewhere, number)
    try:
        yield report
    finally:
        real.flush()
        os.dup2(report.fileno(), number)
        with suppress(OSError):  # a closed pipe or a full disk, already reported
            report.close()


COLUMNS = 100
"""Width of a text report in a file, and in a pipe unless the variable COLUMNS is set."""


def columns() -> int:
    """The width of the terminal; COLUMNS if stdout is not a terminal."""
    return shutil.get_terminal_size((COLUMNS, 24)).columns


_COLORS = {"wrong": "red", "warn": "yellow", "right": "green", "place": "cyan"}


def painter(when: str, stream: TextIO) -> tuple[Callable[[str, str], str], bool]:
    """A function that colors text by its :data:`kcheck.report.detail.Role`, and whether it does so.

    Args:
        when: the value of ``--color``.
    """
    colored = wants_color(when, stream, os.environ)

    def paint(text: str, role: str) -> str:
        return click.style(text, fg=_COLORS[role]) if colored and role in _COLORS else text

    return paint, colored


def wants_color(when: str, stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Whether a stream gets colors. ``auto``: a terminal does, unless NO_COLOR is set or TERM is ``dumb``.

    https://no-color.org: set and not empty. FORCE_COLOR is its opposite, for CI logs that show colors.
    """
    if when != "auto":
        return when == "always"
    if environ.get("NO_COLOR"):
        return False
    if environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and environ.get("TERM") != "dumb"
