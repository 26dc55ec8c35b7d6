"""The grid barrier: functions that the cpu device replaces with its own.

CUDA's cooperative groups spin on a word of a workspace that the driver keeps. kcheck compiles them with a header
(``kcheck/device/kinds/include/cooperative_groups.h``) in which this loop is a function.
"""

from __future__ import annotations

from dataclasses import replace

from kcheck.ptx.syntax.ast import Call, Module, Operation, Symbol

GRID_WORKSPACE = "kcheck_grid_workspace"
"""The function that returns the address of that workspace, or 0 if the launch is not cooperative."""

_GRID_SYNC = "kcheck_grid_sync"
_BARRIERS = frozenset({"cudaCGSynchronize", _GRID_SYNC})


def is_grid_barrier(operation: Operation) -> bool:
    """Whether threads wait there for all other threads of the grid."""
    return (
        isinstance(operation, Call) and isinstance(operation.target, Symbol) and operation.target.name in _BARRIERS
    )


def with_own_barrier(module: Module) -> Module:
    """The module without the bodies of these functions, which are for a GPU."""
    functions = {
        name: replace(function, body=None) if name in (GRID_WORKSPACE, _GRID_SYNC) else function
        for name, function in module.functions.items()
    }
    return replace(module, functions=functions)
