"""The packaged JSON Schemas, and their validators."""

from __future__ import annotations

import json
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

FILE = "op-spec.schema.json"


def schema_text(file: str = FILE) -> str:
    """A JSON Schema (draft-07) as text; that of op specs is what ``kcheck schema`` prints."""
    packaged = resources.files("kcheck") / "_schema" / file
    if packaged.is_file():
        return packaged.read_text(encoding="utf-8")
    # A checkout: the schema is at the top level, and is copied into the package when a wheel is built.
    return (Path(__file__).parents[2] / "schema" / file).read_text(encoding="utf-8")


def _strict_integer(_: Any, instance: Any) -> bool:
    return isinstance(instance, int) and not isinstance(instance, bool)


@lru_cache(maxsize=2)
def schema_of(file: str) -> Any:
    """A schema, parsed."""
    return json.loads(schema_text(file))


@lru_cache(maxsize=2)
def validator(file: str) -> Any:
    """The validator of a schema. Imports jsonschema, which takes 50 ms."""
    from jsonschema import Draft7Validator
    from jsonschema.validators import extend

    schema = _inlined(schema_of(file), schema_of(file), ())
    # To JSON Schema, 1.0 is an integer; in a spec, a size with a decimal point is a mistake.
    checker = Draft7Validator.TYPE_CHECKER.redefine("integer", _strict_integer)
    return extend(Draft7Validator, type_checker=checker)(schema)  # type: ignore[no-untyped-call]


def _inlined(whole: Any, part: Any, open_references: tuple[str, ...]) -> Any:
    """A schema with its references replaced by their targets, which makes validation three times as fast.

    A reference inside its own target (a distribution of a distribution) stays.
    """
    if isinstance(part, list):
        return [_inlined(whole, item, open_references) for item in part]
    if not isinstance(part, dict):
        return part
    reference = part.get("$ref")
    if reference is not None and reference not in open_references:
        target = whole
        for step in reference.removeprefix("#/").split("/"):
            target = target[int(step) if isinstance(target, list) else step]
        beside = {key: value for key, value in part.items() if key != "$ref"}
        return {**_inlined(whole, target, (*open_references, reference)), **beside}
    return {
        key: value if key in ("definitions", "required", "enum") else _inlined(whole, value, open_references)
        for key, value in part.items()
    }
