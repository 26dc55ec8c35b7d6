"""Round sizes up."""

from __future__ import annotations


def ceil_div(size: int, piece: int) -> int:
    """The number of pieces that cover a size: ``size / piece``, rounded up."""
    return -(-size // piece)


def align_up(offset: int, align: int) -> int:
    """The smallest multiple of ``align`` that is at least ``offset``."""
    return -(-offset // align) * align
