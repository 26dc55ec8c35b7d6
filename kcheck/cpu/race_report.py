"""Describes a race: what the two accesses were, and the fix."""

from __future__ import annotations

import struct

from kcheck.cpu.faults import place
from kcheck.cpu.naming import Naming
from kcheck.dataclass import dataclass
from kcheck.model import Finding, Index3
from kcheck.ptx.program import AccessRole, Site
from kcheck.ptx.sanitizers.race.layout import (
    ACQUIRE,
    INFLIGHT,
    MET,
    READ,
    REPLICATED,
    SAME_VALUE,
    SCOPE,
    SITE_MASK,
    UNCHANGED,
    Race,
)
from kcheck.ptx.syntax.opcodes import ATOMICS, STRONG
from kcheck.ptx.syntax.symbols import ITEMSIZES, TYPE_CODES
from kcheck.rules.language import NUMBA, Language

SHARED = "shared"
"""The array of a race in shared memory, as ``allow_races`` names it."""


@dataclass(frozen=True, slots=True)
class RaceSide:
    """One of the two accesses. Thread and block are linear indices; None for an unknown block."""

    thread: int
    block: int | None
    site: int
    sites: tuple[Site, ...]

    def index(self, extent: Index3) -> Index3:
        """The index of the thread in its block."""
        return unravel(self.thread, extent)

    @property
    def described(self) -> Site | None:
        return self.sites[self.site] if self.site < min(len(self.sites), SITE_MASK) else None

    @property
    def role(self) -> AccessRole:
        """The role of the access in its kernel; the default if nothing is known."""
        described = self.described
        return AccessRole() if described is None or described.role is None else described.role

    @property
    def is_volatile(self) -> bool:
        return self.described is not None and ".volatile" in self.described.text

    @property
    def is_in_library(self) -> bool:
        """Whether the access is in a function of a library, which the line of the user's code calls."""
        described = self.described
        return described is not None and bool(described.stack) and described.stack[0][0] != described.file

    @property
    def is_strong(self) -> bool:
        """Whether it is an atomic, or a load or store with a scope."""
        words = set() if self.described is None else set(self.described.text.split("."))
        return bool(words & (ATOMICS | STRONG - {"volatile"}))

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


def place_of(race: Race, site: Site | None, naming: Naming) -> tuple[str | None, tuple[int, ...] | None, str, str]:
    """The array (``shared`` for shared memory, None if it has no name), the index, both as text, and the dtype."""
    if race.base:
        label = naming.array(site, race.address)
        return *naming.told_global(site, race.address), label.dtype if label is not None else ""
    label = naming.shared(site, race.address)
    return SHARED, None, naming.told_shared(site, race.address), label.dtype if label is not None else ""


def value_of(race: Race, last: RaceSide, dtype: str) -> str:
    """What the later access wrote or read, formatted with the array's dtype, otherwise with the type of the
    instruction; empty if neither is known (``.b32`` may be a float, ``.u16`` a half), and for several floats."""
    site = last.described
    if site is None or not (race.is_write if last.verb == "writes" else last.verb == "reads"):
        return ""
    kind = site.text.rpartition(".")[2]
    if ITEMSIZES.get(dtype) == race.size:
        kind = TYPE_CODES.get(dtype, kind)
    elif TYPE_CODES.get(dtype) in (*_FLOATS, _BFLOAT) or (kind == "u16" and dtype not in ITEMSIZES):
        return ""
    size = race.size
    content = bytes(race.value)[:size]
    if kind == _BFLOAT:
        return f"{struct.unpack('<f', bytes(2) + content)[0]:.4g}"
    if kind in _FLOATS:
        code, digits = _FLOATS[kind]
        if struct.calcsize(code) != size:  # several elements of a matrix at once
            return ""
        number = struct.unpack(code, content)[0]
        short, exact = (f"{number:.{d}g}" for d in digits)
        return short if struct.pack(code, float(short)) == content else exact
    if kind == "bool":
        return str(content != b"\0")
    if kind == "u8" and dtype not in ITEMSIZES and content[0] > 127:
        return ""  # a char: compilers store it as .u8 whether it has a sign or not
    if kind[0] in "us" or (kind[0] == "b" and dtype in ITEMSIZES):
        is_signed = kind[0] != "u" or dtype not in ITEMSIZES  # numba-cuda loads and stores signed integers as .u
        return str(int.from_bytes(content, "little", signed=is_signed))
    return ""


