"""Marker calls before a thread raises a Python exception, in code that numba-cuda compiled for kcheck.

The text of the exception is encoded in the name of the function, so it needs no memory and survives every cache.
"""

from __future__ import annotations

_PREFIX = "kcheck_raise_"
_MOST = 160  # bytes of text


def marker(text: str) -> str:
    """The name of the function that stands for an exception, such as ``ValueError: negative``."""
    return _PREFIX + text.encode()[:_MOST].hex()


def is_marker(name: str) -> bool:
    """Whether a function stands for an exception."""
    return name.startswith(_PREFIX)


def marked_text(instruction: str) -> str:
    """The text of the exception, from the text of the call."""
    digits = instruction.partition(_PREFIX)[2]
    end = next((n for n, digit in enumerate(digits) if digit not in "0123456789abcdef"), len(digits))
    return bytes.fromhex(digits[:end]).decode(errors="ignore")
