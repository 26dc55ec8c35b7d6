"""Flat indexes of pointers as indexes of arrays: ``x[row * columns + column]`` is ``x[row, column]``.

Kernels in CUDA C++ and Triton get pointers, so the text shows the axes of an array only by what an index is
multiplied with: a size (``columns``), or a stride (``x_row``).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

from kcheck.dataclass import dataclass
from kcheck.draft.names import expanded, single_assignments

_STRIDE_WORDS = ("stride", "pitch")


@dataclass(frozen=True, slots=True)
class IndexTerm:
    """A part of a flat index: an index, and the parameters with which it is multiplied."""

    index: ast.expr
    factors: tuple[str, ...]


def split_indexes(function: ast.FunctionDef, pointers: Sequence[str], scalars: Sequence[str]) -> dict[str, str]:
    """Rewrite the flat indexes of a kernel.

    Where the text shows that an index stays below a size, a comparison that says so is added before the statement.

    Args:
        function: is changed. Its parameters are used as ``x[index]`` and ``cuda.atomic.f(x, index, value)``.
        pointers, scalars: the names of its parameters.

    Returns:
        By name of a scalar that is only a stride, the array and axis: ``x, 0``.
    """
    values = {
        name: value
        for name, value in single_assignments(function).items()
        if isinstance(value, ast.BinOp) and _mentions(expanded(value, single_assignments(function)), scalars)
    }
    bounds = set(_compared(function))
    strides: dict[str, str] = {}
    for array in pointers:
        forms = [_terms(expanded(index, values), scalars) for index in _indexes(function, array)]
        if forms and all(form is not None for form in forms):
            widths = {tuple(term.factors for term in form or ()) for form in forms}
            if len(widths) == 1 and len(next(iter(widths))) > 1:
                (shape,) = widths
                names = _strides_of(shape, bounds)
                _Rewrite(array, values, scalars, {} if names else _sizes(shape)).visit_body(function.body)
                for axis, name in names.items():
                    strides.setdefault(name, f"{array}, {axis}")
    return strides


def is_stride_name(name: str) -> bool:
    """Whether a parameter's name says that it is a stride: ``stride_xm``, ``ldx``."""
    folded = name.casefold()
    return any(word in folded for word in _STRIDE_WORDS) or (folded.startswith("ld") and len(folded) <= 4)


def _compared(function: ast.FunctionDef) -> Iterator[str]:
    """Names with which something is compared, or at which a loop stops."""
    for node in ast.walk(function):
        sides: list[ast.expr] = []
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range":
            sides = node.args[:2]
        yield from (part.id for side in sides for part in ast.walk(side) if isinstance(part, ast.Name))


def _mentions(node: ast.expr, names: Sequence[str]) -> bool:
    return any(isinstance(part, ast.Name) and part.id in names for part in ast.walk(node))


def _indexes(function: ast.FunctionDef, array: str) -> Iterator[ast.expr]:
    for node in ast.walk(function):
        match node:
            case ast.Subscript(value=ast.Name(id=name), slice=index) if name == array:
                yield index
            case ast.Call(func=ast.Attribute(), args=[ast.Name(id=name), index, *_]) if (
                name == array and _is_atomic(node)
            ):
                yield index


def _is_atomic(call: ast.Call) -> bool:
    return ".atomic." in ast.unparse(call.func)