_FLOATS = {"f16": ("<e", (4, 5)), "f32": ("<f", (6, 9)), "f64": ("<d", (15, 17))}
"""The code for ``struct``, and numbers of decimal digits: one that usually suffices, and one that always does."""

_BFLOAT = "bf16"

ENDINGS = {
    "race": " with no synchronization between them",
    "filling": ", with no wait for the copy in between",
    "same": ": the same value",
    "unchanged": " with no synchronization between them; the write does not change the value",
    "test": " with no synchronization between them; the read only decides whether to try an atomic on it",
    "met": " with only a shuffle, vote or match between them, which does not order memory",
    "read_first": " with only a shuffle, vote or match between them, which does not order memory",
    "narrow": " as well: an atomic with the scope of a block is not atomic for other blocks",
    "scope": " with no synchronization between them: the fence or atomic in between has the scope of a block",
    "acquire": " with no synchronization between them: no fence follows where the lock is taken",
    "volatile": " with no synchronization between them; volatile does not order accesses",
}

ERRORS = frozenset({"race", "filling", "met", "narrow", "scope", "acquire"})
"""The kinds of races that are errors at any level."""

LENIENT = frozenset({"unchanged", "test", "read_first", "volatile"})
"""The kinds of races that are warnings unless the level of racecheck is ``error``."""


def _fix_of_kind(kind: str, words: Language) -> str | None:
    """The fix for a kind of race; None if it depends on the accesses."""
    return {
        "narrow": "use an atomic with the scope of the device: without _block in its name, or thread_scope_device",
        "scope": f"use a fence and atomics with the scope of the device: {words.fence}",
        "acquire": f"put {words.fence} after the loop that takes the lock, and before the atomic that releases it",
        "filling": f"wait for the copy with {words.copy_wait}, then call {words.barrier}",
        "same": "let one thread write it",
        "copies": "",
        "unchanged": f"put {words.barrier} between the write and the read, or write only if the value changes",
        "test": "do the atomic without the test, or read with an atomic as well",
    }.get(kind)


def kind_of(race: Race, here: RaceSide, other: RaceSide) -> str:
    """``race``; ``filling`` for a copy without a wait; ``met`` if lanes only exchanged values in between,
    ``read_first`` if the earlier access is then a read; ``scope`` and ``acquire`` if a fence or atomic does not
    reach, or a fence after a lock is missing; ``narrow`` for an atomic of block scope beside one of another
    block; ``volatile`` for two volatile accesses of global memory; ``copies`` for differing copies of one value;
    or why a race is harmless: ``same``, ``unchanged`` or ``test`` (docs/sanitizers.md)."""
    if race.record == INFLIGHT:
        return "filling"
    if race.benign == SAME_VALUE:
        return "same"
    if race.benign == REPLICATED:
        return "copies"
    if race.benign == UNCHANGED:
        return "unchanged"
    for side, against in ((here, other), (other, here)):
        if (
            side.role.tests
            and against.described is not None
            and against.described.text.startswith(("atom.", "red."))
        ):
            return "test"
    if here.is_strong and other.is_strong:
        return "narrow"
    lacks = next((name for bit, name in _LACKS.items() if race.lacks & bit), "")
    if not lacks and race.base and here.is_volatile and other.is_volatile:
        return "volatile"
    if lacks == "met" and race.is_write and READ <= race.record < INFLIGHT:
        return "read_first"
    return lacks or "race"


_LACKS = {MET: "met", SCOPE: "scope", ACQUIRE: "acquire"}


def weight_of(finding: Finding) -> int:
    """The priority of a finding among races on the same lines: errors, then those that a level may make errors,
    then warnings, then notes."""
    return 3 if finding.severity == "error" else 2 * finding.lenient or int(not finding.note)


