"""What the JSON Schema of specs says about a path: the keys, the values, the descriptions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

from kcheck.lsp.cursor import Path
from kcheck.specfile import schema_text

Part = dict[str, Any]


@cache
def _schema() -> Part:
    whole: Part = json.loads(schema_text())
    return whole


def parts(path: Path) -> list[Part]:
    """Every form that the schema allows at a path; none for an unknown path."""
    found = list(_forms(_schema()))
    for step in path:
        found = [form for part in found for below in _below(part, step) for form in _forms(below)]
    return found


def keys(path: Path) -> dict[str, Part]:
    """The keys of the mapping at a path, each with its first form."""
    found: dict[str, Part] = {}
    for part in parts(path):
        for key, below in part.get("properties", {}).items():
            found.setdefault(key, next(_forms(below)))
    return found


def values(path: Path) -> Iterator[tuple[str, Part]]:
    """The values that the schema lists for a path, as YAML writes them."""
    for part in parts(path):
        listed = [*part.get("enum", ()), *part.get("examples", ())]
        if "const" in part:
            listed.append(part["const"])
        if part.get("type") == "boolean":
            listed += [True, False]
        for value in listed:
            yield (json.dumps(value) if not isinstance(value, str) else value), part


def description(path: Path) -> str:
    """What the schema says about a path, in Markdown; empty for an unknown path."""
    known = parts(path)
    if not known:
        return ""
    lines = [str(part["description"]) for part in known if part.get("description")][:1]
    forms = dict.fromkeys(str(part["title"]) for part in known if part.get("title"))
    lines += [f"Value: {' or '.join(forms)}"] if forms else []
    listed = dict.fromkeys(value for value, _ in values(path))
    lines += [f"One of {', '.join(f'`{value}`' for value in listed)}."] if listed else []
    return "\n\n".join(lines)


def value_description(path: Path, value: str) -> str:
    """What the schema says about one value at a path, such as the name of a distribution; often empty."""
    forms = [part for part in parts(path) if value in part.get("properties", {})]
    below = forms[0]["properties"][value] if forms else {}
    return str(next(_forms(below)).get("description", "")) if below else ""


def _below(part: Part, step: str | None) -> Iterator[Part]:
    if step is None:
        items = part.get("items", ())
        yield from [items] if isinstance(items, dict) else items
    elif step in part.get("properties", {}):
        yield part["properties"][step]
    elif isinstance(part.get("additionalProperties"), dict):
        yield part["additionalProperties"]


def _forms(part: Part) -> Iterator[Part]:
    """The alternatives of a schema, with references resolved; an outer description takes precedence."""
    if "$ref" in part:
        target: Any = _schema()
        for step in part["$ref"].removeprefix("#/").split("/"):
            target = target[int(step) if isinstance(target, list) else step]
        part = {**target, **{key: value for key, value in part.items() if key != "$ref"}}
    if "anyOf" not in part:
        yield part
        return
    outside = {key: part[key] for key in ("description",) if key in part}
    for form in part["anyOf"]:
        for inner in _forms(form):
            yield {**inner, **outside}
