"""Where the local variables of a function are in its frame, from the debug information of PTX.

NVRTC writes it with ``-G``: each variable in memory has its offset from the frame (``__local_depot0``) and its
type. Numba describes the records of its arrays there, but not their elements.

Source: DWARF Debugging Information Format, Version 2: "Debugging Information Entry", "Location Descriptions".
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence

from kcheck.dataclass import dataclass

_WIDTHS = {".b8": 1, ".b16": 2, ".b32": 4, ".b64": 8}
_FIXED = {0x01: 8, 0x05: 2, 0x06: 4, 0x07: 8, 0x0B: 1, 0x0C: 1, 0x0E: 4, 0x11: 1, 0x12: 2, 0x13: 4, 0x14: 8}
"""The bytes of a value by DW_FORM."""
_BLOCKS = {0x03: 2, 0x04: 4, 0x0A: 1}
"""The bytes of the length of a block by DW_FORM."""
_STRING, _BLOCK, _SDATA, _UDATA = 0x08, 0x09, 0x0D, 0x0F  # DW_FORM
_NAME, _LOCATION, _SIZE, _TYPE, _UPPER, _COUNT = 0x03, 0x02, 0x0B, 0x49, 0x2F, 0x37  # DW_AT
_ARRAY, _SUBRANGE, _VARIABLE = 0x01, 0x21, 0x34  # DW_TAG
_ALIASES = frozenset({0x16, 0x26, 0x35})  # DW_TAG: typedef, const, volatile
_ADDRESS, _PLUS = 0x03, 0x23  # DW_OP


@dataclass(frozen=True, slots=True)
class DebugVariable:
    """A variable in a frame.

    Attributes:
        frame: the symbol of the frame; ``offset`` is from its start, in bytes.
        shape: of an array; empty for another variable.
        itemsize: bytes of an element, or of the variable.
    """

    name: str
    frame: str
    offset: int
    size: int
    shape: tuple[int, ...]
    itemsize: int


@dataclass(frozen=True, slots=True)
class _Bytes:
    """A section: its bytes, and the symbols whose addresses it contains, by offset."""

    content: bytes
    symbols: Mapping[int, str]


@dataclass(frozen=True, slots=True)
class _Entry:
    """A debugging information entry, with the numbers of the entries in it."""

    tag: int
    values: Mapping[int, int | str | tuple[int, int]]
    parent: int


def local_variables(sections: Mapping[str, Sequence[str]]) -> tuple[DebugVariable, ...]:
    """The variables in frames; empty if the sections are missing or have another form.

    Args:
        sections: the tokens of each section.
    """
    if not {".debug_abbrev", ".debug_info"} <= sections.keys():
        return ()
    try:
        info = _read(sections[".debug_info"])
        entries = dict(_entries(info, _abbreviations(_read(sections[".debug_abbrev"]).content)))
        return tuple(_variables(info, entries))
    except (IndexError, KeyError, ValueError, struct.error):  # another version, or another compiler
        return ()


def _read(tokens: Sequence[str]) -> _Bytes:
    content, symbols, width = bytearray(), dict[int, str](), 1
    skips = False
    for token in tokens:
        if token in _WIDTHS:
            width = _WIDTHS[token]
        elif token in ("+", "-"):
            skips = True
        elif skips:
            skips = False  # what is added to a symbol
        elif token != ",":
            if not token[0].isdigit():
                symbols[len(content)] = token
            number = int(token, 0) if token[0].isdigit() else 0
            content += (number & ((1 << 8 * width) - 1)).to_bytes(width, "little")
    return _Bytes(bytes(content), symbols)


def _uleb(content: bytes, at: int) -> tuple[int, int]:
    """A number in LEB128, and where the next value begins."""
    value = shift = 0
    while True:
        byte = content[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


_Abbreviations = dict[int, tuple[int, bool, list[tuple[int, int]]]]
"""By code: a tag, whether entries follow in it, and attributes with their forms."""


def _abbreviations(content: bytes) -> _Abbreviations:
    found: _Abbreviations = {}
    code, at = _uleb(content, 0)
    while code:
        tag, at = _uleb(content, at)
        has_children, at = bool(content[at]), at + 1
        pairs: list[tuple[int, int]] = []
        while True:
            attribute, at = _uleb(content, at)
            form, at = _uleb(content, at)
            if not attribute:
                break
            pairs.append((attribute, form))
        found[code] = tag, has_children, pairs
        code, at = _uleb(content, at)
    return found


def _entries(info: _Bytes, known: _Abbreviations) -> Iterator[tuple[int, _Entry]]:
    """The entries of the first compilation unit by their offsets."""
    content = info.content
    length, version = struct.unpack_from("<IH", content)
    if not 2 <= version <= 4:
        raise ValueError(version)
    at, parents = 11, [-1]
    while at < min(length + 4, len(content)):
        start = at
        code, at = _uleb(content, at)
        if not code:
            if len(parents) > 1:
                parents.pop()
            continue
        tag, has_children, pairs = known[code]
        values: dict[int, int | str | tuple[int, int]] = {}
        for attribute, form in pairs:
            values[attribute], at = _value(content, form, at)
        yield start, _Entry(tag, values, parents[-1])
        if has_children:
            parents.append(start)


def _value(content: bytes, form: int, at: int) -> tuple[int | str | tuple[int, int], int]:
    """A value, and where the next one begins; of a block, where it begins and ends."""
    if form in _FIXED:
        return int.from_bytes(content[at : at + _FIXED[form]], "little"), at + _FIXED[form]
    if form in (_SDATA, _UDATA):
        return _uleb(content, at)
    if form == _STRING:
        end = content.index(b"\0", at)
        return content[at:end].decode("latin-1"), end + 1
    if form == _BLOCK:
        size, at = _uleb(content, at)
    else:
        width = _BLOCKS[form]
        size, at = int.from_bytes(content[at : at + width], "little"), at + width
    return (at, at + size), at + size


def _variables(info: _Bytes, entries: Mapping[int, _Entry]) -> Iterator[DebugVariable]:
    for entry in entries.values():
        place, name = entry.values.get(_LOCATION), entry.values.get(_NAME)
        if entry.tag != _VARIABLE or not isinstance(place, tuple) or not isinstance(name, str):
            continue
        begin, end = place
        frame = info.symbols.get(begin + 1, "")
        if info.content[begin] != _ADDRESS or not frame.startswith("__local_depot"):
            continue
        offset, last = 0, begin + 9
        if last < end and info.content[last] == _PLUS:
            offset, last = _uleb(info.content, last + 1)
        shape, itemsize = _type(entries, entry.values.get(_TYPE))
        size = itemsize
        for extent in shape:
            size *= extent
        if last == end and size:
            yield DebugVariable(name, frame, offset, size, shape, itemsize)


def _type(entries: Mapping[int, _Entry], reference: object) -> tuple[tuple[int, ...], int]:
    """The shape of an array, or an empty one, and the bytes of an element; 0 if unknown."""
    entry = entries.get(reference) if isinstance(reference, int) else None
    if entry is None:
        return (), 0
    if entry.tag in _ALIASES:
        return _type(entries, entry.values.get(_TYPE))
    if entry.tag == _ARRAY:
        axes = [each for each in entries.values() if each.tag == _SUBRANGE and each.parent == reference]
        inner, itemsize = _type(entries, entry.values.get(_TYPE))
        sizes = [_extent(axis) for axis in axes]
        return ((*sizes, *inner), itemsize) if all(sizes) else ((), 0)
    size = entry.values.get(_SIZE)
    return (), size if isinstance(size, int) else 0


def _extent(axis: _Entry) -> int:
    """The elements along an axis; 0 if unknown."""
    count, upper = axis.values.get(_COUNT), axis.values.get(_UPPER)
    if isinstance(count, int):
        return count
    return upper + 1 if isinstance(upper, int) else 0
