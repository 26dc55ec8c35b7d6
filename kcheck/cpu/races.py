"""The host side of racecheck: its memory, and the races of a launch as findings."""

from __future__ import annotations

import bisect
import ctypes
import functools
import math
import mmap
import operator
from dataclasses import replace

from kcheck.alignment import align_up
from kcheck.cpu.clocks import Clocks
from kcheck.cpu.faults import place, stack
from kcheck.cpu.memory import Memory, OutOfMemory
from kcheck.cpu.naming import Naming
from kcheck.cpu.race_report import (
    ENDINGS,
    ERRORS,
    LENIENT,
    RaceSide,
    fix_of,
    kind_of,
    line,
    place_of,
    unravel,
    value_of,
    weight_of,
)
from kcheck.model import Finding, Index3
from kcheck.ptx.abi import RESERVED, RESERVED_BYTES
from kcheck.ptx.program import PointerUse, Program
from kcheck.ptx.sanitizers.race.layout import (
    INFLIGHT,
    LAST_STAMP,
    RECORDS,
    BlockStart,
    Race,
    RaceState,
)
from kcheck.ptx.syntax.symbols import kernel_name

RACES = 256
"""The most kinds of races that are recorded for one launch."""
_BLOCKS = 1 << 24  # the most blocks of a launch; their records are only address space until they run
_WINDOW_LEAST = 16 << 20
_RENEW = LAST_STAMP // 2  # a launch that begins after this stamp resets the counter
_LARGE = 1 << 32  # windows beyond this size, in which few pages are used, are not rounded up to powers of two
_PAD = 4096  # a vector that begins inside a window may end outside it
_MAP_NORESERVE = 0x4000  # Linux: reserve address space only; pages are committed on first use
_MADV_NOHUGEPAGE = 15  # Linux: a huge page for each row of an array would take 2 MiB


class _Shadow:
    """Stamps and infos of a window of memory, in separate arrays for each record."""

    def __init__(self) -> None:
        self.window = 0
        self._pages: mmap.mmap | None = None
        self._region = 0
        self._base = 0

    def reserve(self, window: int) -> None:
        """Reserve records for ``window`` bytes, in granules of one byte; raises OSError if that fails."""
        if window <= self.window:
            return
        power = 1 << (window - 1).bit_length()
        self.window = max(power if window <= _LARGE else align_up(window, _LARGE), _WINDOW_LEAST)
        self.renew()

    def renew(self) -> None:
        """Discard all records."""
        self._pages = None
        self._region = 4 * self.window + _PAD
        self._pages = reserve_pages(2 * RECORDS * self._region)
        if self.window > _LARGE:
            self._pages.madvise(_MADV_NOHUGEPAGE)
        self._base = ctypes.addressof(ctypes.c_char.from_buffer(self._pages))

    def stamps(self) -> list[int]:
        return [self._base + record * self._region for record in range(RECORDS)]

    def infos(self) -> list[int]:
        return [self._base + (RECORDS + record) * self._region for record in range(RECORDS)]


def reserve_pages(size: int) -> mmap.mmap:
    """Zeroed pages that use memory only when they are first accessed."""
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE)


_TELL = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32, *[ctypes.c_int64] * 4)


