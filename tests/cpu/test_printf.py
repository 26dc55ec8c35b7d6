"""printf of kernels: the format language of C."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcheck.cpu.printf import format_record

NAMES = {0x1000: b"hello"}


@pytest.mark.parametrize(
    ("form", "layout", "values", "text"),
    [
        (b"plain %% \n", "", (), b"plain % \n"),
        (b"%d %i", "<ii", (-3, 7), b"-3 7"),
        (b"%u", "<i", (-1,), b"4294967295"),
        (b"%lld", "<q", (-(2**40),), b"-1099511627776"),
        (b"%llu", "<q", (-1,), b"18446744073709551615"),
        (b"%d %lld", "<i4xq", (1, 2), b"1 2"),
        (b"%hhd %hu", "<ii", (255, -1), b"-1 65535"),
        (b"%x %X %#x %o %#o", "<iiiii", (255, 255, 255, 8, 8), b"ff FF 0xff 10 010"),
        (b"%08x|%04x", "<ii", (0xBEEF, 0xF), b"0000beef|000f"),
        (b"%5d|%-5d|%05d|%+d|% d", "<iiiii", (42, 42, -42, 42, 42), b"   42|42   |-0042|+42| 42"),
        (b"%.3d|%6.3d|%.0d", "<iii", (7, 7, 0), b"007|   007|"),
        (b"%*d|%-*d|%.*d", "<iiiiii", (4, 1, -3, 2, 3, 5), b"   1|2  |005"),
        (b"%f %.2f %e %g", "<dddd", (1.5, 2.345, 12345.678, 0.0001), b"1.500000 2.35 1.234568e+04 0.0001"),
        (b"%G %E", "<dd", (1e-10, 1.0), b"1E-10 1.000000E+00"),
        (b"%f %5.1f|%F", "<ddd", (float("inf"), float("-inf"), float("nan")), b"inf  -inf|NAN"),
        (b"%06f", "<d", (float("inf"),), b"   inf"),
        (b"%+.1f % .1f", "<dd", (1.0, -0.0), b"+1.0 -0.0"),
        (b"%a %.1a", "<dd", (1.0, 1.96875), b"0x1p+0 0x2.0p+0"),
        (b"%s|%8s|%-8s|%.2s", "<qqqq", (0x1000,) * 4, b"hello|   hello|hello   |he"),
        (b"%c%c", "<ii", (65, 66), b"AB"),
        (b"%p", "<q", (0xABC,), b"0xabc"),
        (b"%q %", "", (), b"%q %"),
        (b"%d %d", "<i", (5,), b"5 0"),
    ],
)
def test_conversion(form: bytes, layout: str, values: tuple[object, ...], text: bytes) -> None:
    """Each conversion, flag, width, precision and size gives what C's printf gives; missing arguments are 0."""
    content = struct.pack(layout, *values) if layout else b""
    assert format_record(form, content, NAMES.__getitem__) == text


@settings(deadline=None)
@given(st.binary(max_size=40), st.binary(max_size=40))
def test_no_format_breaks_it(form: bytes, content: bytes) -> None:
    """Any bytes are a format for any arguments: text comes out, never an exception."""
    assert isinstance(format_record(form, content, lambda address: b"?"), bytes)
