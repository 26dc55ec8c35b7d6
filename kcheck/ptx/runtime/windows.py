"""Whether an access may be made: the memory that lanes may access, as windows, and the rule of alignment."""

from __future__ import annotations

from kcheck.dataclass import dataclass
from kcheck.ptx.abi import FaultKind, SiteCache, Worker
from kcheck.ptx.ir.builder import Value
from kcheck.ptx.ir.function import FunctionBuilder, Term
from kcheck.ptx.ir.records import Record, record
from kcheck.ptx.runtime.lookup import RESOLVE, SPACES, LocalLayout, context


@dataclass(frozen=True, slots=True)
class Window:
    """A range of memory: its base, and how many addresses from there an access may begin at."""

    base: Value
    limit: Value


def known_window(f: FunctionBuilder, space: str, size: int) -> Window:
    """The window of all lanes: the allocation that this instruction touched before, or all of shared memory, so
    that nothing has to be loaded and LLVM sees through the address."""
    if space == "shared":
        return Window(f.argument("window"), f.saturating_sub(f.argument("extent"), size - 1))
    return site_window(f)


def site_window(f: FunctionBuilder) -> Window:
    """The part of the allocation that this instruction touched before at which it may access memory."""
    cache = _site(f)
    return Window(cache.load(SiteCache.base), cache.load(SiteCache.limit))


@dataclass(frozen=True, slots=True)
class KnownElements:
    """The elements of ``size`` bytes, a power of two, that an instruction may access according to what it accessed
    before (:class:`kcheck.ptx.abi.SiteCache`), or those of shared memory."""

    f: FunctionBuilder
    space: str
    size: int
    width: int
    base: Value
    cache: Record

    @classmethod
    def of(cls, f: FunctionBuilder, space: str, size: int, width: int) -> KnownElements:
        """In a function with the parameters of an access in this space."""
        cache = _site(f)
        base = f.argument("window") if space == "shared" else cache.load(SiteCache.base)
        return cls(f, space, size, width, base, cache)

    def include(self, address: Term, *, row: bool) -> Term:
        """Whether the element at an address, or a whole row of them from there on, is among these and aligned."""
        f, size = self.f, self.size
        distance = address - self.base
        if self.space == "shared":
            beyond = (self.width if row else 1) * size - 1
            room = f.saturating_sub(f.argument("extent"), beyond)
            return is_inside(distance, room) & is_aligned(f, self.space, address, distance, size)
        # The bits that an aligned distance does not have become its highest ones: one comparison for both rules.
        number = f.rotate_right(distance, size.bit_length() - 1)
        return number < self.cache.load(SiteCache.rows if row else SiteCache.elements)


def _site(f: FunctionBuilder) -> Record:
    """What an instruction accessed before."""
    sites = record(f, "worker", Worker).load(Worker.sites, hints=", !invariant.load !1")
    return Record(f, sites.to("ptr"), SiteCache)[f.argument("site")]


def lane_window(f: FunctionBuilder, space: str, size: int, local: LocalLayout, lane: Value | int) -> Window:
    """The window of one lane."""
    if space != "local":
        return known_window(f, space, size)
    number = f.term(f.const("i64", lane)) if isinstance(lane, int) else f.term(lane).to("i64")
    base = f.argument("warp").to("i64") + number * local.stride + local.offset
    return Window(base, f.const("i64", max(local.stride - size + 1, 0)))


def lane_windows(f: FunctionBuilder, known: Window | None, size: int, width: int, local: LocalLayout) -> Window:
    """The window of each lane, as vectors. ``known``: the same for all lanes; None: in their local memory."""
    if known is not None:
        return Window(f.splat(known.base, width), f.splat(known.limit, width))
    limit = f.const("i64", max(local.stride - size + 1, 0))
    return Window(own_memory(f, width, local), f.splat(limit, width))


def own_memory(f: FunctionBuilder, width: int, local: LocalLayout) -> Term:
    """Where the local memory of each lane begins."""
    offsets = f.lanes_const("i64", [local.offset + lane * local.stride for lane in range(width)])
    return f.term(f.splat(f.argument("warp").to("i64"), width)) + offsets


def is_inside(distance: Term, limit: Value) -> Term:
    """Whether an access so far from the base of a window is in it."""
    return distance < limit


def is_aligned(f: FunctionBuilder, space: str, address: Term, distance: Term, size: int) -> Term:
    """Whether an address is a multiple of the size. The shared window is aligned, so there the distance is."""
    return ((distance if space == "shared" else address) & f.splat(f.const("i64", size - 1), address.lanes)).eq(0)


def none_of(f: FunctionBuilder, lanes: Value, mask: Value) -> Term:
    """Whether some lanes are all off in a mask.

    The two meet as integers: a mask is one where it comes from, and processors without mask registers need an
    instruction for each lane to turn it into a vector.
    """
    return (f.term(f.mask_bits(lanes)) & f.mask_bits(mask)).eq(0)


def look_up(
    f: FunctionBuilder,
    space: str,
    kind: FaultKind,
    extent_and_align: tuple[int, int],
    address: Value,
    lane: Value | int,
) -> Term:
    """Whether a lane may access bytes at an address, by the table of allocations; else a fault is recorded."""
    extent, align = extent_and_align
    where = {"space": SPACES[space], "kind": int(kind), "lane": lane}
    return f.run(RESOLVE, **context(f), a=address, size=extent, align=align, **where)
