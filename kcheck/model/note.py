"""Notes that reports and runs treat in a special way."""

from __future__ import annotations

from typing import Literal, TypeAlias

NoteKind: TypeAlias = Literal["explanation", "background", "huge", "occupancy"]


class Note(str):
    """A note with a kind. Other notes are plain strings.

    Attributes:
        kind: ``explanation``: applies to a spec only if every failing case has it, because in a single case, a bug
            may look like it. ``background``: is useful only if numbers are wrong or vary; it requires no action.
            ``huge``: how much of a huge case was run. ``occupancy``: how the occupancy of a kernel was found.
    """

    kind: NoteKind

    def __new__(cls, text: str, kind: NoteKind) -> Note:
        """A text with a kind."""
        made = super().__new__(cls, text)
        made.kind = kind
        return made

    def __getnewargs__(self) -> tuple[str, NoteKind]:  # type: ignore[override]
        return str(self), self.kind


def is_note(text: str, kind: NoteKind) -> bool:
    """Whether a note is of this kind."""
    return isinstance(text, Note) and text.kind == kind
