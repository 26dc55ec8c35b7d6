"""Laying text out in terminal cells, of which a CJK character takes two: wrapping, shortening, columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.cells import cell_len

from kcheck.report.detail import Row

_LABEL = (
    9  # "racecheck", "unwritten", "invariant": the longest labels but "nondeterministic", which gets its own line
)
_ASCII = str.maketrans(
    {"·": "-", "…": "...", "│": "|", "→": "->", "━": "-", "░": ".", "▒": ":", "▓": "+", "█": "#"}
)


def pad(text: str, width: int) -> str:
    """``text`` filled with spaces to ``width`` cells."""
    return text + " " * (width - cell_len(text))


def shorten(text: str, width: int) -> str:
    """``text`` in at most ``width`` cells, its end cut."""
    if cell_len(text) <= width:
        return text
    while text and cell_len(text) > width - 1:
        text = text[:-1]
    return text + "…"


def shorten_path(path: str, width: int) -> str:
    """``path`` in at most ``width`` cells; the file's name is what tells paths apart, so folders go first."""
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


def wrap(items: Iterable[str], gap: str, width: int) -> Iterator[str]:
    """Lines of at most ``width`` cells, broken only between items; an item that is wider stands alone."""
    line = ""
    for item in items:
        if line and cell_len(line) + cell_len(gap) + cell_len(item) > width:
            yield line
            line = item
        else:
            line = f"{line}{gap}{item}" if line else item
    yield line


def labeled(row: Row, indent: int, width: int) -> Iterator[tuple[str, str]]:
    """The lines of a row as (left column, text); the left column is indented and padded.

    A line to ``paste`` stays whole, below its label where there is more room; a ``source`` line is cut.
    """
    left = " " * indent + pad(row.label, _LABEL) + "  "
    blank = " " * (indent + _LABEL + 2)
    if cell_len(row.label) > _LABEL:
        yield " " * indent + row.label, ""
        left = blank
    room = max(20, width - len(blank))
    if row.role == "paste":
        if cell_len(row.text) > room:
            yield left.rstrip(), ""
            left = " " * indent
        lines = iter([row.text])
    elif row.role == "source":
        lines = iter([shorten(row.text, room)])
    else:
        lines = wrap(row.items, row.gap, room)
    for number, line in enumerate(lines):
        yield (blank if number else left), line


def fit_columns(rows: Sequence[Sequence[str]], width: int) -> list[int]:
    """Widths in cells for a table of (mark, path, name, result, time), two cells between columns.

    Path and name give way when ``width`` is too small; the name goes altogether (0) before the path is unreadable.
    """
    natural = [max((cell_len(row[i]) for row in rows), default=0) for i in range(5)]
    mark, path, name, result, time = natural
    room = width - mark - result - time - 8
    if path + name > room:
        if room < 30:
            name, room = 0, room + 2
        else:
            name = min(name, max(12, room - path))
        path = min(path, max(12, room - name))
    return [mark, path, name, result, time]


def table(rows: Sequence[Sequence[str]], width: int, right: Sequence[int] = ()) -> Iterator[str]:
    """Rows in columns, two cells between them; the last column is cut where ``width`` ends.

    Args:
        right: the columns that are aligned to the right.
    """
    widths = [max(cell_len(cell) for cell in column) for column in zip(*rows, strict=True)]
    for row in rows:
        line = ""
        for n, cell in enumerate(row[:-1]):
            space = " " * (widths[n] - cell_len(cell))
            line += (space + cell if n in right else cell + space) + "  "
        yield (line + shorten(row[-1], max(8, width - cell_len(line)))).rstrip()


def encodable(text: str, encoding: str | None) -> str:
    """``text`` as a stream of this encoding can write it: drawing characters become ASCII, others escapes."""
    if encoding is None:
        return text
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(_ASCII).encode(encoding, "backslashreplace").decode(encoding)
    return text
