"""The events that the observers of a function receive while it is lowered.

Instructions and the lowering announce what they do to each :class:`Observer` of the function being lowered
(``for observer in fn.observers: observer.branches(i, guard)``); they do not know which observers there are.
Without observers, no instructions are emitted for them. An observer emits its instructions with the function's
builder where the event occurs: before the code of the announced operation, unless the event says *after*.
Observers are called in the order in which :mod:`kcheck.ptx.compile` registers their sanitizers.

Rows of the instruction table are announced automatically, and so are loads and stores that go through
:mod:`kcheck.ptx.isa.loadstore`. Any other handler announces its results: with :meth:`Observer.derives`, unless a
more specific event applies.

A :class:`Carrier` is an observer that keeps a *companion* for each value; it is stored and loaded with the value.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence

from kcheck.dataclass import dataclass
from kcheck.ptx.ir.builder import Builder, Value
from kcheck.ptx.isa.fragments import MatrixShape
from kcheck.ptx.syntax.ast import Instruction, Operand, Operation
from kcheck.ptx.syntax.types import PtxType

Triple = tuple[list[Value], list[Value], Value]
"""The operands of one element of D: elements of a row of A, elements of a column of B, and an element of C."""

Arrange = Callable[[Builder, Sequence[Value], Sequence[Value], Sequence[Value]], list[Triple]]
"""Maps the elements of A, B and C that each lane holds to the operands of each of the lane's elements of D."""


@dataclass(frozen=True, slots=True)
class Access:
    """An access of ``count`` adjacent elements of ``kind`` in each active lane.

    Attributes:
        address: of the first element, i64; a scalar if it is the same in all lanes.
        space: ``global``, ``shared``, ``local``, ``const`` or ``generic``.
        site: the number of its site.
    """

    address: Value
    space: str
    kind: PtxType
    site: int
    count: int = 1


@dataclass(frozen=True, slots=True)
class AccessGroup:
    """Loads of one element each from shared memory, at constant distances from an address.

    Attributes:
        address: the lowest of the first lane's addresses, i64.
        size: of the elements, in bytes.
        is_row: whether the lanes load adjacent elements; otherwise, all load the same one.
        loads: the distance of each from ``address``, in bytes, and the number of its site; in order.
    """

    address: Value
    size: int
    is_row: bool
    loads: Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Update:
    """What an atomic does: ``operation`` (``add``, ``cas`` …) with ``operands`` at an access.

    Attributes:
        addresses: the access's address in each lane.
        allowed: the active lanes whose address may be accessed, i1.
        target: gets the old value.
    """

    access: Access
    addresses: Value
    operation: str
    allowed: Value
    target: Operand
    operands: Sequence[Operand]


@dataclass(frozen=True, slots=True)
class Copy:
    """An asynchronous copy from global to shared memory in each active lane, with valid addresses.

    Attributes:
        target, source: addresses, i64 vectors.
        amount: the bytes to read, i32; the rest of the ``size`` bytes to write is zeroed.
        reads, writes: the numbers of the sites.
    """

    target: Value
    source: Value
    amount: Value
    size: int
    reads: int
    writes: int


@dataclass(frozen=True, slots=True)
class Companion:
    """The companion of a value: an integer with as many bits, and a flag (i1) if the value passed through a
    call."""

    value: Value
    flag: Value | None = None


