"""racecheck while a kernel is lowered: adds calls to functions that track accesses and synchronization."""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from kcheck.ptx.abi import Launch
from kcheck.ptx.analysis.cfg import Cfg
from kcheck.ptx.analysis.replicas import ALL, THREADS, needed_loads
from kcheck.ptx.ir.builder import Value
from kcheck.ptx.ir.calls import call
from kcheck.ptx.ir.records import load_field
from kcheck.ptx.ir.signature import Definition, Signature
from kcheck.ptx.isa.events import Access, AccessGroup, Copy, Observer, Update
from kcheck.ptx.isa.loadstore import unchecked_load
from kcheck.ptx.lowering.function import FunctionLowering
from kcheck.ptx.lowering.module import ModuleLowering
from kcheck.ptx.lowering.sanitizer import Sanitizer
from kcheck.ptx.lowering.warp_emulation import WarpObserver, WarpView
from kcheck.ptx.runtime.copies import CopyWatcher
from kcheck.ptx.runtime.copy_queue import CopyQueue
from kcheck.ptx.runtime.lookup import CONTEXT, code_context
from kcheck.ptx.runtime.warp_rendezvous import RACE_WARP
from kcheck.ptx.sanitizers.origins import rarely
from kcheck.ptx.sanitizers.race import cells, judge, sync
from kcheck.ptx.sanitizers.race.accesses import definitions, site_number
from kcheck.ptx.sanitizers.race.checked_access import CheckedAccess
from kcheck.ptx.sanitizers.race.facts import (
    RaceFacts,
    is_mbarrier,
    is_narrow,
    is_strong,
    kind_of,
    race_facts,
)
from kcheck.ptx.sanitizers.race.groups import GROUP_CONTEXT, CheckedGroup, group_ir
from kcheck.ptx.sanitizers.race.inflight import WORD, FilledMemory
from kcheck.ptx.sanitizers.race.layout import (
    ATOMIC,
    NARROW,
    READ,
    STRONG_READ,
    THREAD_BITS,
    WRITE,
    RaceState,
    Strong,
)
from kcheck.ptx.sanitizers.race.pointers import pointer_use
from kcheck.ptx.sanitizers.race.roles import roles
from kcheck.ptx.sanitizers.race.strong import FIRST, LAUNCH, StrongReport
from kcheck.ptx.sanitizers.race.weak import strengths, waiting_atomics
from kcheck.ptx.syntax.ast import Function, Instruction
from kcheck.ptx.syntax.types import TYPES


class Racecheck(Sanitizer):
    """Finds conflicting accesses that are not ordered."""

    sees_rows = True

    def begin(self, unit: ModuleLowering, functions: Sequence[Function]) -> None:
        """Find what must be checked, and add the functions that check it."""
        strong = strengths(functions, unit.module)
        facts = race_facts(functions, strong)
        waiting = waiting_atomics(functions, unit.module.file) if facts.fences else frozenset()
        follows_needs = unit.module.replicates and facts.checks("global")
        needed = needed_loads(functions[0], unit.module.file) if follows_needs else {}
        unit.pointers, groups = pointer_use(functions)
        self._checks = CheckFunctions(unit, facts, needed, groups, strong, waiting)
        unit.roles = roles(functions, unit.module.file)
        unit.follows_barriers = True
        unit.definitions.update(sync.definitions(facts.fences))
        unit.definitions.update(judge.definitions(facts.fences))
        unit.declarations.update(sync.DECLARATIONS)

    def observe(self, fn: FunctionLowering, cfg: Cfg) -> Observer:
        """Observe every function: even one without accesses may synchronize."""
        return RaceObserver(fn, self._checks)

    def watch_copies(self, unit: ModuleLowering, queue: CopyQueue) -> CopyWatcher:
        """The destination of an asynchronous copy must not be accessed until the wait, when it is written."""
        granules = self._checks.facts.granule
        granules.setdefault("shared", WORD)
        check = self._checks.function(CheckedAccess(WRITE, "shared", WORD, unit.width))
        return FilledMemory(queue, granules["shared"], check)


