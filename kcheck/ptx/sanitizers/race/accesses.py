"""The functions that check an access before it is made: for adjacent lanes, for one address in all lanes, for
scattered lanes, and lane by lane."""

from __future__ import annotations

from dataclasses import replace

from kcheck.ptx.ir.builder import Value, vector_type
from kcheck.ptx.ir.function import FunctionBuilder, Term
from kcheck.ptx.ir.masked import masked_gather, masked_load
from kcheck.ptx.ir.signature import Definition
from kcheck.ptx.runtime.lookup import context
from kcheck.ptx.sanitizers.race.cells import (
    Cells,
    check_lanes,
    check_two,
    times,
    weighs_values,
)
from kcheck.ptx.sanitizers.race.checked_access import CheckedAccess, LaneChecks, ShadowedWindow, find_window
from kcheck.ptx.sanitizers.race.facts import RaceFacts
from kcheck.ptx.sanitizers.race.layout import SITE_MASK, THREAD_BITS, WRITE
from kcheck.ptx.sanitizers.race.sync import state_of

MOST_PARTS = 2
"""Scattered lanes with more granules each are checked one by one, because the code would be too long."""


def definitions(access: CheckedAccess, facts: RaceFacts, declarations: dict[str, str]) -> dict[str, Definition]:
    """The functions that check an access, except those for single granules."""
    if access.is_same:
        return {access.signature.name: _same_ir(access, facts, declarations)}
    if access.is_row:
        anywhere = replace(access, is_row=False)
        row = {access.signature.name: _row_ir(access, facts, declarations)}
        return row | definitions(anywhere, facts, declarations)
    return {
        access.signature.name: _vector_ir(access, facts, declarations),
        access.one_by_one.name: _one_by_one_ir(access, facts, declarations),
    }


def site_number(site: int) -> int:
    """The number of a site in infos. All sites past the largest number share that number."""
    return min(site, SITE_MASK)


# --- all lanes at once


def _vector_ir(access: CheckedAccess, facts: RaceFacts, declarations: dict[str, str]) -> Definition:
    """Check lanes all at once if their addresses allow it; if not, or if there may be a race, one by one."""
    W = access.width
    f = FunctionBuilder(access.signature, "noinline", W, declarations)
    addresses, mask = f.argument("a"), f.argument("m")
    if W == 1:
        with f.unless(mask):
            f.ret()
    low = f.term(f.extract(addresses, 0))
    with f.block():
        if W > 1:
            steps = f.lanes_const("i64", [lane * access.size for lane in range(W)])
            with f.if_(f.any((f.term(f.splat(low)) + steps).ne(addresses) & mask)):
                f.break_()
        _check_adjacent(f, access, facts, low, mask)
    if W > 1 and access.kind != WRITE:
        with f.block():
            with f.if_(f.any(f.term(f.splat(low)).ne(addresses) & mask)):
                f.break_()
            _check_at_one_address(f, access, facts, low)
    if W > 1:
        _check_scattered(f, access, facts)
    given = {"v": f.argument("v")} if access.kind == WRITE else {}
    f.run(access.one_by_one, a=addresses, m=mask, **given, **context(f))
    return f.definition()


def _check_adjacent(f: FunctionBuilder, access: CheckedAccess, facts: RaceFacts, low: Term, mask: Term) -> None:
    """Check lanes that access adjacent elements from ``low`` on, and return; leave the code block if one may be in
    a race."""
    for space in access.places(facts):
        window = find_window(f, space)
        distance = low - window.base
        with f.if_(distance < window.size):
            _check_in_space(f, access, facts, space, window, distance, mask)
            f.ret()


def _row_ir(access: CheckedAccess, facts: RaceFacts, declarations: dict[str, str]) -> Definition:
    """Check a row of elements all at once; if there may be a race, as elements at any addresses."""
    W = access.width
    f = FunctionBuilder(access.signature, "noinline", W, declarations)
    low, mask = f.argument("a"), f.term(f.bits_mask(f.argument("m"), W))
    with f.block():
        _check_adjacent(f, access, facts, low, mask)
    steps = f.lanes_const("i64", [lane * access.size for lane in range(W)])
    given = {"v": f.argument("v")} if access.kind == WRITE else {}
    anywhere = replace(access, is_row=False).signature
    f.run(anywhere, a=f.term(f.splat(low)) + steps, m=mask, **given, **context(f))
    return f.definition()


