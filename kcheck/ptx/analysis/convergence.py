"""Whether lanes of a warp can reach a warp-level operation (``shfl.sync``, ``bar.warp.sync``) at different times.

A vector that holds the whole warp executes such an instruction at once, with the lanes that are active. That is
correct if all lanes named in the mask have arrived or never will. Lanes can arrive late for two reasons: a loop in
which they wait for another thread, and a branch whose two sides each have such an instruction, which PTX allows to
pair up. Only kernels with one of the two pay for waiting lanes.
"""

from __future__ import annotations

from collections.abc import Iterable

from kcheck.ptx.analysis import cfg as control
from kcheck.ptx.analysis.cfg import Cfg
from kcheck.ptx.analysis.spin import may_spin
from kcheck.ptx.syntax.ast import Call, Function, Instruction, Integer, Operation


def waits_for_lanes(operation: Operation) -> bool:
    """Whether it waits for the lanes named in a mask."""
    return not isinstance(operation, Call) and control.is_collective(operation) and "sync" in operation.modifiers


def may_come_apart(functions: Iterable[Function], file: str) -> bool:
    """Whether the lanes named in a mask may arrive at different times in these functions.

    Two instructions in different branches are not detected if one of them is in a called function.
    """
    graphs = [control.build(function, file) for function in functions]
    places = [_places(graph) for graph in graphs]
    if any(places) and any(may_spin(graph) for graph in graphs):
        return True
    return any(_in_branches(graph, blocks) for graph, blocks in zip(graphs, places, strict=True))


def _places(graph: Cfg) -> list[int]:
    return [n for n in graph.order if any(waits_for_lanes(o) for o in graph.blocks[n].operations)]


def _in_branches(graph: Cfg, blocks: list[int]) -> bool:
    """Whether, for two of the blocks, neither leads to the other, not counting later iterations of loops."""
    position = {n: k for k, n in enumerate(graph.order)}
    after: dict[int, set[int]] = {}
    for n in reversed(graph.order):
        after[n] = {n}
        for successor in graph.blocks[n].successors:
            if position.get(successor, -1) > position[n]:
                after[n] |= after[successor]
    return any(b not in after[a] for k, a in enumerate(blocks) for b in blocks[k + 1 :])


def meeting(operations: Iterable[Operation | None]) -> list[int]:
    """For each suspension point, the first one that it can pair up with: the same instruction, any registers.

    Args:
        operations: at the suspension points; None for a loop that may spin.

    Returns:
        The numbers of suspension points.
    """
    first: dict[object, int] = {}
    numbers = []
    for number, operation in enumerate(operations):
        key: object = number
        if isinstance(operation, Instruction) and waits_for_lanes(operation):
            value = operation.operands[1] if len(operation.operands) > 2 else None
            literals = tuple(isinstance(o, Integer) for o in operation.operands)
            key = (operation.opcode, operation.modifiers, literals, value if isinstance(value, Integer) else None)
        numbers.append(first.setdefault(key, number))
    return numbers
