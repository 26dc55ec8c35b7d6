"""A lowered kernel, and what its host needs to know about it: parameters, variables, sites."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from kcheck.alignment import ceil_div
from kcheck.dataclass import dataclass
from kcheck.model.coverage import CodePoint
from kcheck.model.launch_facts import NO_FACTS, LaunchFacts
from kcheck.ptx.abi import Checks
from kcheck.ptx.ir.module import LlvmModule
from kcheck.ptx.syntax.dwarf import DebugVariable

UNNAMED_LANE = 32
"""Added to the number of a lane that a shuffle reads although its mask does not name it, in a fault."""


@dataclass(frozen=True, slots=True)
class ParamSlot:
    """One kernel parameter: its place in the bytes at ``Launch.params``. Offset, size and align in bytes."""

    name: str
    offset: int
    size: int
    align: int


@dataclass(frozen=True, slots=True)
class AccessRole:
    """What an access does in its kernel, for the fix of a race.

    Attributes:
        tests: a plain load that only decides whether an atomic on the same word is tried.
        updates: a plain load of a word to which the same thread then stores a value computed from it.
        element: ``own`` if the address differs from thread to thread, ``one`` if it is the same for all threads of
            a block, ``any`` if neither is known, as for an index that is loaded.
        in_branch: some threads of the block may skip it.
        in_loop: it may execute several times.
        uneven, uneven_in_warp: the header of a loop around it that threads of a block, or lanes of a warp, may
            leave at different iterations; -1 if there is none.
        block: the basic block that it is in.
        reaches: the basic blocks to which a path without a barrier leads.
    """

    tests: bool = False
    updates: bool = False
    element: str = "any"
    in_branch: bool = False
    in_loop: bool = False
    uneven: int = -1
    uneven_in_warp: int = -1
    block: int = 0
    reaches: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Site:
    """One instruction that can fault.

    Attributes:
        line: of the instruction in the PTX text, from 1.
        text: the instruction.
        file, source_line, column: the innermost place in the user's source, from ``.loc``; the innermost one in
            a library if there is no other, ``""`` and zeros if the PTX has no line. ``column`` counts from 1, and
            is 0 if it is not known.
        space: ``global``, ``shared``, ``local``, ``const``, ``generic``, or ``""`` for no memory access.
        stack: (file, line, column) of the instruction and of each call that was inlined, innermost first; empty
            unless something was inlined.
        role: of a memory access; set only with racecheck.
        address: the address operand of a memory access, as text: two accesses with the same text on one line
            usually access the same element.
    """

    line: int
    text: str
    file: str
    source_line: int
    column: int
    space: str
    stack: tuple[tuple[str, int, int], ...] = ()
    role: AccessRole | None = None
    address: str = ""


@dataclass(frozen=True, slots=True)
class GlobalVariable:
    """A module-scope variable in device memory.

    Attributes:
        name: the symbol.
        space: ``global`` or ``const``.
        size, align: in bytes.
        initial: ``size`` bytes.
        relocations: (offset, symbol, addend): the 8 bytes at the offset must be set to the symbol's address plus
            the addend when the address is known.
        external: declared ``.extern``: it must be defined by another module.
    """

    name: str
    space: str
    size: int
    align: int
    initial: bytes
    relocations: tuple[tuple[int, str, int], ...] = ()
    external: bool = False


@dataclass(frozen=True, slots=True)
class SharedVariable:
    """A variable in shared memory: ``offset`` in the block's window, ``size`` in bytes (None: dynamic)."""

    symbol: str
    offset: int
    size: int | None


@dataclass(frozen=True, slots=True)
class PointerUse:
    """Which parameters the addresses of accesses are computed from: sets of their offsets in ``Launch.params``.

    Attributes:
        loads: a set for each plain load.
        stores: a set for each other access: stores and atomics.
    """

    loads: tuple[tuple[int, ...], ...] = ()
    stores: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class ValueNode:
    """The result of an instruction, as a function of parameters and the thread's indices.

    Attributes:
        opcode: that of the instruction, or ``param`` for the parameter at an offset.
        sources: for each, the number of another node, the name of an index (``tid.x``), or ``=`` and a constant.
    """

    opcode: str
    modifiers: tuple[str, ...]
    sources: tuple[int | str, ...]