def _check_at_one_address(f: FunctionBuilder, access: CheckedAccess, facts: RaceFacts, address: Term) -> None:
    """Check lanes that all access one address, and return; leave the code block if one may be in a race.

    Only the first and the last active lane are checked: lanes of one instruction do not conflict with each other,
    and two records are as good as all (:mod:`.layout`).
    """
    bits, on = f.term(f.mask_bits(f.argument("m"))), f.term(f.const("i1", 1))
    first = f.trailing_zeros(bits).to("i32")
    last = f.term(f.const("i32", access.width - 1)) - f.leading_zeros(bits).to("i32")
    state, me = state_of(f), f.argument("site") << THREAD_BITS | f.argument("t0")
    t = times(state, facts, f.argument("t0") >> 5)
    for space in access.places(facts):
        window, granule = find_window(f, space), facts.granule[space]
        distance = address - window.base
        with f.if_(distance < window.size):
            index = distance >> (granule.bit_length() - 1)
            infos = (me + first, me + last)
            if access.size == granule:
                check_two(Cells(f, state, space, facts, t, index, me, on), access.kind, infos, f.ret)
            for info in infos:
                for part in range(access.size // granule):
                    check_lanes(Cells(f, state, space, facts, t, index + part, info, on), access.kind, None)
            f.ret()


def _check_scattered(f: FunctionBuilder, access: CheckedAccess, facts: RaceFacts) -> None:
    """Check lanes at any addresses in one space, and return; continue after this code if one may be in a race.

    If several lanes access the same granule, the record of the last one remains. The others add theirs one by one.
    If they write, all lanes are checked one by one, in order, because they race with each other.
    """
    addresses, mask, is_write = f.argument("a"), f.argument("m"), access.kind == WRITE
    state, first = state_of(f), f.argument("t0")
    t = times(state, facts, first >> 5)
    me = f.argument("site") << THREAD_BITS | first + f.lanes_const("i32", range(access.width))
    for space in access.places(facts):
        granule, window = facts.granule[space], find_window(f, space)
        parts = access.size // granule
        if parts > MOST_PARTS:
            continue
        distances = addresses - window.base
        with f.block():
            with f.if_(f.any((distances >= window.size) & mask)):
                f.break_()
            lost = f.variable("i32", 0)
            changed: list[Term] = []
            if is_write and weighs_values(space, facts):
                changed = _changed_scattered(f, access, granule, window, distances)
            for part in range(parts):
                index = (distances >> (granule.bit_length() - 1)) + part
                cells = Cells(f, state, space, facts, t, index, me, mask, lost)
                before = [(table, cells.load(table, WRITE)) for table in ("stamps", "infos") if is_write]
                check_lanes(cells, access.kind, changed[part] if changed else None)
                if is_write:
                    with f.if_(lost.value.ne(0)):
                        for table, value in before:
                            cells.store(table, WRITE, value)
                        f.break_()
            with f.if_(lost.value.ne(0)):
                left = f.term(f.bits_mask(lost.value.to(f"i{access.width}"), access.width))
                if not is_write:
                    f.run(access.one_by_one, a=addresses, m=left, **context(f))
            f.ret()


def _changed_scattered(
    f: FunctionBuilder, access: CheckedAccess, granule: int, window: ShadowedWindow, distances: Term
) -> list[Term]:
    """:func:`_changed` for lanes at any ``distances`` from the start of the window, all within it."""
    W, size, value = access.width, access.size, f.argument("v")
    inside = f.argument("m") & (distances + size <= window.size)
    places = distances + window.base
    old = f.term(masked_gather(f, access.bits, places, 1, inside))
    differ = _pieces(f, old, granule).ne(_pieces(f, value, granule))
    parts = size // granule
    return [inside & f.term(f.shuffle(differ, differ, range(part, W * parts, parts))) for part in range(parts)]


def _check_in_space(
    f: FunctionBuilder,
    access: CheckedAccess,
    facts: RaceFacts,
    space: str,
    window: ShadowedWindow,
    distance: Term,
    lanes_on: Term,
) -> None:
    """Check W granules at a time.

    Args:
        distance: of the first lane's address from the start of the window.
        lanes_on: the lanes that access.
    """
    W, granule, first = access.width, facts.granule[space], f.argument("t0")
    parts = access.size // granule
    state = state_of(f)
    t = times(state, facts, first >> 5)
    index = distance >> (granule.bit_length() - 1)
    changed: list[Term] = []
    if access.kind == WRITE and weighs_values(space, facts):
        changed = _changed(f, access, granule, window, distance, lanes_on)
    for part in range(parts):
        lanes = [(part * W + i) // parts for i in range(W)]
        me = f.argument("site") << THREAD_BITS | first + f.lanes_const("i32", lanes)
        mask = lanes_on
        if parts > 1 and W > 1:
            mask = f.term(f.shuffle(mask, mask, lanes))
        here = index + part * W if part else index
        cells = Cells(f, state, space, facts, t, here, f.term(f.splat(me)), mask)
        check_lanes(cells, access.kind, changed[part] if changed else None)


def _changed(
    f: FunctionBuilder, access: CheckedAccess, granule: int, window: ShadowedWindow, distance: Term, lanes_on: Term
) -> list[Term]:
    """For each part of W granules, the lanes whose store changes the value, i1. ``lanes_on``: those that store.

    Lanes that end outside the window, which memcheck reports, read nothing.
    """
    W, size, value = access.width, access.size, f.argument("v")
    ends = f.term(f.splat(distance)) + f.lanes_const("i64", [(i + 1) * size for i in range(W)])
    inside = lanes_on & (ends <= f.splat(window.size))
    start = (window.base + distance).to("ptr")
    if W == 1:
        itself = Value(f.local(access.bits), "ptr")
        f.store(value, itself)
        old = f.load(access.bits, inside.select(start, itself), 1)
    else:
        old = f.term(masked_load(f, access.bits, start, 1, inside, value))
    parts = size // granule
    if parts == 1:
        return [old.ne(value)]
    differ = _pieces(f, old, granule).ne(_pieces(f, value, granule))
    if W == 1:
        return [f.term(f.extract(differ, part)) for part in range(parts)]
    return [f.term(f.shuffle(differ, differ, range(part * W, part * W + W))) for part in range(parts)]


def _pieces(f: FunctionBuilder, value: Term, size: int) -> Term:
    """The bits of a value as a vector of integers of ``size`` bytes."""
    element, count = f"i{8 * size}", value.bits * value.lanes // (8 * size)
    return f.value(f"bitcast {f.typed(value)} to {vector_type(element, count)}", element, count)


# --- lane by lane


def _one_by_one_ir(access: CheckedAccess, facts: RaceFacts, declarations: dict[str, str]) -> Definition:
    """Check the lanes one by one, in order."""
    f = FunctionBuilder(access.one_by_one, "noinline", 1, declarations)
    checks = LaneChecks(f, access, facts)
    bits = f.term(f.mask_bits(f.argument("m"))).to("i32")
    checks.keep(bits)
    with f.set_bits(bits) as lane:
        checks.check(lane, checks.addresses[lane])
    return f.definition()


def _same_ir(access: CheckedAccess, facts: RaceFacts, declarations: dict[str, str]) -> Definition:
    """Check the first and the last lane only, as in :func:`_check_at_one_address`."""
    f = FunctionBuilder(access.signature, "noinline", 1, declarations)
    checks = LaneChecks(f, access, facts)
    bits, address = f.term(f.mask_bits(f.argument("m"))), f.argument("a")
    with f.if_(bits.eq(0)):
        f.ret()
    with f.block():
        _check_at_one_address(f, access, facts, address)
    first = f.trailing_zeros(bits).to("i32")
    last = f.term(f.const("i32", access.width - 1)) - f.leading_zeros(bits).to("i32")
    for lane in (first, last):
        checks.addresses[lane] = address
    checks.check(first, address)
    with f.if_(first.ne(last)):
        checks.check(last, address)
    return f.definition()
