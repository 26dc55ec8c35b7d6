"""Records of faults: code that finds a fault calls :func:`report_fault`, and the host reads the records."""

from __future__ import annotations

from kcheck.ptx.abi import FAULTS, STOP_FAULT, STOP_REQUESTED, Block, FaultKind, FaultRecord, Launch
from kcheck.ptx.ir.builder import Builder, Value
from kcheck.ptx.ir.calls import call
from kcheck.ptx.ir.function import FunctionBuilder
from kcheck.ptx.ir.records import record
from kcheck.ptx.ir.signature import Definition, Signature

FAULT = Signature(
    "@kcheck.fault",
    "void",
    {
        "launch": "ptr",
        "block": "ptr",
        "t0": "i32",
        "site": "i32",
        "kind": "i32",
        "address": "i64",
        "size": "i32",
        "lane": "i32",
    },
)
RUNNING = Signature(
    "@kcheck.running", "void", {"launch": "ptr", "block": "ptr", "t0": "i32", "site": "i32", "lane": "i32"}
)


def report_fault(
    b: Builder,
    kind: Value | int,
    site: Value | int,
    *,
    address: Value | int = 0,
    size: Value | int = 0,
    lane: Value | int = 0,
    first: Value | int | None = None,
) -> None:
    """Emit code that records a fault, in a function with the parameters ``%launch`` and ``%block``, and stops the
    launch if a GPU would.

    Args:
        kind: a FaultKind.
        address, size: see :class:`kcheck.ptx.abi.FaultRecord`.
        lane: the lane of the thread, counted from the thread ``first``; default: ``%t0``, the vector's first.
    """
    call(
        b,
        FAULT,
        launch=Value("%launch", "ptr"),
        block=Value("%block", "ptr"),
        t0=Value("%t0", "i32") if first is None else first,
        site=site,
        kind=int(kind) if isinstance(kind, int) else kind,
        address=address,
        size=size,
        lane=lane,
    )


def definitions(declarations: dict[str, str]) -> dict[str, Definition]:
    """The functions of this file, by name."""
    return {FAULT.name: _fault(declarations), RUNNING.name: _running(declarations)}


def _fault(declarations: dict[str, str]) -> Definition:
    f = FunctionBuilder(FAULT, "noinline", exported=True, declarations=declarations, attributes="cold")
    launch, block = record(f, "launch", Launch), record(f, "block", Block)
    kind, thread = f.argument("kind"), f.argument("t0") + f.argument("lane")
    number = launch.fetch_add(Launch.fault_count, 1)
    with f.if_(number < launch.load(Launch.fault_capacity)):
        fault = launch.records(Launch.faults, FaultRecord)[number]
        fault.store(FaultRecord.kind, kind)
        fault.store(FaultRecord.site, f.argument("site"))
        fault.store(FaultRecord.address, f.argument("address"))
        fault.store(FaultRecord.size, f.argument("size"))
        index = [block.array(p, "i32")[thread] for p in (Block.thread_x, Block.thread_y, Block.thread_z)]
        for axis in range(3):
            fault.store(FaultRecord.block, block.load(Block.index, axis), axis)
            fault.store(FaultRecord.thread, index[axis], axis)
        size = [launch.load(Launch.block_dim, axis) for axis in range(2)]
        number_in_block = (index[2] * size[1] + index[1]) * size[0] + index[0]  # vectors may be along y or z
        fault.store(FaultRecord.lanes, f.term(f.const("i32", 1)) << (number_in_block & 31))
    with f.if_among(kind, [int(kind) for kind, row in FAULTS.items() if row.stops]):
        launch.store_shared(Launch.stop, STOP_FAULT)
    return f.definition()


def _running(declarations: dict[str, str]) -> Definition:
    """The function RUNNING: records where a thread was when the host stopped the launch."""
    f = FunctionBuilder(RUNNING, "noinline", exported=True, declarations=declarations, attributes="cold")
    launch = record(f, "launch", Launch)
    with f.if_(launch.load_shared(Launch.stop).eq(STOP_REQUESTED)):
        report_fault(f, FaultKind.RUNNING, f.argument("site"), lane=f.argument("lane"))
    return f.definition()
