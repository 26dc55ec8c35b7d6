"""What a release needs besides the code: its citation, and schemas that SchemaStore's catalog can name."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator

from kcheck.version import __version__

ROOT = Path(__file__).resolve().parents[2]
SCHEMAS = {file.name: json.loads(file.read_text("utf-8")) for file in sorted((ROOT / "schema").glob("*.json"))}
(CATALOG,) = re.findall(r"^```json\n(.*?)^```$", (ROOT / "CONTRIBUTING.md").read_text("utf-8"), re.M | re.S)


def test_the_citation_is_of_this_version() -> None:
    """``make release-check`` checks its format."""
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert citation["version"] == __version__
    assert citation["license"] == project["license"]
    assert citation["repository-code"] == project["urls"]["Repository"]


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_says_what_it_is(name: str) -> None:
    """A valid schema with an id that has the version of the format, a title and a description."""
    schema: dict[str, Any] = SCHEMAS[name]
    Draft7Validator.check_schema(schema)
    kind = name.removesuffix(".schema.json")
    version = schema["properties"].get("version", schema["properties"].get("kcheck", {})).get("const", 1)
    assert schema["$id"] == f"urn:kcheck:{kind}:{version}"
    assert schema["title"].startswith("kcheck ")
    assert schema["description"].endswith(".")


def test_the_entries_for_schemastore_name_every_schema() -> None:
    entries = json.loads(CATALOG)
    assert sorted(entry["url"].rpartition("/")[2] for entry in entries) == sorted(SCHEMAS)
    for entry in entries:
        assert set(entry) == {"name", "description", "fileMatch", "url"}
        assert entry["url"].startswith("https://")
        assert entry["fileMatch"]


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_is_draft_07(name: str) -> None:
    """The newest draft that SchemaStore accepts without an exception, and that every editor reads.

    It ignores keywords beside a reference, so only descriptions stand there.
    """

    def beside(part: Any) -> set[str]:
        if isinstance(part, list):
            return set().union(*map(beside, part))
        if not isinstance(part, dict):
            return set()
        own = set(part) - {"$ref"} if isinstance(part.get("$ref"), str) else set()
        return own.union(*map(beside, part.values()))

    assert SCHEMAS[name]["$schema"] == "http://json-schema.org/draft-07/schema#"
    assert beside(SCHEMAS[name]) <= {"description", "title"}