def fix_of(
    kind: str,
    race: Race,
    here: RaceSide,
    other: RaceSide,
    words: Language,
    *,
    is_one_warp: bool,
    cooperative: bool,
) -> str:
    """The likely fix for a race.

    Args:
        is_one_warp: whether blocks have at most 32 threads.
        cooperative: whether the launch allows grid barriers.
    """
    if words.is_triton and (fix := _fix_in_triton(kind, race, here, other)) is not None:
        return fix
    if (fix := _fix_of_kind(kind, words)) is not None:
        return fix
    is_line = place(here.described) == place(other.described) is not None
    if not race.is_near:
        fix = _fix_of_blocks(here, other, words, is_line=is_line, cooperative=cooperative)
    elif _is_update(here, other):
        fix = f"to update one element, use {words.atomic}"
        if here.role.in_loop and here.role.element == "any":
            fix += f"; if each thread has its own, put {words.barrier} between iterations"
    elif is_line and other.verb != "reads":
        own = "give each thread its own element"
        is_one = here.role.element == other.role.element == "one"
        fix = f"let one thread write it, or {own}" if is_one else f"{own}, or use {words.atomic}"
    else:
        fix = _barrier(race, here, other, words, is_line=is_line, is_one_warp=is_one_warp)
    # The atomic may be a lock, a ticket or a flag, which does not order accesses without a fence.
    guarded = bool(race.base) and any(site.text.startswith("atom") for site in here.sites)
    return fix + (f"; if an atomic is a lock or a flag, add {words.fence} on both sides" if guarded else "")


def _fix_in_triton(kind: str, race: Race, here: RaceSide, other: RaceSide) -> str | None:
    """The fix for a race between programs, or between warps of one program; None if it is as for threads."""
    is_line = place(here.described) == place(other.described)
    if kind == "same" and other.block is not None:
        return "let one program write it"
    if kind == "unchanged" and other.block is not None:
        return "write only if the value changes"
    if kind not in ERRORS or other.block is None:
        return None
    if kind == "filling":
        return "wait for the copy: Triton does so itself, except in inline assembly"
    if other.block != here.block:
        if is_line:
            return "give each program its own elements, or use an atomic such as tl.atomic_add"
        return "programs run in any order: use an atomic such as tl.atomic_add, or do the rest in a second launch"
    if is_line or (_fix_of_kind(kind, NUMBA) is None and race.is_near and _is_update(here, other)):
        return "store each element once per program, or use an atomic such as tl.atomic_add"
    return "put tl.debug_barrier() between the two accesses"


def _fix_of_blocks(here: RaceSide, other: RaceSide, words: Language, *, is_line: bool, cooperative: bool) -> str:
    """The fix for a race between blocks. ``is_line``: whether both accesses are on one line."""
    if is_line:
        return f"give each thread its own element, or use {words.atomic}"
    if cooperative:
        return f"blocks run in any order: put grid.sync() {_between(here, other)}, or use {words.atomic}"
    return f"blocks run in any order: use {words.atomic}, or do the rest in a second launch"


def _barrier(
    race: Race, here: RaceSide, other: RaceSide, words: Language, *, is_line: bool, is_one_warp: bool
) -> str:
    """The fix that puts a barrier between two accesses of one block, where all threads reach it."""
    if race.lacks & MET:
        return f"put {words.warp_barrier} {_gap(here, other)}: a shuffle, vote or match does not order memory"
    in_branch = here.role.in_branch and other.role.in_branch
    # A barrier beside one of the accesses may be in its branch, although the other access is in none.
    where = ", where all threads of the block reach it" if here.role.in_branch or other.role.in_branch else ""
    copy = next((side for side in (here, other) if side.verb == "copies to"), None)
    wait = ""
    if copy is not None and _leads_to(copy, other if copy is here else here):
        wait = f"wait for the copy with {words.copy_wait}, and "
    call, why = words.barrier, ""
    if not race.across and copy is None:
        call, why = words.warp_barrier, ": lanes of a warp do not run in lockstep"
        where = where.replace("threads of the block", "lanes of the warp")
        in_uneven = here.role.uneven == other.role.uneven != -1
        if not is_one_warp and not in_branch and not in_uneven:  # this case is perhaps too small for other warps
            why = f", or {words.barrier} if other warps use the element, too"
    if is_line and here.is_in_library:
        return f"put {call} between calls that use the same memory; in a loop, also at its end"
    if copy is None and (fix := _in_uneven_loop(race, here, other, call)):
        return fix
    if not is_line:
        return f"{wait}put {call} {_gap(here, other)}{where}{why}"
    split = f"read into a variable, put {call} after it{where}, then write{why}"
    if not here.role.in_loop:
        return split
    return f"put {call} between iterations of the loop; if it is there already, {split}"