class Observer:
    """Events of one function; each does nothing unless a sanitizer overrides it.

    Attributes:
        wants_outcome: whether :meth:`updated` needs to know in which lanes a compare-and-swap succeeded.
    """

    wants_outcome = False

    # --- registers

    def computes(
        self, i: Instruction, operands: Sequence[Operand], values: Sequence[Value], targets: Sequence[Operand]
    ) -> None:
        """A row of the instruction table is about to compute ``targets`` from ``operands``, read as ``values``."""

    def derives(self, i: Instruction, targets: Sequence[Operand], sources: Sequence[Operand]) -> None:
        """Each bit of the results may depend on each bit of the sources, in the same lane."""

    def moves(self, i: Instruction, target: Operand, source: Operand, kind: PtxType) -> None:
        """Bits are copied unchanged from a source to a target; either may be a vector of parts, lowest first."""

    def moved(self, i: Instruction, source: Operand, value: Value) -> None:
        """After the source of a move was read, before the target is written."""

    def written(self, operation: Operation, register: str, value: Value, blend: bool) -> None:
        """After a register got its value; ``blend``: in the active lanes only."""

    # --- control flow

    def enters(self) -> None:
        """A function that is called, not a kernel, begins."""

    def begins(self, operations: Sequence[Operation]) -> None:
        """The active lanes, at least one, are about to execute a basic block, including its terminator."""

    def goes(self, operation: Operation, way: int) -> None:
        """All active lanes take the same edge of a branch, which was decided in advance.

        Args:
            way: the index of the successor.
        """

    def branches(self, operation: Operation, condition: Operand) -> None:
        """A predicate, an index or a target decides where the active lanes continue, or whether they execute."""

    # --- memory

    def accesses_row(
        self, i: Instruction, access: Access, step: Value | int, values: Sequence[Value] = ()
    ) -> None:
        """The active lanes load or store elements ``step`` bytes apart, instead of :meth:`accesses`.

        Args:
            access: of the first lane's element.
        """

    def groups(self, load: Instruction) -> bool:
        """Whether :meth:`accesses_group` may announce a load from shared memory. By default, it may not."""
        return False

    def accesses_group(self, group: AccessGroup) -> Value | None:
        """The active lanes are about to execute several loads, with neither stores nor synchronization between.

        Returns:
            Whether all is done for them, i1; None: always. If not, each load is announced when it executes.
        """
        return None

    def addresses(self, i: Instruction, operand: Operand) -> None:
        """The active lanes are about to access the address that an operand names."""

    def accesses(self, i: Instruction, access: Access, values: Sequence[Value] = ()) -> None:
        """A load, a store (of ``values``) or an atomic is about to execute; nothing has been checked yet."""

    def updates(self, i: Instruction, update: Update) -> None:
        """An atomic is about to execute, in the lanes that may access the address."""

    def updated(self, i: Instruction, update: Update, succeeded: Value | None) -> None:
        """After an atomic. ``succeeded``: of a compare-and-swap if :attr:`wants_outcome`, the lanes that wrote."""

    def copies(self, i: Instruction, copy: Copy) -> None:
        """An asynchronous copy is about to begin."""

    def uses(self, i: Instruction, operand: Operand) -> None:
        """An operand is used, but not to compute a result: the size of a copy, the count of a barrier."""

    def visits(self, i: Instruction, access: Access, allowed: Value) -> None:
        """An mbarrier object is about to be used in the lanes that may access it, i1."""

    def meets(self, i: Instruction, addresses: Value) -> None:
        """After the active lanes arrived at mbarrier objects, or saw that a phase is complete."""

    def fences(self, i: Instruction) -> None:
        """``membar`` or ``fence``."""

    def allocates(self, address: Value, size: Value) -> None:
        """After one lane got memory from ``malloc``: both scalars of i64; the address may be null."""

    # --- lanes of a warp

    def synchronizes(self, members: Value, orders: bool) -> None:
        """Active lanes that name each other meet.

        Args:
            members: the mask of lanes that each names, i32.
            orders: whether this orders their memory accesses, as ``bar.warp.sync`` does; a shuffle, a vote and a
                match only exchange values.
        """

    def joins(self, i: Instruction, here: Value) -> None:
        """A vote, ``match`` or ``redux``: results depend on the second operand in the lanes ``here`` (bits)."""

    def shuffles(
        self, i: Instruction, move: Callable[[Value], Value], source: Value, exited: Value | None
    ) -> None:
        """A ``shfl`` has moved values, and is about to write them.

        Args:
            move: gives each lane the 32-bit value of the lane that it reads.
            source: the lane that each lane reads, i32.
            exited: the lanes that read an exited lane, i1; None: no lane can.
        """

    def exchanges(self, i: Instruction, move: Callable[[Value], Value]) -> None:
        """Halves of 32-bit values move between lanes (``movmatrix``), as ``move`` moves them."""

    def multiplies(
        self, i: Instruction, shape: MatrixShape, register: PtxType, operands: Sequence[Sequence[Operand]]
    ) -> None:
        """A matrix product is about to be computed: the registers of D, A, B and C, each of type ``register``."""

    def multiplies_quads(self, i: Instruction, arrange: Arrange, operands: Sequence[Sequence[Operand]]) -> None:
        """Four products of 8 x 4 by 4 x 8 are about to be computed: the registers of D, A, B and C.

        Args:
            arrange: brings elements of A, B and C to the lanes that multiply them.
        """

    # --- what is saved with registers

    def companions(self, register: str, kind: str) -> Mapping[str, str]:
        """Registers that are saved and restored with one: their types by name."""
        return {}


class Carrier(Observer, ABC):
    """An observer whose companions are stored and loaded with the values. A function has at most one."""

    # --- memory that loads and stores access

    def follows(self, i: Instruction) -> bool:
        """Whether a loaded value may have a companion."""
        return True

    @abstractmethod
    def slot(self, element: str, lanes: int) -> str:
        """A pointer to memory for the companion of a value that is about to be loaded."""

    @abstractmethod
    def fetched(self, i: Instruction, access: Access, slot: str, lanes: int) -> Companion:
        """After a load that wrote the companion to the slot: the companion."""

    @abstractmethod
    def fetch(self, i: Instruction, access: Access, mask: Value) -> Companion:
        """The companion of a value that was loaded under a mask."""

    @abstractmethod
    def stored(
        self, operation: Instruction, source: Operand, access: Access, step: Value | int | None = None
    ) -> Value:
        """The companion to store with the value of an operand.

        Args:
            access: of one element.
            step: the bytes from a lane's element to the next lane's; ``access`` is then the first lane's.
        """

    @abstractmethod
    def constant(self, kind: PtxType, is_defined: bool) -> Value:
        """The companion to store with a value that is not an operand."""

    @abstractmethod
    def store(self, space: str, address: Value, shadow: Value, mask: Value, site: int) -> None:
        """Store a companion under a mask."""

    @abstractmethod
    def arrives(self, i: Instruction, target: Operand, companion: Companion | None, signed: bool) -> None:
        """After a loaded value was written to a register.

        Args:
            companion: None if the value is from memory without companions.
            signed: whether the value was sign-extended, if the register is wider.
        """

    # --- arguments and results of calls

    @abstractmethod
    def passed(self, name: str, offset: int, kind: PtxType) -> Companion:
        """The companion of a value that was loaded from a ``.param`` variable of a call or a function."""

    @abstractmethod
    def passes(self, name: str, offset: int, kind: PtxType, source: Operand) -> None:
        """After the active lanes stored an operand in a ``.param`` variable."""

    @abstractmethod
    def returns(self, name: str) -> None:
        """After the CUDA runtime set a ``.param`` variable."""
