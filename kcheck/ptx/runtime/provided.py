"""The functions of the CUDA runtime that device code calls: ``vprintf`` and ``malloc``.

Source: CUDA C++ Programming Guide, "Formatted Output", "Dynamic Global Memory Allocation".
"""

from __future__ import annotations

import ctypes

from kcheck.ptx.abi import Block, Launch, PrintRecord
from kcheck.ptx.ir.function import FunctionBuilder
from kcheck.ptx.ir.records import Record, record
from kcheck.ptx.ir.signature import Definition, Signature
from kcheck.ptx.runtime.lookup import LocalLayout

PRINT_BYTES = 512
"""The most bytes of arguments that one vprintf stores. CUDA allows 32 arguments of 8 bytes."""

PRINT = Signature(
    "@kcheck.print",
    "void",
    {
        **dict.fromkeys(("launch", "block", "warp"), "ptr"),
        "t0": "i32",
        "lane": "i32",
        "format": "i64",
        "data": "i64",
    },
)
"""Stores the format and the arguments of one lane in the print buffer, as a PrintRecord."""

MALLOC = Signature("@kcheck.malloc", "i64", {"launch": "ptr", "size": "i64"})
"""Allocates from the device heap: returns a multiple of 16, or 0 if the heap is full. Memory is not reused."""

_ALIGNMENT = 16


def print_ir(local: LocalLayout, declarations: dict[str, str]) -> Definition:
    """The definition of PRINT: the arguments are in local memory."""
    f = FunctionBuilder(PRINT, "noinline", declarations=declarations)
    launch, block, data = record(f, "launch", Launch), record(f, "block", Block), f.argument("data")
    own = f.argument("warp").to("i64") + local.offset + f.argument("lane").to("i64") * local.stride
    distance = data - own
    room = f.term(f.const("i64", local.stride)) - distance
    present = (distance < local.stride).select(f.intrinsic("umin", room, f.const("i64", PRINT_BYTES)), 0)
    padded = (present + 7) & -8
    size = padded + ctypes.sizeof(PrintRecord)
    start = launch.fetch_add(Launch.print_used, size)
    with f.if_(start + size <= launch.load(Launch.print_capacity)):
        printed = Record(f, f.offset(launch.pointer_at(Launch.print_buffer), start), PrintRecord)
        printed.store(PrintRecord.format, f.argument("format"))
        printed.store(PrintRecord.argument_bytes, padded.to("i32"))
        thread = f.argument("t0") + f.argument("lane")
        for axis, places in enumerate((Block.thread_x, Block.thread_y, Block.thread_z)):
            printed.store(PrintRecord.thread, block.array(places, "i32")[thread], axis)
            printed.store(PrintRecord.block, block.load(Block.index, axis), axis)
        f.copy(printed[1].pointer, data.to("ptr"), present)
    return f.definition()


def malloc_ir() -> Definition:
    """The definition of MALLOC."""
    f = FunctionBuilder(MALLOC, "noinline")
    launch, size = record(f, "launch", Launch), f.argument("size")
    heap = launch.load(Launch.heap_size)
    with f.if_(size <= heap):
        taken = (size + (_ALIGNMENT - 1)) & -_ALIGNMENT
        start = launch.fetch_add(Launch.heap_used, taken)
        with f.if_(start + taken <= heap):
            f.ret(launch.load(Launch.heap) + start)
    f.ret(0)
    return f.definition()
