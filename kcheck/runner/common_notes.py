"""Notes about a spec, not about a case: an output is wrong only because of narrow rounding, or among equal values.

A bug may look like that in one case, so the note is correct only if every failing case has it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from kcheck.model import Status, Verdict
from kcheck.model.note import is_note


def _is_of_all(note: str) -> bool:
    return is_note(note, "explanation")


class CommonNotes:
    """The notes that all failing cases of a spec have so far."""

    def __init__(self) -> None:
        self._common: dict[str, None] | None = None

    def take(self, verdict: Verdict) -> Verdict:
        """Count a case; returns its verdict without such notes."""
        found = dict.fromkeys(filter(_is_of_all, verdict.notes))
        if verdict.status is not Status.PASSED:
            before = found if self._common is None else self._common
            self._common = {note: None for note in before if note in found}
        if not found:
            return verdict
        return replace(verdict, notes=tuple(note for note in verdict.notes if note not in found))

    @property
    def notes(self) -> tuple[str, ...]:
        """The notes that are correct for the whole spec."""
        return tuple(self._common or ())


def not_of_all(parts: Iterable[tuple[bool, Sequence[str]]]) -> frozenset[str]:
    """The notes of this kind that some part with failures lacks. ``parts``: (a case failed, notes) of each."""
    listed = [(failed, {note for note in notes if _is_of_all(note)}) for failed, notes in parts]
    every = {note for _, notes in listed for note in notes}
    return frozenset(note for note in every if any(failed and note not in notes for failed, notes in listed))
