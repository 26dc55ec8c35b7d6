"""What lowered code recorded, told as findings: who did what to which array, and on which line of Python."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from kcheck.cpu.memory import Block, Memory
from kcheck.cpu.waiting import MASKS, GridWait, barrier_text, mask_text
from kcheck.model import Finding, Index3, Span
from kcheck.ptx.abi import FAULTS, Fault, FaultKind, Program, Site

_VERBS = {
    FaultKind.OUT_OF_BOUNDS_LOAD: "reads",
    FaultKind.OUT_OF_BOUNDS_STORE: "writes",
    FaultKind.OUT_OF_BOUNDS_ATOMIC: "updates",
    FaultKind.MISALIGNED: "accesses",
}
_OUT_OF_BOUNDS = (FaultKind.OUT_OF_BOUNDS_LOAD, FaultKind.OUT_OF_BOUNDS_STORE, FaultKind.OUT_OF_BOUNDS_ATOMIC)
_MENDS = {
    FaultKind.DIVISION_BY_ZERO: "guard the division",
    FaultKind.BARRIER_DIVERGENCE: "let every thread of the block reach the same syncthreads()",
    FaultKind.BARRIER_EXITED: "let every thread of the block come to this syncthreads(), none return before it",
    FaultKind.BARRIER_COUNT: "let as many threads come to the barrier as it asks for",
    FaultKind.BARRIER_SPLIT: "let every thread of a warp reach the same barrier",
    FaultKind.GRID_BARRIER_EXITED: "let every thread come to this grid sync, and none return before it",
    FaultKind.WARP_MASK: "name in the mask only lanes that execute the call",
    FaultKind.WARP_MASK_GONE: "CUDA waits for none that left; a mask of those that are there says what is meant",
    FaultKind.WARP_ALIGNED: "let all 32 lanes of the warp execute it, in a block of whole warps",
    FaultKind.WARP_MASK_SELF: "name in the mask every lane that executes the call",
    FaultKind.STACK_OVERFLOW: "bound the recursion",
    **dict.fromkeys(_OUT_OF_BOUNDS, "guard the access: a grid is often larger than the array"),
}
# Of which cuda.reduce synchronises two lanes by the full mask.
_OF_NUMBA = re.compile(r"[\\/]numba[\\/]cuda[\\/]kernels[\\/]")
_UNDEFINED = {
    FaultKind.UNDEFINED_BRANCH: "decides a branch by",
    FaultKind.UNDEFINED_ADDRESS: "computes an address with",
    FaultKind.UNDEFINED_STORE: "stores what it computed with",
    FaultKind.UNDEFINED_ATOMIC: "updates atomically",
}


@dataclass(frozen=True, slots=True)
class Windows:
    """Where per-block memory lay during a launch: address and size of each window, in bytes."""

    shared: Sequence[tuple[int, int]]
    state: Sequence[tuple[int, int]]


def findings(
    faults: Iterable[Fault], program: Program, memory: Memory, windows: Windows, threads: int
) -> list[Finding]:
    """One finding per kind, array and line of Python, the first that was recorded, with the number of those alike.

    A compiler makes several instructions of one line, as when it unrolls a loop.

    Args:
        threads: of a block.
    """
    first: dict[tuple[int, int], Finding] = {}
    for fault in faults:
        if fault.kind == FaultKind.RUNNING:
            continue  # tells of a launch that was stopped where it was
        key = (fault.kind, fault.site)
        if fault.kind == FaultKind.WRAPPED_ADDRESS and (arithmetic := _source(fault, program)) is not None:
            key = (fault.kind, arithmetic.line)  # once, however many accesses there are at that address
        if key in first:
            first[key] = replace(first[key], count=first[key].count + 1)
        else:
            first[key] = _finding(fault, program, memory, windows, threads)
    alike: dict[tuple[object, ...], Finding] = {}
    for (kind, site), finding in first.items():
        told = (kind, finding.array, finding.place or site)
        before = alike.get(told)
        alike[told] = finding if before is None else replace(before, count=before.count + finding.count)
    return list(alike.values())


def _finding(fault: Fault, program: Program, memory: Memory, windows: Windows, threads: int) -> Finding:
    kind = FaultKind(fault.kind)
    row = FAULTS[kind]
    site = program.sites[fault.site] if fault.site < len(program.sites) else None
    array, index, message = None, None, row.what
    severity: Literal["error", "warn"] = "warn" if kind is FaultKind.WARP_MASK_GONE else "error"
    mend, told_at = _MENDS.get(kind, ""), site
    if kind in _VERBS:
        array, index, message = _access(kind, fault, site, memory, windows)
    elif kind in _UNDEFINED:
        array, index, message, mend = _undefined(kind, fault, site, program, memory, windows)
        told_at = site if place(site) is not None else _source(fault, program)
    elif kind in MASKS:
        message = mask_text(kind, fault)
        if site is not None and _OF_NUMBA.search(site.file):
            severity, mend = "warn", "it is in numba-cuda's own code, not in yours"
    elif row.rule == "synccheck":
        message = barrier_text(kind, fault, program.sites, threads)
    elif kind is FaultKind.WRAPPED_ADDRESS:
        message, mend = _wrapped(fault, site), "compute it in 64 bits: convert an operand, not the result"
        arithmetic = _source(fault, program)
        told_at = arithmetic if place(arithmetic) is not None else site
    return Finding(
        row.rule,
        message,
        severity=severity,
        mend=mend,
        array=array,
        index=index,
        kernel=kernel_name(program.entry),
        block=_index3(fault.block),
        thread=_index3(fault.thread),
        place=place(told_at),
        stack=stack(told_at),
    )


def still_running(faults: Iterable[Fault], program: Program) -> Finding:
    """That a launch was stopped at its time limit, with one of the threads that were running and its line."""
    finding = Finding(
        "timeout", "the kernel was still running at the time limit", kernel=kernel_name(program.entry)
    )
    for fault in faults:
        if fault.kind == FaultKind.RUNNING:
            site = program.sites[fault.site] if fault.site < len(program.sites) else None
            who = replace(
                finding,
                block=_index3(fault.block),
                thread=_index3(fault.thread),
                place=place(site),
                stack=stack(site),
            )
            if who.place is not None:
                return who
    return finding


def grid_finding(wait: GridWait, program: Program, grid: Sequence[int]) -> Finding:
    """Blocks that met grid barriers differently. ``grid`` is the launch's, in blocks."""
    block = min(wait.places[wait.site])
    x, y, z = grid
    return Finding(
        "synccheck",
        wait.text(program.sites, x * y * z),
        mend="let every block come to the same grid sync",
        kernel=kernel_name(program.entry),
        block=(block % x, block // x % y, block // (x * y)),
        place=place(program.sites[wait.site]),
        stack=stack(program.sites[wait.site]),
    )


def place(site: Site | None) -> Span | None:
    """The line of Python of a site; None where the PTX carries none."""
    return Span(site.file, site.source_line) if site is not None and site.source_line else None


def stack(site: Site | None) -> tuple[Span, ...]:
    """The chain of inlined calls at a site, innermost first; empty if nothing was inlined."""
    return tuple(Span(file, line) for file, line in site.stack) if site is not None else ()


def _index3(values: Iterable[int]) -> Index3:
    x, y, z = values
    return (x, y, z)


def _access(
    kind: FaultKind, fault: Fault, site: Site | None, memory: Memory, windows: Windows
) -> tuple[str | None, tuple[int, ...] | None, str]:
    """Array, index and message of a bad access."""
    space = site.space if site is not None else ""
    verb = f"{_VERBS[kind]} {fault.size} byte{'s' if fault.size != 1 else ''}"
    if kind is FaultKind.MISALIGNED:
        verb += f" at an address that is no multiple of {fault.size}"
    if space == "local":
        return None, None, f"{verb} outside of the thread's local arrays"
    if space == "shared" or (space != "global" and _inside(windows.shared, fault.address, 1 << 16)):
        return None, None, f"{verb} {_offset(windows.shared, fault.address)}"
    if fault.address < 1 << 16:
        where = "null" if fault.address == 0 else f"address {fault.address:#x}, a null pointer and an offset"
        return None, None, f"{verb} at {where}"
    nearest = memory.nearest(fault.address)
    if nearest is None:
        return None, None, f"{verb} at address {fault.address:#x}, where nothing was ever allocated"
    block, is_freed = nearest
    if is_freed:
        return None, None, f"{verb} at byte {fault.address - block.base} of {block.told} that was freed"
    return _around(kind, fault, verb, block, memory)


def _around(
    kind: FaultKind, fault: Fault, verb: str, block: Block, memory: Memory
) -> tuple[str | None, tuple[int, ...] | None, str]:
    label = memory.labelled(block, fault.address)
    if label is None:
        name, low, high, array, index = block.told, block.base, block.end, None, None
    else:
        name, low, high, array, index = label.name, label.low, label.high, label.name, label.index(fault.address)
    if kind is FaultKind.MISALIGNED:
        return array, index, f"{verb}, in {name}"
    if fault.address >= high:
        where = f"{_far(fault.address - high)} past the end of {name}"
    elif fault.address < low:
        where = f"{_far(low - fault.address)} before the start of {name}"
    else:
        where = f"across the end of {name}"
    return array, index, f"{verb} {where}"


def _source(fault: Fault, program: Program) -> Site | None:
    """The load that brought a value that nobody wrote; the arithmetic that wrapped."""
    return program.sites[fault.size - 1] if 0 < fault.size <= len(program.sites) else None


def _undefined(
    kind: FaultKind, fault: Fault, site: Site | None, program: Program, memory: Memory, windows: Windows
) -> tuple[str | None, tuple[int, ...] | None, str, str]:
    """Array, index, message and mend of a use of what nobody wrote; the fault names the load that brought it."""
    load = _source(fault, program)
    array, index, what, mend = None, None, "a value", "write it before it is read"
    if load is not None:
        space = load.space
        if space == "shared" or (space != "global" and _inside(windows.shared, fault.address, 0)):
            what = f"what lies {_offset(windows.shared, fault.address)}"
            mend = "write it before, and let cuda.syncthreads() stand between"
        elif space == "local" or (space != "global" and _inside(windows.state, fault.address, 0)):
            what, mend = "an element of the thread's local array", "set every element of cuda.local.array() first"
        else:
            array, index, what = _named(fault.address, memory)
            mend = "write it before: cuda.device_array() is not zeroed"
    told = f"{_UNDEFINED[kind]} {what}, which nobody wrote"
    start = place(load)
    if start is not None and start != place(site):
        told += f" (read at line {start.line})"
    return array, index, told, mend


def _wrapped(fault: Fault, access: Site | None) -> str:
    """Told at the arithmetic; the fault's own site is the access."""
    exact = fault.address - (1 << 64 if fault.address >> 63 else 0)
    used = place(access)
    where = f" at line {used.line}" if used is not None else ""
    return f"the result, {exact}, does not fit in 32 bits, and what is left of it is used as an address{where}"


def _named(address: int, memory: Memory) -> tuple[str | None, tuple[int, ...] | None, str]:
    """Array, index and a name of what lies at an address of global memory."""
    block = memory.find(address)
    if block is None:
        return None, None, "a value"
    label = memory.labelled(block, address)
    if label is None:
        return None, None, f"byte {address - block.base} of {block.told}"
    index = label.index(address)
    place_in = f"[{', '.join(map(str, index))}]" if index is not None else ""
    return label.name, index, f"{label.name}{place_in}"


def _inside(windows: Sequence[tuple[int, int]], address: int, slack: int) -> bool:
    return any(base - slack <= address < base + size + slack for base, size in windows)


def _offset(windows: Sequence[tuple[int, int]], address: int) -> str:
    """Where in the nearest window an address lies."""
    base, size = min(windows, key=lambda window: abs(address - window[0]))
    if address < base:
        return f"{_far(base - address)} before the block's shared memory"
    if address >= base + size:
        return f"{_far(address - base - size)} past the end of the block's {size} bytes of shared memory"
    return f"at byte {address - base} of the block's {size} bytes of shared memory"


def _far(distance: int) -> str:
    """Of the first byte outside: that the 4 bytes right past an end are 0 bytes past it says little."""
    return "right" if distance == 0 else "1 byte" if distance == 1 else f"{distance:,} bytes"


_PART = re.compile(r"(\d+)")


def kernel_name(symbol: str) -> str:
    """The Python name in a symbol that numba mangled: ``_ZN8__main__4gemmB2v1B40c...E5ArrayIf...`` is ``gemm``.

    A nested name of the Itanium C++ ABI: parts with their lengths, then ABI tags that begin with B. What is not
    such a name is returned as it is.
    """
    if not symbol.startswith("_ZN"):
        return symbol
    at, name = 3, symbol
    while match := _PART.match(symbol, at):
        start = match.end()
        at = start + int(match[1])
        name = symbol[start:at]
    return name
