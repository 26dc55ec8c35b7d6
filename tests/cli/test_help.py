"""Help pages, the version, and how errors in the command line look."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from kcheck.cli.main import COMMANDS, SECTIONS, group, main


def page(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str, columns: int = 80
) -> list[str]:
    """The lines of a help page on a terminal of this width."""
    monkeypatch.setenv("COLUMNS", str(columns))
    assert main([*arguments, "--help"]) == 0
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("command", COMMANDS)
def test_a_help_page_begins_with_examples(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    """Usage, one sentence, examples that call the command, and only then the rest; at most 80 columns."""
    lines = page(monkeypatch, capsys, command)
    assert lines[0].startswith(f"Usage: kcheck {command}")
    examples = lines.index("Examples:")
    assert [line for line in lines[1:examples] if line.strip()], "one sentence says what the command does"
    assert len(lines[1:examples]) <= 5
    assert lines[examples + 1].strip().startswith(f"kcheck {command}")
    assert max(map(len, lines)) <= 80


def words(lines: list[str]) -> list[str]:
    """The words of a page, however its lines are folded."""
    return " ".join(line.removesuffix(" \\") for line in lines).replace("|", "| ").split()


@pytest.mark.parametrize("columns", [40, 60])
@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_a_help_page_fits_a_narrow_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str, columns: int
) -> None:
    """No line is longer than the terminal, except a single word, and no word is broken or left out."""
    arguments = [command] if command else []
    wide = page(monkeypatch, capsys, *arguments, columns=100)
    lines = page(monkeypatch, capsys, *arguments, columns=columns)
    long = [line for line in lines if len(line) > columns and "$schema=" not in line]  # that is for pasting
    assert [line for line in long if len(line.split()) > 1] == []
    if command not in ("baseline", "spec"):  # Click shortens the sentences in the list of their commands
        assert words(lines) == words(wide)


def test_a_long_example_on_a_narrow_terminal_can_be_pasted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A backslash continues the command, and its comment is below, further to the right."""
    lines = page(monkeypatch, capsys, "run", columns=40)
    start = lines.index("  kcheck run --executor dask \\")
    assert lines[start : start + 3] == [
        "  kcheck run --executor dask \\",
        "      --scheduler tcp://head:8786",
        "      on a Dask cluster",
    ]


def test_the_list_of_commands_is_in_sections(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every command once, each on one line at 80 columns."""
    lines = page(monkeypatch, capsys)
    for title, commands in SECTIONS.items():
        start = lines.index(f"{title}:") + 1
        for line, (name, text) in zip(lines[start:], commands.items(), strict=False):
            assert line.split(maxsplit=1) == [name, text]


@pytest.mark.parametrize("option", ["-V", "--version"])
def test_version(capsys: pytest.CaptureFixture[str], option: str) -> None:
    """Both spellings."""
    assert main([option]) == 0
    assert capsys.readouterr().out.startswith("kcheck 0.")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "--cass", "3"], "no such option '--cass'; did you mean '--case-seed' or '--cases'?"),
        (["run", "--fail-fats"], "no such option '--fail-fats'; did you mean '--fail-fast'?"),
        (
            ["lint", "--target", "ampere"],
            "invalid value for '--target': 'ampere' is not a target; write sm_80",
        ),
        (["run", "--cases", "many"], "invalid value for '--cases'"),
        (["cases", "a.yaml", "b.yaml"], "got unexpected extra argument (b.yaml)"),
        (["rnu"], "no command 'rnu'; did you mean 'run'?"),
    ],
)
def test_a_wrong_option_or_argument_shows_the_usage(
    capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    """First what is wrong, then the usage line and where to find help."""
    assert main(arguments) == 2
    first, blank, usage, hint = capsys.readouterr().err.splitlines()
    assert first.startswith(f"kcheck: error: {said}")
    assert blank == ""
    assert usage.startswith("Usage: kcheck")
    assert hint.startswith("For help: kcheck")


@pytest.mark.parametrize(
    "arguments",
    [
        ["reproduce", "17", "--no-store"],
        ["failures"],
        ["run", "-o", "no/where.json"],
        ["run", "nowhere.py:x", "-v", "-q"],
    ],
    ids=" ".join,
)
def test_other_errors_show_no_usage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    """A message that is not about the spelling of the command line stands alone."""
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    said = capsys.readouterr().err
    assert said.startswith("kcheck: error: ")
    assert "Usage:" not in said
    assert len(said.splitlines()) == 1


def test_every_command_is_listed() -> None:
    """The table names the modules that exist, and no others."""
    for name in COMMANDS:
        assert isinstance(group.get_command(click.Context(group), name), click.Command)
