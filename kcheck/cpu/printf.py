"""A kernel's ``printf``: turn a format and the bytes of its arguments into text.

Source: CUDA C++ Programming Guide, "Formatted Output": C's conversions ``%[flags][width][.precision][size]type``
with types ``cdiouxXpeEfgGaAs``. Arguments are stored one after another, each at its natural alignment, floats as
doubles.
"""

from __future__ import annotations

import ctypes
import math
import re
import struct
from collections.abc import Callable

from kcheck.alignment import align_up
from kcheck.ptx.abi import PrintRecord

_CONVERSION = re.compile(
    rb"%(?:(?P<flags>[-+ #0]*)(?P<width>\*|\d+)?(?:\.(?P<precision>\*|\d*))?(?P<size>hh|h|ll|l|j|z|t|L)?"
    rb"(?P<type>[cdiouxXpeEfFgGaAs])|(?P<percent>%))"
)
_WIDE = frozenset({b"l", b"ll", b"j", b"z", b"t"})  # 8 bytes in the 64-bit ABI
_NARROW = {b"hh": 8, b"h": 16}  # promoted to int when passed, truncated when printed


class _Arguments:
    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    def take(self, layout: str) -> int | float:
        """The next argument; 0 past the end, where a GPU prints whatever is in memory."""
        size = struct.calcsize(layout)
        at = align_up(self._at, size)
        self._at = at + size
        if self._at > len(self._content):
            return 0
        value: int | float = struct.unpack_from("<" + layout, self._content, at)[0]
        return value

    def integer(self, layout: str) -> int:
        return int(self.take(layout))


def format_record(form: bytes, content: bytes, string: Callable[[int], bytes]) -> bytes:
    """The text of one call.

    Args:
        form: the format, without its NUL. A ``%`` that does not begin a conversion is printed unchanged.
        content: the bytes of the arguments.
        string: the NUL-terminated string at an address, for ``%s``.
    """
    arguments = _Arguments(content)
    return _CONVERSION.sub(lambda match: _convert(match, arguments, string), form)


def printed(buffer: ctypes.Array[ctypes.c_char], used: int, string: Callable[[int], bytes]) -> bytes:
    """The text of a launch's calls, in the order in which they were made.

    Args:
        buffer: PrintRecords, each followed by its arguments.
        used: bytes requested; if they exceed the buffer, the last calls are lost and a line says so.
        string: the NUL-terminated string at an address, for formats and ``%s``.
    """
    texts = []
    start = ctypes.addressof(buffer)
    at, head = 0, ctypes.sizeof(PrintRecord)
    lost = used > len(buffer)
    while at + head <= min(used, len(buffer)):
        record = PrintRecord.from_buffer(buffer, at)
        size = align_up(record.argument_bytes, 8)
        if record.format == 0 or at + head + size > len(buffer):
            break
        content = ctypes.string_at(start + at + head, record.argument_bytes)
        texts.append(format_record(string(record.format), content, string))
        at += head + size
    if lost:
        texts.append(b"kcheck: the print buffer is full: later calls of this launch are lost\n")
    return b"".join(texts)


def _convert(match: re.Match[bytes], arguments: _Arguments, string: Callable[[int], bytes]) -> bytes:
    if match["percent"]:
        return b"%"
    flags = match["flags"].decode()
    width = _number(match["width"], arguments)
    if width is not None and width < 0:  # as if the flag - were given
        flags, width = flags + "-", -width
    precision = _number(match["precision"], arguments)
    if precision is not None and precision < 0:
        precision = None
    kind = match["type"].decode()
    size = match["size"] or b""
    if kind in "eEfFgGaA":
        value = float(arguments.take("d"))
        return _pad(_float(kind, flags, precision, value), flags, width, zeros=math.isfinite(value))
    if kind == "s":
        return _pad(string(arguments.integer("Q"))[:precision], flags, width, zeros=False)
    if kind == "c":
        return _pad(bytes([arguments.integer("i") & 0xFF]), flags, width, zeros=False)
    if kind == "p":
        return _pad(b"0x%x" % arguments.integer("Q"), flags, width, zeros=False)
    signed = kind in "di"
    layout = ("q" if signed else "Q") if size in _WIDE else ("i" if signed else "I")
    number = arguments.integer(layout)
    if size in _NARROW:
        bits = _NARROW[size]
        number &= (1 << bits) - 1
        if signed and number >> (bits - 1):
            number -= 1 << bits
    return _pad(_integer(kind, flags, precision, number), flags, width, zeros=precision is None)


def _number(text: bytes | None, arguments: _Arguments) -> int | None:
    """A width or precision, which may be an argument; bounded, since it is a number of bytes to print."""
    if text is None:
        return None
    return max(-4096, min(4096, arguments.integer("i") if text == b"*" else int(text or b"0")))


def _sign(negative: bool, flags: str) -> str:
    return "-" if negative else "+" if "+" in flags else " " if " " in flags else ""


def _integer(kind: str, flags: str, precision: int | None, value: int) -> bytes:
    digits = format(abs(value), {"o": "o", "x": "x", "X": "X"}.get(kind, "d"))
    if precision is not None:
        digits = "" if value == 0 and precision == 0 else digits.rjust(precision, "0")
    prefix = _sign(value < 0, flags) if kind in "di" else ""
    if "#" in flags:
        if kind == "o" and not digits.startswith("0"):
            digits = "0" + digits
        elif kind in "xX" and value:
            prefix = "0" + kind
    return (prefix + digits).encode()


def _float(kind: str, flags: str, precision: int | None, value: float) -> bytes:
    magnitude = abs(value)
    prefix = _sign(struct.pack(">d", value)[0] >> 7 == 1, flags)
    if magnitude != magnitude or magnitude == float("inf"):
        text = "nan" if magnitude != magnitude else "inf"
    elif kind in "aA":
        text = _hexadecimal(magnitude, precision)
    else:
        alternate = "#" if "#" in flags else ""
        text = format(magnitude, f"{alternate}.{6 if precision is None else precision}{kind.lower()}")
    return (prefix + (text.upper() if kind in "EFGA" else text)).encode()


def _hexadecimal(magnitude: float, precision: int | None) -> str:
    """C's ``%a``: the shortest exact digits, or rounded half to even to ``precision`` of them."""
    fraction, exponent = magnitude.hex().split("p")
    lead, _, digits = fraction.removeprefix("0x").partition(".")
    digits = digits.rstrip("0")
    if precision is not None and len(digits) > precision:
        scaled = int(lead + digits, 16)
        unit = 16 ** (len(digits) - precision)
        scaled = round(scaled / unit) if unit < 2**52 else scaled // unit
        text = format(scaled, "x").rjust(precision + 1, "0")
        lead, digits = text[: len(text) - precision], text[len(text) - precision :]
    digits = digits.ljust(precision or 0, "0")
    return f"0x{lead}{'.' + digits if digits else ''}p{int(exponent):+d}"


def _pad(body: bytes, flags: str, width: int | None, zeros: bool) -> bytes:
    if width is None or len(body) >= width:
        return body
    if "-" in flags:
        return body.ljust(width)
    if "0" in flags and zeros:
        head = re.match(rb"[-+ ]?(0[xX])?", body)
        assert head is not None
        return head[0] + body[head.end() :].rjust(width - head.end(), b"0")
    return body.rjust(width)
