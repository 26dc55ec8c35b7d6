"""Sizes that are derived from others, in order of dependence."""

from __future__ import annotations

from collections.abc import Mapping

from kcheck.model import Dim, Expression
from kcheck.symbolic.ast import ExpressionError
from kcheck.symbolic.evaluate import Value, evaluate_size
from kcheck.symbolic.inspect import names
from kcheck.symbolic.parser import parse


class CycleError(ExpressionError):
    """Expressions that depend on each other in a circle.

    Args:
        cycle: the names along the circle, the first one repeated at the end.
    """

    def __init__(self, cycle: tuple[str, ...]) -> None:
        self.cycle = cycle
        super().__init__(f"{cycle[0]!r} depends on itself: {' -> '.join(cycle)}", 1, "break the cycle")


def dependency_order(expressions: Mapping[str, str]) -> tuple[str, ...]:
    """The names, ordered so that each comes after all names that its expression uses.

    Independent names keep the order in which they were given. Names that ``expressions`` does not define are
    assumed to be known.

    Raises:
        CycleError: there is no such order.
        ExpressionError: an expression cannot be parsed.
    """
    needs = {name: sorted(names(parse(text)) & expressions.keys()) for name, text in expressions.items()}
    order: list[str] = []
    done: set[str] = set()
    for start in expressions:
        # Depth first without recursion: a chain of dims may be longer than Python's stack.
        path: list[str] = []
        on_path: set[str] = set()
        pending = [start]
        while pending:
            name = pending[-1]
            if name in done:
                pending.pop()
                continue
            if path and path[-1] == name:
                pending.pop()
                path.pop()
                on_path.discard(name)
                done.add(name)
                order.append(name)
                continue
            path.append(name)
            on_path.add(name)
            for need in reversed(needs[name]):
                if need in on_path:
                    raise CycleError((*path[path.index(need) :], need))
                if need not in done:
                    pending.append(need)
    return tuple(order)


def derived_order(dims: Mapping[str, Dim]) -> tuple[tuple[str, Expression], ...]:
    """The derived dims with their expressions, in order of dependence.

    Raises:
        CycleError, ExpressionError: as ``dependency_order``.
    """
    expressions = {name: dim.domain for name, dim in dims.items() if isinstance(dim.domain, Expression)}
    order = dependency_order({name: expression.text for name, expression in expressions.items()})
    return tuple((name, expressions[name]) for name in order)


def derive(dims: Mapping[str, Dim], drawn: Mapping[str, int]) -> dict[str, int]:
    """Every dim's size, in the order of ``dims``: the drawn ones, and the ones derived from them.

    Args:
        drawn: the size of every dim that is not derived.

    Raises:
        CycleError: derived dims that depend on each other in a circle.
        ExpressionError: a dim that was not drawn; a derived one that is negative, not whole, or has no value for
            these sizes. The message names the dim.
    """
    sizes: dict[str, Value] = dict(drawn)
    for name, expression in derived_order(dims):
        try:
            sizes[name] = evaluate_size(parse(expression.text), sizes)
        except ExpressionError as error:
            raise ExpressionError(f"dim {name!r}: {error.what}", error.column, error.fix) from None
    missing = [name for name in dims if name not in sizes]
    if missing:
        raise ExpressionError(f"no size was drawn for {', '.join(missing)}", 1)
    return {name: int(sizes[name]) for name in dims}
