"""Runs PTX in tests: parse, lower, compile, launch, with arrays as parameters."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from kcheck.cpu.jit import LoadedCode, compile_ir
from kcheck.ptx import abi, lower, parse

RUN = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


@dataclass(frozen=True)
class Ended:
    """How a launch ended: what kcheck_run returned, and (kind, PTX line, thread x, count of bytes) of each fault."""

    status: int
    faults: tuple[tuple[str, int, int, int], ...]
    printed: bytes


@lru_cache(maxsize=64)
def compiled(text: str, width: int) -> tuple[abi.Program, LoadedCode]:
    """The first kernel of a module."""
    module = parse(text, "test.ptx")
    program = lower(module, module.entries[0].name, width)
    code = compile_ir(program.ir, program.width)
    return program, LoadedCode(code, ("kcheck_run", "kcheck_block"))


def launch(
    text: str,
    params: Sequence[np.ndarray | int],
    width: int,
    grid: tuple[int, ...] = (1,),
    block: tuple[int, ...] = (32,),
    dynamic_shared: int = 0,
    stop: int = 0,
) -> Ended:
    """Launch the first kernel of a module; arrays are passed by address and are what it may touch."""
    program, code = compiled(text, width)
    run = RUN(code.address("kcheck_run"))
    grid, block = (*grid, 1, 1)[:3], (*block, 1, 1)[:3]
    data = bytearray(max(program.param_bytes, 16))
    allocations = []
    for slot, value in zip(program.params, params, strict=True):
        if isinstance(value, np.ndarray):
            allocations.append((value.ctypes.data, value.nbytes))
            value = value.ctypes.data
        data[slot.offset : slot.offset + slot.size] = (value & (1 << 8 * slot.size) - 1).to_bytes(
            slot.size, "little"
        )
    buffer = (ctypes.c_ubyte * len(data)).from_buffer(data)
    allocations.append((ctypes.addressof(buffer), len(data)))
    addresses, keep = {}, []
    for variable in program.globals:
        memory = np.zeros(variable.size + 64, np.uint8)
        start = -memory.ctypes.data % 64
        memory[start : start + variable.size] = np.frombuffer(variable.initial, np.uint8)
        addresses[variable.name] = memory.ctypes.data + start
        keep.append((memory, start, variable))
        allocations.append((addresses[variable.name], variable.size))
    for memory, start, variable in keep:
        for offset, symbol, addend in variable.relocations:
            place = memory[start + offset : start + offset + 8]
            place[:] = np.frombuffer((addresses[symbol] + addend).to_bytes(8, "little"), np.uint8)
    table = (abi.Allocation * len(allocations))(*[abi.Allocation(a, n) for a, n in sorted(allocations)])
    faults = (abi.Fault * 64)()
    prints = ctypes.create_string_buffer(1 << 16)
    globals_ = (ctypes.c_uint64 * max(len(addresses), 1))(*(addresses[v.name] for v in program.globals))
    threads = block[0] * block[1] * block[2]
    context = abi.Launch(
        params=ctypes.addressof(buffer),
        block_dim=block,
        grid_dim=grid,
        threads=threads,
        dynamic_shared=dynamic_shared,
        stop=stop,
        workers=1,
        allocations=ctypes.addressof(table),
        allocation_count=len(allocations),
        globals=ctypes.addressof(globals_),
        faults=ctypes.addressof(faults),
        fault_capacity=64,
        print_buffer=ctypes.addressof(prints),
        print_capacity=1 << 16,
    )
    shared = np.zeros(program.shared_bytes + dynamic_shared + 256, np.uint8)
    state = np.full(program.state_bytes(threads) + 64, 0xCD, np.uint8)
    sites = (abi.SiteCache * max(len(program.sites), 1))()
    worker = abi.Worker(
        shared=shared.ctypes.data + (-shared.ctypes.data % 256),
        state=state.ctypes.data + (-state.ctypes.data % 64),
        sites=ctypes.addressof(sites),
        stack_bytes=1 << 20,
    )
    status = run(ctypes.addressof(context), ctypes.addressof(worker), 0, grid[0] * grid[1] * grid[2])
    found = tuple(
        (abi.FaultKind(f.kind).name, program.sites[f.site].line, f.thread[0], f.size)
        for f in faults[: min(context.fault_count, 64)]
    )
    return Ended(status, found, prints.raw[: context.print_used])


HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"


def row_kernel(cases: Sequence[tuple[str, Sequence[str], Sequence[str]]]) -> str:
    """A kernel that runs instructions on columns of 64-bit words.

    Args:
        cases: for each instruction its text (sources ``%a %b %c %e``, results ``%d %q``), the types of the sources,
            and those of the results.

    Thread t reads word t of each source's column and writes word t of each result's; columns follow each other.
    """
    lines = [
        HEAD,
        ".visible .entry rows(.param .u64 in, .param .u64 out, .param .u32 n)\n{",
        ".reg .u64 %in, %out, %step; .reg .u32 %t, %n; .reg .u64 %w; .reg .pred %over;",
        "mov.u32 %t, %tid.x; mov.u32 %n, %ctaid.x; mad.lo.s32 %t, %n, 32, %t; ld.param.u32 %n, [n];",
        "setp.ge.u32 %over, %t, %n; @%over bra DONE;",
        "ld.param.u64 %in, [in]; ld.param.u64 %out, [out]; mul.wide.u32 %step, %n, 8;",
        "mad.wide.u32 %in, %t, 8, %in; mad.wide.u32 %out, %t, 8, %out;",
    ]
    for text, sources, results in cases:
        lines.append("{")
        for name, kind in zip(("a", "b", "c", "e"), sources, strict=False):
            lines.append(f".reg .{kind} %{name};")
            lines.append("ld.global.u64 %w, [%in]; add.s64 %in, %in, %step;")
            lines.append(_unpack(name, kind))
        for name, kind in zip(("d", "q"), results, strict=False):
            lines.append(f".reg .{kind} %{name};")
        lines.append(text)
        for name, kind in zip(("d", "q"), results, strict=False):
            lines.append(_pack(name, kind))
            lines.append("st.global.u64 [%out], %w; add.s64 %out, %out, %step;")
        lines.append("}")
    return "\n".join([*lines, "DONE: ret;", "}"])


_BITS = {"16": "b16", "32": "b32", "64": "b64"}


def _bits(kind: str) -> str:
    return "32" if kind.endswith("x2") else kind.lstrip("bsuf")


def _unpack(name: str, kind: str) -> str:
    size = _bits(kind)
    if kind == "pred":
        return f"{{ .reg .u32 %x; cvt.u32.u64 %x, %w; setp.ne.u32 %{name}, %x, 0; }}"
    if size == "64":
        return f"mov.b64 %{name}, %w;"
    return f"{{ .reg .b{size} %x; cvt.u{size}.u64 %x, %w; mov.b{size} %{name}, %x; }}"


def _pack(name: str, kind: str) -> str:
    size = _bits(kind)
    if kind == "pred":
        return f"selp.b64 %w, 1, 0, %{name};"
    if size == "64":
        return f"mov.b64 %w, %{name};"
    return f"{{ .reg .b{size} %x; mov.b{size} %x, %{name}; cvt.u64.u{size} %w, %x; }}"


def run_rows(
    cases: Sequence[tuple[str, Sequence[str], Sequence[str]]], columns: Sequence[np.ndarray], width: int
) -> list[np.ndarray]:
    """The result columns of :func:`row_kernel` for source columns (uint64, all of one length)."""
    n = len(columns[0])
    count = sum(len(results) for _, _, results in cases)
    source = np.ascontiguousarray(np.concatenate(columns).astype(np.uint64))
    result = np.full(count * n, 0xDEADBEEF, np.uint64)
    ended = launch(row_kernel(cases), [source, result, n], width, grid=(-(-n // 32),))
    assert ended.faults == ()
    assert ended.status == abi.FINISHED
    return list(result.reshape(count, n))
