"""docs/editor.md: its problem matcher reads what kcheck writes, and its tables are those of the server."""

from __future__ import annotations

import io
import json
import re
import tomllib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import pytest
from page_blocks import blocks

from kcheck.lsp.actions import COMMANDS, arguments
from kcheck.lsp.child import ServerSettings
from kcheck.model import Fault, Finding, Span, SpecFinished, SpecRefused, SpecStarted
from kcheck.report import ReportSettings
from kcheck.report.concise import ConciseReporter
from kcheck.rules import NAMES

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "editor.md").read_text("utf-8")


def _matcher(name: str) -> dict[str, Any]:
    """The problem matcher of the page, or that of the extension with its pattern put in."""
    if name == "page":
        ((_, text),) = blocks(PAGE, "json")
        return dict(json.loads(text)["tasks"][0]["problemMatcher"])
    contributed = json.loads((ROOT / "editors/vscode/package.json").read_text("utf-8"))["contributes"]
    ((matcher,), (pattern,)) = contributed["problemMatchers"], contributed["problemPatterns"]
    return {**matcher, "pattern": pattern}


def _read(name: str, text: str) -> dict[str, str | None]:
    """What a matcher takes from a line. VS Code gives lines without their ends, other editors with CR."""
    pattern = _matcher(name)["pattern"]
    found = re.search(pattern["regexp"], text)
    assert found is not None, text
    return {part: found[group] for part, group in pattern.items() if isinstance(group, int)}


def _concise(file: str, rule: str, severity: Literal["error", "warn"]) -> str:
    """The line of the concise report for a finding in a file."""
    stream = io.StringIO()
    finding = Finding(rule, "wraps at a: b", place=Span(file, 3, 7), severity=severity)
    reporter = ConciseReporter(stream, ReportSettings())
    spec: dict[str, Any] = {"path": "specs/double.yaml", "op": "double"}
    started: dict[str, Any] = {
        "line": 4,
        "description": "",
        "tags": (),
        "cases": 1,
        "seed": 0,
        "started": datetime.now(UTC),
    }
    reporter.handle(SpecStarted(**spec, **started))
    counts = dict.fromkeys(("passed", "failed", "errors", "skipped"), 0)
    reporter.handle(SpecFinished(**spec, **counts, findings=(finding,), notes=(), seconds=0.1))
    return stream.getvalue().removesuffix("\n")


@pytest.mark.parametrize("name", ["page", "extension"])
@pytest.mark.parametrize("file", ["k.py", "specs/a b é.yaml", r"C:\work\a b\k.py", "/home/a:1/k.py"])
def test_a_problem_matcher_reads_every_place(name: str, file: str) -> None:
    for end in ("", "\r"):
        read = _read(name, _concise(file, "memcheck", "error") + end)
        assert (read["file"], read["line"], read["column"], read["severity"]) == (file, "3", "7", None)
        assert str(read["message"]).endswith("wraps at a: b")


@pytest.mark.parametrize("name", ["page", "extension"])
@pytest.mark.parametrize("rule", sorted(NAMES))
def test_a_problem_matcher_reads_a_warning_of_every_rule(name: str, rule: str) -> None:
    read = _read(name, _concise("k.py", rule, "warn"))
    assert (read["code"], read["severity"], read["message"]) == (rule, "warning", "wraps at a: b")


@pytest.mark.parametrize("name", ["page", "extension"])
def test_a_problem_matcher_finds_files_outside_the_folder(name: str) -> None:
    # The report has whole paths of these; `relative` would put the folder before them.
    assert _matcher(name)["fileLocation"] == ["autoDetect", "${workspaceFolder}"]


def test_the_problem_matcher_of_the_page_reads_an_error_of_a_spec() -> None:
    stream = io.StringIO()
    fault = Fault(Span("specs/a b.yaml", 14, 9), "unknown dim 'n'", "did you mean 'N'?")
    ConciseReporter(stream, ReportSettings()).handle(
        SpecRefused("specs/a b.yaml", (fault,), datetime(2026, 1, 1, tzinfo=UTC), "")
    )
    read = _read("page", stream.getvalue().rstrip("\n"))
    assert read == {
        "file": "specs/a b.yaml",
        "line": "14",
        "column": "9",
        "code": "spec",
        "severity": None,
        "message": "unknown dim 'n'; did you mean 'N'?",
    }


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
