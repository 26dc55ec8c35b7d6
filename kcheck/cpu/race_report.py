"""Describes a race: what the two accesses were, and the fix."""

from __future__ import annotations

import struct

from kcheck.cpu.faults import place
from kcheck.cpu.naming import Naming
from kcheck.dataclass import dataclass
from kcheck.model import Finding, Index3
from kcheck.ptx.program import Site
from kcheck.ptx.sanitizers.race.layout import (
    INFLIGHT,
    REPLICATED,
    SAME_VALUE,
    SITE_MASK,
    UNCHANGED,
    Race,
)
from kcheck.ptx.syntax.symbols import ITEMSIZES, TYPE_CODES

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
}

FIXES = {
    "filling": "wait for the copy with cp.async.wait_group, then call cuda.syncthreads()",
    "same": "let one thread write it",
    "copies": "",
    "unchanged": "put cuda.syncthreads() between the write and the read, or write only if the value changes",
    "test": "do the atomic without the test, or read with an atomic as well",
}


def kind_of(race: Race, here: RaceSide, other: RaceSide) -> str:
    """``race``; ``filling`` for a copy without a wait; ``copies`` for differing copies of one value; or why a race
    is harmless: ``same``, ``unchanged`` or ``test`` (docs/sanitizers.md)."""
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


def weight_of(finding: Finding) -> int:
    """The priority of a finding among races on the same lines: errors, then those that a level may make errors,
    then warnings, then notes."""
    return 3 if finding.severity == "error" else 2 * finding.lenient or int(not finding.note)


def fix_of(race: Race, here: RaceSide, other: RaceSide, *, is_one_warp: bool, cooperative: bool) -> str:
    """The likely fix for a race.

    Args:
        is_one_warp: whether blocks have at most 32 threads.
        cooperative: whether the launch allows grid barriers.
    """
    if place(here.described) == place(other.described) is not None:
        fix = "give each thread its own element, or use cuda.atomic"
        if race.is_near and other.verb == "reads":
            fix = _UPDATE if _updates(other) else _SHIFT
    elif not race.is_near and cooperative:
        fix = f"blocks run in any order: put grid.sync() {_between(here, other)}, or use cuda.atomic"
    elif not race.is_near:
        fix = "blocks run in any order: use cuda.atomic, or do the rest in a second launch"
    elif _is_update(here, other) or _is_update(other, here):
        fix = _UPDATE
    elif "copies to" in (here.verb, other.verb):
        fix = f"wait for the copy with cp.async.wait_group, and put cuda.syncthreads() {_between(here, other)}"
    elif is_one_warp:  # in a larger block, other threads may race across warps on the same lines
        between = _between(here, other)
        fix = f"put cuda.syncwarp() or cuda.syncthreads() {between}: lanes of a warp do not run in lockstep"
    else:
        fix = f"put cuda.syncthreads() {_between(here, other)}"
    # The atomic may be a lock, a ticket or a flag, which does not order accesses without a fence.
    guarded = bool(race.base) and any(site.text.startswith("atom") for site in here.sites)
    return fix + ("; if an atomic is a lock or a flag, add cuda.threadfence() on both sides" if guarded else "")


_UPDATE = "to add to one element, use cuda.atomic; in a loop, put cuda.syncthreads() between iterations"

_SHIFT = (
    "put cuda.syncthreads() between iterations of the loop; if it is there already, read into a variable, put "
    "cuda.syncthreads() after it, then write"
)
"""Fixes for races of a line with itself: each thread updates the same element, or reads another's."""


def _updates(reader: RaceSide) -> bool:
    """Whether the line that reads an element also writes to the address that it reads."""
    read = reader.described
    return read is not None and any(
        site.address == read.address and site.text.startswith("st") and place(site) == place(read)
        for site in reader.sites
    )


def _is_update(writer: RaceSide, reader: RaceSide) -> bool:
    """Whether the accesses are the write and the read of a read-modify-write of one word by several threads."""
    wrote, read = writer.described, reader.described
    if wrote is None or read is None or not wrote.text.startswith("st"):
        return False
    return read.updates and read.address == wrote.address


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
