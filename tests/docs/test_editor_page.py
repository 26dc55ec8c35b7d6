"""docs/editor.md: its problem matcher reads what kcheck writes, and its tables are those of the server."""

from __future__ import annotations

import io
import json
import re
import tomllib
from datetime import UTC, datetime
from pathlib import Path

from page_blocks import blocks

from kcheck.lsp.actions import COMMANDS, arguments
from kcheck.lsp.child import ServerSettings
from kcheck.model import Fault, Span, SpecRefused
from kcheck.report import ReportSettings
from kcheck.report.concise import ConciseReporter

PAGE = (Path(__file__).parents[2] / "docs" / "editor.md").read_text("utf-8")


def test_the_problem_matcher_reads_a_line_of_the_concise_report() -> None:
    ((_, text),) = blocks(PAGE, "json")
    pattern = json.loads(text)["tasks"][0]["problemMatcher"]["pattern"]
    stream = io.StringIO()
    fault = Fault(Span("specs/a b.yaml", 14, 9), "unknown dim 'n'", "did you mean 'N'?")
    ConciseReporter(stream, ReportSettings()).handle(
        SpecRefused("specs/a b.yaml", (fault,), datetime(2026, 1, 1, tzinfo=UTC), "")
    )
    found = re.match(pattern["regexp"], stream.getvalue().rstrip("\n"))
    assert found is not None
    assert [found[pattern[part]] for part in ("file", "line", "column", "code")] == [
        "specs/a b.yaml",
        "14",
        "9",
        "spec",
    ]
    assert found[pattern["message"]] == "unknown dim 'n'; did you mean 'N'?"
    warned = re.match(pattern["regexp"], "k.py:3:1: overflow: warning: wraps (2 of 9 cases)")
    assert warned is not None
    assert (warned[pattern["severity"]], warned[pattern["message"]]) == ("warning", "wraps (2 of 9 cases)")


def test_each_setting_of_the_page_changes_the_settings_of_the_server() -> None:
    given = {"runOnSave": False, "profile": "ci", "cases": 7, "device": "cpu", "commands": "client"}
    assert set(given) == set(
        re.findall(r"^\| `(\w+)` \|.*\|.*\|$", PAGE.partition("### Commands")[0], re.MULTILINE)
    )
    for name, value in given.items():
        assert ServerSettings.of({name: value}) == ServerSettings.of({"kcheck": {name: value}}) != ServerSettings()
    assert ServerSettings.of(given).options() == ["--profile=ci", "--cases=7", "--device=cpu"]


def test_each_command_of_the_page_has_the_command_line_of_the_page(tmp_path: Path) -> None:
    lines = dict(re.findall(r"^\| `(kcheck\.\w+)` \| `kcheck ([^`]+)` \|", PAGE, re.MULTILINE))
    assert tuple(lines) == ("kcheck.run", "kcheck.minimize", "kcheck.reproduce", "kcheck.show")
    assert set(lines) == set(COMMANDS)
    (tmp_path / "kcheck.yaml").touch()
    given = {"file": str(tmp_path / "s.yaml"), "op": "double", "seed": "7"}
    for name, line in lines.items():
        found, root = arguments(name, given)
        words = found if name != "kcheck.run" else ["run", *found[:1]]
        assert sorted(words) == sorted(
            line.replace("OP", "double").replace("SEED", "7").replace("FILE", "s.yaml").split()
        )
        assert root == tmp_path
    assert arguments("kcheck.minimize", {**given, "seed": ""})[0] == ["minimize", "last", "--op", "double"]


def test_the_settings_of_helix_are_toml() -> None:
    ((_, text),) = blocks(PAGE, "toml")
    assert tomllib.loads(text)["language-server"]["kcheck"] == {
        "command": "kcheck",
        "args": ["lsp"],
        "config": {"profile": "quick"},
    }
