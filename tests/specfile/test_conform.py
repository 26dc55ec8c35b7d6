"""The quick check of specs against the schema: it says yes exactly where jsonschema has nothing to say."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft7Validator
from test_mutation import _SMALL, _WHOLE, _change_tree

from kcheck.specfile import schema_files
from kcheck.specfile.conform import conforms
from kcheck.specfile.extends import extended
from kcheck.specfile.yamltree import plain, read

SPECS = sorted((Path(__file__).parents[2] / "specs").glob("*.yaml"))
MUTANTS = 120


@pytest.mark.parametrize(
    ("rule", "good", "bad"),
    [
        ({"type": "integer"}, [0, -1], [1.0, True, "1", None]),
        ({"type": "number"}, [0, 1.5], [False, "1"]),
        ({"type": ["string", "null"]}, ["", None], [0, []]),
        ({"type": "array", "items": {"type": "integer"}}, [[], [1]], [["1"], {}]),
        ({"items": [{"const": 1}, {"type": "null"}]}, [[], [1], [1, None], [1, None, 2]], [[2], [1, 1]]),
        ({"enum": ["a", 1, None]}, ["a", 1, None], ["b", True]),
        ({"const": 1}, [1, 1.0], [True, 2]),
        ({"required": ["a"]}, [{"a": 1}, 3], [{}]),
        ({"properties": {"a": {"type": "null"}}}, [{"a": None}, {"b": 1}], [{"a": 1}]),
        ({"properties": {"a": {}}, "additionalProperties": False}, [{"a": 1}, {}], [{"b": 1}]),
        ({"additionalProperties": {"type": "null"}}, [{"a": None}], [{"a": 1}]),
        ({"propertyNames": {"pattern": "^a"}}, [{"ab": 1}], [{"ba": 1}]),
        ({"anyOf": [{"type": "null"}, {"minimum": 3}]}, [None, 3, "x"], [2]),
        ({"not": {"required": ["a", "b"]}}, [{"a": 1}], [{"a": 1, "b": 2}]),
        ({"if": {"type": "string"}, "then": {"maxLength": 1}, "else": {"type": "null"}}, ["a", None], ["ab", 1]),
        ({"minLength": 1, "maxLength": 2, "pattern": "b"}, ["ab", 5], ["", "a", "abb"]),
        ({"minItems": 1, "maxItems": 2, "uniqueItems": True}, [[1], [1, True]], [[], [1, 1], [1, 2, 3]]),
        ({"minProperties": 1, "maxProperties": 1}, [{"a": 1}], [{}, {"a": 1, "b": 2}]),
        ({"minimum": 0, "maximum": 1}, [0, 1, 0.5, True, "x"], [-1, 2]),
        ({"$ref": "#/definitions/one", "definitions": {"one": {"const": 1}}}, [1], [2]),
    ],
    ids=str,
)
def test_each_keyword_means_what_json_schema_says(rule, good, bad):
    """A row: a schema, values that meet it, values that do not; integers are strict."""
    for value in good:
        assert conforms(value, rule), value
    for value in bad:
        assert not conforms(value, rule), value


@pytest.mark.parametrize(
    "rule", [{"multipleOf": 2}, {"not": {"multipleOf": 2}}, {"anyOf": [{"contains": {}}]}], ids=str
)
def test_a_keyword_that_is_not_known_is_never_a_yes(rule):
    """What the quick check does not know is left to jsonschema, wherever it stands."""
    assert Draft7Validator(rule).is_valid([3]) or Draft7Validator(rule).is_valid(3)
    assert not conforms(3, rule)
    assert not conforms([3], rule)


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_a_valid_spec_needs_no_more_than_the_quick_check(path):
    """Every spec of this project is a yes."""
    tree, _ = read(path, path.name)
    top, _ = extended(path, tree, path.parents[1])
    assert conforms(plain(top), json.loads(schema_files.schema_text()))


def test_damaged_specs_are_judged_as_by_jsonschema():
    """On mutated specs both say the same."""
    whole, validator = json.loads(schema_files.schema_text()), schema_files.validator("op-spec.schema.json")
    answers = []
    for number in range(MUTANTS):
        rng = random.Random(number)
        tree = yaml.safe_load(_change_tree(rng, rng.choice((_WHOLE, _SMALL))))
        answers.append(conforms(tree, whole))
        assert answers[-1] == validator.is_valid(tree), tree
    assert 10 < sum(answers) < MUTANTS - 10
