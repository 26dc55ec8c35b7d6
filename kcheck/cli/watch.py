"""``kcheck run --watch``: run again what an edit touches.

::

    watcher:  imports Numba once ── fork ── waits for edits ── a file changed ── fork ── waits for edits ...
    round:                           └ finds specs and their files, runs         └ ...

The watcher loads no specs and no user code, and never starts the device. Each round is a process forked from it,
which starts with Numba imported and everything else new. So nothing of an earlier version of a file remains, and
memory does not grow.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field
from hashlib import blake2b
from pathlib import Path
from typing import Any

import click

from kcheck import children
from kcheck.cli.exits import Exit
from kcheck.cli.notices import Notices
from kcheck.dataclass import compile_methods, dataclass
from kcheck.interpreter import leave
from kcheck.model.paths import source_file
from kcheck.specfile.load import no_user_code_yet

POLL = 0.02  # seconds between two checks of the files, if the system does not report changes
RARELY = 0.2  # the same if it does: changes that other machines make are not reported
GRACE = 1.5  # seconds that a round gets to end by itself after Ctrl-C
QUIET = 0.01  # seconds without a change after which an edit counts as complete
PATIENCE = 5.0  # seconds that a round gets to end after a signal

Stamps = Mapping[str, str]
"""The content of each file, by real path: a digest,
or the names of the spec files in a folder; empty if missing."""


@dataclass(slots=True)
class Round:
    """One run within a watch: the ``obj`` of its command.

    Attributes:
        paths: the specs to run.
        first: the specs that failed last time, which run first.
        failing: filled in by the command: the specs that fail now.
    """

    paths: tuple[Path, ...]
    first: Collection[str]
    failing: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Watch:
    """What the watcher knows from the rounds so far.

    Attributes:
        specs: the files that the verdicts of each spec depend on.
        stamps: the stamp of every file when the last round started.
        failing: the specs that failed when they were last run.
        notices: the notices of changes in the folders of these files.
    """

    specs: dict[str, list[str]] = field(default_factory=dict)
    stamps: dict[str, str] = field(default_factory=dict)
    failing: dict[str, None] = field(default_factory=dict)
    notices: Notices = field(default_factory=Notices)

    @property
    def often(self) -> float:
        """Seconds between two checks of the files."""
        return RARELY if self.notices.complete else POLL

    def follow(self) -> None:
        """Get notices of all files."""
        self.notices.follow({os.path.dirname(file) for file in self.stamps} | {*self.stamps})


def watch(
    paths: Sequence[Path],
    *,
    recursive: bool,
    run: Callable[[Round], int],
    warm: Callable[[], None],
) -> int:
    """Run the specs, then again those that an edit touches, until Ctrl-C.

    Args:
        paths: as for ``kcheck run``: specs, folders, Python files.
        run: runs a round, in its own process, and returns its exit code.
        warm: imports what every round needs.

    Returns:
        The exit code of Ctrl-C.
    """
    seen = _Watch()
    try:
        warm()
        no_user_code_yet()
        compile_methods()
        gc.collect()
        gc.freeze()  # shared with every round: a collection there would copy it page by page
        changed: set[str] | None = None
        while True:
            again = _round(seen, paths, recursive, changed, run)
            changed = again or _wait(seen)
            if sys.stdout.isatty():
                click.clear()
            click.echo(f"kcheck: {_names(changed)} changed", err=True)
    except KeyboardInterrupt:
        click.echo("kcheck: stopped watching", err=True)
        return Exit.INTERRUPTED
    finally:
        seen.notices.close()


def _round(
    seen: _Watch, paths: Sequence[Path], recursive: bool, changed: set[str] | None, run: Callable[[Round], int]
) -> set[str]:
    """Run one round to its end, or until a file changes under it.

    Returns:
        The files to run again if a file changed before the round ended: that file, and the files whose change
        started the round.
    """
    seen.stamps = dict(_stamps({*seen.stamps, *_places(paths, recursive)}))  # until the round reports its own
    seen.follow()
    child, reads = _fork(lambda writes: _child(writes, seen, paths, recursive, changed, run))
    try:
        return _follow(child, reads, seen, changed)
    except KeyboardInterrupt:
        if not children.ended(child, GRACE):  # a terminal sends Ctrl-C to both processes; `kill -INT` may not
            _end(child)
        raise
    finally:
        os.close(reads)


def _fork(work: Callable[[int], int | None]) -> tuple[int, int]:
    """Fork a process that works, with the end of a pipe that it writes to; returns it and the other end."""
    reads, writes = os.pipe()

    def in_it() -> int | None:
        os.close(reads)
        return work(writes)

    child = children.fork(in_it)
    os.close(writes)
    return child, reads


def in_child(function: Callable[[], object]) -> Any:
    """The result of a function, called in a forked process and sent back as JSON; None if it raises."""
    child, reads = _fork(lambda writes: _tell(writes, function()))
    with os.fdopen(reads, "rb") as pipe:
        answer = pipe.read()
    children.wait(child)
    return json.loads(answer) if answer else None


def _child(
    writes: int,
    seen: _Watch,
    paths: Sequence[Path],
    recursive: bool,
    changed: set[str] | None,
    run: Callable[[Round], int],
) -> int:
    """Run a round in the forked process; returns its exit code."""
    from kcheck.specfile import discover, files_of

    sys.dont_write_bytecode = True  # a .pyc is out of date only if the source is a second older or newer
    code: int = Exit.FAULT
    try:
        found = discover([path for path in paths if source_file(path)[0].exists()], recursive).specs
        specs = {str(spec): sorted(files_of(spec)) for spec in found}
        files = {file for each in specs.values() for file in each} | _places(paths, recursive)
        _tell(writes, {"specs": specs, "stamps": _stamps(files)})
        touched = [s for s, needs in specs.items() if changed is None or s not in seen.specs or changed & {*needs}]
        this = Round(tuple(map(Path, touched)) or tuple(paths), seen.failing)
        if touched or not specs:
            code = run(this)
        else:
            code = Exit.GOOD
            click.echo("kcheck: no spec uses the changed files", err=True)
        _tell(writes, {"ran": touched, "failing": this.failing})
    except KeyboardInterrupt:
        code = Exit.INTERRUPTED
    finally:
        leave(code)
    return code


def _tell(writes: int, message: object) -> None:
    data = json.dumps(message).encode() + b"\n"
    while data:
        data = data[os.write(writes, data) :]


def _follow(child: int, reads: int, seen: _Watch, changed: set[str] | None) -> set[str]:
    """Read the messages of a round until it ends, and end it early if a file changes."""
    buffer = b""
    while True:
        if seen.notices.wait(seen.often, (reads,)):
            data = os.read(reads, 1 << 16)
            buffer += data
            *lines, buffer = buffer.split(b"\n")
            for line in lines:
                _take(seen, json.loads(line))
            if not data:
                children.wait(child)
                return set()
        elif edited := _edited(seen):
            click.echo(f"kcheck: {_names(edited)} changed; running again", err=True)
            _end(child)
            return {*edited, *(seen.stamps if changed is None else changed)}


def _take(seen: _Watch, message: dict[str, object]) -> None:
    match message:
        case {"specs": dict(specs), "stamps": dict(stamps)}:
            seen.specs, seen.stamps = specs, stamps
            seen.follow()
            for gone in seen.failing.keys() - specs.keys():
                del seen.failing[gone]
        case {"ran": list(ran), "failing": list(failing)}:
            for spec in ran:
                seen.failing.pop(spec, None)
            seen.failing.update(dict.fromkeys(failing))


def _end(child: int) -> None:
    """Interrupt a round, so that it closes its store and restores the terminal; kill it if it does not end."""
    os.kill(child, signal.SIGINT)
    if not children.ended(child, PATIENCE):
        children.kill(child)


def _wait(seen: _Watch) -> set[str]:
    """Wait for an edit, and return the files that it changed once it is complete."""
    count = len(seen.specs)
    click.echo(f"kcheck: watching {count} spec{'' if count == 1 else 's'}; Ctrl-C stops", err=True)
    edited: Stamps = {}
    while True:
        if edited:
            time.sleep(QUIET)
        else:
            seen.notices.wait(seen.often)
        before, edited = edited, _edited(seen)
        if edited and edited == before:  # an editor may write several files, or one in several steps
            return set(edited)


def _edited(seen: _Watch) -> Stamps:
    """The files that changed since the last round started, with their present stamps."""
    return {file: digest for file, digest in _stamps(seen.stamps).items() if digest != seen.stamps[file]}


def _names(files: Iterable[str]) -> str:
    names = sorted(os.path.relpath(file) for file in files)
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _places(paths: Sequence[Path], recursive: bool) -> set[str]:
    """The paths of the command line themselves, and the folders that are searched for specs."""
    found = set()
    for path in paths:
        found.add(os.path.realpath(source_file(path)[0]))
        if recursive and path.is_dir():
            found |= {os.path.realpath(here) for here, _, _ in os.walk(path)}
    return found


def _stamps(files: Iterable[str]) -> Stamps:
    return {file: _stamp(file) for file in files}


_known: dict[str, tuple[tuple[int, int, int], str]] = {}


def _stamp(file: str) -> str:
    try:
        status = os.stat(file)
        if os.path.isdir(file):
            return "/".join(sorted(name for name in os.listdir(file) if name.endswith((".yaml", ".yml", ".py"))))
        key = (status.st_mtime_ns, status.st_size, status.st_ino)
        known = _known.get(file)
        if known is None or known[0] != key:
            digest = blake2b(Path(file).read_bytes(), digest_size=16).hexdigest()
            known = _known[file] = (key, digest)
        return known[1]
    except OSError:
        return ""
