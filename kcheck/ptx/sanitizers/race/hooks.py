"""racecheck while a kernel is lowered: it adds calls to what checks accesses and keeps threads in order."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from kcheck.ptx.abi import Launch
from kcheck.ptx.analysis.cfg import Cfg
from kcheck.ptx.ir.builder import Value
from kcheck.ptx.isa.events import Access, Copy, Observer, Update
from kcheck.ptx.isa.loadstore import unchecked_load
from kcheck.ptx.lowering.function import FunctionLowering
from kcheck.ptx.lowering.module import ModuleLowering
from kcheck.ptx.lowering.sanitizer import Sanitizer
from kcheck.ptx.lowering.warp_emulation import WarpObserver, WarpView
from kcheck.ptx.runtime.copies import CopyWatcher
from kcheck.ptx.runtime.copy_queue import CopyQueue
from kcheck.ptx.sanitizers.race import accesses, cells, judge, sync
from kcheck.ptx.sanitizers.race.facts import CHECKED, RaceFacts, gather, is_mbarrier, kind_of
from kcheck.ptx.sanitizers.race.guards import testing_loads
from kcheck.ptx.sanitizers.race.inflight import WORD, FilledMemory
from kcheck.ptx.sanitizers.race.layout import ATOMIC, READ, STRONG_READ, WRITE, Event, RaceState, Strong
from kcheck.ptx.syntax.ast import Function, Instruction
from kcheck.ptx.syntax.types import TYPES


class Racecheck(Sanitizer):
    """Finds accesses that nothing puts in order."""

    def begin(self, unit: ModuleLowering, functions: Sequence[Function]) -> None:
        """Find out what there is to check, and add the functions that check it."""
        facts = gather(functions)
        self._checks = CheckFunctions(unit, facts)
        unit.tests = testing_loads(functions, unit.module.file)
        unit.follows_barriers = True
        unit.definitions.update(sync.definitions(facts.fences))
        unit.definitions.update(judge.definitions(facts.fences))
        unit.declarations.update(sync.DECLARATIONS)

    def observe(self, fn: FunctionLowering, cfg: Cfg) -> Observer:
        """Every function is watched: even one without accesses may synchronize."""
        return RaceObserver(fn, self._checks)

    def watch_copies(self, unit: ModuleLowering, queue: CopyQueue) -> CopyWatcher:
        """What an asynchronous copy fills is busy until the wait for it, which is when it is written."""
        granules = self._checks.facts.granule
        granules.setdefault("shared", WORD)
        return FilledMemory(queue, granules["shared"], self._checks.name(WRITE, "shared", WORD, False))


class CheckFunctions:
    """The functions of one kernel that check accesses, defined on first use."""

    def __init__(self, unit: ModuleLowering, facts: RaceFacts) -> None:
        self.facts = facts
        self._unit = unit
        self._names: dict[tuple[int, str, int, bool], str] = {}

    def name(self, race: int, space: str, size: int, is_same: bool) -> str:
        """The function for accesses of ``size`` bytes that leave a kind of record; ``is_same``: at one address."""
        key = (race, space, size, is_same)
        if key not in self._names:
            unit, facts = self._unit, self.facts
            for place in CHECKED if space == "generic" else (space,):
                if facts.checks(place):
                    name = cells.cell_name(race, place)
                    if name not in unit.definitions:
                        unit.definitions[name] = cells.cell_ir(race, place, facts, unit.declarations)
            arguments = (race, space, size, unit.width, facts, unit.declarations)
            if is_same:
                self._names[key], text = accesses.same_ir(*arguments)
                texts = [text]
            else:
                self._names[key], texts = accesses.vector_ir(*arguments)
            unit.definitions[self._names[key]] = "\n".join(texts)
        return self._names[key]


class RaceObserver(WarpObserver):
    """The accesses of one function."""

    wants_outcome = True

    def __init__(self, fn: FunctionLowering, checks: CheckFunctions) -> None:
        self.fn = fn
        self.facts = checks.facts
        self._checks = checks

    def accesses(self, i: Instruction, access: Access, values: Sequence[Value] = ()) -> None:
        """Check an access before it is made; a compare-and-swap once it is known where it writes."""
        if "cas" not in i.modifiers:
            self._check(i, access, kind_of(i), values)

    def updated(self, i: Instruction, update: Update, succeeded: Value | None) -> None:
        """A compare-and-swap writes where it succeeded, and reads elsewhere; any atomic may publish."""
        if succeeded is not None:
            self._check(i, update.access, ATOMIC, only=succeeded)
            self._check(i, update.access, STRONG_READ, only=self.fn.b.invert(succeeded))
        self._strong(i, update.addresses, succeeded)

    def synchronizes(self, members: Value) -> None:
        """Report it; of a warp in several vectors the scheduler does, once for all of them."""
        fn, b = self.fn, self.fn.b
        active = fn.active_bits()
        if members.lanes == 1:
            b.line(f"call void @kcheck.race.warpall(ptr %launch, i32 %t0, {b.typed(active)}, {b.typed(members)})")
            return
        slot = f"%{b.fresh('masks')}"
        fn.prologue.line(f"{slot} = alloca [32 x i32], align 64")
        b.line(f"store {b.typed(members)}, ptr {slot}, align 64")
        number = b.value("lshr i32 %t0, 5", "i32")
        b.line(f"call void @kcheck.race.warp(ptr %launch, {b.typed(number)}, {b.typed(active)}, ptr {slot})")

    def fences(self, i: Instruction) -> None:
        """What the active lanes did may be published from here on."""
        fn, b = self.fn, self.fn.b
        lanes = b.resize(_bits(fn, fn.active), "i32")
        within = int("cta" in i.modifiers)
        b.line(f"call void @kcheck.race.fence(ptr %launch, i32 %t0, {b.typed(lanes)}, i64 {within})")

    def meets(self, i: Instruction, addresses: Value) -> None:
        """An arrival publishes, and who sees a phase complete observes it."""
        self._strong(i, addresses)

    def seen_by(self, view: WarpView, instruction: Instruction, column: int) -> Observer | None:
        """The scheduler reports what a warp in several vectors does."""
        return RaceObserver(view, self._checks) if view.real.width == view.width else None

    def copies(self, i: Instruction, copy: Copy) -> None:
        """A word at a time: the source is read, and the destination written, from here on."""
        b, words = self.fn.b, TYPES["b32"]
        for start in range(0, copy.size, WORD):
            read = b.compare("ugt", copy.amount, start)
            here = b.add(copy.source, start)
            self._check(i, Access(here, "global", words, copy.reads), READ, only=read)
            whole = b.land(self.fn.active, b.compare("uge", copy.amount, start + WORD))
            value = unchecked_load(self.fn, here, b.splat(whole), words)
            written = Access(b.add(copy.target, start), "shared", words, copy.writes)
            self._check(i, written, WRITE, [value], b.const("i1", 1))

    def _check(
        self,
        i: Instruction,
        access: Access,
        race: int,
        values: Sequence[Value] = (),
        only: Value | None = None,
    ) -> None:
        """Check an access in the active lanes.

        Args:
            race: the kind of record that it leaves.
            values: what a store is about to write.
            only: the lanes that leave a record; None: all that are active.
        """
        facts, space, size, address = self.facts, access.space, access.kind.bytes, access.address
        if space not in (*CHECKED, "generic"):
            return
        places = CHECKED if space == "generic" else (space,)
        if not any(facts.checks(place) for place in places):
            return
        fn, b, W = self.fn, self.fn.b, self.fn.width
        mask = fn.active if only is None else b.land(fn.active, only)
        if facts.fences and i.opcode in ("ld", "ldu", "st") and race not in (READ, WRITE):
            self._strong(i, address)
        number = accesses.site_number(access.site)
        is_same = address.lanes == 1 and W > 1 and race != WRITE
        check = self._checks.name(race, space, size, is_same)
        mask = b.splat(mask)
        for n in range(access.count):
            at = b.add(address, n * size) if n else address
            if not is_same:
                at = b.splat(at)
            given = b.typed(at)
            if race == WRITE:
                value = b.splat(b.as_integer(values[n]))
                given += f", {b.typed(value)}"
            b.line(f"call void {check}({given}, {b.typed(mask)}, {fn.context(number)})")

    def _strong(self, i: Instruction, address: Value, succeeded: Value | None = None) -> None:
        """An atomic or a strong load or store, which may publish and observe where the kernel has fences.

        Args:
            succeeded: of a compare-and-swap, the lanes that wrote; None: all.
        """
        if not self.facts.fences:
            return
        fn, b, W = self.fn, self.fn.b, self.fn.width
        record, addresses, count = (f"%{b.fresh(name)}" for name in ("strong", "places", "published"))
        fn.prologue.line(f"{record} = alloca [{ctypes.sizeof(Strong)} x i8], align 8")
        fn.prologue.line(f"store [{ctypes.sizeof(Strong)} x i8] zeroinitializer, ptr {record}")
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
            return b.value(f"getelementptr i8, ptr {record}, i64 {offset}", "ptr").text

        # A lane that spins asks again and again for what it saw before: report only what is new.
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
        there = b.value(f"ptrtoint ptr {record} to i64", "i64")
        b.line(
            f"call i32 @kcheck.race.tell(ptr %launch, i32 {int(Event.STRONG)}, {b.typed(first)}, "
            f"{b.typed(there)}, i64 0, i64 0)"
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
