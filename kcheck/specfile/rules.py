"""The rules for the results of a spec: tolerance, comparison, invariants, sanitizers, artifact."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Literal, TypeAlias, cast

from kcheck.model import (
    DTYPES,
    LEVELS,
    Artifact,
    Bounds,
    Compare,
    Expression,
    Invariant,
    Level,
    Tolerance,
)
from kcheck.model.levels import as_set
from kcheck.nearest import did_you_mean
from kcheck.specfile.arrays import mentions, ndim_of
from kcheck.specfile.reader import Kind, Reader
from kcheck.specfile.yamltree import YamlEntry, YamlMap, YamlNode, YamlScalar
from kcheck.symbolic import shorten

_ALL: tuple[Kind, ...] = ("dim", "param", "input", "output")
_OF_ARRAY = ("non_negative", "normalized", "symmetric")
NamedKind: TypeAlias = Literal["non_negative", "normalized", "symmetric"]


def read_tolerance(reader: Reader) -> Tolerance | None:
    """``tolerance``; ``conditioned`` by default."""
    node = reader.get(reader.top, "tolerance")
    if node is None:
        return Tolerance("conditioned", {}, reader.top.span)
    kind = reader.text(node)
    if kind is not None:
        if kind not in ("conditioned", "calibrated"):
            return None
        return Tolerance(cast(Literal["conditioned", "calibrated"], kind), {}, node.span)
    by_dtype: dict[str, Bounds] = {}
    for entry in reader.entries(node):
        bounds = _bounds(reader, entry)
        if bounds is None or entry.key not in DTYPES:
            return None
        by_dtype[entry.key] = bounds
    return Tolerance("fixed", by_dtype, node.span) if by_dtype else None


def _bounds(reader: Reader, entry: YamlEntry) -> Bounds | None:
    values = {"atol": 0.0, "rtol": 0.0}
    found = False
    for part in reader.entries(entry.value):
        number = reader.number(part.value)
        if part.key not in values or number is None or number < 0:
            return None
        if not math.isfinite(number):
            reader.fault(
                part.value.span, f"{part.key} of {entry.key} must be finite, not {number}", "write a number"
            )
            return None
        if number > 1e300:
            reader.fault(part.value.span, f"{part.key} of {entry.key} is too large")
            return None
        values[part.key] = float(number)
        found = True
    return Bounds(values["atol"], values["rtol"]) if found else None


def read_compare(reader: Reader) -> Compare | None:
    """``compare``, with its defaults."""
    node = reader.get(reader.top, "compare")
    if node is None:
        return Compare()
    nan_node, zero_node = reader.get(node, "nan"), reader.get(node, "signed_zero")
    nan = "match" if nan_node is None else reader.text(nan_node)
    zero = False if zero_node is None else reader.flag(zero_node)
    if not isinstance(node, YamlMap) or nan not in ("match", "forbid", "ignore") or zero is None:
        return None
    return Compare(cast(Literal["match", "forbid", "ignore"], nan), zero)


def read_sanitize(reader: Reader, defaults: Mapping[str, Level]) -> dict[str, Level] | None:
    """``sanitize``: the level of every sanitizer; ``defaults`` are the project's levels."""
    levels: dict[str, Level] = dict(defaults)
    node = reader.get(reader.top, "sanitize")
    if node is None:
        return levels
    for entry in reader.entries(node):
        level = reader.text(entry.value)
        if entry.key not in levels or level not in LEVELS:
            return None
        levels[entry.key] = as_set(level)
    return levels if isinstance(node, YamlMap) else None


def read_invariants(reader: Reader, arrays: dict[str, YamlEntry]) -> tuple[Invariant, ...] | None:
    """``invariants``."""
    node = reader.get(reader.top, "invariants")
    found = [_invariant(reader, item, arrays) for item in reader.items(node, most=64)]
    return None if None in found else tuple(invariant for invariant in found if invariant is not None)


def _invariant(reader: Reader, node: YamlNode, arrays: dict[str, YamlEntry]) -> Invariant | None:
    text = reader.text(node)
    if text is not None:
        return _plain_invariant(reader, node, text)
    if not isinstance(node, YamlMap) or len(node.entries) != 1:
        return None
    ((kind, entry),) = node.entries.items()
    if kind not in _OF_ARRAY:
        return None
    of = reader.get(entry.value, "of") if kind == "normalized" else entry.value
    array = reader.reference(of, ("output",), "output", f"{kind!r}")
    axis_node = reader.get(entry.value, "axis")
    axis = -1 if axis_node is None else reader.integer(axis_node)
    if array is None or axis is None or of is None:
        return None
    ndim = ndim_of(arrays[array])
    if kind == "symmetric" and ndim is not None and ndim < 2:
        reader.fault(of.span, f"{array!r} cannot be symmetric: it has {ndim} axes", "it needs at least 2")
        return None
    if kind == "normalized" and ndim is not None and not -ndim <= axis < ndim:
        place = of if axis_node is None else axis_node
        reader.fault(place.span, f"{array!r} has no axis {axis}: it has {ndim} axes")
        return None
    return Invariant(cast(NamedKind, kind), node.span, array, axis)


