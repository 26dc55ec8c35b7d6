"""Which stores of launches come nearest to watched bytes: the tables that compiled code fills."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from typing import Any

from kcheck.cpu.faults import place, stack
from kcheck.cpu.launches import KernelLaunch
from kcheck.cpu.memory import Memory, RangeLabel
from kcheck.dataclass import dataclass
from kcheck.model.watched import NearStore, StoreTarget
from kcheck.ptx.abi import Launch
from kcheck.ptx.program import Program
from kcheck.ptx.syntax.symbols import kernel_name
from kcheck.ptx.watch_records import StoreRecord, StoreWatch, WatchedBytes


@dataclass(frozen=True, eq=False, slots=True)
class _Table:
    """The records of one launch. ``ranges``: for each watched range, the number of its target and its array."""

    program: Program
    launch: KernelLaunch
    ranges: Sequence[tuple[int, RangeLabel]]
    watched: Any
    records: Any
    head: StoreWatch


class NearStores:
    """The stores of launches since the last :meth:`take`, with a table for each.

    Attributes:
        targets: what is watched.
    """

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self.targets: Sequence[StoreTarget] = ()
        self._tables: list[_Table] = []

    def begin(self, program: Program, context: Launch, launch: KernelLaunch) -> object:
        """Set where a launch records its stores; returns what must be kept alive until it ends."""
        labels = [self._memory.labeled(block, block.base) for block in self._memory]
        ranges = [
            (number, label)
            for number, target in enumerate(self.targets)
            for label in labels
            if label is not None and label.name == target.array
        ]
        watched = (WatchedBytes * max(len(ranges), 1))()
        for row, (number, label) in zip(watched, ranges, strict=False):
            target = self.targets[number]
            row.first = label.base + target.offset
            row.last = row.first + target.size
            row.low, row.high = label.low, label.high
        records = (StoreRecord * (max(len(ranges), 1) * max(len(program.sites), 1)))()
        head = StoreWatch(
            watched=ctypes.addressof(watched),
            count=len(ranges),
            records=ctypes.addressof(records),
            sites=len(program.sites),
        )
        context.watch = ctypes.addressof(head)
        table = _Table(program, launch, ranges, watched, records, head)
        self._tables.append(table)
        return table

    def take(self) -> tuple[tuple[NearStore, ...], ...]:
        """As :attr:`kcheck.model.watched.WatchedLaunch.stores`, of the launches since the last call."""
        tables, self._tables = self._tables, []
        found: list[list[NearStore]] = [[] for _ in self.targets]
        before = 0  # stores of earlier launches
        for table in tables:
            sites = len(table.program.sites)
            for row, (number, label) in enumerate(table.ranges):
                for site in range(sites):
                    record = table.records[row * sites + site]
                    if record.number:
                        found[number].append(_near_store(record, table, site, label, before))
            before += table.head.stores
        for table in tables:
            for number, label in table.ranges:
                if not found[number]:
                    found[number] += _not_executed(table, label)
        return tuple(tuple(sorted(stores, key=_order)) for stores in found)


def _order(store: NearStore) -> tuple[int, int]:
    return store.distance or 0, -store.number


def _not_executed(table: _Table, label: RangeLabel) -> Iterator[NearStore]:
    """The stores of a kernel whose address is computed from a parameter that points to an array."""
    from kcheck.ptx.analysis.provenance import provenance  # imports the PTX parser

    program, params = table.program, table.launch.params
    pointers = {
        slot.name
        for slot in program.params
        if slot.size == 8
        and label.low <= int.from_bytes(params[slot.offset : slot.offset + 8], "little") <= label.high
    }
    for site in program.sites:
        if site.space in ("global", "generic") and site.text.startswith(("st.", "red.", "atom.")):
            made = provenance(table.launch.module.tree, site.line)
            if made is not None and made.function == program.entry and made.roots & pointers:
                kernel = kernel_name(program.entry)
                yield NearStore(None, 0, 0, kernel, None, None, place(site), stack(site))


def _near_store(record: StoreRecord, table: _Table, site: int, label: RangeLabel, before: int) -> NearStore:
    x, y, z = record.block
    i, j, k = record.thread
    where = table.program.sites[site]
    return NearStore(
        record.distance,
        record.address - label.base,
        before + record.number,
        kernel_name(table.program.entry),
        (x, y, z),
        None if table.launch.module.replicates else (i, j, k),
        place(where),
        stack(where),
    )
