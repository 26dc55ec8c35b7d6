"""What the lowering of accesses and of warp-level instructions calls; it adds nothing where racecheck is off."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from kcheck.ptx.abi import Launch
from kcheck.ptx.ir.builder import Value
from kcheck.ptx.lowering.function import FunctionLowering
from kcheck.ptx.lowering.module import ModuleLowering
from kcheck.ptx.sanitizers.race import accesses, cells
from kcheck.ptx.sanitizers.race.facts import CHECKED, RaceFacts, is_mbarrier, kind_of
from kcheck.ptx.sanitizers.race.layout import ATOMIC, READ, STRONG_READ, WRITE, Event, RaceState, Strong
from kcheck.ptx.syntax.ast import Instruction
from kcheck.ptx.syntax.types import PtxType


def access(
    fn: FunctionLowering,
    i: Instruction,
    address: Value,
    space: str,
    kind: PtxType,
    site: int,
    count: int = 1,
    values: Sequence[Value] = (),
    kept: tuple[int, Value] | None = None,
) -> None:
    """Check an access of ``count`` elements in each active lane, before it is made.

    Args:
        values: what a store is about to write.
        kept: the kind of its records and the lanes that leave one, where the instruction alone does not say it.
    """
    facts = fn.unit.race
    if facts is None or space not in (*CHECKED, "generic"):
        return
    places = CHECKED if space == "generic" else (space,)
    if not any(facts.checks(place) for place in places):
        return
    b, W = fn.b, fn.width
    race, mask = (kind_of(i), fn.active) if kept is None else (kept[0], b.land(fn.active, kept[1]))
    if facts.fences and i.opcode in ("ld", "ldu", "st") and race not in (READ, WRITE):
        strong(fn, i, address)
    size = kind.bytes
    number = accesses.site_number(site)
    is_same = address.lanes == 1 and W > 1 and race != WRITE
    check = _check(fn.unit, facts, race, space, size, is_same)
    mask = b.splat(mask)
    for n in range(count):
        at = b.add(address, n * size) if n else address
        if not is_same:
            at = b.splat(at)
        given = b.typed(at)
        if race == WRITE:
            value = b.splat(b.as_integer(values[n]))
            given += f", {b.typed(value)}"
        b.line(f"call void {check}({given}, {b.typed(mask)}, {fn.context(number)})")


def _check(unit: ModuleLowering, facts: RaceFacts, race: int, space: str, size: int, is_same: bool) -> str:
    """The function that checks accesses of a size, defined on first use."""
    key = (race, space, size, is_same)
    if key not in unit.race_checks:
        for place in CHECKED if space == "generic" else (space,):
            if facts.checks(place):
                name = cells.cell_name(race, place)
                if name not in unit.definitions:
                    unit.definitions[name] = cells.cell_ir(race, place, facts, unit.declarations)
        if is_same:
            unit.race_checks[key], text = accesses.same_ir(race, space, size, unit.width, facts, unit.declarations)
            texts = [text]
        else:
            unit.race_checks[key], texts = accesses.vector_ir(
                race, space, size, unit.width, facts, unit.declarations
            )
        unit.definitions[unit.race_checks[key]] = "\n".join(texts)
    return unit.race_checks[key]


def stores_of_words(unit: ModuleLowering, facts: RaceFacts) -> str:
    """The function that checks stores of 4 bytes to shared memory."""
    return _check(unit, facts, WRITE, "shared", 4, False)


def exchange(
    fn: FunctionLowering, i: Instruction, address: Value, space: str, kind: PtxType, site: int, done: Value
) -> None:
    """Check a compare-and-swap once it is made: it writes where it succeeded, and reads elsewhere."""
    access(fn, i, address, space, kind, site, kept=(ATOMIC, done))
    access(fn, i, address, space, kind, site, kept=(STRONG_READ, fn.b.invert(done)))


def warp(fn: FunctionLowering, members: Value) -> None:
    """The active lanes synchronize, those together that name each other. ``members``: their masks, i32.

    Vectors narrower than a warp have the scheduler say so, once for the warp.
    """
    facts = fn.unit.race
    if facts is None or fn.width != fn.unit.width:
        return
    b = fn.b
    active = fn.active_bits()
    if members.lanes == 1:
        b.line(f"call void @kcheck.race.warpall(ptr %launch, i32 %t0, {b.typed(active)}, {b.typed(members)})")
        return
    slot = f"%{b.fresh('masks')}"
    fn.prologue.line(f"{slot} = alloca [32 x i32], align 64")
    b.line(f"store {b.typed(members)}, ptr {slot}, align 64")
    number = b.value("lshr i32 %t0, 5", "i32")
    b.line(f"call void @kcheck.race.warp(ptr %launch, {b.typed(number)}, {b.typed(active)}, ptr {slot})")


def has_fences(fn: FunctionLowering) -> bool:
    """Whether order by fences is kept."""
    return fn.unit.race is not None and fn.unit.race.fences


def fence(fn: FunctionLowering, i: Instruction) -> None:
    """``membar`` or ``fence``: what the active lanes did may be published from here on."""
    facts = fn.unit.race
    if facts is None:
        return
    b = fn.b
    lanes = b.resize(_bits(fn, fn.active), "i32")
    within = int("cta" in i.modifiers)
    b.line(f"call void @kcheck.race.fence(ptr %launch, i32 %t0, {b.typed(lanes)}, i64 {within})")


def strong(fn: FunctionLowering, i: Instruction, address: Value, succeeded: Value | None = None) -> None:
    """An atomic or a strong load or store, which may publish and observe where the kernel has fences.

    Args:
        succeeded: of a compare-and-swap, the lanes that wrote; None: all.
    """
    if not has_fences(fn):
        return
    b, W = fn.b, fn.width
    access, addresses, count = (f"%{b.fresh(name)}" for name in ("strong", "places", "published"))
    fn.prologue.line(f"{access} = alloca [{ctypes.sizeof(Strong)} x i8], align 8")
    fn.prologue.line(f"store [{ctypes.sizeof(Strong)} x i8] zeroinitializer, ptr {access}")
    fn.prologue.line(f"{addresses} = alloca [32 x i64], align 64")
    fn.prologue.line(f"{count} = alloca i64")
    active, places = b.splat(fn.active), b.splat(address)
    mask = b.resize(_bits(fn, active), "i32")
    writes = mask
    if succeeded is not None:
        writes = b.resize(_bits(fn, b.land(active, b.splat(succeeded))), "i32")
    elif kind_of(i) == STRONG_READ:
        writes = b.const("i32", 0)
    words = set(i.modifiers)
    if is_mbarrier(i):  # these are its defaults
        words |= {"release", "cta"}
    fields = {
        Strong.addresses.offset: f"ptr {addresses}",
        Strong.mask.offset: b.typed(mask),
        Strong.writes.offset: b.typed(writes),
        Strong.reads.offset: f"i32 {int(i.opcode != 'st')}",
        Strong.releases.offset: f"i32 {int(not words.isdisjoint(('release', 'acq_rel')))}",
        Strong.within.offset: f"i32 {int('cta' in words)}",
        Strong.order.offset: b.typed(fn.field("launch", Launch.lane_order.offset, "i32")),
    }

    def at(offset: int) -> str:
        return b.value(f"getelementptr i8, ptr {access}, i64 {offset}", "ptr").text

    # A lane that spins asks again and again for what it saw before: only once there is something new is it told.
    align = 64 if W > 1 else 8
    before = b.value(f"load i32, ptr {at(Strong.mask.offset)}", "i32")
    seen = b.value(f"load {b.type_of(places)}, ptr {addresses}, align {align}", "i64", W)
    last = b.value(f"load i64, ptr {count}", "i64")
    published = _state(fn, RaceState.published.offset)
    news = b.lor(b.compare("ne", writes, 0), b.compare("ne", last, published))
    news = b.lor(news, b.compare("ne", b.land(mask, b.invert(before)), 0))
    news = b.lor(news, b.any(b.land(b.compare("ne", seen, places), active)))
    tell, told = b.fresh("tell"), b.fresh("told")
    b.line(f"br i1 {news.text}, label %{tell}, label %{told}")
    b.label(tell)
    b.line(f"store {b.typed(places)}, ptr {addresses}, align {align}")
    for offset, text in fields.items():
        b.line(f"store {text}, ptr {at(offset)}")
    first = b.value("zext i32 %t0 to i64", "i64")
    there = b.value(f"ptrtoint ptr {access} to i64", "i64")
    b.line(
        f"call i32 @kcheck.race.tell(ptr %launch, i32 {int(Event.STRONG)}, {b.typed(first)}, {b.typed(there)}, "
        "i64 0, i64 0)"
    )
    b.line(f"store {b.typed(_state(fn, RaceState.published.offset))}, ptr {count}")
    b.line(f"br label %{told}")
    b.label(told)


def _state(fn: FunctionLowering, offset: int) -> Value:
    """A 64-bit field of the state, as it is now."""
    b = fn.b
    state = fn.field("launch", Launch.race.offset, "ptr")
    pointer = b.value(f"getelementptr i8, ptr {state.text}, i64 {offset}", "ptr")
    return b.value(f"load i64, ptr {pointer.text}", "i64")


def _bits(fn: FunctionLowering, mask: Value) -> Value:
    """A mask as an integer of as many bits."""
    return fn.b.mask_bits(fn.b.splat(mask))
