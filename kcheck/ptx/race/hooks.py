"""What the lowering of accesses and of warp-level instructions calls; it adds nothing where racecheck is off."""

from __future__ import annotations

from collections.abc import Sequence

from kcheck.ptx.ast import Instruction
from kcheck.ptx.builder import Value
from kcheck.ptx.frame import Frame
from kcheck.ptx.race import accesses, cells
from kcheck.ptx.race.facts import CHECKED, kind_of
from kcheck.ptx.race.layout import WRITE
from kcheck.ptx.types import PtxType


def access(
    frame: Frame,
    i: Instruction,
    address: Value,
    space: str,
    kind: PtxType,
    site: int,
    count: int = 1,
    values: Sequence[Value] = (),
) -> None:
    """Check an access of ``count`` elements in each active lane, before it is made.

    Args:
        values: what a store is about to write.
    """
    facts = frame.unit.race
    if facts is None or space not in (*CHECKED, "generic"):
        return
    places = CHECKED if space == "generic" else (space,)
    if not any(facts.checks(place) for place in places):
        return
    unit, b, W = frame.unit, frame.b, frame.width
    race = kind_of(i)
    size = kind.bytes
    number = accesses.site_number(site)
    is_same = address.lanes == 1 and W > 1 and race != WRITE
    key = (race, space, size, is_same)
    if key not in unit.race_checks:
        for place in places:
            if facts.checks(place):
                name = cells.cell_name(race, place)
                if name not in unit.definitions:
                    unit.definitions[name] = cells.cell_ir(race, place, facts, unit.declarations)
        if is_same:
            unit.race_checks[key], text = accesses.same_ir(race, space, size, W, facts, unit.declarations)
            texts = [text]
        else:
            unit.race_checks[key], texts = accesses.vector_ir(race, space, size, W, facts, unit.declarations)
        unit.definitions[unit.race_checks[key]] = "\n".join(texts)
    mask = b.spread(frame.active)
    for n in range(count):
        at = b.add(address, n * size) if n else address
        if not is_same:
            at = b.spread(at)
        given = b.typed(at)
        if race == WRITE:
            value = b.spread(b.as_integer(values[n]))
            given += f", {b.typed(value)}"
        b.line(f"call void {unit.race_checks[key]}({given}, {b.typed(mask)}, {frame.context(number)})")


def warp(frame: Frame, members: Value) -> None:
    """The active lanes synchronise, those together that name each other. ``members``: their masks, i32.

    Vectors narrower than a warp have the scheduler say so, once for the warp.
    """
    facts = frame.unit.race
    if facts is None or frame.width != frame.unit.width:
        return
    b = frame.b
    active = frame.active_bits()
    if members.lanes == 1:
        b.line(f"call void @kcheck.race.warpall(ptr %launch, i32 %t0, {b.typed(active)}, {b.typed(members)})")
        return
    slot = f"%{b.fresh('masks')}"
    frame.prologue.line(f"{slot} = alloca [32 x i32], align 64")
    b.line(f"store {b.typed(members)}, ptr {slot}, align 64")
    number = b.value("lshr i32 %t0, 5", "i32")
    b.line(f"call void @kcheck.race.warp(ptr %launch, {b.typed(number)}, {b.typed(active)}, ptr {slot})")
