"""The grid barrier: code that the cpu device replaces with its own.

CUDA's cooperative groups spin on a word of a workspace that the driver keeps, whose address is in ``%envreg1`` and
``%envreg2``. kcheck compiles them with a header (``kcheck/device/kinds/include/cooperative_groups.h``) in which
this loop is a function. Where another compiler inlined it, the loop is found by that address, or by its lines.
Source of the loop: ``cooperative_groups/details/sync.h``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kcheck.ptx.syntax.ast import (
    Address,
    Call,
    Function,
    Instruction,
    Integer,
    Label,
    Module,
    Operand,
    Operation,
    Register,
    Special,
    Statement,
    Symbol,
    Vector,
)

GRID_WORKSPACE = "kcheck_grid_workspace"
"""The function that returns the address of that workspace, or 0 if the launch is not cooperative."""

WORKSPACE = 8
"""That address. Nothing accesses the workspace."""
_GRID_SYNC = "kcheck_grid_sync"
_BARRIERS = frozenset({"cudaCGSynchronize", _GRID_SYNC})
_LOW, _HIGH = "envreg2", "envreg1"
_KEEPS = frozenset({"mov", "cvt", "cvta", "shl", "or", "bfi", "add"})
"""Instructions with which nvcc computes an address in the workspace."""
_HEADER = "cooperative_groups/details/sync.h"
_FLIPPED = 0x8000_0000
"""The bit that the last block flips."""


def is_grid_barrier(operation: Operation) -> bool:
    """Whether threads wait there for all other threads of the grid."""
    return (
        isinstance(operation, Call) and isinstance(operation.target, Symbol) and operation.target.name in _BARRIERS
    )


def with_own_barrier(module: Module) -> Module:
    """The module with calls of these functions for loops on the workspace, and without the functions' bodies,
    which are for a GPU."""
    headers = {number for number, file in module.files.items() if file.replace("\\", "/").endswith(_HEADER)}
    functions = {
        name: replace(
            function,
            body=None if name in (GRID_WORKSPACE, _GRID_SYNC) else _with_calls(function, headers),
        )
        for name, function in module.functions.items()
    }
    if any(is_grid_barrier(each) for f in functions.values() for each in f.body or () if isinstance(each, Call)):
        functions.setdefault(_GRID_SYNC, Function(0, False, _GRID_SYNC, "extern", (), (), None))
    return replace(module, functions=functions)


def _with_calls(function: Function, headers: set[int]) -> tuple[Statement, ...] | None:
    """The body of a function, in which a thread that arrives at a barrier in the workspace finds it complete, and
    waits at the barrier of the block that follows: that one becomes the grid's."""
    body = function.body
    if body is None:
        return None
    changed = list(body)
    workspace: set[str] | None = None
    for n, statement in enumerate(body):
        if not isinstance(statement, Instruction) or not (_arrives(statement) or _polls(statement)):
            continue
        workspace = _in_workspace(body) if workspace is None else workspace
        if not _is_of_barrier(statement, workspace, headers):
            continue
        value = Integer(_FLIPPED if statement.opcode == "ld" else 0)
        operands = (statement.operands[0], value)
        changed[n] = replace(statement, opcode="mov", modifiers=("u32",), operands=operands)
        if statement.opcode == "ld":
            for k in _barriers_after(body, n):
                changed[k] = _grid_sync(body[k])
    return tuple(changed)


def _arrives(i: Instruction) -> bool:
    return i.opcode == "atom" and "add" in i.modifiers and "u32" in i.modifiers


def _polls(i: Instruction) -> bool:
    """Whether it polls a word that other blocks write. In the scope of a block, the header polls the barrier of a
    tile."""
    if i.opcode != "ld" or i.modifiers[-1:] != ("u32",) or "cta" in i.modifiers:
        return False
    return not {"acquire", "volatile"}.isdisjoint(i.modifiers)


def _is_of_barrier(i: Instruction, workspace: set[str], headers: set[int]) -> bool:
    """Whether it accesses the workspace: by its address, or by its lines, as debug code keeps it in memory."""
    address = i.operands[1]
    if not isinstance(address, Address):
        return False
    known = isinstance(address.base, Register) and address.base.name in workspace
    return known or (i.loc is not None and any(place.file in headers for place in i.loc.chain))


def _in_workspace(body: tuple[Statement, ...]) -> set[str]:
    """The registers with addresses in the workspace."""
    found: set[str] = set()
    moves = [each for each in body if isinstance(each, Instruction) and each.opcode in _KEEPS]
    if not any(
        isinstance(operand, Special) and operand.name in (_LOW, _HIGH)
        for each in moves
        for operand in each.operands
    ):
        return found
    before = -1
    while len(found) != before:
        before = len(found)
        for each in moves:
            target, *sources = each.operands
            if isinstance(target, Register) and any(_leads_there(source, found) for source in sources):
                found.add(target.name)
    return found


def _leads_there(operand: Operand, found: set[str]) -> bool:
    if isinstance(operand, Vector):
        return any(_leads_there(element, found) for element in operand.elements)
    if isinstance(operand, Register):
        return operand.name in found
    return isinstance(operand, Special) and operand.name in (_LOW, _HIGH)


def _barriers_after(body: tuple[Statement, ...], start: int) -> Iterator[int]:
    """The barriers of the block that threads reach first after a statement, on any path."""
    labels = {each.name: n for n, each in enumerate(body) if isinstance(each, Label)}
    pending, seen = [start + 1], set()
    while pending:
        n = pending.pop()
        if n in seen or n >= len(body):
            continue
        seen.add(n)
        each = body[n]
        if _is_block_barrier(each):
            yield n
            continue
        if isinstance(each, Instruction) and each.opcode in ("bra", "brx"):
            pending += [labels[o.name] for o in each.operands if isinstance(o, Symbol) and o.name in labels]
        ends = isinstance(each, Instruction) and each.opcode in ("bra", "ret", "exit", "trap")
        if isinstance(each, Label) or not ends or each.guard is not None:
            pending.append(n + 1)


def _is_block_barrier(each: Statement) -> bool:
    if isinstance(each, Call):  # of a function of the header, in debug code
        return isinstance(each.target, Symbol) and "__barrier_sync" in each.target.name
    return (
        isinstance(each, Instruction)
        and each.opcode in ("bar", "barrier")
        and "sync" in each.modifiers
        and each.operands == (Integer(0),)
    )


def _grid_sync(barrier: Statement) -> Call:
    assert isinstance(barrier, Instruction | Call)
    return Call(barrier.line, Symbol(_GRID_SYNC), (), (), None, loc=barrier.loc)
