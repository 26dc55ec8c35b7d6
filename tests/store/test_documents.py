"""Stored values read back as they were."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

from kcheck.model import Case, Finding, Status, Verdict
from kcheck.model.note import Note, is_note
from kcheck.model.outcome import InGap, KeptDigits, NotCompiling, Seen, SpecialValue
from kcheck.store.documents import dumps, loads

VERDICT = Verdict(Case("op.yaml", "op", "iter_0", 0, {}, {}, {}, {}, {}), Status.FAILED, "cpu")


def test_a_note_keeps_its_kind() -> None:
    """Also in a message to another process. It decides what reports and merged runs do with the note."""
    note = Note("y is within the rounding of float16", "explanation")
    for read in (
        loads(dumps(replace(VERDICT, notes=(note, "else"))), Verdict).notes,
        pickle.loads(pickle.dumps((note, "else"))),
    ):
        assert read == (note, "else")
        assert [is_note(each, "explanation") for each in read] == [True, False]


@pytest.mark.parametrize(
    "seen", [InGap(), SpecialValue(True, False), KeptDigits(1, 24, False), NotCompiling("why")]
)
def test_a_finding_keeps_what_was_seen(seen: Seen) -> None:
    finding = Finding("values", "inf / inf is NaN", seen=seen)
    assert loads(dumps(finding), Finding) == finding
