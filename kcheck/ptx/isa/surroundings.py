"""What instructions need from their surroundings: the function and the module that are being lowered.

A handler (:mod:`kcheck.ptx.isa.effects`) gets a :class:`Surroundings`. The lowering implements it; the instruction
set knows nothing else about the lowering.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from kcheck.dataclass import dataclass
from kcheck.errors import PtxError
from kcheck.ptx.abi import FaultKind
from kcheck.ptx.ir.builder import Builder, Value
from kcheck.ptx.ir.flow import FlowBuilder
from kcheck.ptx.ir.signature import Definition
from kcheck.ptx.isa.events import Carrier, Companion, Observer
from kcheck.ptx.isa.interleaved import InterleavedAccesses
from kcheck.ptx.runtime.copy_queue import CopyQueue
from kcheck.ptx.syntax.ast import Function, Instruction, Module, Operand, Operation
from kcheck.ptx.syntax.types import PtxType


@dataclass(frozen=True, slots=True)
class Rows:
    """What each lane of a warp loaded for an ``ldmatrix``: the words of a row, and their companions if any."""

    words: tuple[Value, ...]
    companions: tuple[Companion, ...] = ()


class ModuleSurroundings(Protocol):
    """The module that is being lowered.

    Attributes:
        declarations, definitions: of the LLVM module, by name; handlers may add functions.
        copies: where a vector keeps its asynchronous copies; None if the code has none.
        shared_bytes: of its static shared memory; ``shared``: the offsets of the variables in it.
        dynamic_shared: whether the code uses dynamic shared memory.
        local_stride: bytes of a thread's local memory.
        outlined: whether vector accesses are calls, because the code has too many to inline.
    """

    declarations: dict[str, str]
    definitions: dict[str, Definition]
    dynamic_shared: bool
    outlined: bool

    @property
    def module(self) -> Module: ...

    @property
    def copies(self) -> CopyQueue | None: ...

    @property
    def shared_bytes(self) -> int: ...

    @property
    def shared(self) -> Mapping[str, int]: ...

    @property
    def local_stride(self) -> int: ...

    def site(self, operation: Operation, space: str) -> int:
        """The number of a new site: a place in the code that findings name."""
        ...

    def access(self, store: bool, element: str, space: str, scalar: bool, carries: bool = False) -> str:
        """The name of the function for a checked access; with ``carries``, of the value and its companion."""
        ...

    def stream_access(self, element: str, space: str) -> str:
        """The name of the function for a checked load that takes a pointer to a stream as its last argument."""
        ...

    def row_access(self, store: bool, element: str, space: str, stride: int, carries: bool = False) -> str:
        """The name of the function for a checked access; with ``carries``, of the values and their companions.
        ``stride``: bytes, a multiple of the element's size."""
        ...

    def admit(
        self, space: str, kind: FaultKind, size: int, extent: int | None = None, by_offset: bool = False
    ) -> str:
        """The name of the function that returns which lanes may access ``extent`` (or ``size``) bytes, aligned to
        ``size``.

        ``by_offset``: it takes offsets from the start of the site's array (:meth:`array_start`), not addresses.
        """
        ...

    def array_start(self, site: int) -> int:
        """The offset in the shared window of the array that a site accesses; 0 if unknown."""
        ...


@dataclass(frozen=True, slots=True)
class AdmittedLanes:
    """The addresses of an access that was checked for the whole block.

    Attributes:
        first: of the first lane, i64.
        step: the stride between lanes in bytes; an i64 if it is not a compile-time constant.
        all_on: whether all lanes are active.
        lacks_lanes: whether only the addresses of active lanes were checked.
    """

    first: Value
    step: int | Value
    all_on: bool
    lacks_lanes: bool = False


