"""Whether a value conforms to a JSON Schema: yes or no, for the keywords that our schemas use.

``jsonschema`` says what is wrong with a spec, but takes 50 ms to import, and nearly every spec is valid. So specs
are checked here first, and by ``jsonschema`` only if the answer is not a clear yes. Each keyword is a row of
``_KEYWORDS``, with the meaning that JSON Schema draft-07 gives it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, TypeAlias

Schema: TypeAlias = Mapping[str, Any]


class _Unsure(Exception):
    """A keyword or a comparison that is left to ``jsonschema``."""


def conforms(value: Any, schema: Schema) -> bool:
    """Whether a tree of dicts, lists and scalars certainly conforms to a schema. False if it does not, or if this
    module does not support a keyword of the schema. Unlike in JSON Schema, 1.0 is not an integer.

    Args:
        schema: a whole schema, which contains the targets of its ``$ref``.
    """
    try:
        return _meets(value, schema, schema)
    except _Unsure:
        return False


def _meets(value: Any, schema: Schema | bool, whole: Schema) -> bool:
    if isinstance(schema, bool):
        return schema
    for keyword, rule in schema.items():
        row = _KEYWORDS.get(keyword)
        if row is None:
            raise _Unsure(keyword)
        if not row(value, rule, schema, whole):
            return False
    return True


def _same(value: Any, other: Any) -> bool:
    """Whether two values are equal in JSON, where true is not 1."""
    if isinstance(value, dict | list) or isinstance(other, dict | list):
        raise _Unsure("equality of lists and mappings")
    return bool(value == other) and isinstance(value, bool) == isinstance(other, bool)


_TYPES: Mapping[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
}


def _type(value: Any, rule: Any, schema: Schema, whole: Schema) -> bool:
    names = [rule] if isinstance(rule, str) else rule
    return any(_TYPES[name](value) for name in names)


def _reference(value: Any, rule: Any, schema: Schema, whole: Schema) -> bool:
    target: Any = whole
    for step in rule.removeprefix("#/").split("/"):
        target = target[int(step) if isinstance(target, list) else step]
    return _meets(value, target, whole)


def _properties(value: Any, rule: Any, schema: Schema, whole: Schema) -> bool:
    return not isinstance(value, dict) or all(
        _meets(value[name], part, whole) for name, part in rule.items() if name in value
    )


def _additional(value: Any, rule: Any, schema: Schema, whole: Schema) -> bool:
    if not isinstance(value, dict):
        return True
    known = schema.get("properties", {})
    return all(_meets(value[name], rule, whole) for name in value if name not in known)


def _property_names(value: Any, rule: Any, schema: Schema, whole: Schema) -> bool:
    return not isinstance(value, dict) or all(_meets(name, rule, whole) for name in value)


def _required(value: Any, rule: Any, schema: Schema, whole: Schema) -> bool:
    return not isinstance(value, dict) or all(name in value for name in rule)


def _items(value: Any, rule: Any, schema: Schema, whole: Schema) -> bool:
    """``items``: one schema for all items, or a list with one for each of the first items."""
    if not isinstance(value, list):
        return True
    if isinstance(rule, list):
        return all(_meets(item, part, whole) for item, part in zip(value, rule, strict=False))
    return all(_meets(item, rule, whole) for item in value)


def _unique(value: Any, rule: Any, schema: Schema, whole: Schema) -> bool:
    if not rule or not isinstance(value, list):
        return True
    return not any(_same(value[i], value[k]) for i in range(len(value)) for k in range(i))


def _any_of(value: Any, rule: Any, schema: Schema, whole: Schema) -> bool:
    return any(_meets(value, part, whole) for part in rule)


def _not(value: Any, rule: Any, schema: Schema, whole: Schema) -> bool:
    return not _meets(value, rule, whole)


def _if(value: Any, rule: Any, schema: Schema, whole: Schema) -> bool:
    return _meets(value, schema.get("then" if _meets(value, rule, whole) else "else", True), whole)


@lru_cache(maxsize=64)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def _says_nothing(value: Any, rule: Any, schema: Schema, whole: Schema) -> bool:
    return True


_KEYWORDS: Mapping[str, Callable[[Any, Any, Schema, Schema], bool]] = {
    "type": _type,
    "$ref": _reference,
    "properties": _properties,
    "additionalProperties": _additional,
    "propertyNames": _property_names,
    "required": _required,
    "items": _items,
    "uniqueItems": _unique,
    "anyOf": _any_of,
    "not": _not,
    "if": _if,
    "enum": lambda value, rule, schema, whole: any(_same(value, one) for one in rule),
    "const": lambda value, rule, schema, whole: _same(value, rule),
    "pattern": lambda value, rule, schema, whole: (
        not isinstance(value, str) or _compiled(rule).search(value) is not None
    ),
    "minLength": lambda value, rule, schema, whole: not isinstance(value, str) or len(value) >= rule,
    "maxLength": lambda value, rule, schema, whole: not isinstance(value, str) or len(value) <= rule,
    "minItems": lambda value, rule, schema, whole: not isinstance(value, list) or len(value) >= rule,
    "maxItems": lambda value, rule, schema, whole: not isinstance(value, list) or len(value) <= rule,
    "minProperties": lambda value, rule, schema, whole: not isinstance(value, dict) or len(value) >= rule,
    "maxProperties": lambda value, rule, schema, whole: not isinstance(value, dict) or len(value) <= rule,
    "minimum": lambda value, rule, schema, whole: not _TYPES["number"](value) or not value < rule,
    "maximum": lambda value, rule, schema, whole: not _TYPES["number"](value) or not value > rule,
    **dict.fromkeys(
        ("then", "else", "title", "description", "examples", "$schema", "$id", "definitions"), _says_nothing
    ),
}
"""The check for each keyword, given the value, the rule, the schema that contains it, and the whole schema."""
