"""Where values in later reports came from: records by site and thread, and the reports that look there.

A load of undefined bits, or arithmetic that wraps, is recorded where it happens, which is rare; only a bad use of
the value is an error. The sites from which a use may get its value are known when a function is lowered: the
report names the one that the thread executed last.
"""

# ruff: noqa: E501 (lines of LLVM IR)

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import replace

from kcheck.ptx.abi import FaultKind, Launch, Origin, Origins, Worker
from kcheck.ptx.ir.builder import Value, vector_type
from kcheck.ptx.lowering.function import FunctionLowering
from kcheck.ptx.lowering.module import ModuleLowering
from kcheck.ptx.lowering.sanitizer import Sanitizer
from kcheck.ptx.runtime.block_scheduler import Fresh
from kcheck.ptx.runtime.lookup import ARGUMENTS
from kcheck.ptx.syntax.ast import Operation

_REPORTS = 16
"""The most reports for one site and worker, so that a loop does not fill the buffer."""


def rarely(fn: FunctionLowering, condition: Value, body: Callable[[], None]) -> None:
    """Run rarely executed code if a scalar condition holds."""
    b = fn.b
    do, done = b.fresh("rare"), b.fresh("usual")
    b.line(f"br i1 {condition.text}, label %{do}, label %{done}, !prof !2")
    b.label(do)
    body()
    b.line(f"br label %{done}")
    b.label(done)


class OriginLog(Sanitizer):
    """The records of one kernel, for the sanitizers that share them."""

    def __init__(self) -> None:
        self._sites: dict[int, int] = {}  # by key, the site of a record
        self._uses: dict[str, frozenset[int | None]] = {}  # by table, the keys that a use may get its value from

    def record(self, fn: FunctionLowering, key: int, site: int, what: Value, bad: Value) -> None:
        """Record a site as the source of a value in the active lanes in which the value is bad.

        Args:
            key: the key of this site for :meth:`tell`.
            what: an address or a number, as i64.
            bad: i1; a scalar speaks for all lanes, one of which is active.
        """
        b = fn.b
        self._sites[key] = site
        name, text = _origin_ir(fn.width)
        fn.unit.definitions[name] = text
        what, active = b.splat(what), b.splat(fn.active)

        def note() -> None:
            lanes = b.splat(b.land(active, bad))
            b.line(f"call void {name}({b.typed(what)}, {b.typed(lanes)}, {fn.context(site)})")

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
        site = fn.unit.site(operation, "")
        table = f"@kcheck.sources.{site}"
        self._uses[table] = keys
        fn.unit.definitions["@kcheck.tell"] = _tell_ir()
        fn.unit.declarations["@llvm.cttz.i32"] = "declare i32 @llvm.cttz.i32(i32, i1 immarg)"

        def say() -> None:
            bits = b.resize(b.mask_bits(lanes), "i32")
            b.line(
                f"call void @kcheck.tell(ptr %launch, ptr %worker, ptr %block, i32 %t0, i32 {site}, "
                f"i32 {int(kind)}, i32 {bits.text}, ptr {table})"
            )

        rarely(fn, b.any(lanes), say)

    def finish(self, unit: ModuleLowering, fresh: Fresh) -> Fresh:
        """Clear the records when a block begins, and mark its shared memory if there are companions in memory."""
        unit.definitions["@kcheck.fresh"] = block_ir(unit.shared_bytes, unit.companion_memory is not None)
        for table, keys in self._uses.items():
            every = None in keys
            sites = self._sites.values() if every else (self._sites[k] for k in keys if k in self._sites)
            unit.definitions[table] = sources_ir(table, sorted(set(sites)))
        return replace(fresh, block=True)


def _origin_ir(width: int) -> tuple[str, str]:
    """``void origin(addresses, mask, context)``: note the site for these lanes, with an i64 of each."""
    W = width
    A, M = vector_type("i64", W), vector_type("i1", W)
    name = f"@kcheck.origin.v{W}"
    take = (
        ("  %on = or i1 %m, false", "  %la = add i64 %a, 0")
        if W == 1
        else (f"  %on = extractelement {M} %m, i32 %i", f"  %la = extractelement {A} %a, i32 %i")
    )
    return (
        name,
        f"""
define internal void {name}({A} %a, {M} %m, {ARGUMENTS}) noinline cold {{
  %op = getelementptr i8, ptr %worker, i64 {Worker.origins.offset}
  %o = load ptr, ptr %op
  %n0 = load i64, ptr %o
  %n1 = add i64 %n0, 1
  store i64 %n1, ptr %o
  %tp = getelementptr i8, ptr %launch, i64 {Launch.threads.offset}
  %t = load i32, ptr %tp
  %t31 = add i32 %t, 31
  %rounded = and i32 %t31, -32
  %row = mul i32 %rounded, %site
  %first = add i32 %row, %t0
  br label %loop
loop:
  %i = phi i32 [0, %0], [%i1, %next]
{take[0]}
  br i1 %on, label %keep, label %next
keep:
{take[1]}
  %k = add i32 %first, %i
  %k64 = zext i32 %k to i64
  %ko = mul i64 %k64, {ctypes.sizeof(Origin)}
  %kh = add i64 %ko, {ctypes.sizeof(Origins)}
  %r = getelementptr i8, ptr %o, i64 %kh
  store i64 %la, ptr %r
  %rn = getelementptr i8, ptr %r, i64 {Origin.number.offset}
  store i64 %n1, ptr %rn
  br label %next
next:
  %i1 = add i32 %i, 1
  %c = icmp ult i32 %i1, {W}
  br i1 %c, label %loop, label %done
done:
  ret void
}}
""",
    )


