"""Pickles that are sent between machines. On a worker, the user's paths become paths in the copy of the project.

On a worker, every file of the client is below one folder (:mod:`kcheck.runner.mirror`): ``/home/ann/op.py`` is
``FOLDER/home/ann/op.py``. Strings with such paths are translated in both directions, so that the answers of a
worker name the client's files.
"""

from __future__ import annotations

import io
import os
import pickle
from collections.abc import Callable, Sequence
from typing import Any


def to_worker(value: object, roots: Sequence[str]) -> bytes:
    """Pickle a value for a worker, with a mark on each string that is one of these folders or a path in one."""
    folders = tuple(root + os.sep for root in roots)

    def marked(text: str) -> str | None:
        return text if text.startswith(folders) or text in roots else None

    return _dumps(value, marked)


def at_worker(content: bytes, folder: str) -> Any:
    """Unpickle what :func:`to_worker` made, with ``folder`` before each marked path."""
    return _loads(content, lambda text: folder + text)


def to_client(value: object, folder: str) -> bytes:
    """Pickle a value for the client: in strings, paths below ``folder`` become those of the client's files."""
    return _dumps(value, lambda text: text.replace(folder, "") if folder in text else None)


def at_client(content: bytes) -> Any:
    """Unpickle what :func:`to_client` made."""
    return _loads(content, lambda text: text)


def _dumps(value: object, marked: Callable[[str], str | None]) -> bytes:
    written = io.BytesIO()
    _Pickler(written, marked).dump(value)
    return written.getvalue()


def _loads(content: bytes, arrived: Callable[[str], str]) -> Any:
    return _Unpickler(io.BytesIO(content), arrived).load()


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO, marked: Callable[[str], str | None]) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self._marked = marked

    def persistent_id(self, value: object) -> str | None:
        """The mark that replaces a string in the pickle; None for a value that is pickled unchanged."""
        return self._marked(value) if type(value) is str else None


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, arrived: Callable[[str], str]) -> None:
        super().__init__(file)
        self._arrived = arrived

    def persistent_load(self, mark: str) -> str:
        """The string that a mark replaced."""
        return self._arrived(mark)
