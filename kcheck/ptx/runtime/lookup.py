"""Looks up addresses, for checked accesses off the fast path: usually once per instruction and allocation."""

from __future__ import annotations

from collections.abc import Sequence

from kcheck.dataclass import dataclass
from kcheck.ptx.abi import AllocationRecord, FaultKind, Launch, SiteCache, Worker
from kcheck.ptx.ir.builder import Value
from kcheck.ptx.ir.function import FunctionBuilder, Term
from kcheck.ptx.ir.records import Record, record
from kcheck.ptx.ir.signature import Definition, Signature
from kcheck.ptx.runtime.faults import report_fault

VECTOR = {"launch": "ptr", "worker": "ptr", "block": "ptr", "warp": "ptr", "t0": "i32"}
"""The parameters that identify the current vector."""

CONTEXT = {**VECTOR, "site": "i32"}
"""The parameters of every function that the code of a vector calls, in addition to addresses and masks."""

ARGUMENTS = ", ".join(f"{kind} %{name}" for name, kind in CONTEXT.items())
"""The parameters of CONTEXT as text."""

SHARED_CONTEXT = {"window": "i64", "extent": "i64"}
"""More parameters for accesses to shared memory: the start of the window, or of an array in it, and its bytes."""

SPACES = {"global": 0, "const": 0, "generic": 1, "shared": 2, "local": 3}
"""The numbers of spaces for RESOLVE. A generic address is looked up in allocations, the shared window, the
kernel's parameters, and the lane's local memory, in this order."""

RESOLVE = Signature(
    "@kcheck.resolve",
    "i1",
    {
        **CONTEXT,
        "a": "i64",
        "size": "i64",
        "align": "i64",
        "space": "i32",
        "kind": "i32",
        "lane": "i32",
    },
)
"""Whether one lane may access [address, address + size), where the address must be a multiple of ``align``.
Records a fault if not."""

BOUNDS = "@kcheck.bounds"

ALLOCATION = Signature("@kcheck.allocation", "ptr", {"launch": "ptr", "a": "i64"})
"""The last allocation that begins at or below an address; null if there is none."""


@dataclass(frozen=True, slots=True)
class LocalLayout:
    """Local memory in the state of a vector: ``stride`` bytes for each lane from ``offset`` on.

    With ``Checks.init`` the init byte of each byte is ``init`` bytes after it.
    """

    offset: int
    stride: int
    init: int = 0


def context(f: FunctionBuilder) -> dict[str, Term]:
    """The arguments that a function with CONTEXT passes on."""
    return {name: f.argument(name) for name in CONTEXT}


def code_context(site: Value | int) -> dict[str, Value | int]:
    """The arguments for a function with CONTEXT, in the code of a vector. ``site``: of the caller."""
    return {**{name: Value(f"%{name}", kind) for name, kind in CONTEXT.items()}, "site": site}


def find_allocation(f: FunctionBuilder, address: Value) -> Record:
    """The last allocation that begins at or below an address; null if there is none."""
    return Record(f, f.run(ALLOCATION, launch=f.argument("launch"), a=address), AllocationRecord)


def resolve_ir(
    local: LocalLayout, static_shared: int, param_bytes: int, width: int, has_bounds: bool = False
) -> dict[str, Definition]:
    """The functions of this file, by name.

    Args:
        local: where local memory is.
        static_shared: bytes of the shared window before the dynamic part.
        param_bytes: the size of the kernel's parameters.
        width: lanes of a vector.
        has_bounds: whether the module has the table of :func:`bounds_ir`.
    """
    resolve = _Resolve(local, static_shared, param_bytes, width, has_bounds)
    return {ALLOCATION.name: _allocation(), RESOLVE.name: resolve.definition()}


def bounds_ir(bounds: Sequence[tuple[int, int]]) -> str:
    """The table of the parts of the shared window that instructions may access.

    Args:
        bounds: by site: the offset in the window and the size, in bytes; a size of 0 means the whole window.
    """
    numbers = ", ".join(f"i64 {number}" for pair in bounds for number in pair)
    return f"{BOUNDS} = internal constant [{2 * len(bounds)} x i64] [{numbers}]"


