"""The sizes of a call of an op, from the arrays that it gets."""

from __future__ import annotations

from collections.abc import Mapping

from kcheck.errors import UserError
from kcheck.model import Expression, OpSpec
from kcheck.symbolic import ExpressionError, derive


def sizes_of_call(spec: OpSpec, shapes: Mapping[str, tuple[int, ...]], given: Mapping[str, int]) -> dict[str, int]:
    """Every dim of a call.

    Args:
        shapes: of each input, in elements.
        given: dims that no shape determines.

    Raises:
        UserError: an input has a different rank than declared, two inputs disagree, or a dim is unknown.
    """
    found = {name: size for name, size in given.items() if name in spec.dims}
    for name, shape in shapes.items():
        declared = spec.inputs[name].shape
        if len(shape) != len(declared):
            axes = f"[{', '.join(axis.text for axis in declared)}]"
            raise UserError(f"{spec.op}: the input {name} has shape {list(shape)}, but the spec declares {axes}")
        for axis, extent in zip(declared, shape, strict=True):
            dim = axis.text.strip()
            if dim in spec.dims and found.setdefault(dim, extent) != extent:
                what = f"{dim} is {found[dim]} elsewhere and {extent} in the input {name}"
                raise UserError(f"{spec.op}: {what}")
    drawn = {name: n for name, n in found.items() if not isinstance(spec.dims[name].domain, Expression)}
    lost = [
        name for name, dim in spec.dims.items() if name not in found and not isinstance(dim.domain, Expression)
    ]
    if lost:
        raise UserError(f"{spec.op}: no input shows the size {', '.join(lost)}; pass it with the inputs")
    try:
        return derive(spec.dims, drawn)
    except ExpressionError as error:
        raise UserError(f"{spec.op}: {error.what}") from error
