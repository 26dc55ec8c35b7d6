"""The files of a run on another machine: each is sent once, by digest, into a copy of the project there.

A copy has the same path in every run, since the keys of compiled kernels have the paths of their files. A run with
other files than the one before changes the copy, unless another run uses it: then it takes the next one.
"""

from __future__ import annotations

import contextlib
import fcntl
import getpass
import hashlib
import json
import os
import platform
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from kcheck.cpu.cache import ObjectCache
from kcheck.dataclass import dataclass
from kcheck.driver.install import settings
from kcheck.errors import UserError
from kcheck.model import OpSpec
from kcheck.model.paths import source_file
from kcheck.specfile import files_of

_UNUSED = 30 * 24 * 3600
"""Seconds after which a copy that no run has used is deleted."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """The files of a run.

    Attributes:
        owner: whose they are: the user, the machine and the project.
        files: SHA-256 by absolute path.
        folders: that exist there, whatever is in them.
        cwd: the folder in which the command was started.
    """

    owner: str
    files: Mapping[str, str]
    folders: tuple[str, ...]
    cwd: str

    @property
    def digest(self) -> str:
        """Of all of it."""
        text = json.dumps([self.owner, sorted(self.files.items()), sorted(self.folders), self.cwd])
        return hashlib.sha256(text.encode()).hexdigest()


def digest_of(content: bytes) -> str:
    """The name under which a content is sent."""
    return hashlib.sha256(content).hexdigest()


def collected(specs: Sequence[OpSpec]) -> tuple[Manifest, dict[str, bytes]]:
    """The files that the verdicts of specs depend on, and their contents by digest.

    Those are what :func:`kcheck.specfile.files_of` lists. A file that the user's code opens is not among them.
    """
    files: dict[str, str] = {}
    contents: dict[str, bytes] = {}
    folders: set[str] = set()
    for spec in specs:
        real = os.path.realpath(spec.root)
        folders.add(spec.root)
        if os.path.lexists(os.path.join(spec.root, ".git")):
            folders.add(os.path.join(spec.root, ".git"))
        file = Path(spec.root, spec.path)
        named = [str(source_file(file)[0])]
        named += [os.path.join(spec.root, f.path) for f in (*spec.functions, spec.kernel) if f is not None]
        for path in sorted({*files_of(file), *named}):
            inside = path.removeprefix(real + os.sep)
            place = path if inside == path else os.path.join(spec.root, inside)
            if place not in files and os.path.isfile(path):
                content = Path(path).read_bytes()
                files[place] = digest_of(content)
                contents[files[place]] = content
    owner = f"{getpass.getuser()}@{platform.node()} {sorted({spec.root for spec in specs})}"
    return Manifest(owner, files, tuple(sorted(folders)), os.getcwd()), contents


def kept_contents() -> ObjectCache:
    """What this machine has received, by digest."""
    return ObjectCache(settings(os.environ).cache / "sources", limit=256 << 20)


@contextlib.contextmanager
def mirror(manifest: Manifest) -> Iterator[str]:
    """The path of a folder with a copy of the files, which does not change in the context.

    Raises:
        UserError: the cache folder cannot be written.
    """
    owner = hashlib.sha256(manifest.owner.encode()).hexdigest()[:16]
    base = Path(os.path.realpath(settings(os.environ).cache)) / "projects"
    try:
        base.mkdir(parents=True, exist_ok=True)
        _drop_unused(base)
        number = 0
        while (lock := _taken(base / f"{owner}.{number}", manifest)) is None:
            number += 1
    except OSError as error:
        raise UserError(f"{base}: {error}; set KCHECK_CACHE_DIR to a folder that can be written") from error
    with lock:
        yield str(base / f"{owner}.{number}")


class _Lock:
    """An open file with a lock on it. A context: at its end it is released."""

    def __init__(self, path: Path) -> None:
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *raised: object) -> None:
        os.close(self._handle)

    def share(self) -> None:
        """Wait until no other process changes the folder."""
        fcntl.flock(self._handle, fcntl.LOCK_SH)

    def own(self) -> bool:
        """Whether no other process uses the folder; until :meth:`share`, none will."""
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def _taken(folder: Path, manifest: Manifest) -> _Lock | None:
    """The lock on a copy with these files; None if another run uses it with others."""
    lock = _Lock(folder.with_name(f"{folder.name}.lock"))
    while True:
        lock.share()
        if _state(folder) == manifest.digest:
            os.utime(folder.with_name(f"{folder.name}.lock"))
            return lock
        if not lock.own():
            lock.__exit__()
            return None
        _fill(folder, manifest)


def _state(folder: Path) -> str:
    try:
        return folder.with_name(f"{folder.name}.state").read_text()
    except FileNotFoundError:
        return ""


def _fill(folder: Path, manifest: Manifest) -> None:
    """Make a copy of the files, and of nothing else."""
    state = folder.with_name(f"{folder.name}.state")
    state.unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
    store = kept_contents()
    for path in (*manifest.folders, manifest.cwd):
        Path(f"{folder}{path}").mkdir(parents=True, exist_ok=True)
    for path, digest in manifest.files.items():
        content = store.get(digest)
        if content is None or digest_of(content) != digest:
            raise UserError(f"{path} has not reached this worker; run the command again")
        place = Path(f"{folder}{path}")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
    state.write_text(manifest.digest)


def _drop_unused(base: Path) -> None:
    for path in base.glob("*.lock"):
        if path.stat().st_mtime < time.time() - _UNUSED:
            lock = _Lock(path)
            with lock:
                if lock.own():
                    folder = path.with_suffix("")
                    folder.with_name(f"{folder.name}.state").unlink(missing_ok=True)
                    shutil.rmtree(folder, ignore_errors=True)
