"""The declarations of a spec: dims, type variables, inputs, params, outputs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from kcheck.model import (
    DTYPES,
    Choices,
    Dim,
    Example,
    Expression,
    Input,
    KernelRef,
    LaunchSpec,
    Output,
    Param,
    Range,
    Scalar,
    TypeVariable,
)
from kcheck.specfile.distribution import Target, read_distributions, unfit, with_infinities
from kcheck.specfile.layouts import read_layouts
from kcheck.specfile.reader import Kind, Reader
from kcheck.specfile.yamltree import YamlEntry, YamlList, YamlMap, YamlNode, YamlScalar
from kcheck.symbolic import (
    MAX_SIZE,
    CycleError,
    dependency_order,
    parse,
    shorten,
)
from kcheck.symbolic import names as names_of

_SIZES: tuple[Kind, ...] = ("dim", "param")
_RANGE = re.compile(r" *([0-9][0-9_]*) *\.\. *([0-9][0-9_]*) *")


def declare_names(reader: Reader) -> dict[str, list[YamlEntry]]:
    """Enter every name of dims, params, inputs and outputs into the namespace before any is used.

    Returns:
        The entries of each section whose names are valid.
    """
    kinds: tuple[tuple[str, Kind], ...] = (
        ("dims", "dim"),
        ("inputs", "input"),
        ("params", "param"),
        ("outputs", "output"),
    )
    good: dict[str, list[YamlEntry]] = {}
    for section, kind in kinds:
        entries = reader.entries(reader.get(reader.top, section))
        good[section] = [entry for entry in entries if reader.declare(entry, kind)]
    return good


# Dims


def read_dims(reader: Reader, entries: list[YamlEntry]) -> dict[str, Dim]:
    """The dims whose declarations are valid. A cycle of derived dims is a fault, and excludes its dims."""
    dims: dict[str, Dim] = {}
    for entry in entries:
        domain = _domain(reader, entry)
        if domain is not None:
            dims[entry.key] = Dim(entry.key, domain, entry.span)
    for name in _cyclic(reader, {n: d.domain for n, d in dims.items() if isinstance(d.domain, Expression)}, "dim"):
        del dims[name]
    return dims


def _cyclic(reader: Reader, expressions: dict[str, Expression], noun: str) -> list[str]:
    """The names that are part of a cycle. Reports each cycle once."""
    lost: list[str] = []
    while True:
        try:
            dependency_order({name: expression.text for name, expression in expressions.items()})
        except CycleError as error:
            first = error.cycle[0]
            circle = " -> ".join(error.cycle)
            fix = "break the cycle: give one of them explicit values"
            reader.fault(expressions[first].span, f"{noun} {first!r} depends on itself: {circle}", fix)
            lost.extend(error.cycle[:-1])
            expressions = {name: expression for name, expression in expressions.items() if name not in error.cycle}
        else:
            return lost


def _domain(reader: Reader, entry: YamlEntry) -> Choices | Range | Expression | None:
    node = entry.value
    if isinstance(node, YamlList):
        sizes = [reader.integer(item) for item in reader.items(node)]
        good = tuple(size for size in sizes if size is not None and 0 <= size <= MAX_SIZE)
        return Choices(good) if good and len(good) == len(sizes) else None
    if isinstance(node, YamlScalar):
        return _range(reader, node, ())
    expr, text, tile = (reader.get(node, key) for key in ("expr", "range", "tile"))
    if expr is not None:
        if text is not None or tile is not None:
            what = f"dim {entry.key!r} has both 'expr' and {'range' if text is not None else 'tile'!r}"
            reader.fault(node.span, what, "a derived dim takes 'expr' only")
            return None
        return reader.expression(expr, ("dim",), f"dim {entry.key!r}")
    if text is None:
        if tile is not None:
            reader.fault(node.span, f"dim {entry.key!r} has a tile but no range", "add 'range: 1..64'")
        return None
    if tile is None:
        return _range(reader, text, ())
    tiles = [
        reader.integer(item) for item in (reader.items(tile, most=64) if isinstance(tile, YamlList) else (tile,))
    ]
    good = tuple(size for size in tiles if size is not None and 1 <= size <= MAX_SIZE)
    return _range(reader, text, good) if good and len(good) == len(tiles) else None


def _range(reader: Reader, node: YamlNode, tiles: tuple[int, ...]) -> Range | None:
    match = _RANGE.fullmatch(reader.text(node) or "")
    if match is None:
        return None
    ends = [part.replace("_", "") for part in match.groups()]
    if any(len(end.lstrip("0")) > 13 or int(end) > MAX_SIZE for end in ends):
        reader.fault(node.span, "this size is too large", f"the limit is {MAX_SIZE} elements")
        return None
    low, high = (int(end) for end in ends)
    if low > high:
        reader.fault(node.span, f"the range {low}..{high} is empty", f"write {high}..{low}")
        return None
    return Range(low, high, tiles)


# Dtypes


def read_variables(reader: Reader) -> None:
    """Read the type variables into ``reader.variables``."""
    node = reader.get(reader.top, "dtypes")
    if node is None:
        reader.variables["T"] = TypeVariable("T", ("float32",), reader.top.span)
        return
    if not isinstance(node, YamlMap):
        choices = _dtype_list(reader, node)
        reader.variables["T"] = TypeVariable("T", choices, node.span) if choices else None
        return
    for entry in reader.entries(node, most=16):
        if entry.key in DTYPES:
            reader.fault(
                entry.span, f"a type variable cannot be called {entry.key!r}, which is a dtype", "rename it"
            )
            continue
        choices = _dtype_list(reader, entry.value)
        reader.variables[entry.key] = TypeVariable(entry.key, choices, entry.span) if choices else None


def used_variables(
    reader: Reader,
    kernel: tuple[KernelRef, object] | None,
    launch: LaunchSpec | None,
    sections: Iterable[Mapping[str, Input | Param | Output]],
    examples: Iterable[Example],
) -> dict[str, TypeVariable]:
    """The type variables. A spec without ``dtypes`` has T only if an array or argument uses it, so that a case
    without floats does not show ``T=float32``. Kernels of other kinds than Numba keep it, because their text may
    name T."""
    known = {name: variable for name, variable in reader.variables.items() if variable is not None}
    is_given = reader.get(reader.top, "dtypes") is not None
    if is_given or launch is None or kernel is None or kernel[0].kind != "numba":
        return known
    used = {one.dtype for section in sections for one in section.values()} | {one.dtype for one in launch.args}
    used.update(name for example in examples for name in example.dtypes)
    return {name: variable for name, variable in known.items() if name in used}


def _dtype_list(reader: Reader, node: YamlNode) -> tuple[str, ...]:
    found = [reader.text(item) for item in reader.items(node)]
    good = tuple(name for name in found if name is not None and name in DTYPES)
    return good if len(good) == len(found) and len(set(good)) == len(good) else ()


# Arrays


def shape_text(node: YamlNode | None) -> str:
    """The form of a shape in messages."""
    items = node.items if isinstance(node, YamlList) else ()
    texts = (item.text if isinstance(item, YamlScalar) else "..." for item in items)
    return shorten(f"[{', '.join(texts)}]", 60)


def _shape(reader: Reader, node: YamlNode | None) -> tuple[Expression, ...] | None:
    if not isinstance(node, YamlList) or len(node.items) > 8:
        return None
    sizes = reader.sizes(node.items, _SIZES, f"shape {shape_text(node)}")
    return tuple(size for size in sizes if size is not None) if None not in sizes else None


def _parts(node: YamlNode) -> tuple[YamlNode | None, YamlMap | None]:
    """The shape of an array, and the mapping with its other keys;
    None for the short form, which is only a shape."""
    if isinstance(node, YamlMap):
        return (node.entries["shape"].value if "shape" in node.entries else None), node
    return node, None


def ndim_of(entry: YamlEntry) -> int | None:
    """The number of axes of an array; None if its shape is not a list."""
    shape, _ = _parts(entry.value)
    return len(shape.items) if isinstance(shape, YamlList) else None


def _array_dtype(reader: Reader, entry: YamlEntry, rest: YamlMap | None, noun: str) -> str | None:
    node = reader.get(rest, "dtype")
    if node is not None:
        return reader.dtype(node, f"{noun} {entry.key!r}")
    if "T" in reader.variables:
        return "T"
    what = f"{noun} {entry.key!r} has no dtype, and there is no type variable 'T'"
    example = next(iter(reader.variables), "float32")
    reader.fault(entry.span, what, f"write {{shape: {shape_text(_parts(entry.value)[0])}, dtype: {example}}}")
    return None


def read_inputs(reader: Reader, entries: list[YamlEntry], written: dict[str, str]) -> dict[str, Input]:
    """The inputs whose declarations are valid.

    Args:
        written: for each input that the kernel writes to, the reason: it is aliased, or in ``mutates``.
    """
    inputs: dict[str, Input] = {}
    for position, entry in enumerate(entries):
        shape_node, rest = _parts(entry.value)
        shape = _shape(reader, shape_node)
        dtype = _array_dtype(reader, entry, rest, "input")
        ndim = ndim_of(entry)
        layouts = read_layouts(reader, rest, entry.key, ndim, written.get(entry.key, ""))
        earlier = tuple(before.key for before in entries[:position])
        target = Target(entry.key, reader.concrete(dtype), ndim, earlier)
        values = read_distributions(reader, reader.get(rest, "values"), target)
        values = with_infinities(reader, reader.get(rest, "allow_inf"), target, values)
        if shape is not None and dtype is not None and layouts is not None and values is not None:
            inputs[entry.key] = Input(entry.key, shape, dtype, values, layouts, entry.span)
    return inputs


def read_outputs(reader: Reader, entries: list[YamlEntry], inputs: dict[str, Input]) -> dict[str, Output]:
    """The outputs whose declarations are valid."""
    outputs: dict[str, Output] = {}
    aliased: dict[str, str] = {}
    for entry in entries:
        shape_node, rest = _parts(entry.value)
        shape = _shape(reader, shape_node)
        dtype = _array_dtype(reader, entry, rest, "output")
        alias_node = reader.get(rest, "alias")
        alias: str | None = None
        if alias_node is None:
            layouts = read_layouts(reader, rest, entry.key, ndim_of(entry), "it is an output")
        else:
            alias = reader.reference(alias_node, ("input",), "input", "alias")
            layouts = _aliased_layouts(reader, entry, rest, alias, inputs)
            if alias is not None and alias in aliased:
                what = f"{aliased[alias]!r} is already computed in place in {alias!r}"
                reader.fault(alias_node.span, what, "alias another input")
                alias = None
            if alias is not None:
                aliased[alias] = entry.key
                _check_alias(reader, entry, shape, dtype, inputs.get(alias))
        if shape is None or dtype is None or layouts is None or (alias_node is not None and alias is None):
            continue
        outputs[entry.key] = Output(entry.key, shape, dtype, layouts, alias, entry.span)
    return outputs


def _aliased_layouts(
    reader: Reader, entry: YamlEntry, rest: YamlMap | None, alias: str | None, inputs: dict[str, Input]
) -> tuple[str, ...] | None:
    node = reader.get(rest, "layouts")
    if node is not None:
        what = f"{entry.key!r} shares the memory of {alias or 'an input'!r}, so it cannot have its own layouts"
        reader.fault(node.span, what, "set them on the input")
        return None
    return inputs[alias].layouts if alias in inputs else ("contiguous",)


def _check_alias(
    reader: Reader, entry: YamlEntry, shape: tuple[Expression, ...] | None, dtype: str | None, of: Input | None
) -> None:
    """Check that an aliased output has the shape and dtype of its input."""
    if of is None:
        return
    ours, theirs = ([size.text.replace(" ", "") for size in sizes] for sizes in (shape or (), of.shape))
    if shape is not None and ours != theirs:
        what = f"{entry.key!r} shares the memory of {of.name!r} but has a different shape"
        reader.fault(entry.span, what, f"write the shape [{', '.join(size.text for size in of.shape)}]")
    if dtype is not None and dtype != of.dtype:
        what = f"{entry.key!r} shares the memory of {of.name!r} but has a different dtype"
        reader.fault(entry.span, what, f"write 'dtype: {of.dtype}'")


# Params


def read_params(
    reader: Reader, entries: list[YamlEntry], constants: Mapping[str, Param] | None = None
) -> dict[str, Param]:
    """The params whose declarations are valid, and ``constants``. A cycle of derived params is a fault."""
    params: dict[str, Param] = dict(constants or {})
    for entry in entries:
        node = entry.value
        dtype = reader.dtype(reader.get(node, "dtype"), f"param {entry.key!r}")
        expr_node, values_node = reader.get(node, "expr"), reader.get(node, "values")
        expr = reader.expression(expr_node, (*_SIZES, "constant"), f"param {entry.key!r}", "number")
        values = tuple(_param_values(reader, values_node, entry.key, dtype))
        if dtype is None or (expr is None) == (not values) or (expr_node is not None and values_node is not None):
            continue
        if values_node is not None and len(values) != len(reader.items(values_node)):
            continue
        params[entry.key] = Param(entry.key, dtype, expr, values, entry.span)
    expressions = {name: param.expr for name, param in params.items() if param.expr is not None}
    for name in _cyclic(reader, expressions, "param"):
        del params[name]
    return params


def _param_values(reader: Reader, node: YamlNode | None, name: str, dtype: str | None) -> Iterator[Scalar]:
    for item in reader.items(node):
        value = param_value(reader, item, name, dtype)
        if value is not None:
            yield value


def param_value(reader: Reader, node: YamlNode, name: str, dtype: str | None) -> Scalar | None:
    """A value that each dtype of a param can hold."""
    if not isinstance(node, YamlScalar) or node.value is None or isinstance(node.value, str):
        return None
    for candidate in reader.concrete(dtype):
        why = unfit(node.value, candidate)
        if why:
            reader.fault(node.span, f"{node.text} {why}, but param {name!r} can be {candidate}")
            return None
    return node.value


# Constraints


def mentions(expression: Expression) -> frozenset[str]:
    """The names that a valid expression uses."""
    return names_of(parse(expression.text))
