"""Turns the faults that lowered code recorded into findings: which thread accessed which array on which line."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Literal

from kcheck.cpu.accesses import VERBS, access, outside_variable
from kcheck.cpu.lost_digits import absorbed, lost
from kcheck.cpu.memory import Memory
from kcheck.cpu.naming import Naming
from kcheck.cpu.sources import source_of
from kcheck.cpu.special_values import made
from kcheck.cpu.textures import Textures
from kcheck.cpu.triton_fixes import access_fix
from kcheck.cpu.waiting import MASKS, GridWait, barrier_fix, barrier_text, mask_text
from kcheck.cpu.wrapped import WrappedIndices, exact_result, wrapped_fix, wrapped_text
from kcheck.model import Finding, Index3, Span
from kcheck.model.outcome import InGap, Seen
from kcheck.ptx.abi import FAULTS, STACK_BYTES, FaultKind, FaultRecord
from kcheck.ptx.program import UNNAMED_LANE, Program, Site
from kcheck.ptx.syntax.raise_markers import marked_text
from kcheck.ptx.syntax.symbols import kernel_name
from kcheck.rules import rule as rule_of
from kcheck.rules.language import Language

_INCOMPLETE = frozenset({FaultKind.BARRIER_DIVERGENCE, FaultKind.BARRIER_EXITED, FaultKind.BARRIER_GONE})


def _fix_of_kind(kind: FaultKind, words: Language) -> str:
    """The fix for a kind of fault; empty if it depends on more."""
    if words.is_triton and kind is FaultKind.DIVISION_BY_ZERO:
        ahead = "Triton's pipeliner may have moved it ahead of the loop's last iteration, which is harmless"
        return f"check that the divisor is not 0; {ahead}"
    return {
        FaultKind.DIVISION_BY_ZERO: "guard the division",
        FaultKind.BARRIER_DIVERGENCE: f"all threads of the block must reach the same {words.barrier}",
        FaultKind.BARRIER_EXITED: f"move {words.barrier} out of the branch so that every thread reaches it",
        FaultKind.BARRIER_GONE: "exited threads are ignored; guard the work instead of returning before the "
        "barrier",
        FaultKind.BARRIER_COUNT: "make the number of threads that reach the barrier equal to its count",
        FaultKind.BARRIER_SPLIT: "all threads of a warp must reach the same barrier",
        FaultKind.GRID_BARRIER_EXITED: "all threads of the grid must reach the grid sync; do not return before it",
        FaultKind.WARP_MASK: "name only lanes that execute the call in the mask",
        FaultKind.WARP_MASK_GONE: "exited lanes are ignored; name only the active lanes in the mask",
        FaultKind.SHUFFLE_GONE: "the value is undefined; use it only if the source lane takes part in the shuffle",
        FaultKind.WARP_ALIGNED: "all 32 lanes of the warp must execute it, in a block of whole warps",
        FaultKind.WARP_MASK_SELF: "name every lane that executes the call in the mask",
        FaultKind.STACK_OVERFLOW: "" if words.is_triton else "bound the recursion",
        FaultKind.RAISED: "a GPU reports this only with @cuda.jit(debug=True); otherwise the thread stops "
        "silently",
    }.get(kind, "")


_WARNINGS = (FaultKind.WARP_MASK_GONE, FaultKind.SHUFFLE_GONE, FaultKind.BARRIER_GONE)
# cuda.reduce, in this folder, synchronizes two lanes with the full mask.
_OF_NUMBA = re.compile(r"[\\/]numba[\\/]cuda[\\/]kernels[\\/]")
_SURFACE = {FaultKind.SURFACE_BOUNDS_LOAD: "reads", FaultKind.SURFACE_BOUNDS_STORE: "writes"}
_UNDEFINED = {
    FaultKind.UNDEFINED_BRANCH: "branches on",
    FaultKind.UNDEFINED_ADDRESS: "computes an address with",
    FaultKind.UNDEFINED_STORE: "stores a value computed with",
    FaultKind.UNDEFINED_SCRATCH: "stores a value computed with",
    FaultKind.UNDEFINED_ATOMIC: "atomically updates",
}


def by_number(fault: FaultRecord) -> tuple[int, ...]:
    """A sort key: blocks, and the threads of each, in the order in which CUDA numbers them."""
    return (*reversed(fault.block), *reversed(fault.thread))


def findings(
    faults: Iterable[FaultRecord],
    program: Program,
    memory: Memory,
    naming: Naming,
    threads: int,
    textures: Textures,
) -> list[Finding]:
    """One finding per kind, array and source line: the first that was recorded, with the number of similar ones.

    A compiler generates several instructions from one line, for example when it unrolls a loop.

    Args:
        threads: of a block.
    """
    first: dict[tuple[int, int], Finding] = {}
    faults = list(faults)
    wrapped = WrappedIndices(faults, program, naming)
    explained: dict[tuple[int, int], FaultRecord] = {}
    strayed = _strayed(faults, program) if memory.has_reserved else frozenset()
    for fault in faults:
        if fault.kind == FaultKind.RUNNING:
            continue  # not an error: where a stopped launch was
        key = (fault.kind, fault.site)
        is_certain = False
        if fault.kind == FaultKind.WRAPPED_ADDRESS and (arithmetic := source_of(fault, program)) is not None:
            key = (fault.kind, arithmetic.line)  # once, however many accesses there are at that address
            is_certain = fault.site < len(program.sites) and program.sites[fault.site].line in strayed
        if key in first:
            before, is_certain = first[key], is_certain or first[key].certain
            first[key] = replace(before, count=before.count + 1, certain=is_certain)
        else:
            made = _finding(fault, program, memory, naming, threads, textures)
            first[key] = replace(made, certain=True) if is_certain else made
        if key not in explained and (cause := wrapped.cause(fault)) is not None:
            explained[key] = cause
            first[key] = wrapped.explained(first[key], cause)
    alike: dict[tuple[object, ...], Finding] = {}
    for (kind, site), finding in first.items():
        told = (kind, finding.array, finding.place or site)
        same = alike.get(told)
        if same is not None:
            is_certain = same.certain or finding.certain
            finding = replace(same, count=same.count + finding.count, certain=is_certain)
        alike[told] = finding
    return list(alike.values())


def _finding(
    fault: FaultRecord, program: Program, memory: Memory, naming: Naming, threads: int, textures: Textures
) -> Finding:
    kind = FaultKind(fault.kind)
    row = FAULTS[kind]
    rule = row.rule
    site = program.sites[fault.site] if fault.site < len(program.sites) else None
    array, index, message = None, None, row.what
    seen: Seen | None = None
    told_at = _told_at(kind, fault, site, program)
    words = naming.words(place(told_at))
    is_warning = kind in _WARNINGS or (words.is_triton and kind is FaultKind.DIVISION_BY_ZERO)
    severity: Literal["error", "warn"] = "warn" if is_warning else "error"
    fix = _fix_of_kind(kind, words)
    if kind in VERBS:
        told = access(kind, fault, site, memory, naming, words)
        array, index, message, fix = told.array, told.index, told.message, told.fix
        if words.is_triton:
            fix = access_fix(told, place(told_at))
    elif kind is FaultKind.LOCAL_BOUNDS:
        told = outside_variable(fault, site, naming, program.arrays[fault.site], words)
        message, fix = told.message, told.fix
    elif kind in (FaultKind.MADE_NAN, FaultKind.MADE_INFINITY):
        message, seen = made(kind, fault, site)
    elif kind is FaultKind.LOST_DIGITS:
        message, seen = lost(fault, site)
    elif kind is FaultKind.ABSORBED_DIGITS:
        message, seen = absorbed(fault, site)
    elif kind is FaultKind.TEXTURE_HANDLE:
        wanted = "surface" if fault.size else "texture"
        message = f"uses {textures.told(fault.address)}, as a {wanted} object"
        fix = f"pass the handle of a {wanted} object, and keep the object until the kernel has finished"
    elif kind in _SURFACE:
        message, fix = (
            _surface(kind, fault),
            "check the coordinates: x counts bytes, y rows and z slices",
        )
    elif kind is FaultKind.STACK_OVERFLOW and fault.size:
        message = f"alloca() of {fault.address} bytes overflows the stack of {STACK_BYTES} bytes"
        fix = "" if words.is_triton else "allocate less, or use an array of constant size"
    elif kind is FaultKind.MBARRIER_ARRIVALS:
        message = "arrives at an mbarrier that is not initialized"
        fix = f"initialize it with mbarrier.init, and put {words.barrier} after that"
        if fault.address:
            message = f"arrives {fault.size} times at an mbarrier whose phase waits for {fault.address} more"
            fix = "make the arrivals of a phase add up to the count of mbarrier.init"
    elif kind in _UNDEFINED and _is_shuffle(source_of(fault, program)):
        rule, fix = "synccheck", _fix_of_kind(FaultKind.SHUFFLE_GONE, words)
        message = _shuffled(kind, fault, site, program, naming.shape.block)
    elif kind in _UNDEFINED:
        array, index, message, fix, seen = _undefined(kind, fault, site, program, naming, words)
    elif kind is FaultKind.RAISED and site is not None:
        message = f"a thread raised {marked_text(site.text)}"
    elif kind in MASKS:
        message = mask_text(kind, fault)
        if site is not None and _OF_NUMBA.search(site.file):
            severity, fix = "warn", "it is in numba-cuda's own code, not in yours"
    elif row.rule == "synccheck":
        message = barrier_text(kind, fault, program.sites, threads)
        if kind in _INCOMPLETE:
            fix = barrier_fix(fault) or fix
    elif kind is FaultKind.WRAPPED_ADDRESS:
        message = wrapped_text(exact_result(fault), place(site))
        fix = wrapped_fix(source_of(fault, program), words)
    elif kind is FaultKind.TRAP and _is_grid_sync(site):
        message, fix = "grid.sync() needs a cooperative launch", _COOPERATIVE
    elif kind is FaultKind.TRAP and site is not None and "__assertfail" in site.text:
        message, fix = "an assertion failed", "compare the values in it with what the launch passes"
    return Finding(
        rule,
        message,
        severity=severity,
        fix=rule_of(rule).fix_in(words, fix),
        array=array,
        index=index,
        kernel=kernel_name(program.entry),
        block=_index3(fault.block),
        thread=_index3(fault.thread),
        place=place(told_at),
        stack=stack(told_at),
        seen=seen,
    )


_COOPERATIVE = "launch with cudaLaunchCooperativeKernel; in a spec, add cooperative: true to launch"


def _told_at(kind: FaultKind, fault: FaultRecord, site: Site | None, program: Program) -> Site | None:
    """The instruction at whose line a fault is reported: the use of a value, and the arithmetic of an overflow."""
    origin = source_of(fault, program) if kind in (*_UNDEFINED, FaultKind.WRAPPED_ADDRESS) else None
    first, second = (origin, site) if kind is FaultKind.WRAPPED_ADDRESS else (site, origin)
    return first if place(first) is not None or second is None else second


def _is_grid_sync(site: Site | None) -> bool:
    """Whether a trap is the one in CUDA's ``grid_group`` for launches that are not cooperative."""
    return site is not None and any(file.endswith("cooperative_groups.h") for file, _, _ in site.stack)


