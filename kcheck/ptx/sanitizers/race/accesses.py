"""The functions that an access calls before it is made: whole vectors, one address for all lanes, lane by lane."""

from __future__ import annotations

import ctypes

from kcheck.ptx.abi import Launch, Worker
from kcheck.ptx.ir.builder import Builder, Value, vector_type
from kcheck.ptx.runtime.lookup import ARGUMENTS
from kcheck.ptx.sanitizers.race import cells
from kcheck.ptx.sanitizers.race.facts import CHECKED, RaceFacts
from kcheck.ptx.sanitizers.race.layout import SITE_MASK, THREAD_BITS, WRITE, Access, RaceState

PASS = "ptr %launch, ptr %worker, ptr %block, ptr %warp, i32 %t0, i32 %site"


def _spaces(space: str, facts: RaceFacts) -> list[str]:
    """The windows that an access may lie in, shared memory first."""
    wanted = CHECKED if space == "generic" else (space,)
    return [place for place in reversed(CHECKED) if place in wanted and facts.checks(place)]


def _state(b: Builder) -> None:
    b.line(f"%rsp = getelementptr i8, ptr %launch, i64 {Launch.race.offset}")
    b.line("%rs = load ptr, ptr %rsp")


def _inside(b: Builder, space: str, address: Value) -> tuple[Value, Value]:
    """The distance of an address from the window's start, and whether it lies in the window."""
    if space == "shared":
        pointer = b.value(f"getelementptr i8, ptr %worker, i64 {Worker.shared.offset}", "ptr")
        extent = RaceState.shared_size.offset
    else:
        pointer = b.value(f"getelementptr i8, ptr %rs, i64 {RaceState.global_base.offset}", "ptr")
        extent = RaceState.global_size.offset
    base = b.value(f"load i64, ptr {pointer.text}", "i64")
    limit = b.value(f"getelementptr i8, ptr %rs, i64 {extent}", "ptr")
    size = b.value(f"load i64, ptr {limit.text}", "i64")
    distance = b.sub(address, base)
    return distance, b.compare("ult", distance, size)


def _changed(
    b: Builder, low: Value, space: str, distance: Value, size: int, granule: int, mask: Value
) -> list[Value]:
    """For each part of W granules, the lanes whose store ``%v`` changes the value, i1.

    Args:
        low: the address of the first lane, ``distance`` its distance from the start of the window. Lanes that end
            outside the window, which memcheck reports, read nothing.
    """
    W, n = mask.lanes, size // granule
    kind, whole = vector_type(f"i{8 * size}", W), f"i{8 * size}"
    pointer = b.value(f"inttoptr i64 {low.text} to ptr", "ptr")
    extent = RaceState.shared_size.offset if space == "shared" else RaceState.global_size.offset
    limit = b.value(f"getelementptr i8, ptr %rs, i64 {extent}", "ptr")
    limit = b.value(f"load i64, ptr {limit.text}", "i64")
    ends = b.add(b.splat(distance, W), b.lanes_const("i64", [(i + 1) * size for i in range(W)]))
    inside = b.land(mask, b.compare("ule", ends, b.splat(limit, W)))
    if W == 1:
        slot = b.value(f"alloca {kind}", "ptr")
        b.line(f"store {kind} %v, ptr {slot.text}")
        pointer = b.value(f"select i1 {inside.text}, ptr {pointer.text}, ptr {slot.text}", "ptr")
        old = b.value(f"load {kind}, ptr {pointer.text}, align 1", whole)
    else:
        name = f"@llvm.masked.load.v{W}{whole}.p0"
        b.declarations[name] = f"declare {kind} {name}(ptr, i32, <{W} x i1>, {kind})"
        old = b.value(f"call {kind} {name}(ptr {pointer.text}, i32 1, {b.typed(inside)}, {kind} %v)", whole, W)
    if n == 1:
        return [b.compare("ne", old, Value("%v", whole, W))]
    pieces = f"<{W * n} x i{8 * granule}>"
    before = b.value(f"bitcast {kind} {old.text} to {pieces}", f"i{8 * granule}", W * n)
    after = b.value(f"bitcast {kind} %v to {pieces}", f"i{8 * granule}", W * n)
    differ = b.value(f"icmp ne {pieces} {before.text}, {after.text}", "i1", W * n)
    parts = []
    for part in range(n):
        if W == 1:
            parts.append(b.value(f"extractelement <{n} x i1> {differ.text}, i32 {part}", "i1"))
            continue
        order = ", ".join(f"i32 {part * W + i}" for i in range(W))
        text = f"shufflevector {b.typed(differ)}, <{W * n} x i1> poison, <{W} x i32> <{order}>"
        parts.append(b.value(text, "i1", W))
    return parts


