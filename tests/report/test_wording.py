"""How numbers are worded, text is cleaned and lines are laid out."""

from __future__ import annotations

import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from kcheck.model import Finding, Span
from kcheck.report import layout, plain, wording
from kcheck.report.detail import finding_rows


@pytest.mark.parametrize(
    ("part", "whole", "text"),
    [
        (0, 0, "0 of 0 elements"),
        (1, 1, "1 of 1 element (100%)"),
        (0, 7, "0 of 7 elements (0%)"),
        (1, 3, "1 of 3 elements (33.33%)"),
        (1, 10_000_000, "1 of 10,000,000 elements (<0.01%)"),
        (9_999_999, 10_000_000, "9,999,999 of 10,000,000 elements (>99.99%)"),
    ],
)
def test_shares_are_never_rounded_to_nothing_or_all(part: int, whole: int, text: str) -> None:
    """One wrong element of ten million is not 0%, one right one not 100%."""
    assert wording.share(part, whole) == text


@pytest.mark.parametrize(
    ("number", "dtype", "text"),
    [
        (None, "float32", "-"),
        (True, "bool", "True"),
        (2**63, "uint64", "9223372036854775808"),
        (math.nan, "float32", "NaN"),
        (-math.inf, "float16", "-Inf"),
        (-0.0, "float32", "-0"),
        (0.1, "float64", "0.10000000000000001"),
        (0.1, "bfloat16", "0.1"),
        (complex(1, -math.inf), "complex64", "1-Infj"),
        (complex(0.5, math.nan), "complex64", "0.5+NaNj"),
    ],
)
def test_values_are_worded(number: wording.Value, dtype: str, text: str) -> None:
    """Each kind of element has its wording."""
    assert wording.value(number, dtype) == text


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_shown_digits_tell_float32_apart(number: float) -> None:
    """The digits shown of a float32 are enough to get the same bits back."""
    shown = float(wording.value(number, "float32"))
    assert struct.pack("f", shown) == struct.pack("f", number)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0, "0.00 s"), (0.949, "0.95 s"), (1.0, "1.0 s"), (99.97, "1 min 40 s"), (3725, "62 min 05 s")],
)
def test_durations_are_worded(seconds: float, text: str) -> None:
    """Durations have the digits that a reader wants."""
    assert wording.seconds(seconds) == text


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("plain [bold]text[/bold]", "plain [bold]text[/bold]"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07after", "after"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b(Bcharset \x1b7saved", "charset saved"),
        ("\x9b2Jcleared \x9d0;t\x9cend", "cleared end"),
        ("a\r\nb\tc\u2028d", "a b c d"),
        ("bell\x07 null\x00 del\x7f", "bell null del"),
        ("\u202eevil\u2066 \ufeff", "evil "),
        ("\ud800 lone", "\ufffd lone"),
        ("unfinished \x1b[", "unfinished "),
        ("unfinished \x1b", "unfinished "),
    ],
)
def test_line_is_made_safe(text: str, clean: str) -> None:
    """Nothing that moves the cursor, hides text or breaks a line is left; what can be read stays."""
    assert plain.line(text) == clean


@given(st.text(st.characters()))
def test_line_is_always_safe(text: str) -> None:
    """No text at all leaves a control character or what UTF-8 cannot encode, and clean text stays as it is."""
    clean = plain.line(text)
    clean.encode("utf-8")
    assert all(character.isprintable() or ord(character) > 0x9F for character in clean)
    assert plain.line(clean) == clean


@given(st.text(), st.integers(3, 30))
def test_shortened_text_fits(text: str, width: int) -> None:
    """Shortening gives at most the width in cells, and leaves alone what fits."""
    short = layout.cut_end(plain.line(text), width)
    assert cell_len(short) <= width
    if cell_len(plain.line(text)) <= width:
        assert short == plain.line(text)


@pytest.mark.parametrize(
    ("path", "width", "short"),
    [
        ("specs/softmax.yaml", 18, "specs/softmax.yaml"),
        ("specs/buggy/softmax.yaml", 20, "…/buggy/softmax.yaml"),
        ("specs/buggy/softmax.yaml", 19, "…/softmax.yaml"),
        ("specs/buggy/softmax.yaml", 8, "…ax.yaml"),
        ("注意/注意力.yaml", 13, "…/注意力.yaml"),
        ("注意/注意力.yaml", 9, "…力.yaml"),
    ],
)
def test_paths_lose_folders_first(path: str, width: int, short: str) -> None:
    """The file's name says which spec it is, so it is the last to be cut."""
    assert layout.cut_folders(path, width) == short


@pytest.mark.parametrize(
    ("line", "thread", "moved"),
    [("def k(x):", 0, True), ("x[0] = 1", 0, False), ("def k(x):", None, False)],
)
def test_a_moved_instruction_says_that_its_line_is_not_known(line: str, thread: int | None, moved: bool) -> None:
    """No thread reads or writes in the line of the def; a finding about the whole function may well be there."""
    by = None if thread is None else (thread, 0, 0)
    rows = finding_rows(Finding("memcheck", "reads", place=Span("k.py", 3), thread=by), lambda place: line)
    assert any("the compiler moved the instruction" in row.text for row in rows) == moved
