"""kcheck speaks plain American English: no string that a user reads has a phrase of tests/wording/words.py."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from tests.wording.strings import USER_KINDS, Text, contributor_texts, user_texts
from tests.wording.words import odd_words

HERE = Path(__file__).parent
PENDING = {"texts": HERE / "pending_texts.txt", "comments": HERE / "pending_comments.txt"}
"""Files still to be rewritten: their messages and pages, and their docstrings and comments. These lists may only
shrink; ``python -m tests.wording.test_plain_words`` removes the files that are clean."""


@cache
def oddities(group: str) -> dict[str, list[str]]:
    """By file of ``texts`` or ``comments``: each banned phrase with its place and what to write instead."""
    found: dict[str, list[str]] = {}
    for text in user_texts() if group == "texts" else contributor_texts():
        for phrase, plain in odd_words(text.text):
            found.setdefault(text.file, []).append(f"{text.file}:{text.line}: '{phrase}'; write: {plain}")
    return found


def pending(group: str) -> list[str]:
    return PENDING[group].read_text("utf-8").split()


@pytest.mark.parametrize("group", PENDING)
def test_plain_words_only(group: str) -> None:
    """Only the files still to be rewritten have odd phrases, and a file that is clean leaves their list."""
    waiting = set(pending(group))
    odd = [line for file, lines in oddities(group).items() if file not in waiting for line in lines]
    assert not odd, "\n" + "\n".join(odd)
    clean = sorted(waiting - set(oddities(group)))
    assert not clean, f"clean now: run python -m tests.wording.test_plain_words to remove {clean}"


@pytest.mark.parametrize(
    ("text", "phrase"),
    [
        ("decides a branch by x, which nobody wrote", "nobody"),
        ("at an address that is no multiple of 4", "no multiple"),
        ("3 races more, of further lines", "races more"),
        ("a fault of kcheck, not of your kernel", "fault of kcheck"),
        ("Run the kernel so often at most.", "so often"),
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
    ],
)
def test_plain_english_is_left_alone(text: str) -> None:
    assert odd_words(text) == []


def test_the_list_has_help_errors_findings_schemas_and_pages() -> None:
    """What is not on the list is not read: one of each kind must be there."""
    texts: list[Text] = list(user_texts())
    assert {text.kind for text in texts} >= USER_KINDS
    assert any(text.text.startswith("Stop after the first failure") for text in texts if text.kind == "help")


if __name__ == "__main__":
    for name, path in PENDING.items():
        kept = [file for file in pending(name) if file in oddities(name)]
        print(f"{path.name}: {len(pending(name))} -> {len(kept)} files")
        path.write_text("".join(f"{file}\n" for file in kept), "utf-8")