def _index(b: Builder, distance: Value, granule: int) -> Value:
    return b.shift("lshr", distance, granule.bit_length() - 1)


def vector_ir(
    kind: int, space: str, size: int, width: int, facts: RaceFacts, declarations: dict[str, str]
) -> tuple[str, list[str]]:
    """``check(addresses, [values,] mask, context)`` of W accesses of ``size`` bytes: its name, and definitions.

    Lanes side by side are checked side by side; others, and whatever may be a race, one by one.
    """
    W = width
    name = f"@kcheck.race.{cells.NAMES[kind]}.{space}.{size}.v{W}"
    A, M = vector_type("i64", W), vector_type("i1", W)
    value = f", {vector_type(f'i{8 * size}', W)} %v" if kind == WRITE else ""
    b = Builder(W, declarations, {}, prefix="r")
    if W == 1:
        b.line("br i1 %m, label %on, label %done")
        b.label("on")
    _state(b)
    addresses, mask = Value("%a", "i64", W), Value("%m", "i1", W)
    low = b.extract(addresses, 0)
    if W > 1:
        expected = b.add(b.splat(low), b.lanes_const("i64", [i * size for i in range(W)]))
        apart = b.any(b.land(b.compare("ne", expected, addresses), mask))
        b.line(f"br i1 {apart.text}, label %slow, label %side")
        b.label("side")
    site = b.shift("shl", Value("%site", "i32"), THREAD_BITS)
    warp = b.shift("lshr", Value("%t0", "i32"), 5)
    for number, place in enumerate(_spaces(space, facts)):
        granule = facts.granule[place]
        distance, inside = _inside(b, place, low)
        b.line(f"br i1 {inside.text}, label %in{number}, label %not{number}")
        b.label(f"in{number}")
        t = cells.times(b, facts, warp)
        n = size // granule
        index = _index(b, distance, granule)
        changed: list[Value] | None = None
        if kind == WRITE and cells.weighs_values(place, facts):
            changed = _changed(b, low, place, distance, size, granule, mask)
        for part in range(n):
            lanes = [(part * W + i) // n for i in range(W)]
            threads = b.add(Value("%t0", "i32"), b.lanes_const("i32", lanes))
            me = b.lor(b.splat(site), threads)
            spread_mask = mask
            if n > 1 and W > 1:
                order = ", ".join(f"i32 {lane}" for lane in lanes)
                text = f"shufflevector {M} %m, {M} poison, <{W} x i32> <{order}>"
                spread_mask = b.value(text, "i1", W)
            here = cells.Cells(b, place, facts, t, b.add(index, part * W) if part else index, me, spread_mask)
            done = b.fresh("part")
            cells.chunk(here, kind, "slow", done, changed[part] if changed is not None else None)
            b.label(done)
        b.line("br label %done")
        b.label(f"not{number}")
    b.line("br label %slow")
    b.label("slow")
    b.line(f"call void {name}.each({A} %a{value}, {M} %m, {PASS})")
    b.line("br label %done")
    b.label("done")
    b.line("ret void")
    head = f"define internal void {name}({A} %a{value}, {M} %m, {ARGUMENTS}) noinline {{"
    texts = ["\n".join([head, *b.lines, "}"]), _each_ir(name, kind, space, size, W, facts, declarations)]
    return name, texts


def _access(b: Builder, size: int, width: int, has_values: bool) -> None:
    """Room for a description of the access, at ``%access``; ``%as`` and ``%vs`` are the lanes' operands."""
    b.line(f"%access = alloca [{ctypes.sizeof(Access)} x i8], align 8")
    b.line(f"%as = alloca [{width} x i64], align 64")
    b.line(f"%vs = alloca [{width} x i{8 * size}], align 64")
    fields = {
        Access.addresses.offset: "ptr %as",
        Access.values.offset: "ptr %vs" if has_values else "ptr null",
        Access.size.offset: f"i32 {size}",
        Access.t0.offset: "i32 %t0",
    }
    for offset, text in fields.items():
        pointer = b.value(f"getelementptr i8, ptr %access, i64 {offset}", "ptr")
        b.line(f"store {text}, ptr {pointer.text}")


def _set(b: Builder, offset: int, value: Value) -> None:
    pointer = b.value(f"getelementptr i8, ptr %access, i64 {offset}", "ptr")
    b.line(f"store {b.typed(value)}, ptr {pointer.text}")


def _one_lane(b: Builder, kind: int, space: str, size: int, facts: RaceFacts, lane: Value, address: Value) -> None:
    """Check one lane's access, granule after granule."""
    _set(b, Access.lane.offset, lane)
    site = b.shift("shl", Value("%site", "i32"), THREAD_BITS)
    me = b.lor(site, b.add(Value("%t0", "i32"), lane))
    out = b.fresh("out")
    for place in _spaces(space, facts):
        granule = facts.granule[place]
        distance, inside = _inside(b, place, address)
        here, there = b.fresh("here"), b.fresh("there")
        b.line(f"br i1 {inside.text}, label %{here}, label %{there}")
        b.label(here)
        index = _index(b, distance, granule)
        for n in range(size // granule):
            at = b.add(index, n) if n else index
            byte = b.add(address, n * granule) if n else address
            b.line(
                f"call void {cells.cell_name(kind, place)}(ptr %rs, {b.typed(at)}, {b.typed(me)}, ptr %access, "
                f"{b.typed(byte)}, ptr %launch, ptr %block)"
            )
        b.line(f"br label %{out}")
        b.label(there)
    b.line(f"br label %{out}")
    b.label(out)


def _each_ir(
    name: str, kind: int, space: str, size: int, width: int, facts: RaceFacts, declarations: dict[str, str]
) -> str:
    """The same lane by lane, in the order of the lanes."""
    W = width
    A, M, V = vector_type("i64", W), vector_type("i1", W), vector_type(f"i{8 * size}", W)
    b = Builder(1, declarations, {}, prefix="e")
    _access(b, size, W, kind == WRITE)
    _state(b)
    b.line(f"store {A} %a, ptr %as, align 8")
    if kind == WRITE:
        b.line(f"store {V} %v, ptr %vs, align {size}")
    if W == 1:
        bits = b.value("zext i1 %m to i32", "i32")
    else:
        narrow = b.value(f"bitcast {M} %m to i{W}", f"i{W}" if W > 1 else "i1")
        bits = narrow if W == 32 else b.value(f"zext i{W} {narrow.text} to i32", "i32")
    _set(b, Access.mask.offset, bits)
    b.line("%left = alloca i32")
    b.line(f"store {b.typed(bits)}, ptr %left")
    b.line("br label %loop")
    b.label("loop")
    left = b.value("load i32, ptr %left", "i32")
    b.line(f"br i1 {b.compare('ne', left, 0).text}, label %lane, label %done")
    b.label("lane")
    lane = b.flagged_intrinsic("cttz", left, False)
    b.line(f"store {b.typed(b.land(left, b.sub(left, 1)))}, ptr %left")
    pointer = b.value(f"getelementptr i64, ptr %as, {b.typed(lane)}", "ptr")
    address = b.value(f"load i64, ptr {pointer.text}", "i64")
    _one_lane(b, kind, space, size, facts, lane, address)
    b.line("br label %loop")
    b.label("done")
    b.line("ret void")
    value = f", {V} %v" if kind == WRITE else ""
    head = f"define internal void {name}.each({A} %a{value}, {M} %m, {ARGUMENTS}) noinline {{"
    return "\n".join([head, *b.lines, "}"])


def same_ir(
    kind: int, space: str, size: int, width: int, facts: RaceFacts, declarations: dict[str, str]
) -> tuple[str, str]:
    """``check(address, mask, context)`` of a load or atomic that all active lanes make of one address.

    The first lane and the last stand for all: lanes of one instruction do not conflict with each other, and two
    records are as good as all.
    """
    W = width
    name = f"@kcheck.race.{cells.NAMES[kind]}.{space}.{size}.same"
    M = vector_type("i1", W)
    b = Builder(1, declarations, {}, prefix="s")
    _access(b, size, W, False)
    _state(b)
    narrow = Value("%bits", f"i{W}")
    b.line(f"%bits = bitcast {M} %m to i{W}")
    b.line(f"br i1 {b.compare('eq', narrow, 0).text}, label %done, label %some")
    b.label("some")
    address = Value("%a", "i64")
    first = b.resize(b.flagged_intrinsic("cttz", narrow, False), "i32")
    last = b.sub(b.const("i32", W - 1), b.resize(b.flagged_intrinsic("ctlz", narrow, False), "i32"))
    for lane in (first, last):
        pointer = b.value(f"getelementptr i64, ptr %as, {b.typed(lane)}", "ptr")
        b.line(f"store i64 %a, ptr {pointer.text}")
    _one_lane(b, kind, space, size, facts, first, address)
    b.line(f"br i1 {b.compare('eq', first, last).text}, label %done, label %second")
    b.label("second")
    _one_lane(b, kind, space, size, facts, last, address)
    b.line("br label %done")
    b.label("done")
    b.line("ret void")
    head = f"define internal void {name}(i64 %a, {M} %m, {ARGUMENTS}) noinline {{"
    return name, "\n".join([head, *b.lines, "}"])


def site_number(site: int) -> int:
    """A site as infos hold it; all beyond the last number share it."""
    return min(site, SITE_MASK)
