"""Memory that an asynchronous copy is still filling: it has a record from the copy until the wait."""

from __future__ import annotations

from collections.abc import Mapping

from kcheck.ptx.abi import Worker
from kcheck.ptx.ir.builder import Value
from kcheck.ptx.ir.function import FunctionBuilder, Term
from kcheck.ptx.ir.records import Record, record
from kcheck.ptx.ir.signature import Signature
from kcheck.ptx.runtime.copies import LARGEST, CopyWatcher, move_of
from kcheck.ptx.runtime.copy_queue import CopyQueue
from kcheck.ptx.runtime.lookup import context
from kcheck.ptx.sanitizers.race.layout import INFLIGHT, THREAD_BITS, RaceState
from kcheck.ptx.sanitizers.race.sync import state_of

WORD = 4
"""The bytes of a copy that are checked at a time."""


class FilledMemory(CopyWatcher):
    """Tracks the shared memory that copies fill.

    Args:
        granule: the bytes of shared memory for one record.
        check: the function that checks stores of a word to shared memory.
    """

    def __init__(self, queue: CopyQueue, granule: int, check: Signature) -> None:
        self.queue = queue
        self.granule = granule
        self.check = check

    def begins(self, f: FunctionBuilder, target: Term, size: Term, lane: Term) -> None:
        """Record that the copy fills its destination from here on."""
        thread = f.argument("t0") + lane
        values = {"stamps": state_of(f).load(RaceState.now), "infos": f.argument("site") << THREAD_BITS | thread}
        self._fill(f, target, size.to("i64"), values)

    def completes(self, f: FunctionBuilder, copy: Record, lanes: Term) -> None:
        """Check the end of a copy as a store: accesses of other threads must be separated from it by a barrier."""
        W, queue, words = self.queue.width, self.queue, LARGEST // WORD
        size = copy.load(queue.copy.size)
        stage = Value(f.local(f"[{W * LARGEST} x i8]", 64), "ptr")
        f.fill(stage, 0, W * LARGEST)
        with f.set_bits(lanes) as lane:
            move = move_of(f, queue, copy, lane)
            f.copy(f.offset(stage, lane.to("i64") * LARGEST), move.source.to("ptr"), move.amount)
            self._fill(f, move.target, move.size, {"stamps": f.const("i32", 0)})
        staged = f.load("i32", stage, 64, W * words)
        mask = f.bits_mask(lanes.to("i1" if W == 1 else f"i{W}"), W)
        given = {**context(f), "m": mask, "site": copy.load(queue.copy.site)}
        for word in range(words):
            with f.if_(size > word * WORD):
                places = [lane * words + word for lane in range(W)]
                value = f.extract(staged, word) if W == 1 else f.shuffle(staged, staged, places)
                where = copy.lanes(queue.copy.target) + word * WORD
                f.run(self.check, a=where, v=value, **given)

    def _fill(self, f: FunctionBuilder, address: Term, size: Term, values: Mapping[str, Value]) -> None:
        """Set the records of ``size`` bytes, a multiple of the granule."""
        shift = self.granule.bit_length() - 1
        index = (address - record(f, "worker", Worker).load(Worker.shared)) >> shift
        tables = {
            name: state_of(f).array(getattr(RaceState, f"shared_{name}"), "i32", INFLIGHT) for name in values
        }
        with f.range(size >> shift) as number:
            for name, value in values.items():
                tables[name][index + number] = value