def _sum(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return [*_sum(node.left), *_sum(node.right)]
    return [node]


def _product(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        return [*_product(node.left), *_product(node.right)]
    return [node]


def _terms(index: ast.expr, scalars: Sequence[str]) -> list[IndexTerm] | None:
    """The terms of a flat index, the outermost axis first; None if the text does not show axes.

    ``(b * H + h) * W + w`` has the terms b, h and w with the factors (H, W), (W) and ().
    """
    found: dict[tuple[str, ...], ast.expr] = {}
    for part in _sum(index):
        factors = _product(part)
        names = tuple(each.id for each in factors if isinstance(each, ast.Name) and each.id in scalars)
        rest = [each for each in factors if not (isinstance(each, ast.Name) and each.id in scalars)]
        if not rest:
            return None
        inner = rest[0]
        for each in rest[1:]:
            inner = ast.BinOp(inner, ast.Mult(), each)
        nested = _terms(inner, scalars) if names and isinstance(inner, ast.BinOp) else [IndexTerm(inner, ())]
        for term in nested or ():
            key = tuple(sorted((*term.factors, *names)))
            found[key] = term.index if key not in found else ast.BinOp(found[key], ast.Add(), term.index)
    order = sorted(found, key=len, reverse=True)
    if len(order) > 1 and () not in order and len({len(key) for key in order}) > 1:
        return None
    return [IndexTerm(found[key], key) for key in order]


def _sizes(shape: Sequence[tuple[str, ...]]) -> Mapping[int, str]:
    """By axis, the size by which the factors of the axis before it are more than its own."""
    sizes = {}
    for axis in range(1, len(shape)):
        more = list(shape[axis - 1])
        for name in shape[axis]:
            if name in more:
                more.remove(name)
        if len(more) == 1:
            sizes[axis] = more[0]
    return sizes


def _strides_of(shape: Sequence[tuple[str, ...]], bounds: set[str]) -> dict[int, str]:
    """By axis, the scalar that is its stride; empty if the factors are sizes."""
    single = {axis: factors[0] for axis, factors in enumerate(shape) if len(factors) == 1}
    if any(len(factors) > 1 for factors in shape) or len(set(single.values())) < len(single):
        return {}
    is_stride = [is_stride_name(name) or name not in bounds for name in single.values()]
    return single if is_stride and all(is_stride) else {}


class _Rewrite:
    """Replaces the flat indexes of one array; ``sizes``: by axis, the parameter that is its length."""

    def __init__(
        self, array: str, values: Mapping[str, ast.expr], scalars: Sequence[str], sizes: Mapping[int, str]
    ) -> None:
        self._array, self._values, self._scalars, self._sizes = array, values, scalars, sizes
        self._hints: list[ast.stmt] = []

    def visit_body(self, body: list[ast.stmt]) -> None:
        """Rewrite the statements of a block, in place."""
        done: list[ast.stmt] = []
        for statement in body:
            for name in ("body", "orelse"):
                if inner := getattr(statement, name, None):
                    self.visit_body(inner)
            self._hints = []
            self._replace(statement)
            done += [*self._hints, statement]
        body[:] = done

    def _replace(self, statement: ast.stmt) -> None:
        rewrite = self

        class ReplaceIndexes(ast.NodeTransformer):
            def visit_Subscript(self, node: ast.Subscript) -> ast.expr:  # ast's name
                self.generic_visit(node)
                if isinstance(node.value, ast.Name) and node.value.id == rewrite._array:
                    node.slice = rewrite._split(node.slice, node)
                return node

            def visit_Call(self, node: ast.Call) -> ast.expr:  # ast's name
                self.generic_visit(node)
                if _is_atomic(node) and isinstance(node.args[0], ast.Name) and node.args[0].id == rewrite._array:
                    node.args[1] = rewrite._split(node.args[1], node)
                return node

        for name, value in ast.iter_fields(statement):
            if isinstance(value, ast.AST) and not isinstance(value, ast.stmt):
                setattr(statement, name, ReplaceIndexes().visit(value))
            elif isinstance(value, list) and not any(isinstance(each, ast.stmt) for each in value):
                setattr(statement, name, [ReplaceIndexes().visit(each) for each in value])

    def _split(self, index: ast.expr, at: ast.expr) -> ast.expr:
        terms = _terms(expanded(index, self._values), self._scalars)
        if terms is None or len(terms) < 2:  # rewritten already
            return index
        for axis, size in self._sizes.items():
            compare = ast.Compare(terms[axis].index, [ast.Lt()], [ast.Name(size, ast.Load())])
            self._hints.append(ast.fix_missing_locations(ast.copy_location(ast.Expr(compare), at)))
        return ast.fix_missing_locations(
            ast.copy_location(ast.Tuple([term.index for term in terms], ast.Load()), at)
        )
