"""Whether an access is allowed: the windows of memory that lanes may access, and the rule of alignment."""

from __future__ import annotations

from kcheck.dataclass import dataclass
from kcheck.ptx.abi import FaultKind, SiteCache, Worker
from kcheck.ptx.ir.builder import Value
from kcheck.ptx.ir.function import FunctionBuilder, Term
from kcheck.ptx.ir.records import Record, record
from kcheck.ptx.runtime.lookup import RESOLVE, SPACES, LocalLayout, context


@dataclass(frozen=True, slots=True)
class Window:
    """A range of memory: its base, and the number of addresses from there at which an access may begin."""

    base: Value
    limit: Value


def known_window(f: FunctionBuilder, space: str, size: int) -> Window:
    """The window of all lanes: the allocation that this instruction accessed before. For shared memory it comes
    from the parameters, so that nothing must be loaded and LLVM can analyze the address."""
    if space == "shared":
        return Window(f.argument("window"), f.saturating_sub(f.argument("extent"), size - 1))
    return site_window(f)


def site_window(f: FunctionBuilder) -> Window:
    """The window in the allocation that this instruction accessed before."""
    cache = _site(f)
    return Window(cache.load(SiteCache.base), cache.load(SiteCache.limit))


@dataclass(frozen=True, slots=True)
class KnownElements:
    """The elements of ``size`` bytes, a power of two, that an instruction may access without a lookup: those of
    the allocation that it accessed before (:class:`kcheck.ptx.abi.SiteCache`), or those of shared memory."""

    f: FunctionBuilder
    space: str
    size: int
    width: int
    base: Value
    cache: Record

    @classmethod
    def of(cls, f: FunctionBuilder, space: str, size: int, width: int) -> KnownElements:
        """The elements for a function that has the parameters of an access in this space."""
        cache = _site(f)
        base = f.argument("window") if space == "shared" else cache.load(SiteCache.base)
        return cls(f, space, size, width, base, cache)

    def include(self, address: Term, *, row: bool) -> Term:
        """Whether the element at an address, or a row of ``width`` elements from it, is allowed."""
        f, size = self.f, self.size
        distance = address - self.base
        if self.space == "shared":
            beyond = (self.width if row else 1) * size - 1
            room = f.saturating_sub(f.argument("extent"), beyond)
            return is_inside(distance, room) & is_aligned(f, self.space, address, distance, size)
        # The rotation makes misaligned distances huge, so that one comparison checks both bounds and alignment.
        number = f.rotate_right(distance, size.bit_length() - 1)
        return number < self.cache.load(SiteCache.rows if row else SiteCache.elements)


def _site(f: FunctionBuilder) -> Record:
    """The record of what an instruction accessed before."""
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
    """The window of each lane, as vectors. ``known``: the window of all lanes; None: each lane's local memory."""
    if known is not None:
        return Window(f.splat(known.base, width), f.splat(known.limit, width))
    limit = f.const("i64", max(local.stride - size + 1, 0))
    return Window(own_memory(f, width, local), f.splat(limit, width))


def own_memory(f: FunctionBuilder, width: int, local: LocalLayout) -> Term:
    """Where the local memory of each lane begins."""
    offsets = f.lanes_const("i64", [local.offset + lane * local.stride for lane in range(width)])
    return f.term(f.splat(f.argument("warp").to("i64"), width)) + offsets


def is_inside(distance: Term, limit: Value) -> Term:
    """Whether an access at a distance from the base of a window is in the window."""
    return distance < limit


def is_aligned(f: FunctionBuilder, space: str, address: Term, distance: Term, size: int) -> Term:
    """Whether an address is a multiple of the size. In shared memory, whose window is aligned, its
    distance is checked."""
    return ((distance if space == "shared" else address) & f.splat(f.const("i64", size - 1), address.lanes)).eq(0)


def none_of(f: FunctionBuilder, lanes: Value, mask: Value) -> Term:
    """Whether no lane is set in both ``lanes`` and ``mask``.

    Both are combined as integers: masks are computed from integers, and processors without mask registers need an
    instruction for each lane to turn an integer into a vector.
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
    """Whether a lane may access bytes at an address. Uses the table of allocations; records a fault if not."""
    extent, align = extent_and_align
    where = {"space": SPACES[space], "kind": int(kind), "lane": lane}
    return f.run(RESOLVE, **context(f), a=address, size=extent, align=align, **where)
