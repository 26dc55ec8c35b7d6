"""Find the root of a project, and resolve paths in specs."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from kcheck.errors import SpecError
from kcheck.model import Fault, Span
from kcheck.nearest import Suggestion, did_you_mean, nearest_file
from kcheck.span import as_typed
from kcheck.symbolic import shorten

ROOT_MARKERS = ("kcheck.yaml", "pyproject.toml", ".git")
"""A folder with one of these files is a project root."""

ASCII_NAMES = f"Python reads and writes file names as {sys.getfilesystemencoding()} here"
UTF_8 = "set PYTHONUTF8=1, or a UTF-8 locale such as LC_ALL=C.UTF-8"
"""The fix if Python reads and writes file names as ASCII."""

NO_PROJECT = "no project found: neither this folder nor a parent folder has kcheck.yaml, pyproject.toml or .git"
"""The message of every command outside a project; each appends a fix."""


class PathRefused(ValueError):
    """A path in a spec does not name a file of the project. ``what`` and ``fix`` are the message."""

    def __init__(self, what: str, fix: str = "") -> None:
        self.what = what
        self.fix = fix
        super().__init__(what)


def shown(path: Path) -> str:
    """A path as the user would type it: relative to the current folder if it is below that, else absolute."""
    return as_typed(os.path.abspath(path))


def nearest_root(path: Path) -> Path | None:
    """The nearest folder above a file (or the folder itself) that is marked as a project root."""
    start = Path(os.path.abspath(path))
    for folder in (start, *start.parents) if start.is_dir() else start.parents:
        if any(os.path.lexists(folder / marker) for marker in ROOT_MARKERS):
            return folder
    return None


def find_root(path: Path) -> Path:
    """The project root of a spec: the nearest folder above it with kcheck.yaml, pyproject.toml or .git.

    Returns:
        An absolute path; symbolic links are not resolved.

    Raises:
        SpecError: no folder above has one.
    """
    root = nearest_root(path)
    if root is None:
        what = "this spec is not inside a project"
        fix = f"put an empty {ROOT_MARKERS[0]} into the folder that its paths are relative to"
        raise SpecError([Fault(Span(shown(path)), what, fix)])
    return root


def file_in_root(root: Path, path: str, form: str = "write file.py:name") -> Path:
    """The file that a path in a spec names.

    Args:
        root: the project root, absolute.
        path: relative to it, with forward slashes.
        form: the fix if the path names a folder.

    Raises:
        PathRefused: the path leads out of the root (by ``..``, as an absolute path, or through a symbolic link),
            or the file does not exist.
    """
    target, is_folder = _in_root(root, path)
    if is_folder is None:
        raise PathRefused(f"there is no file {shorten(path, 80)!r} in the project", _neighbour(root, target))
    if is_folder:
        raise PathRefused(f"{shorten(path)!r} is a folder", form)
    return target


def folder_in_root(root: Path, path: str) -> Path:
    """The folder that a path in a spec names; as :func:`file_in_root`."""
    target, is_folder = _in_root(root, path)
    if is_folder is None:
        raise PathRefused(f"there is no folder {shorten(path, 80)!r} in the project", _neighbour(root, target))
    if not is_folder:
        raise PathRefused(f"{shorten(path)!r} is a file", "name its folder")
    return target


def _in_root(root: Path, path: str) -> tuple[Path, bool | None]:
    """The absolute form of a path in a project, and whether it is a folder; None if it does not exist."""
    if "\\" in path:
        raise PathRefused(f"the path {shorten(path)!r} has a '\\'", "write '/' between folders")
    if not path.isprintable():
        raise PathRefused(f"{shorten(path)!r} is not a valid path")
    if path.startswith(("/", "~")) or (len(path) > 1 and path[1] == ":"):
        raise PathRefused(f"the path {shorten(path)!r} is not relative", "write it relative to the project root")
    try:
        target = root / path
        real = target.resolve()
        if not Path(os.path.normpath(target)).is_relative_to(root) or not real.is_relative_to(root.resolve()):
            raise PathRefused(
                f"the path {shorten(path)!r} is outside the project root", "move the file into the project"
            )
        return target, True if real.is_dir() else False if real.is_file() else None
    except UnicodeEncodeError:
        raise PathRefused(
            f"{shorten(path)!r} cannot be opened: {ASCII_NAMES}",
            UTF_8,
        ) from None
    except (OSError, RuntimeError):  # a name that is too long; a cycle of links
        raise PathRefused(f"{shorten(path)!r} is not a valid path") from None


def _neighbour(root: Path, target: Path) -> str:
    """``did you mean``, from the files of the folder, or of a folder with a similar name."""
    folder, near = target.parent, ""
    if folder.is_dir():
        file = nearest_file(target.name, names_in(folder))
        near = Suggestion(file) if file else near
    else:
        near = did_you_mean(folder.name, names_in(folder.parent)) if folder.parent.is_dir() else ""
    return near or f"paths are relative to the project root, {shown(root)!r}"


def names_in(folder: Path, most: int = 2000) -> list[str]:
    """The names in a folder, sorted; at most ``most`` of them."""
    names: list[str] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                names.append(entry.name)
                if len(names) == most:
                    break
    except OSError:
        return []
    return sorted(names)
