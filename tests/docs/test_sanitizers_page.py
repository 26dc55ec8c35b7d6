"""docs/sanitizers.md: its program finds what it says, its commands run, its levels are read."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from kcheck.cli.exec import SANITIZE as OF_PROGRAMS
from kcheck.cli.run import SANITIZE as OF_RUNS
from kcheck.device.cpu import missing
from kcheck.model import LEVELS, SANITIZERS

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/sanitizers.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def blocks(language: str) -> list[str]:
    """The fenced blocks of a language."""
    return [text for said, text in BLOCKS if said == language]


def test_the_table_has_every_sanitizer_with_its_level() -> None:
    """The rows of the first table are those of the model, in its order."""
    rows = re.findall(r"^\| (\w+) \| .* \| (\w+) \|$", PAGE, re.MULTILINE)
    named = {name: level for name, level in rows if name in SANITIZERS and level in LEVELS}
    assert list(named.items()) == list(SANITIZERS.items())


def test_the_levels_of_the_spec_are_read() -> None:
    """What the page shows of a spec has the names and levels that there are."""
    (shown,) = (yaml.safe_load(text) for text in blocks("yaml"))
    assert set(shown["sanitize"]) <= set(SANITIZERS)
    assert {{False: "off"}.get(level, level) for level in shown["sanitize"].values()} <= set(LEVELS)


@pytest.mark.parametrize(
    "text", [line for block in blocks("") for line in block.splitlines() if "--sanitize " in line]
)
def test_the_options_are_those_of_the_command(text: str) -> None:
    """Every `--sanitize` on the page is one that its command takes."""
    option = OF_PROGRAMS if "kcheck exec" in text else OF_RUNS
    for said in re.findall(r"--sanitize ([\w=]+)", text):
        option.convert(said, None, None)


@pytest.mark.slow
@pytest.mark.skipif(bool(missing()), reason=missing())
def test_the_program_finds_what_the_page_says(tmp_path: Path) -> None:
    """The race of the page's program, word for word, and exit code 1."""
    (program,) = blocks("python")
    (tmp_path / "script.py").write_text(program)
    (shown,) = (block for block in blocks("") if block.startswith("$ kcheck exec"))
    command, _, printed = shown.partition("\n")
    words = command.removeprefix("$ kcheck ").split()
    at = words.index("python")
    words[at : at + 1] = [sys.executable, "-W", "ignore"]
    variables = {**os.environ, "PYTHONPATH": str(ROOT)}
    variables.pop("NUMBA_ENABLE_CUDASIM", None)
    done = subprocess.run(
        [sys.executable, "-m", "kcheck", *words],
        cwd=tmp_path,
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        check=False,
    )
    lines = done.stdout.splitlines()
    assert sorted(lines) == sorted(printed.splitlines())
    assert [line for line in lines if line[0] != "["] == printed.splitlines()[1:]
    assert done.returncode == 1
