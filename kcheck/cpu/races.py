"""The host's side of racecheck: the memory it needs, and the races of a launch as findings."""

from __future__ import annotations

import bisect
import ctypes
import math
import mmap
import struct
from dataclasses import dataclass, replace

from kcheck.cpu.clocks import Clocks
from kcheck.cpu.faults import place, stack
from kcheck.cpu.memory import Memory, OutOfMemory
from kcheck.cpu.naming import Naming
from kcheck.model import Finding, Index3
from kcheck.ptx.program import Program, Site
from kcheck.ptx.sanitizers.race.layout import (
    INFLIGHT,
    LAST_STAMP,
    RECORDS,
    REPLICATED,
    SAME_VALUE,
    SITE_MASK,
    UNCHANGED,
    BlockStart,
    Race,
    RaceState,
)
from kcheck.ptx.syntax.symbols import ITEMSIZES, TYPE_CODES, kernel_name

RACES = 256
"""The most kinds of races kept for one launch."""
_BLOCKS = 1 << 24  # the most in a launch; only address space until they run
_WINDOW_LEAST = 16 << 20
_RENEW = LAST_STAMP // 2  # stamps: beyond this a launch resets the counter
_PAD = 4096  # a vector that begins inside a window may end outside it
_MAP_NORESERVE = 0x4000  # Linux: address space only, memory comes with the first touch
SHARED = "shared"
"""The array of a race in shared memory, as ``allow_races`` names it."""


class _Shadow:
    """Stamps and infos of a window of memory, in separate arrays for each record."""

    def __init__(self) -> None:
        self.window = 0
        self._pages: mmap.mmap | None = None
        self._region = 0
        self._base = 0

    def reserve(self, window: int) -> None:
        """Make room for ``window`` bytes, in granules of one byte; raises OSError if that fails."""
        if window <= self.window:
            return
        self.window = max(1 << (window - 1).bit_length(), _WINDOW_LEAST)
        self.renew()

    def renew(self) -> None:
        """Forget everything."""
        self._pages = None
        self._region = 4 * self.window + _PAD
        self._pages = reserve_pages(2 * RECORDS * self._region)
        self._base = ctypes.addressof(ctypes.c_char.from_buffer(self._pages))

    def stamps(self) -> list[int]:
        return [self._base + record * self._region for record in range(RECORDS)]

    def infos(self) -> list[int]:
        return [self._base + (RECORDS + record) * self._region for record in range(RECORDS)]


def reserve_pages(size: int) -> mmap.mmap:
    """Zeroed pages that take memory only where they are touched."""
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE)


_TELL = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32, *[ctypes.c_int64] * 4)


