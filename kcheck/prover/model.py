"""What the prover finds in a kernel: accesses, barriers, branches, widenings, each with the condition to reach
it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal, TypeAlias

from kcheck.dataclass import dataclass
from kcheck.prover.terms import Atom, Formula, Poly
from kcheck.ptx.syntax.ast import Loc, Operation


class Unsupported(Exception):
    """Something in the kernel that the prover has no model of.

    Attributes:
        reason: in plain words.
        operation: where; None: the whole kernel.
    """

    def __init__(self, reason: str, operation: Operation | None = None) -> None:
        self.reason = reason
        self.operation = operation
        super().__init__(reason)


@dataclass(frozen=True, eq=False, slots=True)
class Region:
    """Memory that a pointer may lead to.

    Attributes:
        name: an array of the spec, or a variable of the kernel.
        space: ``global``, ``shared``, ``local`` or ``const``.
        base: its address.
        size: in bytes.
        align: of the address, in bytes.
        shape, strides: of an array: elements along each axis, bytes from one to the next. Empty: one range of
        bytes. itemsize: bytes of an element. is_read_only: whether the kernel may not write it. is_injective:
        whether different indices are different elements in memory. is_dense: whether the strides are those of its
        shape, without gaps.
    """

    name: str
    space: Literal["global", "shared", "local", "const"]
    base: Atom
    size: Poly
    align: int
    shape: tuple[Poly, ...] = ()
    strides: tuple[Poly, ...] = ()
    itemsize: int = 1
    is_read_only: bool = False
    is_injective: bool = True
    is_dense: bool = True


@dataclass(frozen=True, eq=False, slots=True)
class SymbolicAccess:
    """One access of an instruction.

    Attributes:
        kind: ``read``, ``write`` or ``atomic``.
        address: bits of the address; ``size`` in bytes.
        path: the condition under which it is made.
        block: the number of its basic block; ``loops``: the loops around it, outermost first.
        is_async: whether it may happen at any time after the instruction.
    """

    operation: Operation
    kind: Literal["read", "write", "atomic"]
    space: str
    address: Poly
    size: int
    path: Formula
    block: int
    loops: tuple[int, ...]
    is_async: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class Widening:
    """A 32-bit number that is read as a wider one, and may have wrapped."""

    operation: Operation
    value: Poly
    signed: bool
    path: Formula
    result: Poly


@dataclass(frozen=True, eq=False, slots=True)
class SymbolicBranch:
    """A branch that may go two ways."""

    operation: Operation
    condition: Formula
    path: Formula
    block: int


@dataclass(frozen=True, eq=False, slots=True)
class SymbolicTrap:
    """An instruction that ends the kernel with an error, and the condition to be there."""

    operation: Operation
    path: Formula


@dataclass(frozen=True, eq=False, slots=True)
class Decision:
    """A predicate that is computed, and the condition to be there. A branch, a guard or a select may follow."""

    operation: Operation
    condition: Formula
    path: Formula


@dataclass(frozen=True, eq=False, slots=True)
class Visit:
    """An instruction that is executed, and the condition to be there.

    Attributes:
        condition: of its predicate; None if it has none.
    """

    operation: Operation
    path: Formula
    condition: Formula | None


@dataclass(frozen=True, eq=False, slots=True)
class Meeting:
    """A barrier, or an instruction for which the lanes of a warp meet (``whole_warp``)."""

    operation: Operation
    path: Formula
    block: int
    whole_warp: bool
    problem: str = ""


@dataclass(slots=True)
class Trace:
    """Everything that an execution with terms recorded.

    Attributes:
        visits: of the instructions of a line under one condition, one; only if decisions are noted.
        counters: by loop, the variable with the number of the iteration.
        scopes: by variable, the loops that it depends on.
        divergent: the loops that threads of a block may leave in different iterations.
    """

    accesses: list[SymbolicAccess] = field(default_factory=list)
    widenings: list[Widening] = field(default_factory=list)
    branches: list[SymbolicBranch] = field(default_factory=list)
    traps: list[SymbolicTrap] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    visits: list[Visit] = field(default_factory=list)
    meetings: list[Meeting] = field(default_factory=list)
    counters: dict[int, list[Atom]] = field(default_factory=dict)
    scopes: dict[Atom, tuple[int, ...]] = field(default_factory=dict)
    divergent: set[int] = field(default_factory=set)


Parameters: TypeAlias = Mapping[int, tuple[Poly, int]]
"""By offset in bytes, each parameter of a kernel: its value, and how many bytes it has."""


def place(operation: Operation) -> Loc | None:
    """The line in the source."""
    return operation.loc
