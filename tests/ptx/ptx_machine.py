"""Runs PTX in tests: parse, lower, compile, launch, with arrays as parameters."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from kcheck.cpu.jit import LoadedCode, compile_ir
from kcheck.cpu.kernel import _compiled_scheduler
from kcheck.ptx import abi
from kcheck.ptx.abi import row_of
from kcheck.ptx.compile import lower
from kcheck.ptx.lowering.module import module_variables
from kcheck.ptx.program import GlobalVariable, Program
from kcheck.ptx.syntax.declarations import PAGE
from kcheck.ptx.syntax.parser import parse

RUN = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


@dataclass(frozen=True)
class Ended:
    """How a launch ended: what kcheck_run returned; kind, PTX line, thread x and bytes of each fault.

    Attributes:
        places: of each fault the address, the thread and the block.
    """

    status: int
    faults: tuple[tuple[str, int, int, int], ...]
    printed: bytes
    places: tuple[tuple[int, tuple[int, ...], tuple[int, ...]], ...] = ()


@lru_cache(maxsize=64)
def compiled(
    text: str, width: int, row: int = 1, axis: str = "x", interiors: bool = True
) -> tuple[Program, LoadedCode]:
    """The first kernel of a module, for blocks in which ``row`` lanes are neighbors: quick code for 8 and 32
    lanes, the better one for others. All kernels of a variant share a scheduler, as in a run."""
    module = parse(text, "test.ptx")
    program = lower(module, module.entries[0].name, width, row=row, axis=axis, interiors=interiors)
    quick = width in (8, 32)
    code = compile_ir(program.ir.text, program.width, quick=quick), _compiled_scheduler(program.scheduler, quick)
    return program, LoadedCode(code, ("kcheck_run", "kcheck_block"))


@lru_cache(maxsize=16)
def variables_of(text: str) -> tuple[GlobalVariable, ...]:
    """The variables of a module."""
    return module_variables(parse(text, "test.ptx"))


def launch(
    text: str,
    params: Sequence[np.ndarray | int],
    width: int,
    grid: tuple[int, ...] = (1,),
    block: tuple[int, ...] = (32,),
    dynamic_shared: int = 0,
    stop: int = 0,
    axis: str = "x",
    interiors: bool = True,
    order: Sequence[int] = (),
) -> Ended:
    """Launch the first kernel of a module; arrays are passed by address and are what it may touch.

    Args:
        order: of the vectors of a block; empty: one after another, in one call.
    """
    grid, block = (*grid, 1, 1)[:3], (*block, 1, 1)[:3]
    program, code = compiled(text, width, row_of(block, axis), axis, interiors)
    run = RUN(code.address("kcheck_run"))
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
    addresses, keep = {}, []
    for variable in variables_of(text) if program.globals else ():
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
    table = (abi.AllocationRecord * len(allocations))(
        *[abi.AllocationRecord(a, n) for a, n in sorted(allocations)]
    )
    faults = (abi.FaultRecord * 64)()
    prints = ctypes.create_string_buffer(1 << 16)
    globals_ = (ctypes.c_uint64 * max(len(addresses), 1))(*(addresses[name] for name in program.globals))
    threads = block[0] * block[1] * block[2]
    turns = (ctypes.c_uint32 * max(len(order), 1))(*order)
    context = abi.Launch(
        params=ctypes.addressof(buffer),
        block_dim=block,
        grid_dim=grid,
        threads=threads,
        dynamic_shared=dynamic_shared,
        stop=stop,
        vector_order=ctypes.addressof(turns) if order else 0,
        workers=1,
        allocations=ctypes.addressof(table),
        allocation_count=len(allocations),
        globals=ctypes.addressof(globals_),
        faults=ctypes.addressof(faults),
        fault_capacity=64,
        print_buffer=ctypes.addressof(prints),
        print_capacity=1 << 16,
    )
    shared = np.zeros(program.shared_bytes + dynamic_shared + PAGE, np.uint8)
    state = np.full(program.state_bytes(threads) + PAGE, 0xCD, np.uint8)
    sites = (abi.SiteCache * max(len(program.sites), 1))()
    worker = abi.Worker(
        shared=shared.ctypes.data + (-shared.ctypes.data % PAGE),
        state=state.ctypes.data + (-state.ctypes.data % PAGE),
        sites=ctypes.addressof(sites),
        stack_bytes=1 << 20,
    )
    status = run(ctypes.addressof(context), ctypes.addressof(worker), 0, grid[0] * grid[1] * grid[2])
    found = tuple(
        (abi.FaultKind(f.kind).name, program.sites[f.site].line, f.thread[0], f.size)
        for f in faults[: min(context.fault_count, 64)]
    )
    places = tuple((f.address, tuple(f.thread), tuple(f.block)) for f in faults[: min(context.fault_count, 64)])
    return Ended(status, found, prints.raw[: context.print_used], places)


HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"