def _tell_ir() -> str:
    """``void @kcheck.tell(launch, worker, block, t0, site, kind, lanes, sources)``: report a bad use.

    ``sources`` are the sites that the value may come from, ending with -1. The report names the one that this
    thread executed last.
    """
    return f"""
define internal void @kcheck.tell(ptr %launch, ptr %worker, ptr %block, i32 %t0, i32 %site, i32 %kind, i32 %lanes, ptr %loads) noinline cold {{
  %sp = getelementptr i8, ptr %worker, i64 {Worker.sites.offset}
  %s = load ptr, ptr %sp
  %me = getelementptr {{i64, i64}}, ptr %s, i32 %site
  %seen = load i64, ptr %me
  %seen1 = add i64 %seen, 1
  store i64 %seen1, ptr %me
  %room = icmp ult i64 %seen, {_REPORTS}
  br i1 %room, label %tell, label %done
tell:
  %lane = call i32 @llvm.cttz.i32(i32 %lanes, i1 false)
  %thread = add i32 %t0, %lane
  %op = getelementptr i8, ptr %worker, i64 {Worker.origins.offset}
  %o = load ptr, ptr %op
  %bp = getelementptr i8, ptr %o, i64 {Origins.before.offset}
  %before = load i64, ptr %bp
  %tp = getelementptr i8, ptr %launch, i64 {Launch.threads.offset}
  %t = load i32, ptr %tp
  %t31 = add i32 %t, 31
  %rounded = and i32 %t31, -32
  br label %loop
loop:
  %i = phi i32 [0, %tell], [%i1, %step]
  %best = phi i64 [%before, %tell], [%best2, %step]
  %from = phi i64 [0, %tell], [%from2, %step]
  %which = phi i32 [0, %tell], [%which2, %step]
  %lp = getelementptr i32, ptr %loads, i32 %i
  %load = load i32, ptr %lp
  %more = icmp ne i32 %load, -1
  br i1 %more, label %step, label %say
step:
  %row = mul i32 %rounded, %load
  %k = add i32 %row, %thread
  %k64 = zext i32 %k to i64
  %ko = mul i64 %k64, {ctypes.sizeof(Origin)}
  %kh = add i64 %ko, {ctypes.sizeof(Origins)}
  %r = getelementptr i8, ptr %o, i64 %kh
  %at = load i64, ptr %r
  %rn = getelementptr i8, ptr %r, i64 {Origin.number.offset}
  %number = load i64, ptr %rn
  %later = icmp ugt i64 %number, %best
  %best2 = select i1 %later, i64 %number, i64 %best
  %from2 = select i1 %later, i64 %at, i64 %from
  %load1 = add i32 %load, 1
  %which2 = select i1 %later, i32 %load1, i32 %which
  %i1 = add i32 %i, 1
  br label %loop
say:
  call void @kcheck.fault(ptr %launch, ptr %block, i32 %t0, i32 %site, i32 %kind, i64 %from, i32 %which, i32 %lane)
  br label %done
done:
  ret void
}}
"""


def block_ir(static_shared: int, init: bool) -> str:
    """``void @kcheck.fresh(launch, worker)``: at the start of a block clear the records and, with initcheck, mark
    its shared memory as uninitialized."""
    clear = "  call void @llvm.memset.p0.i64(ptr %s, i8 -1, i64 %size, i1 false)\n" if init else ""
    return f"""
define internal void @kcheck.fresh(ptr %launch, ptr %worker) {{
  %sp = getelementptr i8, ptr %worker, i64 {Worker.shared_init.offset}
  %s = load ptr, ptr %sp
  %dp = getelementptr i8, ptr %launch, i64 {Launch.dynamic_shared.offset}
  %d = load i32, ptr %dp
  %d64 = zext i32 %d to i64
  %size = add i64 %d64, {static_shared}
{clear}  %op = getelementptr i8, ptr %worker, i64 {Worker.origins.offset}
  %o = load ptr, ptr %op
  %n = load i64, ptr %o
  %bp = getelementptr i8, ptr %o, i64 {Origins.before.offset}
  store i64 %n, ptr %bp
  ret void
}}
"""


def sources_ir(table: str, sites: list[int]) -> str:
    """The sites that a use may get its value from, as ``@kcheck.tell`` reads them."""
    entries = ", ".join(f"i32 {site}" for site in [*sites, -1])
    return f"{table} = internal constant [{len(sites) + 1} x i32] [{entries}]"
