"""Decides before a launch, from its parameters and the state of memory, which checks cannot report anything.

A launch that can neither race nor read an uninitialized value runs code without racecheck and initcheck, with the
same result: no finding. As elsewhere in racecheck, an access is assumed to be in the allocations that the
parameters in its address point to; an index from there into another live allocation is not detected.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from kcheck.cpu.memory import Memory, MemoryBlock
from kcheck.cpu.thread_values import ThreadValues
from kcheck.dataclass import dataclass
from kcheck.model import Index3
from kcheck.ptx.abi import Checks
from kcheck.ptx.program import GlobalAccess, MemoryUse


@dataclass(frozen=True, slots=True)
class NeededChecks:
    """The checks of a launch.

    Attributes:
        checks: those that may find something.
        defined: bits for the groups of reads (:class:`MemoryUse`) that are of initialized memory.
        is_clean: whether no value can be uninitialized, so that initcheck only records what is written.
        keeps: whether initcheck's record of memory stays valid although ``checks`` lacks initcheck.
        changed: the allocations that the launch may store to; None: any.
    """

    checks: Checks
    defined: int = 0
    is_clean: bool = False
    keeps: bool = False
    changed: frozenset[MemoryBlock] | None = None


NO_CHECKS = Checks()
NOTHING_NEEDED = NeededChecks(NO_CHECKS)


class LaunchMemory:
    """The memory that a launch accesses.

    Attributes:
        stored: the allocations that the launch may store to; None if they are not known.
    """

    def __init__(self, memory: Memory, use: MemoryUse, params: bytes) -> None:
        self._memory = memory
        self._use = use
        self._params = params
        self.stored = self._stored()

    def blocks(self, origins: Iterable[int]) -> set[MemoryBlock]:
        """The allocations that parameters point to."""
        words = (int.from_bytes(self._params[at : at + 8], "little") for at in origins)
        return {block for word in words if (block := self._memory.find(word)) is not None}

    def _stored(self) -> frozenset[MemoryBlock] | None:
        found: set[MemoryBlock] = set()
        for origins in {access.origins for access in self._use.accesses if access.stores}:
            blocks = self.blocks(origins)
            if not blocks:
                return None
            found |= blocks
        return frozenset(found)

    def can_race(self, grid: Index3, block: Index3) -> bool:
        """Whether two threads may access the same byte, at least one of them with a store."""
        use, changed = self._use, self.stored
        if not use.is_own or changed is None:
            return True
        touching: dict[MemoryBlock, list[GlobalAccess]] = {one: [] for one in changed}
        for access in use.accesses:
            blocks = self.blocks(access.origins)
            if not blocks or (access.stores and access.reads):
                return True
            for one in blocks & changed:
                touching[one].append(access)
        values = ThreadValues(use, self._params, grid, block)
        return not all(map(values.stores_apart, touching.values()))

    def defined_reads(self) -> int:
        """Bits for the groups of reads whose memory is initialized and stays initialized."""
        found = [self.blocks(origins) for origins in self._use.reads]
        bits = sum(
            1 << n for n, blocks in enumerate(found) if blocks and all(map(self._memory.is_defined, blocks))
        )
        everything = (1 << len(found)) - 1
        if bits == everything and self._use.states[1]:
            return bits  # nothing uninitialized is stored anywhere
        changed = self.stored
        if changed is None:
            return 0
        return sum(1 << n for n, blocks in enumerate(found) if bits >> n & 1 and blocks.isdisjoint(changed))

    def stores_to_defined(self) -> bool:
        """Whether all stores are to memory that is known to be initialized."""
        changed = self.stored
        return changed is not None and all(map(self._memory.is_defined, changed))


class CheckChooser:
    """Decides which checks launches need.

    Args:
        memory: the memory of the device.
    """

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._last: tuple[tuple[object, ...], bool] | None = None

    def needed(self, checks: Checks, use: MemoryUse, params: bytes, grid: Index3, block: Index3) -> NeededChecks:
        """The checks that a launch with these parameters needs."""
        if checks is NO_CHECKS:
            return NOTHING_NEEDED
        if not use.is_known or not (checks.race or checks.init):
            return NeededChecks(checks)
        launch = LaunchMemory(self._memory, use, params)
        if checks.race:
            key = (use, params, grid, block, self._memory.table()[0])
            if self._last is None or not _same(self._last[0], key):
                self._last = key, launch.can_race(grid, block)
            checks = replace(checks, race=self._last[1])
        if not checks.init:
            return NeededChecks(checks)
        defined = launch.defined_reads()
        is_clean = use.is_clean(defined)
        if is_clean and launch.stores_to_defined():
            return NeededChecks(replace(checks, init=False), keeps=True, changed=frozenset())
        return NeededChecks(checks, defined, is_clean, changed=launch.stored)

    def expected(self, checks: Checks, use: MemoryUse) -> NeededChecks:
        """The checks that most launches need: their threads store to different elements, and their arrays are
        initialized unless the kernel stores to them."""
        if not use.is_known:
            return NeededChecks(checks)
        stored = {origin for access in use.accesses if access.stores for origin in access.origins}
        changed = [access for access in use.accesses if access.stores or not stored.isdisjoint(access.origins)]
        is_apart = use.is_own and all(a.address >= 0 and a.stores != a.reads for a in changed)
        if not checks.init:
            return NeededChecks(replace(checks, race=checks.race and not is_apart))
        groups = enumerate(use.reads)
        defined = sum(1 << n for n, origins in groups if stored.isdisjoint(origins))
        return NeededChecks(replace(checks, race=checks.race and not is_apart), defined, use.is_clean(defined))


def _same(x: tuple[object, ...], y: tuple[object, ...]) -> bool:
    return all(a is b or (isinstance(a, bytes | tuple) and a == b) for a, b in zip(x, y, strict=True))
