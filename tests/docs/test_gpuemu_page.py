"""docs/coming-from-gpuemu.md: its command lines are kcheck's, its spec is valid, its links lead somewhere."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from kcheck.cli.main import COMMANDS, group
from kcheck.specfile import load_spec

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "docs/coming-from-gpuemu.md"
PAGE = FILE.read_text("utf-8")
ROWS = [[cell.strip() for cell in line[1:-1].split("|")] for line in PAGE.splitlines() if line[:1] == "|"]
THEIRS = """daemon init test status version fuzz reproduce minimize failures lint baseline diff artifacts ci
coverage report debug"""
"""The commands of gpuemu 0.1.0."""


def lines() -> list[str]:
    """What stands between backticks and begins with ``kcheck``, what a shell would take off it taken off."""
    found = re.findall(r"`(kcheck [^`]*)`", PAGE)
    return list(dict.fromkeys(line.partition(" > ")[0] for line in found))


def parse(words: list[str]) -> click.Context:
    """The context in which a command would run, of the innermost one: every argument read, nothing run."""
    context = group.make_context("kcheck", list(words))
    while isinstance(context.command, click.Group):
        rest = [*context._protected_args, *context.args]
        if not rest:
            return context
        name, command, rest = context.command.resolve_command(context, rest)
        assert command is not None
        context = command.make_context(name, rest, parent=context)
    return context


@pytest.mark.parametrize("line", lines())
def test_every_command_line_is_one(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is read by the command that it names, options, values and all."""
    (tmp_path / "softmax.ptx").write_text("")
    monkeypatch.chdir(tmp_path)
    words = shlex.split(line)[1:]
    if words == ["--version"]:
        with pytest.raises(click.exceptions.Exit):
            parse(words)
    else:
        assert parse(words).command.name in {*COMMANDS, "save", "list", "show", "rm"}


def test_a_wrong_option_is_noticed() -> None:
    """The reader of these tests is the commands' own: it refuses what they do not have."""
    for line in ("run --quick", "baseline save", "diff --baseline v1.0", "fuzz"):
        with pytest.raises(click.UsageError):
            parse(line.split())


@pytest.mark.parametrize("name", THEIRS.split())
def test_every_command_of_gpuemu_has_its_row(name: str) -> None:
    """The table has a row for it, and the row says what to type here, or that there is nothing."""
    said = [row for row in ROWS if re.search(rf"gpuemu {name}\b", row[0])]
    assert said
    assert all(re.search(r"`kcheck |^none", row[1]) for row in said)


def test_tables_are_whole() -> None:
    """Every row of a table has its three cells."""
    assert {len(row) for row in ROWS} == {3}


def test_the_spec_is_valid(tmp_path: Path) -> None:
    """The spec of the page can be copied as it stands, and its keys mean what the page says."""
    (text,) = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    for path, code in (("kernels", "from numba import cuda\n\n@cuda.jit\n"), ("references", "")):
        (tmp_path / path).mkdir()
        (tmp_path / path / "softmax.py").write_text(f"{code}def softmax(x, y=None):\n    pass\n")
    (tmp_path / "kcheck.yaml").write_text("")
    (tmp_path / "op.yaml").write_text(text)
    assert load_spec(tmp_path / "op.yaml").op == "row_softmax"


@pytest.mark.parametrize("link", re.findall(r"\]\(((?!https:)[^)]+)\)", PAGE))
def test_links_lead_to_a_heading(link: str) -> None:
    """Each names a file beside the page, or one of its headings as GitHub spells them."""
    path, _, anchor = link.partition("#")
    text = (FILE.parent / path).read_text("utf-8") if path else PAGE
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    assert not anchor or anchor in [re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-") for h in headings]