class CheckFunctions:
    """The functions of one kernel that check accesses, defined on first use.

    Args:
        needed: by load (``id``), the threads that need its value; other loads are needed by all threads.
        groups: by load (``id``), its bit in ``RaceState.unchanged``.
        strengths: by access (``id``), whether it is strong where its modifiers are silent.
        waiting: atomics (by ``id``) of waiting loops, as of locks, that do not acquire.
    """

    def __init__(
        self,
        unit: ModuleLowering,
        facts: RaceFacts,
        needed: Mapping[int, int],
        groups: Mapping[int, int],
        strengths: Mapping[int, bool],
        waiting: Collection[int],
    ) -> None:
        self.facts = facts
        self.strengths = strengths
        self.waiting = waiting
        self.needed = needed
        self.groups = groups
        self._unit = unit
        self._defined: set[CheckedAccess] = set()

    def function(self, access: CheckedAccess) -> Signature:
        """The function that checks an access."""
        if access not in self._defined:
            self._defined.add(access)
            functions, declarations = _functions(access, self.facts)
            self._unit.definitions.update(functions)
            self._unit.declarations.update(declarations)
        return access.signature

    def group_function(self, group: CheckedGroup) -> Signature:
        """The function that checks a group of loads."""
        definition, declarations = _group_function(group, self.facts)
        self._unit.definitions[group.signature.name] = definition
        self._unit.declarations.update(declarations)
        return group.signature

    def words(self, words: Sequence[int]) -> str:
        """The name of a constant with these words."""
        values = ", ".join(f"i32 {word}" for word in words)
        name = f"@kcheck.race.group.{len(self._unit.tables)}"
        self._unit.tables[name] = f"{name} = private constant [{len(words)} x i32] [{values}]"
        return name

    def table(self, threads: int) -> str:
        """The name of a constant with a set of threads, 32 bits for each warp."""
        words = [threads >> n & (1 << 32) - 1 for n in range(0, THREADS, 32)]
        name = f"@kcheck.race.needed.{threads:x}"
        values = ", ".join(f"i32 {word}" for word in words)
        self._unit.tables[name] = f"{name} = private constant [{len(words)} x i32] [{values}]"
        return name


@functools.lru_cache(512)
def _functions(access: CheckedAccess, facts: RaceFacts) -> tuple[dict[str, Definition], dict[str, str]]:
    """The functions that check an access, and what they declare. Most kernels need the same ones, and writing them
    takes a fifth of the time of lowering with racecheck."""
    declarations: dict[str, str] = {}
    places = access.places(facts)
    found = [cells.cell_ir(access.kind, space, facts, declarations) for space in places]
    functions = {function.name: function for function in found}
    return functions | definitions(access, facts, declarations), declarations


@functools.lru_cache(64)
def _group_function(group: CheckedGroup, facts: RaceFacts) -> tuple[Definition, dict[str, str]]:
    """The function that checks a group of loads, and what it declares; kept as :func:`_functions`."""
    declarations: dict[str, str] = {}
    return group_ir(group, facts, declarations), declarations


