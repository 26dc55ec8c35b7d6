"""Read kernel files as text, up to a maximum size, and remove comments."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from kcheck.specfile.paths import shown
from kcheck.specfile.reader import Reader
from kcheck.specfile.yamltree import YamlNode

FileT = TypeVar("FileT")

CPP_SUFFIXES = (".cu", ".hip", ".cuh", ".h", ".hpp", ".hh", ".inl")
"""The suffixes of files with kernels in C++, and of headers."""

SOURCE_SUFFIXES = (".py", ".ptx", *CPP_SUFFIXES)
"""The suffixes of files that specs use."""

MOST_BYTES = 64 << 20
"""The maximum size of a kernel's file; generated PTX can be large."""

_COMMENT = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|R"(\w*)\((?:.*?)\)\1"', re.DOTALL)


class TooLarge(Exception):
    """A file beyond MOST_BYTES; the message says which."""


def read_text(file: Path, size: int) -> str:
    """The text of a file of ``size`` bytes, without a byte-order mark.

    Raises:
        OSError: it cannot be read.
        UnicodeDecodeError: it is not text.
        TooLarge: it is too large.
    """
    if size > MOST_BYTES:
        raise TooLarge(f"{shown(file)} has {size:,} bytes; the limit is {MOST_BYTES:,}")
    return decoded(file.read_bytes())


def decoded(content: bytes) -> str:
    """Text in UTF-8, without a byte-order mark, or in Latin-1, as in the comments of older sources.

    Raises:
        UnicodeDecodeError: it is not text.
    """
    content = content.rstrip(b"\0")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        if _BINARY.search(content):
            raise
        return content.decode("latin-1")


_BINARY = re.compile(rb"[\x00-\x08\x0e-\x1a\x7f]")
"""Control characters that text does not have."""


def read_kernels(
    reader: Reader, node: YamlNode, file: Path, read: Callable[[Path], FileT], not_text: str = ""
) -> FileT | None:
    """The result of ``read`` for a kernel's file; None, after a fault at ``node``, if the file cannot be read.

    Args:
        read: raises the same errors as :func:`read_text`.
        not_text: the fix if the file is not text.
    """
    try:
        return read(file)
    except OSError as error:
        reader.fault(node.span, f"kernel: {shown(file)} cannot be read: {error.strerror}")
    except UnicodeDecodeError:
        reader.fault(node.span, f"kernel: {shown(file)} is not text", not_text)
    except TooLarge as error:
        reader.fault(node.span, f"kernel: {error}")
    return None


def without_comments(text: str) -> str:
    """C++ or PTX with its comments replaced by spaces, so that line and column numbers do not change."""

    def blank(match: re.Match[str]) -> str:
        found = match[0]
        return found if found[0] in '"R' else re.sub(r"[^\n]", " ", found)

    return _COMMENT.sub(blank, text)
