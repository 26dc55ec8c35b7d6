"""The extension for VS Code agrees with kcheck and its pages. ``make editor-check`` runs its own tests."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest

ROOT = Path(__file__).parents[2]
EXTENSION = ROOT / "editors/vscode"
RECORDED = EXTENSION / "test/recorded"


def manifest() -> dict[str, Any]:
    """What the extension contributes."""
    contributes: dict[str, Any] = json.loads((EXTENSION / "package.json").read_text("utf-8"))["contributes"]
    return contributes


@pytest.mark.parametrize("name", ["wrong_values", "race", "passed", "refused"])
def test_recorded_reports_have_the_format_of_today(name: str) -> None:
    """A report that the extension's tests read is one that kcheck would write; if not, run scripts/record.sh."""
    schema = json.loads((ROOT / "schema/report.schema.json").read_text("utf-8"))
    jsonschema.validate(json.loads((RECORDED / f"{name}.json").read_text("utf-8")), schema)


def test_each_command_of_the_language_server_is_registered() -> None:
    """docs/editor.md lists the commands of code lenses and code actions; the extension runs all of them."""
    listed = set(re.findall(r"^\| `(kcheck\.\w+)`", (ROOT / "docs/editor.md").read_text("utf-8"), re.MULTILINE))
    assert listed
    assert listed <= {command["command"] for command in manifest()["commands"]}


def test_the_page_of_the_extension_lists_its_settings() -> None:
    """Each setting of package.json has a row in the README, and no other setting has one."""
    listed = re.findall(r"^\| `(kcheck\.\w+)`", (EXTENSION / "README.md").read_text("utf-8"), re.MULTILINE)
    assert listed == list(manifest()["configuration"]["properties"])
