"""Copies the files of a run to another machine. Each content is sent once, by digest.

A copy of the project has the same path in every run, because the cache keys of compiled kernels contain the paths
of their files. A run whose files differ from the previous run's changes the copy, unless another run is using it;
then it uses the next copy.
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
"""How many seconds an unused copy is kept."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """The files of a run.

    Attributes:
        owner: the user, the machine and the project.
        files: SHA-256 by absolute path.
        folders: folders to create even if no file is in them.
        cwd: the folder in which the command was started.
    """

    owner: str
    files: Mapping[str, str]
    folders: tuple[str, ...]
    cwd: str

    @property
    def digest(self) -> str:
        """The digest of all attributes."""
        text = json.dumps([self.owner, sorted(self.files.items()), sorted(self.folders), self.cwd])
        return hashlib.sha256(text.encode()).hexdigest()


def digest_of(content: bytes) -> str:
    """The SHA-256 of a content, which is its name."""
    return hashlib.sha256(content).hexdigest()


def collected(specs: Sequence[OpSpec]) -> tuple[Manifest, dict[str, bytes]]:
    """The files that the verdicts of specs depend on, and their contents by digest.

    These are the spec, its functions and what :func:`kcheck.specfile.files_of` lists. Files that the user's code
    opens are not included.
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
    """The contents that this machine has received, by digest."""
    return ObjectCache(settings(os.environ).cache / "sources")


@contextlib.contextmanager
def mirror(manifest: Manifest) -> Iterator[str]:
    """A context manager: the path of a folder with a copy of the files, which does not change within the context.

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
    """A lock on a file. A context manager, whose exit releases it."""

    def __init__(self, path: Path) -> None:
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *raised: object) -> None:
        os.close(self._handle)

    def share(self) -> None:
        """Get a shared lock: wait until no other process changes the folder."""
        fcntl.flock(self._handle, fcntl.LOCK_SH)

    def own(self) -> bool:
        """Try to get an exclusive lock; False if another process uses the folder."""
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def _taken(folder: Path, manifest: Manifest) -> _Lock | None:
    """The lock on a copy with these files; None if another run uses the copy with different files."""
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
    """Replace the folder by a copy of the files.

    Raises:
        UserError: this machine has not received a content.
    """
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