_WAITING_FIX = (
    "if the loop waits for another block: the cpu device begins blocks in order and runs each to its end, so take "
    "the number of a block from an atomic counter, or use grid.sync() in a cooperative launch"
)
_POLLS = re.compile(r"(atom|membar|fence|nanosleep)\b|ld\b.*\.(volatile|acquire|relaxed|mmio)\b")


def still_running(faults: Iterable[FaultRecord], program: Program, grid: Sequence[int]) -> Finding:
    """The finding for a launch that was stopped at its time limit, with one of its threads and its line.
    ``grid``: of the launch, in blocks."""
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
            if site is not None and math.prod(grid) > 1 and _POLLS.match(site.text):
                who = replace(who, fix=_WAITING_FIX)
            if who.place is not None:
                return who
    return finding


def grid_finding(wait: GridWait, program: Program, naming: Naming, grid: Sequence[int]) -> Finding:
    """The finding for blocks that did not all reach the same grid barrier. ``grid``: of the launch, in blocks."""
    block = min(wait.places[wait.site])
    x, y, z = grid
    words = naming.words(place(program.sites[wait.site]))
    return Finding(
        "synccheck",
        wait.text(program.sites, x * y * z),
        fix=rule_of("synccheck").fix_in(words, "make every block reach the same grid sync"),
        kernel=kernel_name(program.entry),
        block=(block % x, block // x % y, block // (x * y)),
        place=place(program.sites[wait.site]),
        stack=stack(program.sites[wait.site]),
    )


def place(site: Site | None) -> Span | None:
    """The place of a site in the source; None if the PTX does not have it."""
    if site is None or not site.source_line:
        return None
    return Span(site.file, site.source_line, max(1, site.column))


def stack(site: Site | None) -> tuple[Span, ...]:
    """The chain of inlined calls at a site, innermost first; empty if nothing was inlined."""
    return tuple(Span(file, line, max(1, column)) for file, line, column in site.stack) if site is not None else ()


def _index3(values: Iterable[int]) -> Index3:
    x, y, z = values
    return (x, y, z)


def _is_shuffle(site: Site | None) -> bool:
    return site is not None and site.text.startswith("shfl")


def _shuffled(kind: FaultKind, fault: FaultRecord, site: Site | None, program: Program, block: Index3) -> str:
    """The message for a use of a value that a shuffle read from a lane that has exited or that its mask does not
    name. Its number, or that plus UNNAMED_LANE, is the address.

    Args:
        block: its size in threads; its last warp may have fewer than 32 lanes.
    """
    told = f"{_UNDEFINED[kind]} an undefined value: the shuffle"
    start = place(source_of(fault, program))
    if start is not None and start != place(site):
        told += f" on line {start.line}"
    if fault.address >= UNNAMED_LANE:
        return f"{told} reads lane {fault.address - UNNAMED_LANE}, which its mask does not name"
    (x, y, z), threads = fault.thread, math.prod(block)
    warp = (x + block[0] * (y + block[1] * z)) // 32
    if 32 * warp + fault.address >= threads:
        return f"{told} reads lane {fault.address}, but the block has only {threads} thread{'s' * (threads != 1)}"
    return f"{told} reads lane {fault.address}, which has exited"


def _undefined(
    kind: FaultKind, fault: FaultRecord, site: Site | None, program: Program, naming: Naming, words: Language
) -> tuple[str | None, tuple[int, ...] | None, str, str, InGap | None]:
    """Array, index, message, fix and facts of a use of uninitialized memory. The fault names the load."""
    load = source_of(fault, program)
    if load is None:
        fix = "write it before reading it"
        if any(other.text.startswith(("mma.", "wmma.mma")) for other in program.sites):  # no load: an accumulator
            fix = "set the accumulator of the matrix product first, as with wmma::fill_fragment()"
        elif any(_is_shuffle(other) for other in program.sites):
            fix += ", and shuffle only values of lanes that the mask names"
        return None, None, f"{_UNDEFINED[kind]} an uninitialized value", fix, None
    array, index, space = None, None, load.space
    if space == "shared" or (space != "global" and _inside(naming.windows.shared, fault.address)):
        what = naming.told_shared(load, fault.address)
        fix = f"write it first, and put {words.barrier} between the write and the read"
    elif space == "local" or (space != "global" and _inside(naming.windows.state, fault.address)):
        what, fix = naming.told_local(load, fault), f"write every element of {words.local_array} first"
    else:
        array, index, what = naming.told_global(load, fault.address)
        fix = f"write it first: {words.new_memory}"
    message, seen = f"{_UNDEFINED[kind]} {what}, which is uninitialized", None
    if array is not None and (gap := naming.gap(load, fault.address)) is not None:
        array, index, what = gap
        seen = InGap()
        message, fix = f"{_UNDEFINED[kind]} {what}", "check the bound of the index: the array has gaps"
    start = place(load)
    if start is not None and start != place(site):
        message += f" (read at line {start.line})"
    return array, index, message, fix, seen


def _inside(windows: Iterable[tuple[int, int]], address: int) -> bool:
    return any(base <= address < base + size for base, size in windows)


def _surface(kind: FaultKind, fault: FaultRecord) -> str:
    """The message for an access outside a surface; the fault has the coordinate x, in bytes."""
    x = fault.address - (1 << 32 if fault.address >> 31 else 0)
    return f"{_SURFACE[kind]} {fault.size} byte{'s' * (fault.size != 1)} outside a surface, at x = {x} bytes"


def _strayed(faults: Iterable[FaultRecord], program: Program) -> frozenset[int]:
    """The lines of PTX whose accesses were outside every array."""
    sites = {fault.site for fault in faults if FaultKind(fault.kind) in VERBS}
    return frozenset(program.sites[site].line for site in sites if site < len(program.sites))
