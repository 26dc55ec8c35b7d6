"""The memory that the arrays of a case may take."""

from __future__ import annotations

import re

from kcheck.model.spec import DEFAULT_MEMORY
from kcheck.specfile.reader import Reader

_SIZE = re.compile(r" *([0-9][0-9_]*) *([KMGT])B *")
_UNITS = {"K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_LEAST, _MOST = 10**6, 10**13


def read_memory(reader: Reader) -> tuple[int, bool]:
    """``cases: {memory: 512MB}`` in bytes, or the default, and whether ``huge`` is on."""
    return _memory(reader), reader.text(reader.get(reader.top, "huge")) != "off"


def _memory(reader: Reader) -> int:
    node = reader.get(reader.get(reader.top, "cases"), "memory")
    match = _SIZE.fullmatch(reader.text(node) or "")
    if node is None or match is None:
        return DEFAULT_MEMORY
    digits = match[1].replace("_", "")
    size = int(digits[:20]) * _UNITS[match[2]]
    if len(digits) > 20 or not _LEAST <= size <= _MOST:
        reader.fault(node.span, "this is not a size for the arrays of a case", "write a size from 1MB to 10TB")
        return DEFAULT_MEMORY
    return size
