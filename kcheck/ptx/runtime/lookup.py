"""Looking up addresses and recording faults: LLVM IR that checked accesses call.

Both are off the usual path: one look-up for each instruction and allocation, one record for each fault.
"""

# ruff: noqa: E501 (lines of LLVM IR)

from __future__ import annotations

from dataclasses import dataclass

from kcheck.ptx.abi import Allocation, FaultKind, Launch, SiteCache, Worker

ARGUMENTS = "ptr %launch, ptr %worker, ptr %block, ptr %warp, i32 %t0, i32 %site"
"""The parameters of every function here, besides addresses and masks."""

SHARED_ARGUMENTS = ", i64 %window, i64 %extent"
"""More parameters for accesses of the shared space: where the window is, and its statically known bytes."""

SPACES = {"global": 0, "const": 0, "generic": 1, "shared": 2, "local": 3}
"""Space numbers of @kcheck.resolve. Generic: allocations, then the shared window, then the lane's local memory."""


@dataclass(frozen=True, slots=True)
class LocalLayout:
    """The place of local memory in the state of a vector: ``stride`` bytes for each lane from ``offset`` on.

    With ``Checks.init`` the init byte of each byte is ``init`` bytes after it.
    """

    offset: int
    stride: int
    init: int = 0


def resolve_ir(local: LocalLayout, static_shared: int) -> dict[str, str]:
    """``i1 @kcheck.resolve(...)``: whether one lane may access [address, address + size), recording a fault if not.

    The address must also be a multiple of ``align``.

    Args:
        local: where local memory is.
        static_shared: bytes of the shared window before the dynamic part.
    """
    entry = Allocation.size.offset
    resolve = f"""
define internal i1 @kcheck.resolve({ARGUMENTS}, i64 %a, i64 %size, i64 %align, i32 %space, i32 %kind, i32 %lane) noinline cold {{
  %sm1 = sub i64 %align, 1
  %mis = and i64 %a, %sm1
  %aligned = icmp eq i64 %mis, 0
  br i1 %aligned, label %where, label %misaligned
where:
  switch i32 %space, label %table [i32 2, label %shared
    i32 3, label %local]
table:
  %tp = getelementptr i8, ptr %launch, i64 {Launch.allocations.offset}
  %t = load ptr, ptr %tp
  %np = getelementptr i8, ptr %launch, i64 {Launch.allocation_count.offset}
  %n = load i64, ptr %np
  br label %search
search:
  %lo = phi i64 [0, %table], [%lo2, %step]
  %hi = phi i64 [%n, %table], [%hi2, %step]
  %more = icmp ult i64 %lo, %hi
  br i1 %more, label %step, label %found
step:
  %sum = add i64 %lo, %hi
  %mid = lshr i64 %sum, 1
  %ep = getelementptr {{i64, i64}}, ptr %t, i64 %mid
  %eb = load i64, ptr %ep
  %right = icmp ule i64 %eb, %a
  %mid1 = add i64 %mid, 1
  %lo2 = select i1 %right, i64 %mid1, i64 %lo
  %hi2 = select i1 %right, i64 %hi, i64 %mid
  br label %search
found:
  %none = icmp eq i64 %lo, 0
  br i1 %none, label %windows, label %candidate
candidate:
  %ci = sub i64 %lo, 1
  %cp = getelementptr {{i64, i64}}, ptr %t, i64 %ci
  %cb = load i64, ptr %cp
  %csp = getelementptr i8, ptr %cp, i64 {entry}
  %cs = load i64, ptr %csp
  %d = sub i64 %a, %cb
  %fits = icmp uge i64 %cs, %size
  %room = sub i64 %cs, %size
  %inside = icmp ule i64 %d, %room
  %ok = and i1 %fits, %inside
  br i1 %ok, label %keep, label %windows
windows:
  %generic = icmp eq i32 %space, 1
  br i1 %generic, label %shared, label %bad
shared:
  %swp = getelementptr i8, ptr %worker, i64 {Worker.shared.offset}
  %sb = load i64, ptr %swp
  %dynp = getelementptr i8, ptr %launch, i64 {Launch.dynamic_shared.offset}
  %dyn = load i32, ptr %dynp
  %dyn64 = zext i32 %dyn to i64
  %ss = add i64 %dyn64, {static_shared}
  %sd = sub i64 %a, %sb
  %sfits = icmp uge i64 %ss, %size
  %sroom = sub i64 %ss, %size
  %sinside = icmp ule i64 %sd, %sroom
  %sok = and i1 %sfits, %sinside
  br i1 %sok, label %keep, label %notshared
notshared:
  %isshared = icmp eq i32 %space, 2
  br i1 %isshared, label %bad, label %local
local:
  %wb = ptrtoint ptr %warp to i64
  %lane64 = zext i32 %lane to i64
  %ls = mul i64 %lane64, {local.stride}
  %lb0 = add i64 %wb, {local.offset}
  %lb = add i64 %lb0, %ls
  %ld = sub i64 %a, %lb
  %lfits = icmp uge i64 {local.stride}, %size
  %lroom = sub i64 {local.stride}, %size
  %linside = icmp ule i64 %ld, %lroom
  %lok = and i1 %lfits, %linside
  br i1 %lok, label %good, label %bad
keep:
  %kb = phi i64 [%cb, %candidate], [%sb, %shared]
  %kr = phi i64 [%room, %candidate], [%sroom, %shared]
  %limit = add i64 %kr, 1
  %scp = getelementptr i8, ptr %worker, i64 {Worker.sites.offset}
  %sc = load ptr, ptr %scp
  %me = getelementptr {{i64, i64}}, ptr %sc, i32 %site
  store i64 %kb, ptr %me
  %mel = getelementptr i8, ptr %me, i64 {SiteCache.limit.offset}
  store i64 %limit, ptr %mel
  ret i1 true
good:
  ret i1 true
misaligned:
  br label %bad
bad:
  %k = phi i32 [{int(FaultKind.MISALIGNED)}, %misaligned], [%kind, %windows], [%kind, %notshared], [%kind, %local]
  %size32 = trunc i64 %size to i32
  call void @kcheck.fault(ptr %launch, ptr %block, i32 %t0, i32 %site, i32 %k, i64 %a, i32 %size32, i32 %lane)
  ret i1 false
}}
"""
    return {"@kcheck.resolve": resolve}
