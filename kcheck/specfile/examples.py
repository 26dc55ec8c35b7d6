"""``examples``: cases that are written out in a spec."""

from __future__ import annotations

from kcheck.model import Choices, Dim, Distribution, Example, Expression, Input, Range, Scalar
from kcheck.nearest import did_you_mean
from kcheck.specfile.arrays import ndim_of, param_value
from kcheck.specfile.distribution import Target, read_distribution
from kcheck.specfile.layouts import check_layout, read_layout
from kcheck.specfile.reader import Reader
from kcheck.specfile.yamltree import YamlEntry, YamlMap, YamlNode
from kcheck.symbolic import Solver


def read_examples(
    reader: Reader,
    dims: dict[str, Dim],
    solver: Solver | None,
    sections: dict[str, list[YamlEntry]],
    inputs: dict[str, Input],
    written: dict[str, str],
) -> tuple[Example, ...] | None:
    """``examples``.

    Args:
        solver: the solver of the dims and constraints; None if one of these is invalid.
        sections: the declarations, by section.
        written: for each input that the kernel writes to, the reason.
    """
    items = reader.items(reader.get(reader.top, "examples"))
    found = [_Example(reader, item, dims, sections, inputs, written).read(solver) for item in items]
    return None if None in found else tuple(example for example in found if example is not None)


class _Example:
    def __init__(
        self,
        reader: Reader,
        node: YamlNode,
        dims: dict[str, Dim],
        sections: dict[str, list[YamlEntry]],
        inputs: dict[str, Input],
        written: dict[str, str],
    ) -> None:
        self.reader = reader
        self.node = node
        self.known_dims = dims
        self.sections = {key: {entry.key: entry for entry in entries} for key, entries in sections.items()}
        self.inputs = inputs
        self.written = written
        self.whole = True

    def read(self, solver: Solver | None) -> Example | None:
        if not isinstance(self.node, YamlMap):
            return None
        before = len(self.reader.faults)
        dims = self.dims()
        dtypes = self.dtypes()
        values = self.values()
        layouts = self.layouts()
        params = self.params()
        if solver is not None and dims and len(self.reader.faults) == before:
            free = {name for name, dim in self.known_dims.items() if not isinstance(dim.domain, Expression)}
            impossible = not solver.admits(dims) if free - dims.keys() else solver.witness(dims).status == "none"
            if impossible:
                span = self.reader.get(self.node, "dims") or self.node
                what = "the sizes of this example violate the constraints"
                self.reader.fault(span.span, what, "choose sizes that satisfy all of them")
        if len(self.reader.faults) > before or not self.whole:
            return None
        return Example(self.node.span, dims, dtypes, values, layouts, params)

    def entries(self, key: str) -> list[YamlEntry]:
        return list(self.reader.entries(self.reader.get(self.node, key)))

    def dims(self) -> dict[str, int]:
        sizes: dict[str, int] = {}
        for entry in self.entries("dims"):
            if entry.key not in self.reader.named("dim"):
                self.reader.unknown(entry.span, entry.key, ("dim",), "dim", "example")
                continue
            size = self.reader.integer(entry.value)
            dim = self.known_dims.get(entry.key)
            if size is None or dim is None:
                self.whole = False
            elif isinstance(dim.domain, Expression):
                what = f"dim {entry.key!r} is derived from others"
                self.reader.fault(entry.span, what, "remove it")
            elif isinstance(dim.domain, Choices) and size not in dim.domain.values:
                known = ", ".join(str(value) for value in dim.domain.values[:20])
                self.reader.fault(
                    entry.value.span, f"dim {entry.key!r} cannot be {size}", f"its sizes are {known}"
                )
            elif isinstance(dim.domain, Range) and not dim.domain.low <= size <= dim.domain.high:
                fix = f"its range is {dim.domain.low}..{dim.domain.high}"
                self.reader.fault(entry.value.span, f"dim {entry.key!r} cannot be {size}", fix)
            else:
                sizes[entry.key] = size
        return sizes

    def dtypes(self) -> dict[str, str]:
        chosen: dict[str, str] = {}
        for entry in self.entries("dtypes"):
            if entry.key not in self.reader.variables:
                fix = did_you_mean(entry.key, self.reader.variables)
                fix = fix or f"available: {', '.join(self.reader.variables)}"
                self.reader.fault(entry.span, f"unknown type variable {entry.key!r} in example", fix)
                continue
            variable = self.reader.variables[entry.key]
            dtype = self.reader.text(entry.value)
            if variable is None or dtype is None:
                self.whole = False
            elif dtype not in variable.choices:
                fix = f"its dtypes are {', '.join(variable.choices)}"
                self.reader.fault(entry.value.span, f"type variable {entry.key!r} cannot be {dtype}", fix)
            else:
                chosen[entry.key] = dtype
        return chosen

    def values(self) -> dict[str, Distribution]:
        drawn: dict[str, Distribution] = {}
        declared = self.sections["inputs"]
        for entry in self.entries("values"):
            if entry.key not in declared:
                self.reader.unknown(entry.span, entry.key, ("input",), "input", "example")
                continue
            names = list(declared)
            dtype = self.inputs[entry.key].dtype if entry.key in self.inputs else None
            target = Target(
                entry.key,
                self.reader.concrete(dtype),
                ndim_of(declared[entry.key]),
                tuple(names[: names.index(entry.key)]),
            )
            distribution = read_distribution(self.reader, entry.value, target)
            if distribution is None:
                self.whole = False
            else:
                drawn[entry.key] = distribution
        return drawn

    def layouts(self) -> dict[str, str]:
        chosen: dict[str, str] = {}
        arrays = {**self.sections["inputs"], **self.sections["outputs"]}
        for entry in self.entries("layouts"):
            if entry.key not in arrays:
                self.reader.unknown(entry.span, entry.key, ("input", "output"), "array", "example")
                continue
            layout = read_layout(self.reader, entry.value)
            written = self.written.get(entry.key, "")
            if entry.key in self.sections["outputs"]:
                written = "it is an output"
                if self.reader.get(arrays[entry.key].value, "alias") is not None:
                    what = f"{entry.key!r} shares the memory of its input, so it cannot have its own layout"
                    self.reader.fault(entry.span, what, "set it on the input")
                    continue
            if layout is None:
                self.whole = False
            elif check_layout(
                self.reader, entry.value.span, layout, entry.key, ndim_of(arrays[entry.key]), written
            ):
                chosen[entry.key] = layout
        return chosen

    def params(self) -> dict[str, Scalar]:
        chosen: dict[str, Scalar] = {}
        declared = self.sections["params"]
        for entry in self.entries("params"):
            if entry.key not in declared:
                self.reader.unknown(entry.span, entry.key, ("param",), "param", "example")
                continue
            node = declared[entry.key].value
            if self.reader.get(node, "expr") is not None:
                what = f"param {entry.key!r} is derived from others"
                self.reader.fault(entry.span, what, "remove it")
                continue
            dtype = self.reader.text(self.reader.get(node, "dtype"))
            value = param_value(self.reader, entry.value, entry.key, dtype)
            if value is None:
                self.whole = False
            else:
                chosen[entry.key] = value
        return chosen
