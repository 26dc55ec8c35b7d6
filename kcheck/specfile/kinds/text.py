"""Kernel files as text: reading them within a limit, and leaving out comments."""

from __future__ import annotations

import re
from pathlib import Path

from kcheck.specfile.paths import shown

CPP_SUFFIXES = (".cu", ".hip", ".cuh", ".h", ".hpp", ".hh", ".inl")
"""The suffixes of files with kernels in C++, and of headers."""

SOURCE_SUFFIXES = (".py", ".ptx", *CPP_SUFFIXES)
"""The suffixes of files that specs use."""

MOST_BYTES = 64 << 20
"""A kernel's file is at most this large; generated PTX can be."""

_COMMENT = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|R"(\w*)\((?:.*?)\)\1"', re.DOTALL)


class TooLarge(Exception):
    """A file beyond MOST_BYTES; the message says which."""


def read_text(file: Path, size: int) -> str:
    """The text of a file of ``size`` bytes.

    Raises:
        OSError: it cannot be read.
        UnicodeDecodeError: it is not UTF-8.
        TooLarge: it is too large.
    """
    if size > MOST_BYTES:
        raise TooLarge(f"{shown(file)} has {size:,} bytes; the limit is {MOST_BYTES:,}")
    return file.read_bytes().rstrip(b"\0").decode()


def without_comments(text: str) -> str:
    """C++ or PTX with its comments replaced by spaces; every line keeps its number and every column its place."""

    def blank(match: re.Match[str]) -> str:
        found = match[0]
        return found if found[0] in '"R' else re.sub(r"[^\n]", " ", found)

    return _COMMENT.sub(blank, text)