def _in_uneven_loop(race: Race, here: RaceSide, other: RaceSide, call: str) -> str:
    """The fix for accesses in a loop that threads leave at different iterations, where a barrier has no place;
    empty if neither is in one, or one can follow the loop."""
    who = "threads" if race.across else "lanes"
    in_loop, against = _uneven(race, here), _uneven(race, other)
    if in_loop == against != -1:
        return f"give all {who} the same number of iterations of the loop, and put {call} {_gap(here, other)}"
    for loop, reader, writer in ((in_loop, here, other), (against, other, here)):
        if loop != -1 and reader.verb == "reads" and not _leads_to(writer, reader):
            return (
                f"write to another array than the loop reads, or put {call} after the loop; where a thread needs "
                "what another one has computed, use a second launch"
            )
    return ""


def _uneven(race: Race, side: RaceSide) -> int:
    """The loop around an access that threads leave at different iterations: lanes, if both are of one warp."""
    return side.role.uneven if race.across else side.role.uneven_in_warp


def _is_update(one: RaceSide, two: RaceSide) -> bool:
    """Whether several threads read, modify and write one word."""
    return _is_lost_update(one, two) or _is_lost_update(two, one)


def _is_lost_update(writer: RaceSide, reader: RaceSide) -> bool:
    """Whether the accesses are the write and the read of a read-modify-write of one word by several threads.

    If each thread has its own word, and another thread reads it, a barrier is missing instead."""
    wrote, read = writer.described, reader.described
    if wrote is None or read is None or not wrote.text.startswith("st") or writer.role.element == "own":
        return False
    return reader.role.updates and read.address == wrote.address


def _gap(here: RaceSide, other: RaceSide) -> str:
    """Where the barrier is missing: ``between the write and the read``, or around the end of a loop."""
    first, second = sorted((here, other), key=lambda side: (line(side.site, side.sites), side.site))
    forth, back = _leads_to(first, second), _leads_to(second, first)
    if back and not forth:
        between = _between(second, first)
        if first.role.in_loop and second.role.in_loop:
            return f"{between} of the next iteration"
        return " the next ".join(between.rsplit(" the ", 1)) if " and the " in between else between
    if back and forth:
        return f"{_between(first, second)}, and another at the end of the loop"
    return _between(first, second)


def _leads_to(one: RaceSide, two: RaceSide) -> bool:
    """Whether a path without a barrier of the block leads from one access to the other."""
    if one.role.block == two.role.block and one.site < two.site:
        return True
    return two.role.block in one.role.reaches


def _between(here: RaceSide, other: RaceSide) -> str:
    """``between the write and the read``."""
    nouns = {"reads": "read", "writes": "write", "updates": "update", "copies to": "copy"}
    one, two = (nouns.get(side.verb, "access") for side in (here, other))
    return f"between the two {one}s" if one == two else f"between the {one} and the {two}"


def mnemonic(site: int, sites: tuple[Site, ...]) -> str:
    """The opcode of a site; empty for sites that racecheck cannot distinguish."""
    return sites[site].text.partition(".")[0] if site < min(len(sites), SITE_MASK) else ""


def line(site: int, sites: tuple[Site, ...]) -> tuple[str, int]:
    """File and line of a site: in the source, or in the PTX if it has no line information."""
    if site >= min(len(sites), SITE_MASK):
        return ("", 0)
    here = sites[site]
    return (here.file, here.source_line) if here.source_line else ("", here.line)


def unravel(number: int, extent: Index3) -> Index3:
    """A linear index, x fastest, as (x, y, z)."""
    x, y, _ = extent
    return (number % x, number // x % y, number // (x * y))