class Surroundings(Protocol):
    """The function that is being lowered, at one instruction.

    Attributes:
        b: the builder at the instruction.
        prologue: the function's entry block; ``each``: the code after it that runs for each vector.
        width: lanes of a vector.
        active: the lanes that execute the instruction, an i1 value.
        blend: whether writing a register must keep its old value in other lanes; None: it must.
        observers: the function's observers; ``carrier``: the one with companions in memory, if there is one.
        in_loop: whether the instruction may run several times.
        in_affine_loop: whether it is in the version of a loop in which indices are scalars.
        inlining: the attributes at the end of calls of vector accesses.
        inside: loads from shared memory (by ``id``) that need no check, in any lane.
        interleaved: the accesses that load and store elements of a range that was checked, if there is one.
        unread: registers that no instruction reads.
        left: emits code for the exited lanes, as bits; None if they are unknown.
        rows: for an ``ldmatrix``, the rows that the lanes have already loaded; None: it must load them itself.
        param_offsets: of a kernel: the offset of each parameter.
    """

    b: FlowBuilder
    prologue: Builder
    each: Builder
    width: int
    active: Value
    blend: Callable[[str], bool] | None
    inlining: str
    rows: Rows | None
    interleaved: InterleavedAccesses | None

    @property
    def unit(self) -> ModuleSurroundings: ...

    @property
    def function(self) -> Function: ...

    @property
    def observers(self) -> Sequence[Observer]: ...

    @property
    def carrier(self) -> Carrier | None: ...

    @property
    def in_loop(self) -> bool: ...

    @property
    def in_affine_loop(self) -> bool: ...

    @property
    def inside(self) -> frozenset[int]: ...

    @property
    def unread(self) -> frozenset[str]: ...

    @property
    def left(self) -> Callable[[], Value] | None: ...

    @property
    def param_offsets(self) -> Mapping[str, int]: ...

    def fail(self, operation: Operation, what: str) -> PtxError:
        """The error to raise for an instruction."""
        ...

    # --- operands

    def read(self, operation: Operation, source: Operand, kind: PtxType, relaxed: bool = False) -> Value:
        """The value of a source operand as type ``kind``; ``relaxed``: of a wider register the low bits.

        Raises:
            PtxError: an operand that such an instruction cannot have, or a register of a different size.
        """
        ...

    def write(self, operation: Operation, target: Operand, kind: PtxType, value: Value, relaxed: bool) -> None:
        """Write a result of type ``kind`` to a register operand in the active lanes, or discard it.

        Raises:
            PtxError: the operand is not a register, or has a different size.
        """
        ...

    def constant(self, source: Operand) -> int | None:
        """The value of an integer operand if it is a known constant."""
        ...

    # --- addresses

    def address(self, operation: Instruction, operand: Operand, space: str) -> Value:
        """The host address that an address operand names, as i64."""
        ...

    def first_address(
        self, operation: Instruction, operand: Operand, space: str, size: int
    ) -> tuple[Value, int] | None:
        """The first lane's address and the stride between lanes in bytes, if the stride is a multiple of ``size``
        and the same for all lanes; otherwise None."""
        ...

    def admitted(self, operation: Instruction, operand: Operand) -> AdmittedLanes | None:
        """The addresses of an access that needs no check; None: it needs one."""
        ...

    def stream(self, operation: Instruction) -> str | None:
        """A pointer to the stream that a load belongs to; None if it has no stream."""
        ...

    def within_word(self, operand: Operand) -> Value | None:
        """The address of the 8 or 16 bits that an atomic on a 32-bit word updates; None for any other access."""
        ...

    def shared_address(self, low: Value) -> Value:
        """The host address in the shared window with the low half ``low``, an i32."""
        ...

    def shared_offset(self, operand: Operand) -> Value | None:
        """The offset of a shared address from the start of the window, i64; None if the code does not compute
        it."""
        ...

    def local_address(self, offset: int) -> Value:
        """The address of a byte of local memory, in each lane."""
        ...

    def param_array(self, name: str) -> str:
        """The memory of a ``.param`` variable of a function or a call: each offset is multiplied by W, for W
        lanes."""
        ...

    # --- context

    def field(self, record: type[ctypes.Structure], descriptor: Any, index: int = 0, element: str = "") -> Value:
        """A field of Launch, Worker or Block, or an element of it, read once at entry. ``element``: the type to
        load it as, if that is not an integer."""
        ...

    def lane_numbers(self) -> Value:
        """0, 1, … W-1."""
        ...

    def active_bits(self) -> Value:
        """The active lanes as an integer of W bits."""
        ...

    def first_active(self) -> Value:
        """The number of the first active lane, as i32 (0 if there is none)."""
        ...

    def context(self, site: int) -> str:
        """The arguments that outlined functions take last."""
        ...

    def access_context(self, site: int) -> str:
        """The arguments that checked accesses take last."""
        ...