class Races:
    """State of racecheck between launches. Launches run one at a time, and their blocks one after another.

    Args:
        memory: the memory that is checked. Registered host memory is outside it and is not checked.
    """

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._global, self._shared = _Shadow(), _Shadow()
        self._state = RaceState()
        self._state.now = 1
        self._races = (Race * RACES)()
        self._lanes, self._met_lanes = ((ctypes.c_uint32 * 32**3)() for _ in range(2))
        self._clocks = Clocks(self._state, self._lanes)
        self._fault: BaseException | None = None
        self._tell = _TELL(self._told)  # kept alive while code may call it
        self._state.tell = ctypes.cast(self._tell, ctypes.c_void_p).value or 0
        self._starts: mmap.mmap | None = None
        self._released = 0

    def begin(self, program: Program, shared: int, params: bytes, replicates: bool) -> int:
        """:meth:`prepare` for a launch of a program, given the bytes of its parameters; 0 without racecheck.

        Raises:
            OutOfMemory: the address space is used up.
        """
        if not program.checks.race:
            return 0
        address = self.prepare(shared, replicates=replicates)
        self._state.unchanged = self._unchanged(program.pointers, params)
        return address

    def prepare(self, shared: int, *, replicates: bool = False) -> int:
        """Begin a launch with this many bytes of shared memory; returns the address for ``Launch.race``.

        Args:
            replicates: whether one instruction may store copies of a value in several lanes of a warp.

        Raises:
            OutOfMemory: the address space is used up.
        """
        state = self._state
        base, size = self._memory.reach()
        try:
            if self._released != self._memory.released:  # the records of those rows would take memory forever
                self._released = self._memory.released
                self._global = _Shadow()
            size = self._reserve_records(size)
            self._shared.reserve(shared)
            self._starts = self._starts or reserve_pages(_BLOCKS * ctypes.sizeof(BlockStart))
        except OSError as fault:
            raise OutOfMemory(size) from fault
        if state.now >= _RENEW:
            self._global.renew()
            self._shared.renew()
            for times in (self._lanes, self._met_lanes, state.synced, state.met):
                ctypes.memset(ctypes.addressof(times), 0, ctypes.sizeof(times))
            state.now = 1
        state.now += 1
        state.replicates = replicates
        state.unchanged = 0
        state.launch = state.start = state.barrier = state.now
        state.global_base, state.global_size, state.shared_size = base, size, shared
        for name, shadow in (("global", self._global), ("shared", self._shared)):
            getattr(state, f"{name}_stamps")[:] = shadow.stamps()
            getattr(state, f"{name}_infos")[:] = shadow.infos()
        state.blocks = ctypes.addressof(ctypes.c_char.from_buffer(self._starts))
        state.block_capacity, state.block_count = _BLOCKS, 0
        state.races, state.race_capacity = ctypes.addressof(self._races), RACES
        state.race_count = state.races_dropped = state.unchanged_dropped = state.counted = 0
        state.lanes, state.met_lanes = ctypes.addressof(self._lanes), ctypes.addressof(self._met_lanes)
        self._clocks.reset()
        return ctypes.addressof(state)

    def _reserve_records(self, size: int) -> int:
        """Reserve records for device memory; returns the bytes from its start that have some. If they all would
        take more address space than is available, arrays whose rows lie far apart have none."""
        try:
            self._global.reserve(size)
        except OSError:
            size = self._memory.before_reserved()
            self._global = _Shadow()
            self._global.reserve(size)
        return size

    def _unchanged(self, pointers: PointerUse, params: bytes) -> int:
        """As bits, the groups of loads from memory that no store of the launch can reach."""

        def blocks(offsets: tuple[int, ...]) -> set[int]:
            words = (int.from_bytes(params[at : at + 8], "little") for at in offsets)
            return {block.base for word in words if (block := self._memory.find(word)) is not None}

        changed = [blocks(offsets) for offsets in pointers.stores]
        if not all(changed):
            return 0
        every = set().union(*changed)
        read = map(blocks, pointers.loads)
        return sum(1 << number for number, found in enumerate(read) if found and found.isdisjoint(every))

    def grid_barrier(self) -> None:
        """Called when all blocks are at a grid barrier, which orders all accesses before and after it."""
        self._state.now += 1
        self._state.launch = self._state.now
        self._clocks.reset()

    def _told(self, event: int, a: int, b: int, c: int, d: int) -> int:
        try:
            return self._clocks.tell(event, a, b, c, d)
        except Exception as fault:  # exceptions cannot pass through machine code; findings() raises it
            self._fault = self._fault or fault
            return 1

    def findings(
        self, program: Program, grid: Index3, block: Index3, naming: Naming, *, cooperative: bool
    ) -> list[Finding]:
        """One finding for each pair of lines and array: the first race seen, with the number of similar ones.

        Args:
            grid, block: of the launch, in blocks and threads.
            naming: the names of the launch's arrays.
            cooperative: whether the launch allows grid barriers.
        """
        if self._fault is not None:
            fault, self._fault = self._fault, None
            raise fault
        pairs: dict[tuple[object, ...], list[Race]] = {}
        reserved = RESERVED_BYTES if any(variable.symbol == RESERVED for variable in program.shared) else 0
        for race in self._races[: self._state.race_count]:
            if not race.base and race.address - naming.window(race.address)[0] < reserved:
                continue  # of CUDA's own code
            lines = sorted(line(number, program.sites) for number in (race.site, race.other_site))
            pairs.setdefault((*lines, race.base), []).append(race)
        found = []
        for races in pairs.values():
            for race in races:
                race.lacks = functools.reduce(operator.and_, (r.lacks for r in races))
                race.across = max(r.across for r in races)
            made = [self._finding(race, program, grid, block, naming, cooperative) for race in races]
            found.append(replace(max(made, key=weight_of), count=sum(race.count for race in races)))
        if self._state.now >= LAST_STAMP:
            message = "stopped checking this launch after 4 billion synchronizations"
            found.append(Finding("racecheck", message, "warn", kernel=kernel_name(program.entry)))
        if self._state.counted:
            message = "a barrier for part of the block is treated as one for all of it: a race may be missed"
            found.append(Finding("racecheck", message, "warn", kernel=kernel_name(program.entry)))
        for dropped, is_error in ((self._state.races_dropped, True), (self._state.unchanged_dropped, False)):
            if dropped:
                message = f"{dropped:,} more race{'s' if dropped != 1 else ''} on other lines"
                more = Finding("racecheck", message, kernel=kernel_name(program.entry))
                found.append(more if is_error else replace(more, severity="warn", lenient=True))
        return found

    def _finding(
        self, race: Race, program: Program, grid: Index3, block: Index3, naming: Naming, cooperative: bool
    ) -> Finding:
        last = RaceSide(race.thread, race.block, race.site, program.sites)
        first = RaceSide(race.other_thread, self._block_at(race), race.other_site, program.sites)
        # Which came first is chance: a writer is reported before a reader. A copy that is not complete came first.
        filling = race.record == INFLIGHT
        here, other = (first, last) if last.verb == "reads" and not filling else (last, first)
        array, index, where, dtype = place_of(race, here.described, naming)
        who = self._who(race, here, other, grid, block)
        what, seen = here.verb, "is still copying to" if filling else other.verb
        value = "" if filling else value_of(race, last, dtype)
        if value and last is here:
            what += f" {value} to"
        elif value:
            seen += f" as {value}"
        message = f"{what} {where}, which {who} {seen}"
        kind = kind_of(race, here, other)
        small = math.prod(block) <= 32
        words = naming.words(place(here.described))
        fix = fix_of(kind, race, here, other, words, is_one_warp=small, cooperative=cooperative)
        if kind == "copies":
            # Changing the source cannot remove it, so it names no element.
            message = (
                "threads store copies of one value that differ, perhaps in the last bits; "
                "which one stays depends on the hardware"
            )
        return Finding(
            "racecheck",
            message + ENDINGS.get(kind, ""),
            severity="error" if kind in ERRORS else "warn",
            lenient=kind in LENIENT,
            note=kind == "copies",
            fix=fix,
            array=array,
            index=index,
            kernel=kernel_name(program.entry),
            block=None if here.block is None else unravel(here.block, grid),
            thread=here.index(block),
            other=None if other.block is None else (unravel(other.block, grid), other.index(block)),
            place=place(here.described),
            other_place=place(other.described),
            count=race.count,
            stack=stack(here.described),
        )

    def _who(self, race: Race, here: RaceSide, other: RaceSide, grid: Index3, block: Index3) -> str:
        """The thread of the other access; in Triton the other program, or the part of the same program."""
        where = "(unknown)" if other.block is None else unravel(other.block, grid)
        if self._state.replicates:
            same_warp = here.thread >> 5 == other.thread >> 5
            inside = f"another {'thread' if same_warp else 'warp'} of the program"
            return inside if race.is_near else f"program {where}"
        return f"thread {other.index(block)}" + ("" if race.is_near else f" of block {where}")

    def _block_at(self, race: Race) -> int | None:
        """The block that ran at the time of the other access; None if it is unknown."""
        if race.is_near:
            return int(race.block)
        count = min(self._state.block_count, _BLOCKS)
        starts = (BlockStart * count).from_address(self._state.blocks)
        n = bisect.bisect_right(starts, race.other_stamp, key=lambda entry: entry.stamp) - 1
        return starts[n].block if n >= 0 and self._state.block_count <= _BLOCKS else None
