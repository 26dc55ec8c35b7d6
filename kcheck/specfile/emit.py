"""Write a spec's tree as YAML, in the style of specs written by hand: short values on one line."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator

from kcheck.specfile.yamltree import YamlList, YamlMap, YamlNode, YamlScalar

WIDTH = 100
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*(:[A-Za-z0-9_]+)?|[0-9]+\.\.[0-9]+")
_WORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off"})
"""Words that some YAML parsers do not read as strings."""
_ESCAPED = re.compile("[\x7f-\x9f\u2028\u2029\ufeff]")


def as_yaml(tree: YamlMap) -> str:
    """The text of a spec. Parsing it gives the same tree, except for the places."""
    return "".join(f"{line}\n" for line in _block(tree, 0))


def _block(node: YamlMap | YamlList, indent: int) -> Iterator[str]:
    """A mapping or a list, with one entry per line."""
    pairs: list[tuple[str, YamlNode]] = (
        [(f"{_text(entry.key)}:", entry.value) for entry in node.entries.values()]
        if isinstance(node, YamlMap)
        else [("-", item) for item in node.items]
    )
    for head, value in pairs:
        line = f"{' ' * indent}{head} {_flow(value)}"
        if isinstance(value, YamlScalar) or len(line) <= WIDTH or not _flow(value)[1:-1]:
            yield line
        elif head == "-":
            first, *rest = _block(value, indent + 2)
            yield f"{' ' * indent}- {first.lstrip()}"
            yield from rest
        else:
            yield f"{' ' * indent}{head}"
            yield from _block(value, indent + 2)


def _flow(node: YamlNode) -> str:
    match node:
        case YamlMap(entries=entries):
            return "{" + ", ".join(f"{_text(e.key)}: {_flow(e.value)}" for e in entries.values()) + "}"
        case YamlList(items=items):
            return "[" + ", ".join(map(_flow, items)) + "]"
        case YamlScalar(value=None):
            return "null"
        case YamlScalar(value=bool(value)):
            return "true" if value else "false"
        case YamlScalar(value=float(value)):
            special = {math.inf: ".inf", -math.inf: "-.inf"}
            return ".nan" if math.isnan(value) else special.get(value, repr(value))
        case YamlScalar(value=str(value)):
            return _text(value)
        case YamlScalar(value=value):
            return str(value)


def _text(text: str) -> str:
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return text
    quoted = json.dumps(text, ensure_ascii=False)
    return _ESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", quoted)