@dataclass(frozen=True, slots=True)
class GlobalAccess:
    """An access to memory that is, or may be, global.

    Attributes:
        stores, reads: whether it stores, and whether it reads; an atomic does both.
        address: the number of a node, to which ``offset`` is added; -1 if unknown.
        size: in bytes.
        origins: the offsets of the parameters that the address is computed from; empty if unknown.
        guards: predicates (numbers of nodes), each with the value that it has if the access is made.
    """

    stores: bool
    reads: bool
    address: int
    offset: int
    size: int
    origins: tuple[int, ...]
    guards: tuple[tuple[int, bool], ...]


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """What is known about a kernel's accesses to global memory (:mod:`kcheck.ptx.sanitizers.memory_use`).

    Attributes:
        is_known: whether anything is known; then ``accesses`` has all accesses.
        values: the nodes, by number.
        reads: the groups of reads, by number: for each, the parameters (offsets) that their addresses come from.
        is_own: whether only these accesses can race.
        states: if all reads are of initialized memory: (no value is uninitialized; no stored value is).
    """

    is_known: bool = False
    values: tuple[ValueNode, ...] = ()
    accesses: tuple[GlobalAccess, ...] = ()
    reads: tuple[tuple[int, ...], ...] = ()
    is_own: bool = False
    states: tuple[bool, bool] = (False, False)

    def is_clean(self, defined: int) -> bool:
        """Whether no value is uninitialized. ``defined``: bits for the groups of reads of initialized memory."""
        return self.is_known and self.states[0] and defined == (1 << len(self.reads)) - 1


@dataclass(frozen=True, slots=True)
class SchedulerVariant:
    """Which code schedules the blocks of a kernel; all kernels of a variant are linked with the same module.

    Attributes:
        width: lanes per vector.
        race: racecheck is on.
        fresh: checks have something to do when a block begins.
    """

    width: int
    race: bool
    fresh: bool


@dataclass(frozen=True, slots=True)
class Program:
    """A lowered kernel.

    Attributes:
        ir: LLVM IR, to be linked with that of the scheduler (:func:`kcheck.ptx.compile.scheduler`).
        entry: the kernel's name.
        width: lanes per vector, 1 to 32.
        checks: what the code checks beyond memory and barriers.
        params, param_bytes: how ``Launch.params`` is laid out.
        globals: the names of the module's variables, in the order of the addresses at ``Launch.globals``.
        shared_bytes: static shared memory, in bytes, rounded to where dynamic shared memory starts.
        local_bytes: local memory of one thread.
        warp_state_bytes: of one vector of ``width`` lanes; ``block_state_bytes``: of the block itself.
        sites: by ``FaultRecord.site``.
        cooperative: has a grid barrier.
        prints: calls vprintf.
        shared: the variables in shared memory, by offset.
        local: those of the kernel in local memory; ``local_offset``: where the first lane's memory begins in the
            state of its vector.
        facts: what it does that decides how results are judged.
        pointers: with racecheck, the parameters that addresses depend on.
        fresh: whether sanitizers have something to do when a block begins.
        points: of ``Checks.cover``: the meaning of the bytes at ``Launch.coverage``.
        arrays: by site, the local array that the access refers to, from debug information.
    """

    ir: LlvmModule
    entry: str
    width: int
    checks: Checks
    params: tuple[ParamSlot, ...]
    param_bytes: int
    globals: tuple[str, ...]
    shared_bytes: int
    local_bytes: int
    warp_state_bytes: int
    block_state_bytes: int
    sites: tuple[Site, ...]
    cooperative: bool
    prints: bool
    shared: tuple[SharedVariable, ...] = ()
    local: tuple[SharedVariable, ...] = ()
    local_offset: int = 0
    facts: LaunchFacts = NO_FACTS
    points: tuple[CodePoint, ...] = ()
    pointers: PointerUse = PointerUse()
    fresh: bool = False
    arrays: Mapping[int, DebugVariable] = field(default_factory=dict)

    @property
    def scheduler(self) -> SchedulerVariant:
        """Which scheduler the code is linked with."""
        return SchedulerVariant(self.width, self.checks.race, self.fresh)

    def state_bytes(self, threads: int) -> int:
        """Bytes that ``Worker.state`` needs for a block of ``threads`` threads."""
        warps = ceil_div(threads, 32)
        return self.block_state_bytes + warps * (32 // self.width * self.warp_state_bytes + 3 * 4 * 32)
