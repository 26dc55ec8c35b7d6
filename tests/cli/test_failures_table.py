"""The table of ``kcheck failures`` in terminals of any width: a failure is on one line where its facts fit."""

from __future__ import annotations

import pytest

from kcheck.cli.failures import HEAD, say_failures

ROWS = [
    HEAD,
    ("9", "nqww", "5223204056326394888", "racecheck", "1", "18:20", "M=33 N=32 K=32 T=float32"),
    ("10", "vlst", "19118170339349880086", "nondeterministic", "2", "18:20", "M=40 N=8 K=31 T=float32"),
]


def lines(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], columns: int) -> list[str]:
    monkeypatch.setenv("COLUMNS", str(columns))
    say_failures(ROWS)
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(
    ("columns", "head"),
    [
        (100, "id seed rule times last seen case"),
        (90, "id seed rule last seen case"),
        (80, "id seed rule case"),
        (70, "id rule last seen case"),
        (58, "id rule case"),
    ],
)
def test_a_narrow_terminal_gets_fewer_columns(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], columns: int, head: str
) -> None:
    """The number, the id, the rule and the case of a failure are always on its line."""
    found = lines(monkeypatch, capsys, columns)
    assert len(found) == len(ROWS)
    assert " ".join(found[0].split()) == head
    assert max(map(len, found)) <= columns
    for line, row in zip(found[1:], ROWS[1:], strict=True):
        assert line.split()[:2] == [row[0], row[1]]
        assert line.endswith(row[-1])


def test_a_case_of_many_sizes_keeps_its_seed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """At 80 columns the case takes two lines, and the seed that `--case-seed` needs is beside it."""
    case = "B=2 H=3 S=129 D=64 K=257 L=31 T=float16 U=float32"
    monkeypatch.setenv("COLUMNS", "80")
    say_failures([HEAD, (*ROWS[1][:-1], case)])
    _, *found = capsys.readouterr().out.splitlines()
    assert max(map(len, found)) <= 80
    assert found[0].split()[:4] == ["9", "nqww", "5223204056326394888", "racecheck"]
    assert " ".join(" ".join(found).split()).endswith(case)


def test_below_that_the_case_is_on_the_next_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = lines(monkeypatch, capsys, 40)
    assert max(map(len, found)) <= 40
    assert found[1].split() == ["9", "nqww", "racecheck"]
    assert found[2].split() == ROWS[1][-1].split()