class Races:
    """State of racecheck between launches. Launches run one at a time, and their blocks one after another.

    Args:
        memory: whose arrays are watched. Registered host memory is elsewhere and is not watched.
    """

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._global, self._shared = _Shadow(), _Shadow()
        self._state = RaceState()
        self._state.now = 1
        self._races = (Race * RACES)()
        self._lanes = (ctypes.c_uint32 * 32**3)()
        self._clocks = Clocks(self._state, self._lanes)
        self._fault: BaseException | None = None
        self._tell = _TELL(self._told)  # kept alive while code may call it
        self._state.tell = ctypes.cast(self._tell, ctypes.c_void_p).value or 0
        self._starts: mmap.mmap | None = None

    def prepare(self, shared: int, *, replicates: bool = False) -> int:
        """Begin a launch with this many bytes of shared memory; returns the address for ``Launch.race``.

        Args:
            replicates: lanes of a warp may store copies of one value by one instruction.

        Raises:
            OutOfMemory: the address space is used up.
        """
        state = self._state
        base, size = self._memory.reach()
        try:
            self._global.reserve(size)
            self._shared.reserve(shared)
            self._starts = self._starts or reserve_pages(_BLOCKS * ctypes.sizeof(BlockStart))
        except OSError as fault:
            raise OutOfMemory(size) from fault
        if state.now >= _RENEW:
            self._global.renew()
            self._shared.renew()
            ctypes.memset(self._lanes, 0, ctypes.sizeof(self._lanes))
            ctypes.memset(ctypes.addressof(state.synced), 0, ctypes.sizeof(state.synced))
            state.now = 1
        state.now += 1
        state.replicates = replicates
        state.launch = state.start = state.barrier = state.now
        state.global_base, state.global_size, state.shared_size = base, size, shared
        for name, shadow in (("global", self._global), ("shared", self._shared)):
            getattr(state, f"{name}_stamps")[:] = shadow.stamps()
            getattr(state, f"{name}_infos")[:] = shadow.infos()
        state.blocks = ctypes.addressof(ctypes.c_char.from_buffer(self._starts))
        state.block_capacity, state.block_count = _BLOCKS, 0
        state.races, state.race_capacity = ctypes.addressof(self._races), RACES
        state.race_count = state.races_dropped = state.counted = 0
        state.lanes = ctypes.addressof(self._lanes)
        self._clocks.reset()
        return ctypes.addressof(state)

    def grid_barrier(self) -> None:
        """Every block is at a grid barrier: everything before it is ordered with everything after it."""
        self._state.now += 1
        self._state.launch = self._state.now
        self._clocks.reset()

    def _told(self, event: int, a: int, b: int, c: int, d: int) -> int:
        try:
            return self._clocks.tell(event, a, b, c, d)
        except Exception as fault:  # exceptions cannot pass through machine code; findings() raises it
            self._fault = self._fault or fault
            return 1

    def findings(self, program: Program, grid: Index3, block: Index3, naming: Naming) -> list[Finding]:
        """One finding for each pair of lines and array: the first race seen, with the number of similar ones.

        Args:
            grid, block: of the launch, in blocks and threads.
            naming: the launch's names of its arrays.
        """
        if self._fault is not None:
            fault, self._fault = self._fault, None
            raise fault
        told: dict[tuple[object, ...], Finding] = {}
        for race in self._races[: self._state.race_count]:
            finding = self._finding(race, program, grid, block, naming)
            key = (*sorted(line(number, program.sites) for number in (race.site, race.other_site)), race.base)
            known = told.get(key)
            if known is None:
                told[key] = finding
            else:
                first = known if _weight(known) >= _weight(finding) else finding
                told[key] = replace(first, count=known.count + finding.count)
        found = list(told.values())
        if self._state.now >= LAST_STAMP:
            message = "gave up within this launch, after 4 billion synchronizations"
            found.append(Finding("racecheck", message, "warn", kernel=kernel_name(program.entry)))
        if self._state.counted:
            message = "a barrier for part of the block is treated as one for all of it: a race may be missed"
            found.append(Finding("racecheck", message, "warn", kernel=kernel_name(program.entry)))
        if self._state.races_dropped:
            dropped = self._state.races_dropped
            message = f"{dropped:,} more race{'s' if dropped != 1 else ''} on other lines"
            found.append(Finding("racecheck", message, kernel=kernel_name(program.entry)))
        return found

    def _finding(self, race: Race, program: Program, grid: Index3, block: Index3, naming: Naming) -> Finding:
        last = _Side(race.thread, race.block, race.site, program.sites)
        first = _Side(race.other_thread, self._block_at(race), race.other_site, program.sites)
        # Which came first is chance: a writer is reported before a reader. A copy that is not complete came first.
        filling = race.record == INFLIGHT
        here, other = (first, last) if last.verb == "reads" and not filling else (last, first)
        array, index, where, dtype = _where(race, here.described, naming)
        who = self._who(race, here, other, grid, block)
        what, seen = here.verb, "is still copying to" if filling else other.verb
        value = "" if filling else _value(race, last, dtype)
        if value and last is here:
            what += f" {value} to"
        elif value:
            seen += f" as {value}"
        message = f"{what} {where}, which {who} {seen}"
        kind = _kind(race, here, other)
        fix = _FIXES[kind] if kind in _FIXES else _fix(race, here, other, is_one_warp=math.prod(block) <= 32)
        if kind == "copies":
            message = _COPIES
        return Finding(
            "racecheck",
            message + _ENDINGS.get(kind, ""),
            severity="error" if kind in ("race", "filling") else "warn",
            lenient=kind in ("unchanged", "test"),
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

    def _who(self, race: Race, here: _Side, other: _Side, grid: Index3, block: Index3) -> str:
        """The thread of the other access; in code of Triton the program, or the part of the same one."""
        where = "(unknown)" if other.block is None else unravel(other.block, grid)
        if self._state.replicates:
            same_warp = here.thread >> 5 == other.thread >> 5
            inside = f"another {'thread' if same_warp else 'warp'} of the program"
            return inside if race.is_near else f"program {where}"
        return f"thread {other.index(block)}" + ("" if race.is_near else f" of block {where}")

    def _block_at(self, race: Race) -> int | None:
        """The block that ran at the other access's time."""
        if race.is_near:
            return int(race.block)
        count = min(self._state.block_count, _BLOCKS)
        starts = (BlockStart * count).from_address(self._state.blocks)
        n = bisect.bisect_right(starts, race.other_stamp, key=lambda entry: entry.stamp) - 1
        return starts[n].block if n >= 0 and self._state.block_count <= _BLOCKS else None


@dataclass(frozen=True, slots=True)
class _Side:
    """One of the two accesses: thread and block as numbers, None for an unknown block."""

    thread: int
    block: int | None
    site: int
    sites: tuple[Site, ...]

    def index(self, extent: Index3) -> Index3:
        """The thread in its block."""
        return unravel(self.thread, extent)

    @property
    def described(self) -> Site | None:
        return self.sites[self.site] if self.site < min(len(self.sites), SITE_MASK) else None

    @property
    def verb(self) -> str:
        described = self.described
        if described is not None and described.text.startswith("wmma.store"):
            return "writes"
        return _VERBS[mnemonic(self.site, self.sites)]


_VERBS = {
    "ld": "reads",
    "ldu": "reads",
    "ldmatrix": "reads",
    "wmma": "reads",
    "tex": "reads",
    "tld4": "reads",
    "suld": "reads",
    "sust": "writes",
    "cp": "copies to",
    "mbarrier": "updates",
    "st": "writes",
    "atom": "updates",
    "red": "updates",
    "": "accesses",
}


def _where(race: Race, site: Site | None, naming: Naming) -> tuple[str | None, tuple[int, ...] | None, str, str]:
    """The array, ``shared`` for shared memory, None if it has no name; the index; both in words; the dtype."""
    if race.base:
        label = naming.array(site, race.address)
        return *naming.told_global(site, race.address), label.dtype if label is not None else ""
    label = naming.shared(site, race.address)
    return SHARED, None, naming.told_shared(site, race.address), label.dtype if label is not None else ""


def _value(race: Race, last: _Side, dtype: str) -> str:
    """What the later access wrote or read, as the array's dtype, otherwise as its instruction's type; empty if
    neither is known."""
    site = last.described
    if site is None or not (race.is_write if last.verb == "writes" else last.verb == "reads"):
        return ""
    kind = site.text.rpartition(".")[2]
    if ITEMSIZES.get(dtype) == race.size:
        kind = TYPE_CODES.get(dtype, kind)
    size = race.size
    content = bytes(race.value)[:size]
    if kind in _FLOATS:
        code, digits = _FLOATS[kind]
        if struct.calcsize(code) != size:  # several elements of a matrix at once
            return ""
        number = struct.unpack(code, content)[0]
        short, exact = (f"{number:.{d}g}" for d in digits)
        return short if struct.pack(code, float(short)) == content else exact
    if kind == "bool":
        return str(content != b"\0")
    if kind[0] in "us" or kind in ("b8", "b32", "b64"):
        is_signed = kind[0] != "u" or dtype not in ITEMSIZES  # numba-cuda loads and stores signed integers as .u
        return str(int.from_bytes(content, "little", signed=is_signed))
    return ""


_FLOATS = {"f16": ("<e", (4, 5)), "f32": ("<f", (6, 9)), "f64": ("<d", (15, 17))}
"""Code of struct, and decimal digits: those that usually suffice, and those that always do."""


_ENDINGS = {
    "race": " with no synchronization between them",
    "filling": ", with no wait for the copy in between",
    "same": ": the same value",
    "unchanged": " with no synchronization between them; the write does not change the value",
    "test": " with no synchronization between them; the read only decides whether to try an atomic on it",
}
_COPIES = (
    "threads of a warp store copies of one value that differ, perhaps in the last bits; which one stays depends "
    "on the hardware"
)
"""The message of ``copies``. It names no element, since it is a note about the line."""

_FIXES = {
    "filling": "wait for the copy with cp.async.wait_group, then call cuda.syncthreads()",
    "same": "let one thread write it",
    "copies": "",
    "unchanged": "put cuda.syncthreads() between the write and the read, or write only if the value changes",
    "test": "do the atomic without the test, or read with an atomic as well",
}


def _kind(race: Race, here: _Side, other: _Side) -> str:
    """``race``; ``filling`` for a copy that nothing waits for; or why it is harmless: ``same``, ``unchanged`` or
    ``test`` (docs/sanitizers.md)."""
    if race.record == INFLIGHT:
        return "filling"
    if race.benign == SAME_VALUE:
        return "same"
    if race.benign == REPLICATED:
        return "copies"
    if race.benign == UNCHANGED:
        return "unchanged"
    for side, against in ((here, other), (other, here)):
        is_test = side.described is not None and side.described.tests
        if is_test and against.described is not None and against.described.text.startswith(("atom.", "red.")):
            return "test"
    return "race"


def _weight(finding: Finding) -> int:
    """Which of several races on the same lines to report: an error, else one that a level may make an error, else
    a warning, else a note."""
    return 3 if finding.severity == "error" else 2 * finding.lenient or int(not finding.note)


def _fix(race: Race, here: _Side, other: _Side, *, is_one_warp: bool) -> str:
    if place(here.described) == place(other.described) is not None:
        fix = "give each thread its own element, or use cuda.atomic"
        if race.is_near and other.verb == "reads":
            fix = _UPDATE if _updates(other) else _SHIFT
    elif not race.is_near:
        fix = "blocks run in any order: use cuda.atomic, or do the rest in a second launch"
    elif is_one_warp:  # in a larger block, other threads may race across warps on the same lines
        between = _between(here, other)
        fix = f"put cuda.syncwarp() or cuda.syncthreads() {between}: lanes of a warp do not run in lockstep"
    else:
        fix = f"put cuda.syncthreads() {_between(here, other)}"
    # Perhaps a lock, a ticket or a flag, which orders nothing without a fence.
    guarded = bool(race.base) and any(site.text.startswith("atom") for site in here.sites)
    return fix + ("; if an atomic is a lock or a flag, add cuda.threadfence() on both sides" if guarded else "")


_UPDATE = "to add to one element, use cuda.atomic; in a loop, put cuda.syncthreads() between iterations"
_SHIFT = (
    "put cuda.syncthreads() between iterations of the loop; if it is there already, read into a variable, put "
    "cuda.syncthreads() after it, then write"
)
"""A race of one line with itself: every thread updates the same element, or its own from another thread's."""


def _updates(reader: _Side) -> bool:
    """Whether the line that reads an element also writes to the address that it reads."""
    read = reader.described
    return read is not None and any(
        site.address == read.address and site.text.startswith("st") and place(site) == place(read)
        for site in reader.sites
    )


def _between(here: _Side, other: _Side) -> str:
    """``between the write and the read``."""
    nouns = {"reads": "read", "writes": "write", "updates": "update"}
    one, two = (nouns.get(side.verb, "access") for side in (here, other))
    return f"between the two {one}s" if one == two else f"between the {one} and the {two}"


def mnemonic(site: int, sites: tuple[Site, ...]) -> str:
    """The opcode of a site; empty for sites beyond those that racecheck can distinguish."""
    return sites[site].text.partition(".")[0] if site < min(len(sites), SITE_MASK) else ""


def line(site: int, sites: tuple[Site, ...]) -> tuple[str, int]:
    """File and line of a site: of the Python, or of the PTX if that has no line information."""
    if site >= min(len(sites), SITE_MASK):
        return ("", 0)
    here = sites[site]
    return (here.file, here.source_line) if here.source_line else ("", here.line)


def unravel(number: int, extent: Index3) -> Index3:
    """A linear index, x fastest, as (x, y, z)."""
    x, y, _ = extent
    return (number % x, number // x % y, number // (x * y))
