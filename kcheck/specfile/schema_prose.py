"""Failures of a JSON Schema in prose: what is wrong with a value, and the fix."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kcheck.model import Fault, Span
from kcheck.nearest import did_you_mean, nearest
from kcheck.specfile.schema_files import FILE, validator
from kcheck.specfile.yamltree import YamlList, YamlMap, YamlNode
from kcheck.symbolic import shorten

if TYPE_CHECKING:  # takes 50 ms to import, and only a spec with an error needs it
    from jsonschema.exceptions import ValidationError


def meant(value: dict[str, Any], schema: dict[str, Any]) -> dict[str, str]:
    """For each unknown key of a mapping, the similar known key that the mapping lacks, if there is one."""
    known = schema.get("properties", {})
    unknown = [key for key in value if key not in known][:_GUESSED]
    meant = {key: nearest(key, known) for key in unknown}
    return {key: near for key, near in meant.items() if near is not None and near not in value}


def prose(root: YamlNode, error: ValidationError) -> Iterator[Fault]:
    """The faults that describe a failure."""
    kind = (
        "not_empty"
        if error.validator in ("minItems", "minProperties") and error.validator_value == 1
        else error.validator
    )
    place = SchemaFailure(root, error)
    # For propertyNames, the instance is a key, and the path is that of its mapping.
    about_key = isinstance(place.value, str) and isinstance(place.node, YamlMap)
    write = _property_name if about_key else _PROSE.get(str(kind), _anything_else)
    yield from write(place)


class SchemaFailure:
    """A failure of the schema, and the part of the file that it is about."""

    def __init__(self, root: YamlNode, error: ValidationError) -> None:
        self.error = error
        self.schema: dict[str, Any] = error.schema if isinstance(error.schema, dict) else {}
        self.rule: Any = error.validator_value
        self.value: Any = error.instance
        self.path: Sequence[str | int] = tuple(error.absolute_path)
        self.node = root
        self.key: str | None = None
        for step in self.path:
            if isinstance(self.node, YamlMap) and isinstance(step, str):
                self.key = step
                self.node = self.node.entries[step].value
            elif isinstance(self.node, YamlList) and isinstance(step, int):
                self.node = self.node.items[step]

    @property
    def name(self) -> str:
        """How a message names the value."""
        inside_list = bool(self.path) and isinstance(self.path[-1], int)
        if self.key is None:
            return "the file"
        return f"an item of {shorten(self.key)!r}" if inside_list else repr(shorten(self.key))

    @property
    def where(self) -> str:
        """`` in 'launch'``, or nothing at the top."""
        return "" if self.key is None else f" in {shorten(self.key)!r}"

    @property
    def expected(self) -> str:
        title = str(self.schema.get("title", ""))
        if not title:
            types = self.schema.get("type", "object")
            title = " or ".join(_TYPES[name] for name in ([types] if isinstance(types, str) else types))
        return title if title.startswith(("'", "true ")) else f"{'an' if title[0] in 'aeio' else 'a'} {title}"

    def key_span(self, key: str) -> Span:
        return self.node.entries[key].span if isinstance(self.node, YamlMap) else self.node.span

    def fault(self, what: str, fix: str = "", span: Span | None = None) -> Fault:
        return Fault(span or self.node.span, what, fix)


_TYPES = {
    "object": "mapping",
    "array": "list",
    "string": "string",
    "number": "number",
    "integer": "integer",
    "boolean": "true or false",
}


def _show(value: Any) -> str:
    """A value as a message names it."""
    match value:
        case None:
            return "nothing"
        case bool():
            return "true" if value else "false"
        case str():
            return f"the string {shorten(value)!r}"
        case dict():
            return "a mapping"
        case list():
            return "a list"
        case _:
            return shorten(str(value))


def _type(place: SchemaFailure) -> Iterator[Fault]:
    if place.value is None:
        yield place.fault(f"{place.name} has no value", f"write {place.expected}")
    else:
        yield place.fault(f"{place.name} must be {place.expected}, not {_show(place.value)}", _retype(place))


def _retype(place: SchemaFailure) -> str:
    """The fix for a value of the wrong type, if the intention is clear."""
    value, title = place.value, str(place.schema.get("title", ""))
    wanted = place.schema.get("type", ())
    wanted = {wanted} if isinstance(wanted, str) else set(wanted)
    if isinstance(value, str):
        word = value.strip().casefold()
        if "boolean" in wanted and word in ("yes", "on", "true", "no", "off", "false"):
            return f"write {'true' if word in ('yes', 'on', 'true') else 'false'}"
        digits = value.strip().replace("_", "")
        if wanted & {"integer", "number"} and digits.isascii() and digits.isdigit():
            return f"write {digits}, without quotes or '_'"
        if title.startswith("list") and place.schema.get("minItems", 0) < 2:
            return f'write ["{shorten(value)}"]' if "," in value else f"write [{shorten(value)}]"
    if isinstance(value, float) and "integer" in wanted and value.is_integer():
        return f"write {int(value)}"
    if isinstance(value, (int, float, bool)) and wanted == {"string"}:
        return f"quote it: '{_show(value)}'"
    if isinstance(value, int) and not isinstance(value, bool) and wanted == {"object"}:
        for first, part in place.schema.get("properties", {}).items():
            return f"write {{{first}: {value}}}" if part.get("type") == "integer" else ""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and "list" in title:
        if place.schema.get("minItems", 0) > 1:
            return ""
        return f"write [{value}]"
    return ""


_GUESSED = 50
"""The maximum number of unknown keys of a mapping for which a similar known key is searched,
so that a file of unknown keys is refused quickly."""


def _choices(value: Any, known: Sequence[Any]) -> str:
    names = [str(choice) for choice in known]
    near = did_you_mean(value, names) if isinstance(value, str) else ""
    return near or (
        f"write {', '.join(names[:-1])} or {names[-1]}" if 1 < len(names) < 4 else f"available: {', '.join(names)}"
    )


def _enum(place: SchemaFailure) -> Iterator[Fault]:
    noun = str(place.schema.get("title", "value"))
    if isinstance(place.value, str):
        # The rule lists only the distributions that may be written without an argument.
        needs = _NEED_ARGUMENT.get(place.value) if noun == "distribution" else None
        known = [*place.rule, *(_NEED_ARGUMENT if noun == "distribution" else ())]
        if needs is not None:
            yield place.fault(
                f"distribution {place.value!r} needs an argument", f"write {{{place.value}: {needs}}}"
            )
        else:
            yield place.fault(f"unknown {noun} {shorten(place.value)!r}", _choices(place.value, known))


_NEED_ARGUMENT = {
    "constant": "0.5",
    "choice": "[0, 1]",
    "integers": "[0, 9]",
    "one_hot": "-1",
    "bernoulli": "0.5",
    "offsets": "N",
    "probabilities": "-1",
    "from": "file.py:name",
}


def _const(place: SchemaFailure) -> Iterator[Fault]:
    yield place.fault(f"{place.name} must be {place.rule}, not {_show(place.value)}", f"write {place.rule}")


def _required(place: SchemaFailure) -> Iterator[Fault]:
    # jsonschema reports each missing key separately, and names it only in its message.
    near = meant(place.value, _listing(place)).values()
    missing = [
        key for key in place.rule if key not in place.value and repr(key) == place.error.message.split(" is a ")[0]
    ]
    for key in missing:
        if key in near:
            continue  # it is present but mistyped, which is reported
        yield place.fault(f"missing key {key!r}{place.where}", _MISSING.get(key, f"add '{key}: ...'"))


def _listing(place: SchemaFailure) -> dict[str, Any]:
    """The schema with the ``properties`` of a mapping: a subschema such as ``then: {required: ...}`` has none."""
    if "properties" in place.schema:
        return place.schema
    root: Any = validator(FILE).schema
    schema: Any = root
    found: dict[str, Any] = {}
    for step in (*place.error.absolute_schema_path, None):
        while isinstance(schema, dict) and "$ref" in schema:
            schema = root["$defs"][schema["$ref"].rpartition("/")[2]]
        if isinstance(schema, dict):
            found = schema if "properties" in schema else found
        if step in _INTO_VALUES:
            found = {}
        known = isinstance(step, int) or (isinstance(schema, dict) and step in schema)
        schema = schema[step] if known else None
    return found


_INTO_VALUES = ("properties", "patternProperties", "additionalProperties", "items", "prefixItems")
_MISSING = {
    "kcheck": "start with 'kcheck: 1'",
    "op": "add 'op: name'",
    "kernel": "add 'kernel: file.py:name', or a launcher",
    "launch": "add 'launch: {args: [...], grid: [...], block: [...]}', or a launcher",
    "reference": "add 'reference: file.py:name', a NumPy function, or 'reference: none'",
    "outputs": "add 'outputs: {out: [N]}'",
    "shape": "add 'shape: [N]'",
    "dtype": "add 'dtype: float32'",
    "values": "add 'values: [...]' or 'expr: ...'",
    "of": "add 'of: out'",
}


def _unknown_keys(place: SchemaFailure) -> Iterator[Fault]:
    known = tuple(place.schema.get("properties", ()))
    unknown = [key for key in place.value if key not in known]
    for position, key in enumerate(unknown):
        if position >= _GUESSED:
            yield place.fault(f"unknown key {shorten(key)!r}{place.where}", "remove it", place.key_span(key))
            continue
        if set(known) >= {"normal", "from"}:
            if key in _NO_ARGUMENT:
                fix = f"write {key}"
                yield place.fault(f"distribution {key!r} takes no argument", fix, place.key_span(key))
            else:
                fix = _choices(key, (*known, *_NO_ARGUMENT))
                yield place.fault(f"unknown distribution {shorten(key)!r}", fix, place.key_span(key))
            continue
        fix = "merge keys are not part of YAML 1.2: write the keys out" if key == "<<" else _choices(key, known)
        yield place.fault(f"unknown key {shorten(key)!r}{place.where}", fix, place.key_span(key))


_NO_ARGUMENT = (
    *("adversarial", "all_negative", "all_positive", "large", "tiny", "cancelling", "spikes", "outlier", "ties"),
    *("extreme", "subnormal", "zeros", "ones", "nan_injected", "inf_injected"),
    *("empty_rows", "empty_tiles", "permutation"),
)


def _property_name(place: SchemaFailure) -> Iterator[Fault]:
    key = place.value
    span = place.key_span(key)
    if place.error.validator == "enum":
        yield place.fault(
            f"unknown {place.schema.get('title', 'key')} {shorten(key)!r}", _choices(key, place.rule), span
        )
    else:
        yield place.fault(f"the key {shorten(key)!r}{place.where} must be {place.expected}", "", span)


def _pattern(place: SchemaFailure) -> Iterator[Fault]:
    yield place.fault(f"{place.name} must be {place.expected}, not {shorten(place.value)!r}", _repattern(place))


def _repattern(place: SchemaFailure) -> str:
    title, value = str(place.schema.get("title", "")), str(place.value)
    if title.startswith("function"):
        if "\\" in value:
            return "write '/' between folders"
        return f"write {shorten(value)}:name" if value.endswith(".py") else "write file.py:name"
    if title.startswith("kernel in"):
        if "\\" in value:
            return "write '/' between folders"
        if value.endswith((".py", ".cu", ".hip", ".ptx")):
            return f"write {shorten(value)}:name"
        return "write file.py:name, file.cu:name, file.hip:name or file.ptx:entry"
    if title.startswith("range"):
        near = value.replace("...", "..").replace("-", "..").replace(":", "..").replace(" ", "")
        parts = near.split("..")
        if len(parts) == 2 and all(part.isascii() and part.isdigit() for part in parts):
            return f"write {near}"
        return f"write {{expr: {shorten(value)}}} for a derived size"
    if title.startswith("name such as softmax"):
        near = "".join(c if c.isalnum() and c.isascii() else "_" for c in value.lower()).strip("_")
        return f"write {shorten(near)}" if near[:1].isalpha() else ""
    return ""


def _bound(place: SchemaFailure) -> Iterator[Fault]:
    side = "at least" if place.error.validator == "minimum" else "at most"
    yield place.fault(f"{place.name} must be {side} {place.rule}, not {_show(place.value)}")


def _length(place: SchemaFailure) -> Iterator[Fault]:
    if place.error.validator == "maxLength":
        yield place.fault(f"{place.name} is {len(place.value)} characters long", f"the limit is {place.rule}")
        return
    side = "at least" if str(place.error.validator).startswith("min") else "at most"
    low, high = place.schema.get("minItems"), place.schema.get("maxItems")
    count = f"exactly {low}" if low == high and low is not None else f"{side} {place.rule}"
    noun = "item" if isinstance(place.value, list) else "key"
    plural = "" if place.rule == 1 else "s"
    yield place.fault(f"{place.name} must have {count} {noun}{plural}, not {len(place.value)}")


def _empty(place: SchemaFailure) -> Iterator[Fault]:
    yield place.fault(f"{place.name} is empty", f"write {place.expected}, or remove the key")


def _not(place: SchemaFailure) -> Iterator[Fault]:
    if not isinstance(place.value, Mapping):  # another fault reports the wrong type
        return
    first, second = place.rule["required"]
    yield place.fault(f"{first!r} and {second!r} cannot be combined", "keep one of them", place.key_span(second))


def _unique(place: SchemaFailure) -> Iterator[Fault]:
    seen: list[Any] = []
    assert isinstance(place.node, YamlList)
    for item, node in zip(place.value, place.node.items, strict=True):
        if item in seen:
            yield place.fault(f"{_show(item)} appears twice in {place.name}", "remove one", node.span)
        seen.append(item)


def _min_length(place: SchemaFailure) -> Iterator[Fault]:
    yield place.fault(f"{place.name} is an empty string", "write a value, or remove it")


def _anything_else(place: SchemaFailure) -> Iterator[Fault]:
    yield place.fault(f"{place.name} must be {place.expected}")


_PROSE: dict[str, Callable[[SchemaFailure], Iterator[Fault]]] = {
    "anyOf": _type,
    "type": _type,
    "enum": _enum,
    "const": _const,
    "required": _required,
    "additionalProperties": _unknown_keys,
    "pattern": _pattern,
    "minimum": _bound,
    "maximum": _bound,
    "minItems": _length,
    "maxItems": _length,
    "minProperties": _length,
    "maxProperties": _length,
    "maxLength": _length,
    "minLength": _min_length,
    "not_empty": _empty,
    "uniqueItems": _unique,
    "not": _not,
}
