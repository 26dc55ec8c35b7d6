"""Sizes rounded up."""

from __future__ import annotations


def ceil_div(size: int, piece: int) -> int:
    """How many pieces cover a size."""
    return -(-size // piece)


def align_up(offset: int, align: int) -> int:
    """The next multiple of ``align``."""
    return -(-offset // align) * align