def _allocation() -> Definition:
    """The function ALLOCATION: a binary search in the table of allocations."""
    f = FunctionBuilder(ALLOCATION, "noinline", attributes="cold")
    launch = record(f, "launch", Launch)
    table = launch.records(Launch.allocations, AllocationRecord)
    low, high = f.variable("i64", 0), f.variable("i64", launch.load(Launch.allocation_count))
    with f.loop():
        with f.if_(low.value >= high.value):
            f.break_()
        middle = (low.value + high.value) >> 1
        with f.if_(table[middle].load(AllocationRecord.base) <= f.argument("a")) as begins_below:
            low.value = middle + 1
        with begins_below.else_():
            high.value = middle
    with f.if_(low.value.eq(0)):
        f.ret(f.operand(0, "ptr"))
    f.ret(table[low.value - 1].pointer)
    return f.definition()


class _Resolve:
    """Emits RESOLVE."""

    def __init__(
        self, local: LocalLayout, static_shared: int, param_bytes: int, width: int, has_bounds: bool
    ) -> None:
        self.local = local
        self.has_bounds = has_bounds
        self.static_shared = static_shared
        self.param_bytes = param_bytes
        self.width = width
        self.f = FunctionBuilder(RESOLVE, "noinline", attributes="cold")
        self.launch, self.worker = record(self.f, "launch", Launch), record(self.f, "worker", Worker)
        self.address, self.size = self.f.argument("a"), self.f.argument("size")
        self.space = self.f.argument("space")

    def definition(self) -> Definition:
        """The definition of RESOLVE."""
        f = self.f
        with f.if_((self.address & (f.argument("align") - 1)).ne(0)):
            self._refuse(int(FaultKind.MISALIGNED))
        with f.if_among(self.space, [SPACES["global"], SPACES["generic"]]):
            self._try_allocations()
        with f.if_among(self.space, [SPACES["shared"], SPACES["generic"]]):
            base, size = self._shared()
            with f.if_(self._inside(base, size)):
                self._remember(base, size)
        if self.param_bytes:
            self._try_parameters()
        with f.if_among(self.space, [SPACES["local"], SPACES["generic"]]):
            lane = f.argument("lane").to("i64")
            base = f.argument("warp").to("i64") + self.local.offset + lane * self.local.stride
            with f.if_(self._inside(base, f.term(f.const("i64", self.local.stride)))):
                f.ret(1)
        self._refuse(f.argument("kind"))
        return f.definition()

    def _shared(self) -> tuple[Term, Term]:
        """The part of the shared window that the instruction may access: an array, or all of it."""
        f, base = self.f, self.worker.load(Worker.shared)
        size = self.launch.load(Launch.dynamic_shared).to("i64") + self.static_shared
        if not self.has_bounds:
            return base, size
        bounds, row = f.array(f.address_of(BOUNDS), "i64"), f.argument("site") * 2
        own = f.variable("i64", bounds[row + 1])
        with f.if_(own.value.eq(0)):
            own.value = size
        return base + bounds[row], own.value

    def _inside(self, base: Term, size: Term) -> Term:
        return (size >= self.size) & (self.address - base <= size - self.size)

    def _try_parameters(self) -> None:
        """The kernel's parameters are read-only."""
        f, params = self.f, self.launch.load(Launch.params)
        is_load = f.term(f.argument("kind")).eq(int(FaultKind.OUT_OF_BOUNDS_LOAD))
        size = f.term(f.const("i64", self.param_bytes))
        with f.if_(self.space.eq(SPACES["generic"]) & is_load & self._inside(params, size)):
            self._remember(params, size)

    def _try_allocations(self) -> None:
        f, found = self.f, find_allocation(self.f, self.address)
        with f.if_(~found.pointer_is_null()):
            base, size = found.load(AllocationRecord.base), found.load(AllocationRecord.size)
            with f.if_(self._inside(base, size)):
                self._remember(base, size)

    def _remember(self, base: Term, size: Term) -> None:
        """Record where the instruction may access memory, for its next access, and return true."""
        cache = self.worker.records(Worker.sites, SiteCache)[self.f.argument("site")]
        cache.store(SiteCache.base, base)
        cache.store(SiteCache.limit, size - self.size + 1)
        f, align = self.f, self.f.argument("align")
        is_aligned = (base & (align - 1)).eq(0)
        for field, extent in ((SiteCache.elements, self.size), (SiteCache.rows, self.size * self.width)):
            places = f.term((extent <= size).select((size - extent) // align + 1, 0))
            cache.store(field, is_aligned.select(places, 0))
        self.f.ret(1)

    def _refuse(self, kind: Value | int) -> None:
        f = self.f
        size, lane = self.size.to("i32"), f.argument("lane")
        report_fault(f, kind, f.argument("site"), address=self.address, size=size, lane=lane)
        f.ret(0)
