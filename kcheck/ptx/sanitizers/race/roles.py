"""What racecheck knows about an access besides its place: facts of the control flow and the address that decide
which fix a race has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping

from kcheck.ptx.analysis.cfg import Cfg, build, is_barrier, postdominators
from kcheck.ptx.analysis.liveness import reads, writes
from kcheck.ptx.analysis.skips import control_dependence
from kcheck.ptx.program import AccessRole
from kcheck.ptx.runtime.copy_queue import is_copy
from kcheck.ptx.sanitizers.race.guards import testing_loads
from kcheck.ptx.sanitizers.race.updates import updating_loads
from kcheck.ptx.syntax.ast import Address, Call, Function, Instruction, Integer, Operation, Register, Special
from kcheck.ptx.syntax.opcodes import ATOMICS, COLLECTIVE, COPIES, LOADS, MEMORY, PRODUCTS, SUMS

_MOST_BLOCKS = 512
"""In a longer function, the paths between accesses are not known."""

_DISTINCT = COPIES | SUMS | PRODUCTS | {"or", "shl"}
"""Their results differ if one operand does and the others are the same; a quotient or a remainder may not."""

OWN, ONE, ANY = "own", "one", "any"


def roles(functions: Iterable[Function], file: str) -> dict[int, AccessRole]:
    """The role of each access to memory (by ``id``) of a kernel and what it calls."""
    functions = list(functions)
    tests, updates = testing_loads(functions, file), updating_loads(functions)
    found: dict[int, AccessRole] = {}
    for number, function in enumerate(functions):
        if function.body is None:
            continue
        cfg = build(function, file)
        branches, varying = _branches(cfg, _varies)
        reaches, elements = _reaches(cfg), _Elements(cfg)
        uneven, uneven_in_warp = _uneven(cfg, varying), _uneven(cfg, _branches(cfg, _varies_in_warp)[1])
        first = number * _MOST_BLOCKS
        looped = {n for loop in cfg.loops for n in loop.blocks}
        for n in cfg.order:
            for operation in cfg.blocks[n].operations:
                if isinstance(operation, Instruction) and (operation.opcode in MEMORY or is_copy(operation)):
                    found[id(operation)] = AccessRole(
                        tests=id(operation) in tests,
                        updates=id(operation) in updates,
                        element=elements.of(operation),
                        in_branch=n in branches,
                        in_loop=n in looped,
                        uneven=first + uneven[n] if n in uneven else -1,
                        uneven_in_warp=first + uneven_in_warp[n] if n in uneven_in_warp else -1,
                        block=first + n,
                        reaches=tuple(first + k for k in reaches.get(n, ())),
                    )
    return found


def _branches(cfg: Cfg, varies: Callable[[Operation, Collection[str]], bool]) -> tuple[set[int], Collection[str]]:
    """The basic blocks that some threads may skip while others execute them, and the registers that may differ
    between threads.

    An early return does not count: a barrier waits only for the threads that remain.

    Args:
        varies: whether the result of an operation may differ between threads, given the registers that do.
    """
    parent = postdominators(cfg)
    decided_by = control_dependence(cfg, parent)
    operations = [(n, operation) for n in cfg.order for operation in cfg.blocks[n].operations]
    setters = Counter(register.name for _, operation in operations for register in writes(operation))
    varying: set[str] = set()
    found: set[int] = set()
    before = -1
    while len(varying) + len(found) != before:
        before = len(varying) + len(found)
        for n, operation in operations:
            for register in writes(operation):
                if varies(operation, varying) or (n in found and setters[register.name] > 1):
                    varying.add(register.name)
        found |= {
            n for n in cfg.order if any(m in found or _parts(cfg, varying, parent, m) for m, _ in decided_by[n])
        }
    return found, varying


def _uneven(cfg: Cfg, varying: Collection[str]) -> dict[int, int]:
    """For each basic block in a loop that threads may leave at different iterations, the header of the outermost
    one; by a return, too."""
    found: dict[int, int] = {}
    for loop in sorted(cfg.loops, key=lambda loop: len(loop.blocks)):
        ends = ((cfg.blocks[n].terminator, cfg.blocks[n].successors) for n in loop.blocks)
        if any(
            end is not None
            and not loop.blocks.issuperset(successors)
            and any(register.name in varying for register in reads(end))
            for end, successors in ends
        ):
            found |= dict.fromkeys(loop.blocks, loop.header)
    return found


def _varies(operation: Operation, varying: Collection[str]) -> bool:
    """Whether the result of an operation may differ between the threads of a block. A load does if its address
    does."""
    if isinstance(operation, Call) or operation.opcode in ATOMICS or operation.opcode in COLLECTIVE:
        return True
    specials = (operand for operand in operation.operands if isinstance(operand, Special))
    return any(map(_is_of_thread, specials)) or any(register.name in varying for register in reads(operation))


def _varies_in_warp(operation: Operation, varying: Collection[str]) -> bool:
    """Whether it may differ between the lanes of a warp, in the usual blocks, whose rows are whole warps."""
    if isinstance(operation, Call) or operation.opcode in COLLECTIVE:
        return False
    if any(isinstance(operand, Special) and operand.name in _OF_WARP for operand in operation.operands):
        return False
    last = operation.operands[-1] if operation.operands else None
    if isinstance(last, Integer) and last.value >= _WHOLE_WARPS.get(operation.opcode, last.value + 1):
        return False
    return _varies(operation, varying)


_OF_WARP = {"tid.y", "tid.z", "warpid"}
_WHOLE_WARPS = {"shr": 5, "div": 32}
"""The least constant by which an index of a thread becomes the same for all lanes of a warp."""


def _is_of_thread(special: Special) -> bool:
    return special.name.startswith(("tid", "laneid", "lanemask", "warpid"))


def _parts(cfg: Cfg, varying: Collection[str], parent: Mapping[int, int], n: int) -> bool:
    """Whether the threads of a block may go different ways at the end of a basic block, and continue after it."""
    end, meets = cfg.blocks[n].terminator, parent[n]
    if end is None or not any(register.name in varying for register in reads(end)):
        return False
    return meets != -1 and not cfg.blocks[meets].only_leaves


def _reaches(cfg: Cfg) -> dict[int, tuple[int, ...]]:
    """By block, the blocks to which a path without a barrier of the block leads; nothing for a long function."""
    if len(cfg.order) > _MOST_BLOCKS:
        return {}
    found = {}
    for start in cfg.order:
        seen: set[int] = set()
        left = [start]
        while left:
            block = cfg.blocks[left.pop()]
            if block.terminator is not None and is_barrier(block.terminator):
                continue
            new = set(block.successors) - seen
            seen |= new
            left.extend(new)
        found[start] = tuple(sorted(seen))
    return found


class _Elements:
    """Which element an access uses: each thread its OWN, all threads ONE, or ANY, as with a loaded index."""

    def __init__(self, cfg: Cfg) -> None:
        self._setters: dict[str, list[Operation]] = {}
        for n in cfg.order:
            for operation in cfg.blocks[n].operations:
                for register in writes(operation):
                    self._setters.setdefault(register.name, []).append(operation)
        self._known: dict[str, str] = {}

    def of(self, access: Instruction) -> str:
        """The kind of element."""
        address = next((o for o in access.operands if isinstance(o, Address)), None)
        return self._operand(address.base) if address is not None else ANY

    def _operand(self, operand: object) -> str:
        if isinstance(operand, Special):
            return OWN if _is_of_thread(operand) else ONE
        return self._register(operand.name) if isinstance(operand, Register) else ONE

    def _register(self, name: str) -> str:
        if name not in self._known:
            self._known[name] = ONE  # in a loop, a register is computed from itself
            found = {self._result(operation) for operation in self._setters.get(name, ())}
            self._known[name] = ANY if ANY in found else OWN if OWN in found else ONE
        return self._known[name]

    def _result(self, operation: Operation) -> str:
        if not isinstance(operation, Instruction):
            return ANY
        if operation.opcode in LOADS:
            return ONE if "param" in operation.modifiers else ANY
        found = {self._operand(operand) for operand in operation.operands[1:]}
        if ANY in found or (OWN in found and operation.opcode not in _DISTINCT):
            return ANY
        return OWN if OWN in found else ONE