class RaceObserver(WarpObserver):
    """Checks the accesses of one function."""

    wants_outcome = True

    def __init__(self, fn: FunctionLowering, checks: CheckFunctions) -> None:
        self.fn = fn
        self.facts = checks.facts
        self._checks = checks

    def accesses(self, i: Instruction, access: Access, values: Sequence[Value] = ()) -> None:
        """Check an access before it is made. A compare-and-swap is checked when its outcome is known."""
        if "cas" not in i.modifiers:
            self._accesses(i, access, values)

    def accesses_row(
        self, i: Instruction, access: Access, step: Value | int, values: Sequence[Value] = ()
    ) -> None:
        """Check a row of elements before it is loaded or stored."""
        assert isinstance(step, int)
        if step == access.kind.bytes and self._kind(i) in (READ, WRITE):
            self._accesses(i, access, values, is_row=True)
        else:
            steps = self.fn.b.lanes_const("i64", [n * step for n in range(self.fn.width)])
            self._accesses(i, replace(access, address=self.fn.b.add(access.address, steps)), values)

    def groups(self, load: Instruction) -> bool:
        """Plain loads of one granule in each lane are checked together."""
        if not self.facts.checks("shared"):
            return True
        is_granule = TYPES[load.modifiers[-1]].bytes == self.facts.granule["shared"]
        return is_granule and self._kind(load) == READ and self._checks.needed.get(id(load), ALL) == ALL

    def accesses_group(self, group: AccessGroup) -> Value | None:
        """Check a group of loads before the first."""
        fn, b = self.fn, self.fn.b
        if not self.facts.checks("shared"):
            return None
        checked = CheckedGroup(group.size, fn.width, group.is_row)
        steps = checked.steps([(distance, site_number(site)) for distance, site in group.loads])
        words = self._checks.words([word for step in steps for word in step])
        given: dict[str, Value | int] = {name: Value(f"%{name}", CONTEXT[name]) for name in GROUP_CONTEXT}
        given |= {"words": b.address_of(words), "count": len(steps), "span": checked.span(group.loads)}
        function = self._checks.group_function(checked)
        return call(b, function, a=group.address, m=_bits(fn, fn.active), **given)

    def _accesses(self, i: Instruction, access: Access, values: Sequence[Value], is_row: bool = False) -> None:
        group = self._checks.groups.get(id(i))
        if group is None:
            self._check(i, access, self._kind(i), values, self._needed(i), is_row)
            return
        fn, b = self.fn, self.fn.b
        state = fn.field(Launch, Launch.race, element="ptr")
        unchanged = load_field(b, RaceState, state.text, RaceState.unchanged)
        with b.when(b.compare("eq", b.land(unchanged, 1 << group), 0)):
            self._check(i, access, self._kind(i), values, self._needed(i), is_row)

    def _kind(self, i: Instruction) -> int:
        return kind_of(i, self._checks.strengths)

    def _needed(self, i: Instruction) -> Value | None:
        """The lanes that need the result of a load; None if all do."""
        threads = self._checks.needed.get(id(i), ALL)
        if threads == ALL:
            return None
        b, width = self.fn.b, self.fn.width
        warp = b.resize(b.shift("lshr", FIRST, 5), "i64")
        table = b.address_of(self._checks.table(threads))
        place = b.value(f"getelementptr i32, ptr {table.text}, i64 {warp.text}", "ptr")
        word = b.value(f"load i32, ptr {place.text}", "i32")
        return b.bits_mask(b.resize(b.shift("lshr", word, b.land(FIRST, 31)), f"i{width}"), width)

    def updated(self, i: Instruction, update: Update, succeeded: Value | None) -> None:
        """A compare-and-swap writes in lanes where it succeeded, and reads in others; any atomic may publish."""
        if succeeded is not None:
            self._check(i, update.access, ATOMIC, only=succeeded)
            self._check(i, update.access, STRONG_READ, only=self.fn.b.invert(succeeded))
        self._strong(i, update.addresses, succeeded)

    def synchronizes(self, members: Value, orders: bool) -> None:
        """Report that lanes meet. For a warp in several vectors, the scheduler does this once for all."""
        fn, b = self.fn, self.fn.b
        given: dict[str, Value | int] = {"launch": LAUNCH, "active": fn.active_bits(), "orders": int(orders)}
        if members.lanes == 1:
            call(b, sync.WARP_ALL, **given, t0=FIRST, mask=members)
            return
        slot = f"%{b.fresh('masks')}"
        fn.prologue.line(f"{slot} = alloca [32 x i32], align 64")
        b.line(f"store {b.typed(members)}, ptr {slot}, align 64")
        warp = b.shift("lshr", FIRST, 5)
        call(b, RACE_WARP, **given, warp=warp, masks=Value(slot, "ptr"))

    def fences(self, i: Instruction) -> None:
        """From here on, earlier accesses of the active lanes may be published."""
        fn, b = self.fn, self.fn.b
        lanes = b.resize(_bits(fn, fn.active), "i32")
        call(b, sync.FENCE, launch=LAUNCH, t0=FIRST, lanes=lanes, within=int("cta" in i.modifiers))

    def meets(self, i: Instruction, addresses: Value) -> None:
        """An arrival publishes; a thread that sees the phase complete observes it."""
        self._strong(i, addresses)

    def seen_by(self, view: WarpView, instruction: Instruction, column: int) -> Observer | None:
        """None for a warp in several vectors, whose synchronization the scheduler reports."""
        return RaceObserver(view, self._checks) if view.real.width == view.width else None

    def copies(self, i: Instruction, copy: Copy) -> None:
        """Check a copy word by word: from here on it reads the source and writes the destination."""
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
        is_row: bool = False,
    ) -> None:
        """Check an access in the active lanes.

        Args:
            is_row: whether the lanes access a row of elements; its address is that of the first one.
            race: the kind of record that it leaves.
            values: what a store is about to write.
            only: the lanes that leave a record; None: all active lanes.
        """
        facts, space, size, address = self.facts, access.space, access.kind.bytes, access.address
        if not CheckedAccess(race, space, size, 1).places(facts):
            return
        fn, b, W = self.fn, self.fn.b, self.fn.width
        mask = fn.active if only is None else b.land(fn.active, only)
        if facts.fences and i.opcode in ("ld", "ldu", "st") and is_strong(i):
            self._strong(i, address)
        number = site_number(access.site)
        if is_narrow(i) and race not in (READ, WRITE):
            number |= NARROW >> THREAD_BITS
        if is_row:
            row = self._checks.function(CheckedAccess(race, space, size, W, is_row=True))
            value = {"v": b.splat(b.as_integer(values[0]))} if race == WRITE else {}
            call(b, row, a=address, **value, m=_bits(fn, mask), **code_context(number))
            return
        is_same = address.lanes == 1 and W > 1 and race != WRITE
        check = self._checks.function(CheckedAccess(race, space, size, W, is_same))
        for n in range(access.count):
            at = b.add(address, n * size) if n else address
            value = {"v": b.splat(b.as_integer(values[n]))} if race == WRITE else {}
            at = at if is_same else b.splat(at)
            call(b, check, a=at, **value, m=b.splat(mask), **code_context(number))

    def _strong(self, i: Instruction, address: Value, succeeded: Value | None = None) -> None:
        """Report an atomic or a strong load or store, which may publish and observe if the kernel has fences.

        Args:
            succeeded: of a compare-and-swap, the lanes that wrote; None: all.
        """
        if not self.facts.fences:
            return
        fn, b = self.fn, self.fn.b
        mask = b.resize(_bits(fn, fn.active), "i32")
        writes = mask
        if succeeded is not None:
            writes = b.resize(_bits(fn, b.land(b.splat(fn.active), b.splat(succeeded))), "i32")
        elif kind_of(i) == STRONG_READ:
            writes = b.const("i32", 0)
        words = set(i.modifiers)
        if is_mbarrier(i):  # its defaults
            words |= {"release", "cta"}
        report = StrongReport(fn)
        is_new = report.is_new(address, mask, writes)
        fields: list[tuple[object, Value | int]] = [
            (Strong.mask, mask),
            (Strong.writes, writes),
            (Strong.reads, int(i.opcode != "st")),
            (Strong.releases, int(not words.isdisjoint(("release", "acq_rel")))),
            (Strong.within, int("cta" in words)),
            (Strong.order, fn.field(Launch, Launch.lane_order)),
            (Strong.waits, int(id(i) in self._checks.waiting)),
        ]
        rarely(fn, is_new, lambda: report.send(address, fields))


def _bits(fn: FunctionLowering, mask: Value) -> Value:
    """A mask as an integer of W bits."""
    return fn.b.mask_bits(fn.b.splat(mask))
