"""Control flow: basic blocks, an order of them with every loop contiguous, postdominators.

A block ends at a branch, a return, a trap, or where a warp may have to wait (a barrier). Loops are found as
strongly connected components, nested: removing the edges into a component's header and searching again finds the
loops inside it. So every edge that goes back in the order leads to the header of a loop around its source, even
with irreducible control flow; there a loop has several entries, which :class:`Loop` records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field

from kcheck.dataclass import dataclass
from kcheck.errors import PtxError
from kcheck.ptx.syntax.ast import Call, Function, Instruction, Label, Operation, Symbol
from kcheck.ptx.syntax.grid_barrier import is_grid_barrier
from kcheck.ptx.syntax.opcodes import BARRIERS, COLLECTIVE, EXITS, RETURNS

_MAX_NESTING = 256


@dataclass(frozen=True, slots=True)
class BasicBlock:
    """Instructions that run one after another.

    Attributes:
        body: without the terminator.
        terminator: ``bra``, ``brx``, ``ret``, ``exit``, ``trap`` or a barrier, or None to fall through.
        successors: block numbers; for a guarded branch the target first, then the block that follows; for
            ``brx`` one for each target.
    """

    index: int
    body: tuple[Operation, ...]
    terminator: Operation | None
    successors: tuple[int, ...]

    @property
    def operations(self) -> tuple[Operation, ...]:
        """The body and the terminator."""
        return self.body if self.terminator is None else (*self.body, self.terminator)

    @property
    def only_leaves(self) -> bool:
        """Whether it ends the function for every lane that gets here, and does nothing else."""
        end = self.terminator
        if self.body or not isinstance(end, Instruction) or end.guard is not None:
            return False
        return end.opcode in EXITS


@dataclass(slots=True)
class Loop:
    """A loop: a set of block numbers; ``header`` comes first in the order."""

    header: int
    blocks: frozenset[int]
    single_entry: bool
    parent: int | None  # index of the loop around it


@dataclass(frozen=True, slots=True)
class Cfg:
    """The control flow of one function.

    Attributes:
        blocks: by number; only reachable blocks are in ``order``.
        order: block numbers, topological except for edges to loop headers, each loop contiguous.
        loops: outer loops before inner loops.
        predecessors: of reachable blocks.
    """

    blocks: tuple[BasicBlock, ...]
    order: tuple[int, ...]
    loops: tuple[Loop, ...]
    predecessors: Mapping[int, tuple[int, ...]] = field(default_factory=dict)


def is_barrier(operation: Operation) -> bool:
    """Whether threads wait there for others of their block or grid, so that a warp must be suspended."""
    if isinstance(operation, Call):
        return is_grid_barrier(operation)
    if operation.opcode in BARRIERS:
        return "arrive" not in operation.modifiers and "warp" not in operation.modifiers
    return False


def is_collective(operation: Operation) -> bool:
    """Whether the lanes of a warp cooperate there."""
    if isinstance(operation, Call):
        return False
    if operation.opcode in BARRIERS:
        return "warp" in operation.modifiers
    if operation.opcode == "wmma":  # its loads and stores are each lane's own
        return operation.modifiers[:1] == ("mma",)
    return operation.opcode in COLLECTIVE


def build(function: Function, file: str, waits: Callable[[Operation], bool] = is_barrier) -> Cfg:
    """The control flow of a function that has a body.

    Args:
        function: calls to functions with barriers are already inlined.
        file: for messages.
        waits: whether a vector of lanes may have to wait at an operation.

    Raises:
        PtxError: a branch to a missing label, or loops nested too deeply.
    """
    blocks = _split(function, file, waits)
    reachable = _reachable(blocks)
    order, loops = _order(blocks, reachable, function, file)
    predecessors: dict[int, list[int]] = {n: [] for n in order}
    for n in order:
        for s in blocks[n].successors:
            if n not in predecessors[s]:
                predecessors[s].append(n)
    return Cfg(blocks, order, loops, {n: tuple(p) for n, p in predecessors.items()})


def _split(function: Function, file: str, waits: Callable[[Operation], bool]) -> tuple[BasicBlock, ...]:
    assert function.body is not None
    bodies: list[list[Operation]] = [[]]
    terminators: list[Operation | None] = [None]
    labels: dict[str, int] = {}
    closed = False
    for statement in function.body:
        if isinstance(statement, Label) or closed:
            if bodies[-1] or closed:
                bodies.append([])
                terminators.append(None)
            closed = False
        if isinstance(statement, Label):
            labels[statement.name] = len(bodies) - 1
            continue
        ends = waits(statement)
        if isinstance(statement, Instruction):
            ends = ends or statement.opcode in ("bra", "brx") or statement.opcode in RETURNS
        if ends:
            terminators[-1] = statement
            closed = True
        else:
            bodies[-1].append(statement)
    if closed:
        bodies.append([])
        terminators.append(None)

    def place(name: str, line: int) -> int:
        if name not in labels:
            raise PtxError(f"no label {name} in {function.name}", file, line)
        return labels[name]

    blocks = []
    for n, (body, end) in enumerate(zip(bodies, terminators, strict=True)):
        after = (n + 1,) if n + 1 < len(bodies) else ()
        successors: tuple[int, ...] = after
        if isinstance(end, Instruction) and end.opcode == "bra":
            target = end.operands[0] if len(end.operands) == 1 else None
            if not isinstance(target, Symbol):
                raise PtxError("bra takes one label", file, end.line)
            taken = place(target.name, end.line)
            successors = (taken, *after) if end.guard is not None else (taken,)
        elif isinstance(end, Instruction) and end.opcode == "brx":
            table = end.operands[1] if len(end.operands) == 2 else None
            if not isinstance(table, Symbol) or table.name not in function.branch_targets:
                raise PtxError("brx.idx takes an index and the name of a .branchtargets", file, end.line)
            if end.guard is not None:
                raise PtxError("a guarded brx.idx is not supported", file, end.line)
            successors = tuple(place(name, end.line) for name in function.branch_targets[table.name])
        elif isinstance(end, Instruction) and end.opcode in RETURNS and end.guard is None:
            successors = ()
        blocks.append(BasicBlock(n, tuple(body), end, successors))
    return tuple(blocks)


def _reachable(blocks: Sequence[BasicBlock]) -> set[int]:
    seen = {0}
    stack = [0]
    while stack:
        for s in blocks[stack.pop()].successors:
            if s not in seen:
                seen.add(s)
                stack.append(s)
    return seen


def _order(
    blocks: Sequence[BasicBlock], reachable: set[int], function: Function, file: str
) -> tuple[tuple[int, ...], tuple[Loop, ...]]:
    """The order and the loops: components in topological order, each expanded in its place."""
    loops: list[Loop] = []
    order: list[int] = []
    before: dict[int, set[int]] = {n: set() for n in reachable}
    for n in reachable:
        for successor in blocks[n].successors:
            before[successor].add(n)
    # A task is a set of blocks with the headers whose incoming edges are cut, or one block to place.
    tasks: list[tuple[frozenset[int], frozenset[int], int | None, int]] = [
        (frozenset(reachable), frozenset(), None, 0)
    ]
    while tasks:
        members, cut, parent, depth = tasks.pop()
        components = _components(blocks, members, cut)
        pending: list[tuple[frozenset[int], frozenset[int], int | None, int]] = []
        for component in components:
            first = next(iter(component))
            if len(component) == 1 and (first in cut or first not in blocks[first].successors):
                if len(members) == 1:
                    order.append(first)
                else:
                    pending.append((component, cut | {first}, parent, depth))
                continue
            if depth >= _MAX_NESTING:
                raise PtxError(f"loops nested more than {_MAX_NESTING} deep", file, function.line)
            entries = sorted(n for n in component if n == 0 or not before[n] <= component)
            header = entries[0] if entries else min(component)
            loops.append(Loop(header, component, len(entries) <= 1, parent))
            pending.append((component, cut | {header}, len(loops) - 1, depth + 1))
        tasks.extend(reversed(pending))
    return tuple(order), tuple(loops)


def _components(
    blocks: Sequence[BasicBlock], members: frozenset[int], cut: frozenset[int]
) -> list[frozenset[int]]:
    """Strongly connected components in topological order (Tarjan 1972, without recursion).

    The successor of a block that is visited first comes last in the order, so the block after a guarded branch
    precedes the target if both orders are topological.
    """
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    on_stack: set[int] = set()
    stack: list[int] = []
    found: list[frozenset[int]] = []

    def next_of(n: int) -> Iterable[int]:
        return iter([s for s in blocks[n].successors if s in members and s not in cut])

    for root in sorted(members):
        if root in index:
            continue
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        work = [(root, iter(next_of(root)))]
        while work:
            node, successors = work[-1]
            descended = False
            for s in successors:
                if s not in index:
                    index[s] = low[s] = len(index)
                    stack.append(s)
                    on_stack.add(s)
                    work.append((s, iter(next_of(s))))
                    descended = True
                    break
                if s in on_stack:
                    low[node] = min(low[node], index[s])
            if descended:
                continue
            work.pop()
            if work:
                low[work[-1][0]] = min(low[work[-1][0]], low[node])
            if low[node] == index[node]:
                component = set()
                while True:
                    member = stack.pop()
                    on_stack.discard(member)
                    component.add(member)
                    if member == node:
                        break
                found.append(frozenset(component))
    found.reverse()
    return found


def postdominators(cfg: Cfg) -> dict[int, int]:
    """The immediate postdominator of each reachable block; -1 is the exit (Cooper, Harvey, Kennedy 2001).

    A block that cannot reach an exit (an endless loop) counts as having an edge to the exit.
    """
    leaves = {n for n in cfg.order if not cfg.blocks[n].successors or _may_leave(cfg.blocks[n])}
    back = cfg.predecessors
    reaches: set[int] = set()
    while True:
        stack = [n for n in leaves if n not in reaches]
        reaches.update(stack)
        while stack:
            for p in back[stack.pop()]:
                if p not in reaches:
                    reaches.add(p)
                    stack.append(p)
        missing = [n for n in cfg.order if n not in reaches]
        if not missing:
            break
        leaves.add(missing[-1])
    # Reverse postorder of the reversed graph, from the exit.
    number: dict[int, int] = {}
    seen: set[int] = set()
    postorder: list[int] = []
    for leaf in sorted(leaves):
        if leaf in seen:
            continue
        seen.add(leaf)
        work = [(leaf, iter(back[leaf]))]
        while work:
            node, befores = work[-1]
            for p in befores:
                if p not in seen:
                    seen.add(p)
                    work.append((p, iter(back[p])))
                    break
            else:
                work.pop()
                postorder.append(node)
    rpo = list(reversed(postorder))
    number = {n: i + 1 for i, n in enumerate(rpo)}
    number[-1] = 0
    parent: dict[int, int] = {-1: -1}

    def meet(a: int, b: int) -> int:
        while a != b:
            while number[a] > number[b]:
                a = parent[a]
            while number[b] > number[a]:
                b = parent[b]
        return a

    changed = True
    while changed:
        changed = False
        for n in rpo:
            after = [s for s in cfg.blocks[n].successors if s in parent]
            if n in leaves:
                after.append(-1)
            best = after[0]
            for s in after[1:]:
                best = meet(best, s)
            if parent.get(n) != best:
                parent[n] = best
                changed = True
    del parent[-1]
    return parent


def _may_leave(block: BasicBlock) -> bool:
    """Whether threads may leave the function here, even if others continue (a guarded return)."""
    end = block.terminator
    return isinstance(end, Instruction) and end.opcode in RETURNS


def divided(cfg: Cfg, block: int, after: Mapping[int, int]) -> set[int]:
    """The blocks that threads may execute after a branch before they meet again.

    Args:
        block: the one that the branch ends.
        after: of :func:`postdominators`.
    """
    end = after.get(block, -1)
    found: set[int] = set()
    pending = [s for s in cfg.blocks[block].successors if s != end]
    while pending:
        n = pending.pop()
        if n not in found:
            found.add(n)
            pending.extend(s for s in cfg.blocks[n].successors if s != end)
    return found
