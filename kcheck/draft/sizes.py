"""Which scalars of a kernel are probably sizes."""

from __future__ import annotations

import ast
from collections.abc import Sequence

_OF_ROWS = frozenset({"rows", "nrows", "n_rows", "num_rows", "height"})
_OF_COLUMNS = frozenset({"cols", "columns", "ncols", "n_cols", "num_cols", "width"})
_OF_SIZES = frozenset(
    {
        *("n", "m", "size", "length", "len", "count", "num", "numel", "total"),
        *("n_elements", "num_elements", "n_items", "num_items"),
        *_OF_ROWS,
        *_OF_COLUMNS,
    }
)


def size_meant(name: str, function: ast.FunctionDef, dims: Sequence[str]) -> tuple[str, str]:
    """The dim that a scalar probably is, and why: it is named like a size, or not used; empty if neither.

    Args:
        name: of a parameter that bounds no index.
        dims: in the order in which arrays use them.
    """
    is_used = any(isinstance(node, ast.Name) and node.id == name for node in ast.walk(function))
    folded = name.casefold()
    if not dims or (is_used and folded not in _OF_SIZES):
        return "", ""
    why = "named like a size" if is_used else "not used"
    same = [dim for dim in dims if dim.casefold() == folded]
    if same:
        return same[0], why
    return dims[-2 if folded in _OF_ROWS and len(dims) > 1 else -1], why
