"""The layouts of arrays."""

from __future__ import annotations

from kcheck.model import LAYOUTS, LEAST_AXES, AccessorArg, Input, OpSpec, Output, Span, StrideArg, leaves
from kcheck.model.layouts import FAR, MOST_FAR, far_layout, is_far, layout_kind, shown_layout
from kcheck.specfile.reader import Reader
from kcheck.specfile.yamltree import YamlMap, YamlNode
from kcheck.symbolic import ExpressionError, evaluate_size, parse


def read_layout(reader: Reader, node: YamlNode) -> str | None:
    """A layout: its name, or ``{far: n}``; None if it is invalid."""
    if not isinstance(node, YamlMap):
        layout = reader.text(node)
        return layout if layout in LAYOUTS else None
    given = reader.get(node, FAR)
    distance = reader.expression(given, (), f"layout {FAR}")
    if distance is None or given is None:
        return None
    try:
        elements = evaluate_size(parse(distance.text), {})
    except ExpressionError as error:
        reader.fault(given.span, f"in layout {FAR}: {error.what}", error.fix)
        return None
    if not 1 <= elements <= MOST_FAR:
        what = f"the rows of {FAR} cannot be {elements:,} elements apart"
        reader.fault(given.span, what, f"write a number from 1 to {MOST_FAR:,}")
        return None
    return far_layout(elements)


def check_layout(reader: Reader, span: Span, layout: str, name: str, ndim: int | None, written: str) -> bool:
    """Whether an array may have a layout; reports a fault if not.

    Args:
        written: why the kernel writes to the array; empty if it does not.
    """
    if layout == "broadcast" and written:
        what = f"{name!r} cannot be broadcast: {written}, and its elements would share memory"
        reader.fault(span, what, "use broadcast only for inputs that the kernel does not write")
        return False
    least = LEAST_AXES[layout_kind(layout)]
    if ndim is not None and ndim < least:
        axes = f"{ndim} {'axis' if ndim == 1 else 'axes'}"
        what = f"{name!r} cannot be {shown_layout(layout)}: it has {axes}"
        reader.fault(span, what, f"{layout_kind(layout)} needs at least {least}")
        return False
    return True


def read_layouts(
    reader: Reader, rest: YamlMap | None, name: str, ndim: int | None, written: str
) -> tuple[str, ...] | None:
    """``layouts`` of an array; None if they are invalid.

    Args:
        rest: the declaration of the array; None if it is only a shape.
        written: as for :func:`check_layout`.
    """
    node = reader.get(rest, "layouts")
    if node is None:
        return ("contiguous",)
    found: list[str] = []
    for item in reader.items(node):
        layout = read_layout(reader, item)
        if layout is None or not check_layout(reader, item.span, layout, name, ndim, written):
            return None
        found.append(layout)
    return tuple(found) if found and len(set(found)) == len(found) else None


def check_far(reader: Reader, spec: OpSpec) -> None:
    """Report arrays with the layout ``far`` of which the kernel gets no stride: it could not find their rows."""
    launch, kernel = spec.launch, spec.kernel
    if launch is None or kernel is None or kernel.kind == "numba":  # these get the array itself
        return
    alias = {name: output.alias or name for name, output in spec.outputs.items()}
    known = {
        alias.get(argument.array, argument.array)
        for argument in leaves((*launch.args, *spec.variables.values()))
        if isinstance(argument, StrideArg | AccessorArg)
    }
    arrays: dict[str, Input | Output] = {**spec.inputs, **spec.outputs}
    for name, array in arrays.items():
        if any(map(is_far, array.layouts)) and alias.get(name, name) not in known:
            what = f"{name!r} cannot be {FAR}: the kernel gets no stride of it"
            fix = f"pass its strides in args, as in {{stride: [{name}, 0]}}, or remove {FAR!r}"
            reader.fault(array.span, what, fix)