def _plain_invariant(reader: Reader, node: YamlNode, text: str) -> Invariant | None:
    if text in ("finite", "shape_preserved"):
        return Invariant(cast(Literal["finite", "shape_preserved"], text), node.span)
    if text in _OF_ARRAY and text not in reader.kinds:
        fix = "write {normalized: {of: out, axis: -1}}" if text == "normalized" else f"write {{{text}: out}}"
        reader.fault(node.span, f"the invariant {text!r} needs an output", fix)
        return None
    if text.isidentifier() and text not in reader.kinds:
        known = ("finite", "shape_preserved", *_OF_ARRAY)
        fix = did_you_mean(text, known) or f"available: {', '.join(known)} and conditions such as 'out <= 1'"
        reader.fault(node.span, f"unknown invariant {shorten(text)!r}", fix)
        return None
    expression = reader.expression(node, _ALL, "invariant", "condition", arrays=True)
    if expression is None:
        return None
    if not mentions(expression) & set(reader.named("output")):
        aliased = _aliased(reader)
        if not mentions(expression) & aliased:
            reader.fault(node.span, "this invariant uses no output, so it does not check the kernel", "name one")
            return None
    return Invariant("expression", node.span, expression=expression)


def _aliased(reader: Reader) -> set[str]:
    outputs = reader.entries(reader.get(reader.top, "outputs"))
    return {name for entry in outputs if (name := reader.text(reader.get(entry.value, "alias"))) is not None}


def read_names(
    reader: Reader, section: str, kinds: tuple[Kind, ...], noun: str, also: str = ""
) -> tuple[str, ...] | None:
    """A list of names, each of which must be declared as one of the kinds,
    or be ``also``; None if one is invalid."""
    found: list[str | None] = []
    for item in reader.items(reader.get(reader.top, section), most=64):
        if also and reader.text(item) == also:
            found.append(also)
        else:
            found.append(reader.reference(item, kinds, noun, section))
    return None if None in found else tuple(name for name in found if name is not None)


_PATTERNS = ("required_patterns", "forbidden_patterns", "required_sass_patterns", "forbidden_sass_patterns")
_LIMITS = ("max_registers", "max_spills", "max_local_bytes", "max_shared_bytes", "max_instructions")


def read_artifact(reader: Reader, targets: tuple[str, ...]) -> Artifact | None:
    """``artifact``; None if it is omitted or invalid. ``targets`` are the project's targets."""
    node = reader.get(reader.top, "artifact")
    if not isinstance(node, YamlMap):
        return None
    targets_node = reader.get(node, "targets")
    own = tuple(name for item in reader.items(targets_node) if (name := reader.text(item)) is not None)
    limits = {name: reader.integer(reader.get(node, name)) for name in _LIMITS}
    patterns = (_patterns(reader, node, key) for key in _PATTERNS)
    return Artifact(
        node.span,
        own or targets,
        limits["max_registers"],
        limits["max_spills"],
        limits["max_local_bytes"],
        limits["max_shared_bytes"],
        limits["max_instructions"],
        *patterns,
    )


def _patterns(reader: Reader, node: YamlNode, key: str) -> tuple[str, ...]:
    good: list[str] = []
    for item in reader.items(reader.get(node, key), most=256):
        text = reader.text(item)
        if text is None or len(text) > 1000:
            continue
        try:
            re.compile(text)
        except (re.error, OverflowError, RecursionError) as error:
            span = item.span
            position = getattr(error, "pos", None)
            if isinstance(item, YamlScalar) and item.content is not None and position is not None:
                span = type(span)(span.file, span.line, item.content.column + position)
            message = getattr(error, "msg", "it is too large")
            reader.fault(
                span, f"this is not a valid regular expression: {message}", "put a '\\' before special characters"
            )
        else:
            good.append(text)
    return tuple(good)


def condition_list(reader: Reader) -> list[Expression] | None:
    """``constraints``; None if one of them is invalid."""
    items = reader.items(reader.get(reader.top, "constraints"), most=64)
    found = [reader.expression(item, ("dim",), "constraint", "condition") for item in items]
    return None if None in found else [expression for expression in found if expression is not None]
