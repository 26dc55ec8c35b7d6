"""Check specs against the JSON Schema, and explain its failures in prose.

Where a value may take several forms, the schema lists them under ``anyOf`` with a JSON type for each. The type of
the value shows which form was intended, and the message is about that form only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from kcheck.model import Fault
from kcheck.specfile.conform import conforms
from kcheck.specfile.schema_files import FILE, schema_of, validator
from kcheck.specfile.schema_prose import SchemaFailure, meant, prose
from kcheck.specfile.yamltree import YamlEntry, YamlList, YamlMap, YamlScalar, plain

if TYPE_CHECKING:  # takes 50 ms to import, and only a spec with an error needs it
    from jsonschema.exceptions import ValidationError


def schema_faults(root: YamlMap, file: str = FILE) -> tuple[list[Fault], YamlMap]:
    """Every error in a spec, or another file, that its JSON Schema finds.

    Args:
        file: the name of the schema.

    Returns:
        The errors, and the tree with mistyped keys corrected, so that declarations below such a key are known to
        the rest of the spec.
    """
    root = _calls_joined(root)
    tree = plain(root)
    if conforms(tree, schema_of(file)):
        return [], root
    errors = list(_flat(validator(file).iter_errors(tree)))
    faults = [fault for error in errors for fault in prose(root, error)]
    respelled: dict[int, dict[str, str]] = {}
    for error in errors:
        if error.validator == "additionalProperties":
            place = SchemaFailure(root, error)
            respelled[id(place.node)] = meant(place.value, place.schema)
    return faults, _respell(root, respelled)


def _flat(errors: Iterable[ValidationError]) -> Iterator[ValidationError]:
    """The failures; the failure of a value that may have several forms
    is replaced by those of the intended form."""
    for error in errors:
        nested = _form_that_was_meant(error) if error.validator == "anyOf" else None
        if nested is None:
            yield error
        else:
            yield from _flat(nested)


def _calls_joined(node: YamlMap) -> YamlMap:
    """Repairs ``{grid: ceildiv(M, 4)}``, where YAML ends the value at the comma and reads ``4)`` as a key."""
    entries: dict[str, YamlEntry] = {}
    torn: YamlEntry | None = None
    for key, entry in node.entries.items():
        value = entry.value
        if isinstance(value, YamlMap):
            value = _calls_joined(value)
        if torn is not None and isinstance(value, YamlScalar) and value.value is None:
            assert isinstance(torn.value, YamlScalar)
            text = f"{torn.value.text}, {key}"
            torn = YamlEntry(torn.key, torn.span, YamlScalar(torn.value.span, text, text, None))
            entries[torn.key] = torn
        else:
            entries[key] = torn = YamlEntry(key, entry.span, value)
        whole = torn.value
        if not isinstance(whole, YamlScalar) or whole.text.count("(") <= whole.text.count(")"):
            torn = None
    return YamlMap(node.span, entries)


def _respell(node: YamlMap, respelled: dict[int, dict[str, str]]) -> YamlMap:
    entries: dict[str, YamlEntry] = {}
    for key, entry in node.entries.items():
        right = respelled.get(id(node), {}).get(key, key)
        value = entry.value
        if isinstance(value, YamlMap):
            value = _respell(value, respelled)
        elif isinstance(value, YamlList):
            items = (_respell(item, respelled) if isinstance(item, YamlMap) else item for item in value.items)
            value = YamlList(value.span, tuple(items))
        entries.setdefault(right, YamlEntry(right, entry.span, value))
    return YamlMap(node.span, entries)


def _form_that_was_meant(error: ValidationError) -> list[ValidationError] | None:
    """The failures of the first form that has the type of the value; None if no form has."""
    branches: dict[int, list[ValidationError]] = {}
    for nested in error.context or ():
        branches.setdefault(int(nested.relative_schema_path[0]), []).append(nested)
    for nested_errors in branches.values():
        if not any(nested.validator == "type" and not nested.relative_path for nested in nested_errors):
            return nested_errors
    return None
