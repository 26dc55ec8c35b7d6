"""kcheck speaks plain American English: no message, page, docstring or comment has a phrase of
tests/wording/words.py."""

from __future__ import annotations

from functools import cache

import pytest

from tests.wording.strings import USER_KINDS, Text, contributor_texts, user_texts
from tests.wording.words import odd_words


@cache
def oddities(group: str) -> dict[str, list[str]]:
    """By file of ``texts`` or ``comments``: each banned phrase with its place and what to write instead."""
    found: dict[str, list[str]] = {}
    for text in user_texts() if group == "texts" else contributor_texts():
        for phrase, plain in odd_words(text.text):
            found.setdefault(text.file, []).append(f"{text.file}:{text.line}: '{phrase}'; write: {plain}")
    return found


@pytest.mark.parametrize("group", ["texts", "comments"])
def test_plain_words_only(group: str) -> None:
    odd = [line for lines in oddities(group).values() for line in lines]
    assert not odd, "\n" + "\n".join(odd)


@pytest.mark.parametrize(
    ("text", "phrase"),
    [
        ("decides a branch by x, which nobody wrote", "nobody"),
        ("at an address that is no multiple of 4", "no multiple"),
        ("3 races more, of further lines", "races more"),
        ("a fault of kcheck, not of your kernel", "fault of kcheck"),
        ("Run the kernel so often at most.", "so often"),
        ("collects what has to hold for a block, from its begin", "what has to"),
        ("the innermost frame of the user's, as messages show it", "frame of the user's"),
    ],
)
def test_the_translated_manner_is_noticed(text: str, phrase: str) -> None:
    assert phrase in [found for found, _ in odd_words(text)]


@pytest.mark.parametrize(
    "text",
    [
        "branches on x, which is uninitialized",
        "address 0x12 is not aligned to 4 bytes",
        "3 more races on other lines",
        "the option is no longer supported; there is no folder 'specs'",
        "the output of the user's kernel, or None if it has no output",
    ],
)
def test_plain_english_is_left_alone(text: str) -> None:
    assert odd_words(text) == []


def test_the_list_has_help_errors_findings_schemas_and_pages() -> None:
    """What is not on the list is not read: one of each kind must be there."""
    texts: list[Text] = list(user_texts())
    assert {text.kind for text in texts} >= USER_KINDS
    assert any(text.text.startswith("Stop after the first failure") for text in texts if text.kind == "help")
