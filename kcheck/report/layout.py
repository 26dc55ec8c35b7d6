"""Wrap, shorten and align text by its width in terminal cells. A CJK character takes two."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from rich.cells import cell_len

from kcheck.report.detail import DetailRow

_LABEL = 9  # cells; "racecheck" and "unwritten" fit, a longer label gets its own line
_NARROW = 60  # columns; below, text starts right after its label and continues under it
_NUMBERED = re.compile(r"\d+ │ ")
_SOURCE = 3  # lines of a terminal for a line of source
_CELL = 16  # cells; with less room, the last column of a table is below its row
_ASCII = str.maketrans(
    {"·": "-", "…": "...", "│": "|", "→": "->", "━": "-", "░": ".", "▒": ":", "▓": "+", "█": "#"}
)


def pad(text: str, width: int) -> str:
    """``text`` padded with spaces to ``width`` cells."""
    return text + " " * (width - cell_len(text))


def cut_end(text: str, width: int) -> str:
    """``text`` in at most ``width`` cells, truncated at the end."""
    if cell_len(text) <= width:
        return text
    while text and cell_len(text) > width - 1:
        text = text[:-1]
    return text + "…"


def cut_folders(path: str, width: int) -> str:
    """``path`` in at most ``width`` cells. Leading folders are cut first."""
    if cell_len(path) <= width:
        return path
    parts = path.split("/")
    for kept in range(1, len(parts)):
        text = "…/" + "/".join(parts[kept:])
        if cell_len(text) <= width:
            return text
    name = parts[-1]
    while name and cell_len(name) > width - 1:
        name = name[1:]
    return "…" + name


def wrap(items: Iterable[str], gap: str, width: int, first: int | None = None) -> Iterator[str]:
    """Lines of at most ``width`` cells, broken between items. A wider item is broken at ``width``.

    Args:
        first: cells of the first line, if it is shorter.
    """
    line, room = "", width if first is None else first
    for item in items:
        if not line or cell_len(line) + cell_len(gap) + cell_len(item) <= room:
            line = f"{line}{gap}{item}" if line else item
        else:
            yield line
            line, room = item, width
        while cell_len(line) > room:
            head = _cells(line, room)
            yield head
            line, room = line[len(head) :], width
    yield line


def _cells(text: str, width: int) -> str:
    """The beginning of ``text`` in at most ``width`` cells; at least one character."""
    end = min(len(text), max(1, width))
    while end > 1 and cell_len(text[:end]) > width:
        end -= 1
    return text[:end]


def labeled(row: DetailRow, indent: int, width: int) -> Iterator[tuple[str, str]]:
    """The lines of a row as (left column, text); the left column is indented and padded.

    A ``paste`` line stays whole if it fits below its label; otherwise backslashes break it, as shells allow.
    A ``source`` line has at most three lines, a ``picture`` is cut, a ``place`` loses leading folders.
    """
    left = " " * indent + pad(row.label, _LABEL) + "  "
    blank = " " * (indent + _LABEL + 2)
    if width < _NARROW:
        left, blank = " " * indent + (f"{row.label} " if row.label else "  "), " " * (indent + 2)
    elif cell_len(row.label) > _LABEL:
        yield " " * indent + row.label, ""
        left = blank
    room = max(8, width - len(blank))
    first = max(8, width - cell_len(left))
    if row.role == "paste" and first < cell_len(row.text) <= width - indent:
        yield left.rstrip(), ""
        yield " " * indent, row.text
        return
    if row.role == "paste":
        lines = _continued(row.text, room, first)
    elif row.role == "source":
        lines = _source(row, first)
    elif row.role == "picture":
        lines = iter([cut_end(row.text, first)])
    elif row.role == "place":
        before = " ".join([*row.items[:-1], ""])
        lines = iter([before + cut_folders(row.items[-1], first - cell_len(before))])
    else:
        lines = wrap(row.items, row.gap, room, first)
    for number, line in enumerate(lines):
        yield (blank if number else left), line


def _source(row: DetailRow, width: int) -> Iterator[str]:
    """``12 │ some source`` on at most ``_SOURCE`` lines, among them the one with the character at ``row.shown``.
    An ellipsis marks what is omitted."""
    number, bar, source = row.text.partition(" │ ") if _NUMBERED.match(row.text) else ("", "", row.text)
    room = max(8, width - cell_len(number + bar))
    lines = list(wrap(source.split(" "), " ", room))
    if len(lines) > _SOURCE:
        # Preferably the second line has the shown character, because ellipses replace the first and the
        # last character. A line breaks at a space, which it loses, or inside a long word.
        before, shown = len(source[: row.shown - len(number + bar)].replace(" ", "")), 0
        while shown < len(lines) - 1 and before >= (inked := len(lines[shown].replace(" ", ""))):
            before -= inked
            shown += 1
        first = min(max(0, shown - 1), len(lines) - _SOURCE)
        cut = first + _SOURCE < len(lines)
        lines = lines[first : first + _SOURCE]
        lines[0] = f"…{lines[0]}" if first else lines[0]
        lines[-1] = cut_end(lines[-1] + "…", room) if cut else lines[-1]
    for position, line in enumerate(lines):
        yield (" " * len(number) if position else number) + bar + cut_end(line, room)


_ARGUMENT = re.compile(r"""(?:'[^']*'|"[^"]*"|\\.|[^\s'"\\])+""")


