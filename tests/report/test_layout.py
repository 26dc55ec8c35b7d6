"""Text laid out in terminal cells."""

from __future__ import annotations

import re
import shlex

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from kcheck.report import layout
from kcheck.report.detail import DetailRow, sentence

WIDTHS = st.integers(40, 120)
WORDS = st.text(st.sampled_from("abc/·注意力"), min_size=1, max_size=60)
LABELS = st.sampled_from(["", "fix", "racecheck", "nondeterministic"])


def lines(row: DetailRow, width: int, indent: int = 2) -> list[str]:
    return [left + text for left, text in layout.labeled(row, indent, width)]


@given(
    WIDTHS,
    st.lists(WORDS, min_size=1, max_size=12),
    LABELS,
    st.sampled_from(["plain", "place", "source", "picture"]),
)
def test_no_row_is_wider_than_the_terminal(width: int, words: list[str], label: str, role: str) -> None:
    """From 40 to 120 columns, whatever is in it: words wider than the terminal, wide characters, any label."""
    row = DetailRow(label, ("called from", words[0]) if role == "place" else tuple(words), " ", role)  # type: ignore[arg-type]
    assert max(map(cell_len, lines(row, width))) <= width


@given(WIDTHS, st.lists(WORDS, min_size=1, max_size=12), LABELS)
def test_no_word_is_lost(width: int, words: list[str], label: str) -> None:
    """A wrapped row has all of its text, in order."""
    shown = "".join(lines(DetailRow(label, tuple(words), " "), width))
    assert re.sub(r"\s", "", shown) == label + "".join(words)


@given(WIDTHS, st.lists(st.text(st.sampled_from("ab -'\"$"), min_size=1, max_size=30), min_size=1, max_size=8))
def test_a_command_over_several_lines_is_the_same_command(width: int, arguments: list[str]) -> None:
    """Pasted into a shell, a replay line that had to be broken has the arguments that it had."""
    command = shlex.join(["kcheck", *arguments])
    shown = lines(DetailRow("", (command,), role="paste"), width, 0)
    assert shlex.split("\n".join(shown).replace("\\\n", "")) == shlex.split(command)


def test_a_place_keeps_its_file_and_line() -> None:
    """Of a path that is too long the folders go first; the words before it stay."""
    row = DetailRow("", ("called from", "kernels/buggy/long/folders/matmul_missing_barrier.py:28"), " ", "place")
    assert lines(row, 60) == ["  " + " " * 11 + "called from …/matmul_missing_barrier.py:28"]


def test_the_last_column_of_a_table_is_wrapped_where_nothing_may_be_cut() -> None:
    """Under itself, or below its row if there is no room beside."""
    rows = [("id", "case"), ("rmwy", "M=1 N=50 K=16 T=float32")]
    assert list(layout.table(rows, 24, wrapped=True)) == ["id    case", "rmwy  M=1 N=50 K=16", "      T=float32"]
    assert list(layout.table(rows, 20, wrapped=True)) == [
        "id    case",
        "rmwy",
        "    M=1 N=50 K=16",
        "    T=float32",
    ]


def test_short_code_in_a_sentence_is_not_broken() -> None:
    """A line breaks before or after it."""
    row = sentence("fix", "guard the access with `if i < x.shape[0]`, or start fewer threads")
    told = [text for _, text in layout.labeled(row, 0, 40)]
    assert told == ["guard the access with", "`if i < x.shape[0]`, or start fewer", "threads"]


SOURCE = "if (i < n) { float first = x[i]; float second = x[i] * 0; y[i] = first + second + x[i + 1] * 0; }"


def test_a_long_source_line_is_broken_between_words() -> None:
    """The access that a finding is about may be anywhere in the line."""
    assert lines(DetailRow("", (f"3 │ {SOURCE}",), role="source"), 80) == [
        "             3 │ if (i < n) { float first = x[i]; float second = x[i] * 0; y[i]",
        "               │ = first + second + x[i + 1] * 0; }",
    ]


def test_an_ellipsis_does_not_hide_the_shown_character() -> None:
    """It ends the second of four lines, of which three are shown."""
    text = f"12 │ {'a' * 44} {'b' * 43}@ {'c' * 44} {'d' * 44}"
    found = lines(DetailRow("", (text,), role="source", shown=text.index("@")), 53)
    assert found == [
        f"    12 │ {'a' * 44}",
        f"       │ {'b' * 43}@",
        f"       │ {'c' * 43}…",
    ]


@given(WIDTHS, st.lists(WORDS, min_size=1, max_size=40), st.data())
def test_the_place_of_a_finding_remains_visible_in_a_very_long_line(
    width: int, words: list[str], data: st.DataObject
) -> None:
    """A source line takes at most three lines, and the character in the finding's column is on one of them."""
    at = data.draw(st.integers(0, len(words) - 1))
    words[at] = "@"
    text = f"1234 │ {' '.join(words)}"
    found = lines(DetailRow("", (text,), role="source", shown=text.index("@")), width)
    assert 1 <= len(found) <= 3
    assert "@" in "".join(found)
    assert max(map(cell_len, found)) <= width
    if len(found) < 3:
        assert re.sub(r"[\s│]", "", "".join(found)) == re.sub(r"[\s│]", "", text)
