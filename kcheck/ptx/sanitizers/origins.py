"""Where the values in later reports came from: records by site and thread, and the reports that use them.

A load of undefined bits, or arithmetic that wraps, is recorded where it happens, which is rare; only a bad use of
the value is an error. The sites that a use may get its value from are known when a function is lowered: the
report names the one that the thread executed last.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace

from kcheck.ptx.abi import FaultKind, Launch, SiteCache, Worker
from kcheck.ptx.ir.builder import Value, vector_type
from kcheck.ptx.ir.calls import call
from kcheck.ptx.ir.flow import UNLIKELY
from kcheck.ptx.ir.function import FunctionBuilder, Term
from kcheck.ptx.ir.records import Record
from kcheck.ptx.ir.records import record as record_of
from kcheck.ptx.ir.signature import Definition, Signature
from kcheck.ptx.lowering.function import FunctionLowering
from kcheck.ptx.lowering.module import ModuleLowering
from kcheck.ptx.lowering.sanitizer import Sanitizer
from kcheck.ptx.origin_records import KEPT, Kept, Origin, Origins
from kcheck.ptx.runtime.block_scheduler import FRESH_BLOCK, Fresh
from kcheck.ptx.runtime.faults import report_fault
from kcheck.ptx.runtime.layout import WARP
from kcheck.ptx.runtime.lookup import CONTEXT
from kcheck.ptx.syntax.ast import Operation

_REPORTS = 16
"""The maximum number of reports for one site and worker, so that a loop does not fill the buffer."""

WHERE = {"launch": "ptr", "worker": "ptr", "block": "ptr", "t0": "i32"}
"""The parameters that identify the vector, for :data:`TELL`."""

TELL = Signature("@kcheck.tell", "void", {**WHERE, "site": "i32", "kind": "i32", "lanes": "i32", "sources": "ptr"})
"""Reports a bad use in the first of ``lanes``. ``sources`` are the sites that the value may come from, then -1.
The report names the one that this thread executed last."""


def rarely(fn: FunctionLowering, condition: Value, body: Callable[[], None]) -> None:
    """Run rarely executed code if a scalar condition holds."""
    with fn.b.when(condition, UNLIKELY):
        body()


class OriginLog(Sanitizer):
    """The records of one kernel, for the sanitizers that share them."""

    sees_rows = True

    def __init__(self) -> None:
        self._sites: dict[int, int] = {}  # the site of a record, by key
        self._uses: dict[str, frozenset[int | None]] = {}  # the keys that a use may get its value from, by table

    def record(self, fn: FunctionLowering, key: int, site: int, what: Value, bad: Value, size: int = 0) -> None:
        """Record a site as the source of a value in the active lanes in which the value is bad.

        Args:
            key: the key of this site for :meth:`tell`.
            what: an address or a number, an integer.
            bad: i1; a scalar applies to all lanes, at least one of which is active.
            size: the bytes that were loaded from the address ``what``; 0: it is a number.
        """
        b = fn.b
        self._sites[key] = site
        signature = origin_signature(fn.width)
        if signature.name not in fn.unit.definitions:
            fn.unit.definitions[signature.name] = _origin_ir(fn.width, fn.unit.declarations)
        active = b.splat(fn.active)

        def note() -> None:
            lanes, wide = b.splat(b.land(active, bad)), b.splat(b.resize(what, "i64"))
            b.invoke(signature.name, "void", f"{b.typed(wide)}, {b.typed(lanes)}, i64 {size}, {fn.context(site)}")

        rarely(fn, b.any(bad if bad.lanes == 1 else b.land(active, bad)), note)

    def tell(
        self,
        fn: FunctionLowering,
        operation: Operation,
        kind: FaultKind,
        lanes: Value,
        keys: frozenset[int | None],
    ) -> None:
        """Report a use in some lanes of values that may come from the sites with these keys (None: any site)."""
        b = fn.b
        site, table = self.use(fn, operation, keys)

        def say() -> None:
            bits = b.resize(b.mask_bits(lanes), "i32")
            where = {name: Value(f"%{name}", element) for name, element in WHERE.items()}
            call(b, TELL, **where, site=site, kind=int(kind), lanes=bits, sources=b.address_of(table))

        rarely(fn, b.any(lanes), say)

    def use(self, fn: FunctionLowering, operation: Operation, keys: frozenset[int | None]) -> tuple[int, str]:
        """The site of a use of values, and the table of the sites with these keys, for :data:`TELL`."""
        site = fn.unit.site(operation, "")
        table = f"@kcheck.sources.{site}"
        self._uses[table] = self._uses.get(table, frozenset()) | keys
        if TELL.name not in fn.unit.definitions:
            fn.unit.definitions[TELL.name] = _tell_ir(fn.unit.declarations)
        return site, table

    def finish(self, unit: ModuleLowering, fresh: Fresh) -> Fresh:
        """Discard the records when a block begins; with initcheck, mark its shared memory as uninitialized."""
        has_shadows = unit.companion_memory is not None
        unit.definitions[FRESH_BLOCK.name] = block_ir(unit.shared_bytes, has_shadows, unit.declarations)
        for table, keys in self._uses.items():
            every = None in keys
            sites = self._sites.values() if every else (self._sites[k] for k in keys if k in self._sites)
            unit.tables[table] = sources_ir(table, sorted(set(sites)))
        return replace(fresh, block=True)


def origin_signature(width: int) -> Signature:
    """The signature of the function that records a site for some lanes, with an i64 for each."""
    lanes = {"a": vector_type("i64", width), "m": vector_type("i1", width)}
    return Signature(f"@kcheck.origin.v{width}", "void", {**lanes, "size": "i64", **CONTEXT})


class Events:
    """The records of a worker, in a function that is being emitted."""

    def __init__(self, f: FunctionBuilder) -> None:
        self.f = f
        self.head = record_of(f, "worker", Worker).records(Worker.origins, Origins)
        self.records = Record(f, self.head[1].pointer, Origin)
        self.kept = Record(f, self.head.address(Origins.kept), Kept)
        threads = record_of(f, "launch", Launch).load(Launch.threads)
        self.threads = (threads + (WARP - 1)) & -WARP

    def of(self, site: Term, thread: Term) -> Record:
        """The last record of a thread at a site."""
        return self.records[self.threads * site + thread]

    @contextlib.contextmanager
    def words(self, address: Term, size: Term) -> Iterator[tuple[Term, Record]]:
        """Emit a loop over the words of memory in a range, each with its entry in ``kept``."""
        first = address >> 2
        with self.f.range(((address + size - 1) >> 2) - first + 1) as n:
            yield first + n, self.kept[(first + n) & (KEPT - 1)]


class Latest:
    """The event that a thread executed last at one of several sites, or if there is none, another of its warp: a
    shuffle may have brought its value.

    Attributes:
        address, site, made: see :class:`Origin`; 0 if there is no event.
    """

    def __init__(self, f: FunctionBuilder, events: Events, lane: Term) -> None:
        self._last = f.variable("i64", events.head.load(Origins.before))
        self.address, self.site, self.made = (f.variable("i64", 0) for _ in range(3))
        thread = f.argument("t0") + lane
        self._search(f, events, thread)
        with f.if_(self.site.value.eq(0)), f.range(WARP) as other:
            self._search(f, events, (thread & -WARP) + other)

    def _search(self, f: FunctionBuilder, events: Events, thread: Term) -> None:
        sources, number = f.array("sources", "i32"), f.variable("i32", 0)
        with f.loop():
            source = sources[number.value]
            with f.if_(source.eq(-1)):
                f.break_()
            origin = events.of(source, thread)
            event = origin.load(Origin.number)
            with f.if_(event > self._last.value):
                self._last.value = event
                self.address.value = origin.load(Origin.address)
                self.site.value = origin.load(Origin.site)
                self.made.value = origin.load(Origin.made)
            number.value += 1


def _origin_ir(width: int, declarations: dict[str, str]) -> Definition:
    f = FunctionBuilder(origin_signature(width), "noinline", width, declarations, attributes="cold")
    origins, size = Events(f), f.argument("size")
    number = origins.head.load(Origins.events) + 1
    origins.head.store(Origins.events, number)
    with f.range(width) as lane, f.if_(f.term(f.extract(f.argument("m"), lane))):
        origin = origins.of(f.argument("site"), f.argument("t0") + lane)
        address = f.term(f.extract(f.argument("a"), lane))
        origin.store(Origin.address, address)
        origin.store(Origin.number, number)
        origin.store(Origin.site, f.argument("site").to("i64") + 1)
        origin.store(Origin.made, 0)
        with f.if_(size.ne(0)), origins.words(address, size) as (word, kept):
            is_current = kept.load(Kept.number) > origins.head.load(Origins.before)
            with f.if_(kept.load(Kept.word).eq(word) & is_current):
                origin.store(Origin.address, kept.load(Kept.address))
                origin.store(Origin.site, kept.load(Kept.site))
                origin.store(Origin.made, 1)
    return f.definition()


def _tell_ir(declarations: dict[str, str]) -> Definition:
    f = FunctionBuilder(TELL, "noinline", declarations=declarations, attributes="cold")
    cache = record_of(f, "worker", Worker).records(Worker.sites, SiteCache)[f.argument("site")]
    reports = cache.load(SiteCache.base)  # this site has no access, so the field counts its reports
    cache.store(SiteCache.base, reports + 1)
    with f.if_(reports >= _REPORTS):
        f.ret()
    lane = f.trailing_zeros(f.argument("lanes"))
    latest = Latest(f, Events(f), lane)
    address, size = latest.address.value, latest.site.value.to("i32")
    report_fault(f, f.argument("kind"), f.argument("site"), address=address, size=size, lane=lane)
    return f.definition()


def block_ir(static_shared: int, init: bool, declarations: dict[str, str]) -> Definition:
    """The function FRESH_BLOCK: at the start of a block, discard the records and, with initcheck, mark the shared
    memory as uninitialized."""
    f = FunctionBuilder(FRESH_BLOCK, exported=True, declarations=declarations)
    worker = record_of(f, "worker", Worker)
    if init:
        dynamic = record_of(f, "launch", Launch).load(Launch.dynamic_shared).to("i64")
        f.fill(worker.pointer_at(Worker.shared_init), -1, dynamic + static_shared)
        worker.store(Worker.initialized_at, 0)
    origins = worker.records(Worker.origins, Origins)
    origins.store(Origins.before, origins.load(Origins.events))
    return f.definition()


def sources_ir(table: str, sites: list[int]) -> str:
    """The table of the sites that a use may get its value from, for :func:`_tell_ir`."""
    entries = ", ".join(f"i32 {site}" for site in [*sites, -1])
    return f"{table} = internal constant [{len(sites) + 1} x i32] [{entries}]"
