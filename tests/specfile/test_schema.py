"""The JSON Schema says the same as SPEC and as the checks in prose."""

from __future__ import annotations

import json
import typing
from typing import Any

from jsonschema import Draft7Validator

from kcheck.model import DTYPES, LAYOUTS, SANITIZERS
from kcheck.specfile import schema_prose as prose
from kcheck.specfile import schema_text
from kcheck.specfile.distribution import DISTRIBUTIONS

_SCHEMA: dict[str, Any] = json.loads(schema_text())


def test_the_schema_is_a_valid_schema() -> None:
    """Draft-07's own schema accepts it."""
    Draft7Validator.check_schema(_SCHEMA)


def test_the_names_of_the_schema_are_those_of_the_model() -> None:
    """Dtypes, layouts, sanitizers and distributions are the same lists, in the same order where order shows."""
    defs = _SCHEMA["definitions"]
    assert defs["dtype"]["enum"] == list(DTYPES)
    assert defs["layout"]["anyOf"][0]["enum"] == list(LAYOUTS)
    assert list(_SCHEMA["properties"]["sanitize"]["properties"]) == list(SANITIZERS)
    bare, mapping = defs["distribution"]["anyOf"]
    assert set(bare["enum"]) == {
        row.name for row in DISTRIBUTIONS.values() if row.takes == "nothing" or row.optional
    }
    assert set(mapping["properties"]) == {row.name for row in DISTRIBUTIONS.values() if row.takes != "nothing"}
    needed = {row.name for row in DISTRIBUTIONS.values() if row.takes != "nothing" and not row.optional}
    assert set(prose._NEED_ARGUMENT) == needed
    assert set(prose._NO_ARGUMENT) == {row.name for row in DISTRIBUTIONS.values() if row.takes == "nothing"}


def test_every_key_is_described() -> None:
    """An editor has something to show for each key of a spec, at every level."""

    def bare(node: Any, path: str) -> typing.Iterator[str]:
        if isinstance(node, dict):
            properties = node.get("properties", {})
            for key, value in properties.items():
                target = _SCHEMA["definitions"][value["$ref"].split("/")[2]] if "$ref" in value else {}
                if not ({"description", "title"} & {**target, **value}.keys()):
                    yield f"{path}.{key}"
            for key, value in node.items():
                yield from bare(value, f"{path}.{key}")
        elif isinstance(node, list):
            for index, value in enumerate(node):
                yield from bare(value, f"{path}[{index}]")

    assert list(bare(_SCHEMA, "")) == []


def test_every_rule_of_it_has_prose() -> None:
    """Whatever keyword of the schema a value can break, a sentence stands ready."""
    silent = {
        "$schema",
        "$id",
        "$ref",
        "definitions",
        "title",
        "description",
        "properties",
        "items",
        "examples",
    }
    silent |= {"if", "then", "else", "propertyNames"}

    def keywords(node: Any) -> set[str]:
        found: set[str] = set()
        if isinstance(node, list):
            return found.union(*map(keywords, node))
        if not isinstance(node, dict):
            return found
        for key, value in node.items():
            found.add(key)
            inner = (
                value.values()
                if key in ("properties", "definitions")
                else [value]
                if key not in ("examples",)
                else []
            )
            for part in inner:
                found |= keywords(part)
        return found

    assert keywords(_SCHEMA) - silent <= prose._PROSE.keys()


def test_a_spec_that_extends_may_leave_the_rest_to_the_other() -> None:
    """By itself only ``kcheck`` and ``op`` are asked for; without ``extends`` an editor asks for all."""
    validator = Draft7Validator(_SCHEMA)
    short: dict[str, Any] = {"kcheck": 1, "op": "twin"}
    assert list(validator.iter_errors({**short, "extends": "specs/softmax.yaml"})) == []
    assert {error.validator for error in validator.iter_errors(short)} == {"required"}
    assert len(list(validator.iter_errors(short))) == 4  # outputs, reference, kernel, launch
