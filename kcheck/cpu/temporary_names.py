"""Names of temporary folders in keys and contents of the cache.

A program that generates code often writes it to a new folder, such as ``/tmp/generated_x3k9_q1z``, and compiles
it from there. The name ends in eight random characters, as ``tempfile.mkdtemp`` makes it, so it is another one in
each process, and kernels refer to their source files by it. An entry of the cache serves all such folders: the
names are numbered in its key, and replaced by the current ones in its content. Only names of the same length are
replaced, so offsets and sizes in the content stay correct.
"""

from __future__ import annotations

import functools
import os
import re
import tempfile
from collections.abc import Sequence

_RANDOM = 8
"""Random characters at the end of a name: letters, digits and underscores."""


@functools.cache
def _pattern(folder: str) -> re.Pattern[str]:
    places = {folder, os.path.realpath(folder)}
    return re.compile(
        f"(?:{'|'.join(map(re.escape, sorted(places)))})/[^/\"'\\\\\\s\\0]*?[a-z0-9_]{{{_RANDOM}}}(?=/)"
    )


def temporary_folders(text: str) -> list[str]:
    """The temporary folders with random names that a text names, in the order of their first appearance."""
    folder = tempfile.gettempdir()
    if folder not in text and os.path.realpath(folder) not in text:  # nearly all texts
        return []
    return list(dict.fromkeys(_pattern(folder).findall(text)))


def portable(text: str, folders: Sequence[str]) -> str:
    """A text with the random part of each folder's name replaced by its number. Names of other lengths, and other
    names before the random part, differ."""
    for number, name in enumerate(folders):
        text = text.replace(name + "/", f"{name[:-_RANDOM]}{number:*>{_RANDOM}}/")
    return text


def relocated(content: bytes, before: Sequence[str], after: Sequence[str]) -> bytes:
    """A content with each folder in ``before`` replaced by the one in ``after``, a name of the same length."""
    changed = [(old.encode(), new.encode()) for old, new in zip(before, after, strict=True) if old != new]
    if not changed:
        return content
    new_names = dict(changed)
    pattern = re.compile(b"|".join(re.escape(old) + b"(?=/)" for old, _ in changed))
    return pattern.sub(lambda match: new_names[match[0]], content)
