"""Checks that some sizes satisfy the constraints of a spec, and says why if none do."""

from __future__ import annotations

from kcheck.model import Dim, Expression, Span
from kcheck.specfile.reader import Reader
from kcheck.symbolic import ExpressionError, Solver, evaluate_size, names, parse


def solver_of(
    reader: Reader,
    dims: dict[str, Dim],
    constraints: list[Expression] | None,
    shapes: list[tuple[Expression, ...]],
) -> Solver | None:
    """The solver of the constraints; None if a dim or constraint is invalid.

    It is a fault if no sizes satisfy them, or if an axis of a shape is invalid for the first sizes found.
    """
    if constraints is None or len(dims) != len(reader.named("dim")):
        return None
    solver = Solver(dims, constraints)
    found = solver.witness()
    if found.status == "none":
        _explain(reader, dims, constraints)
    elif found.status == "found":
        for axis in (axis for shape in shapes for axis in shape):
            needed = names(parse(axis.text))
            if needed and needed <= found.sizes.keys():
                _check_axis(reader, axis, {name: found.sizes[name] for name in sorted(needed)})
    return solver


def _check_axis(reader: Reader, axis: Expression, sizes: dict[str, int]) -> None:
    try:
        evaluate_size(parse(axis.text), sizes)
    except ExpressionError as error:
        given = ", ".join(f"{name} = {size}" for name, size in sizes.items())
        reader.fault(axis.span, f"for {given}: {error.what}", "add a constraint that excludes such sizes")


def _explain(reader: Reader, dims: dict[str, Dim], constraints: list[Expression]) -> None:
    """Report why no sizes exist: at a derived dim, or at the first constraint that excludes all sizes."""
    for name, dim in dims.items():
        if isinstance(dim.domain, Expression):
            only = {n: d for n, d in dims.items() if n == name or not isinstance(d.domain, Expression)}
            if names(parse(dim.domain.text)) <= only.keys() and Solver(only, []).witness().status == "none":
                what = f"dim {name!r} has no valid size: {dim.domain.text} is negative or not a whole number"
                reader.fault(dim.domain.span, what, "change it, or the dims that it depends on")
                return
    for count, constraint in enumerate(constraints, start=1):
        if Solver(dims, [constraint]).witness().status == "none":
            what = f"no sizes satisfy the constraint {constraint.text}"
            reader.fault(constraint.span, what, "change it, or the dims in it")
            return
        if Solver(dims, constraints[:count]).witness().status == "none":
            what = f"no sizes satisfy the constraint {constraint.text} together with those before it"
            reader.fault(constraint.span, what, "change one of them")
            return
    span = constraints[-1].span if constraints else Span(reader.file)
    reader.fault(span, "no sizes satisfy the constraints", "change one of them, or the dims")
