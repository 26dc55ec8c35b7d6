"""An access that is checked, and what the functions that check it have in common."""

from __future__ import annotations

from dataclasses import replace

from kcheck.dataclass import dataclass
from kcheck.ptx.abi import Worker
from kcheck.ptx.ir.builder import Value, vector_type
from kcheck.ptx.ir.function import FunctionBuilder, Term
from kcheck.ptx.ir.records import Record, new_record, record
from kcheck.ptx.ir.signature import Signature
from kcheck.ptx.runtime.lookup import CONTEXT
from kcheck.ptx.sanitizers.race.cells import (
    NAMES,
    cell_signature,
)
from kcheck.ptx.sanitizers.race.facts import CHECKED, RaceFacts
from kcheck.ptx.sanitizers.race.layout import THREAD_BITS, WRITE, RaceAccess, RaceState
from kcheck.ptx.sanitizers.race.sync import state_of


@dataclass(frozen=True, slots=True)
class CheckedAccess:
    """An access of ``size`` bytes by each of ``width`` lanes.

    Attributes:
        kind: of the record that it leaves.
        is_same: whether all lanes access the same address; not for WRITE.
        is_row: whether lanes access adjacent elements. The address is that of the first lane's, and the mask is
            an integer of a bit for each lane.
    """

    kind: int
    space: str
    size: int
    width: int
    is_same: bool = False
    is_row: bool = False

    @property
    def signature(self) -> Signature:
        """The function that checks it. It takes addresses, a mask, and for WRITE the values to store."""
        mask = vector_type("i1", self.width)
        name = f"@kcheck.race.{NAMES[self.kind]}.{self.space}.{self.size}"
        if self.is_same:
            return Signature(f"{name}.same", "void", {"a": "i64", "m": mask, **CONTEXT})
        value = {"v": vector_type(self.bits, self.width)} if self.kind == WRITE else {}
        if self.is_row:
            given = {"a": "i64", **value, "m": f"i{self.width}", **CONTEXT}
            return Signature(f"{name}.row{self.width}", "void", given)
        addresses = vector_type("i64", self.width)
        return Signature(f"{name}.v{self.width}", "void", {"a": addresses, **value, "m": mask, **CONTEXT})

    @property
    def one_by_one(self) -> Signature:
        """The function that checks lane by lane."""
        signature = self.signature
        return replace(signature, name=f"{signature.name}.each")

    @property
    def bits(self) -> str:
        """The integer type of what a lane stores."""
        return f"i{8 * self.size}"

    def places(self, facts: RaceFacts) -> list[str]:
        """The checked spaces that the access may be in, shared memory first."""
        wanted = CHECKED if self.space == "generic" else (self.space,)
        return [place for place in reversed(CHECKED) if place in wanted and facts.checks(place)]


@dataclass(frozen=True, slots=True)
class ShadowedWindow:
    """The memory of a space that has a shadow."""

    base: Term
    size: Term


def find_window(f: FunctionBuilder, space: str) -> ShadowedWindow:
    state = state_of(f)
    if space == "shared":
        return ShadowedWindow(record(f, "worker", Worker).load(Worker.shared), state.load(RaceState.shared_size))
    return ShadowedWindow(state.load(RaceState.global_base), state.load(RaceState.global_size))


class LaneChecks:
    """Emits checks of one lane at a time, in a function with the parameters of an access.

    Attributes:
        addresses: of the lanes, in memory.
        record: describes the access to the functions that judge races.
    """

    def __init__(self, f: FunctionBuilder, access: CheckedAccess, facts: RaceFacts) -> None:
        self.f, self.access, self.facts = f, access, facts
        self.record: Record = new_record(f, RaceAccess)
        room = Value(f.local(f"[{access.width} x i64]", 64), "ptr")
        self.addresses = f.array(room, "i64")
        self.record.store(RaceAccess.addresses, f.term(room).to("i64"))
        self.record.store(RaceAccess.size, access.size)
        self.record.store(RaceAccess.t0, f.argument("t0"))
        self.record.store(RaceAccess.values, 0)
        self.window_of = {space: find_window(f, space) for space in access.places(facts)}

    def keep(self, bits: Term) -> None:
        """Store the addresses of all lanes, and the values of a write, in memory. ``bits``: the active lanes."""
        f, access = self.f, self.access
        f.store(f.argument("a"), self.addresses.at(0), 8)
        self.record.store(RaceAccess.mask, bits)
        if access.kind == WRITE:
            values = Value(f.local(f"[{access.width} x {access.bits}]", 64), "ptr")
            f.store(f.argument("v"), values, access.size)
            self.record.store(RaceAccess.values, f.term(values).to("i64"))

    def check(self, lane: Term, address: Term) -> None:
        """Check the access of one lane, one granule after another."""
        f, access = self.f, self.access
        self.record.store(RaceAccess.lane, lane)
        me = f.argument("site") << THREAD_BITS | f.argument("t0") + lane
        given = {"rs": state_of(f).pointer, "me": me, "access": self.record.pointer}
        given |= {name: f.argument(name) for name in ("launch", "block")}
        with f.block():
            for space, window in self.window_of.items():
                granule = self.facts.granule[space]
                distance = address - window.base
                with f.if_(distance < window.size):
                    index, cell = distance >> (granule.bit_length() - 1), cell_signature(access.kind, space)
                    for n in range(access.size // granule):
                        f.run(cell, index=index + n, address=address + n * granule, **given)
                    f.break_()
