"""The published schema of the JSON report."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

_FILE = "report.schema.json"


def schema_text() -> str:
    """The JSON Schema (draft-07) of the JSON report, version 2, which ``kcheck schema report`` prints."""
    packaged = resources.files("kcheck") / "_schema" / _FILE
    if packaged.is_file():
        return packaged.read_text(encoding="utf-8")
    # In a checkout the schema is at the top level; building a wheel copies it into the package.
    return (Path(__file__).parents[2] / "schema" / _FILE).read_text(encoding="utf-8")