def _continued(command: str, width: int, first: int) -> Iterator[str]:
    """A command split into lines, each except the last ending in a backslash. Arguments are not broken."""
    arguments: list[str] = []
    for argument in _ARGUMENT.findall(command):
        if arguments and re.fullmatch("-[^ ]+", arguments[-1]) and not argument.startswith("-"):
            arguments[-1] += f" {argument}"  # an option and its value
        else:
            arguments.append(argument)
    *arguments, last = arguments
    line, room = "", first
    for argument, end in (*((each, 2) for each in arguments), (last, 0)):
        if line and cell_len(f"{line} {argument}") + end > room:
            yield line + " \\"
            line, room = argument, width
        else:
            line = f"{line} {argument}" if line else argument
    yield line


def table(
    rows: Sequence[Sequence[str]], width: int, right: Sequence[int] = (), *, wrapped: bool = False
) -> Iterator[str]:
    """Rows in columns, separated by two cells. The last column is truncated at ``width``.

    Rich's Table is not used because, if there is not enough room, it shortens every column, even ids and seeds
    that users copy, and because it pads each line with spaces.

    Args:
        right: the columns aligned to the right.
        wrapped: wrap the last column instead of truncating it, below the row if there is no room beside it.
    """
    widths = _widths(rows)
    for row in rows:
        line = ""
        for n, cell in enumerate(row[:-1]):
            space = " " * (widths[n] - cell_len(cell))
            line += (space + cell if n in right else cell + space) + "  "
        indent = cell_len(line)
        if not wrapped:
            yield (line + cut_end(row[-1], max(8, width - indent))).rstrip()
            continue
        if width - indent < min(_CELL, cell_len(row[-1])):
            yield line.rstrip()
            line, indent = "    ", 4
        for part in wrap(row[-1].split(" "), " ", max(8, width - indent)):
            yield (line + part).rstrip()
            line = " " * indent


def _widths(rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(cell_len(cell) for cell in column) for column in zip(*rows, strict=True)]


def table_width(rows: Sequence[Sequence[str]]) -> int:
    """The number of cells that a :func:`table` needs if nothing is truncated or wrapped."""
    widths = _widths(rows)
    return sum(widths) + 2 * (len(widths) - 1)


def encodable(text: str, encoding: str | None) -> str:
    """``text`` in characters of this encoding: drawing characters become ASCII, others are escaped."""
    if encoding is None:
        return text
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(_ASCII).encode(encoding, "backslashreplace").decode(encoding)
    return text
