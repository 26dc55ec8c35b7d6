"""Checked memory accesses: their kinds, their parameters, and the shadows that move with the values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from kcheck.dataclass import dataclass
from kcheck.ptx.abi import FaultKind
from kcheck.ptx.ir.builder import Value, integer_of, mangle, vector_type
from kcheck.ptx.ir.function import FunctionBuilder
from kcheck.ptx.ir.signature import Definition, Signature
from kcheck.ptx.runtime.lookup import CONTEXT, SHARED_CONTEXT, LocalLayout
from kcheck.ptx.syntax.types import LLVM_BITS


class CompanionMemory(Protocol):
    """Where companions are in memory: what the functions for checked accesses do for them.

    Attributes:
        suffix: of the names of functions that move companions too.
    """

    @property
    def suffix(self) -> str: ...

    def load_beside(
        self, f: FunctionBuilder, access: AccessKind, address: Value, lane: Value | None = None, lanes: int = 1
    ) -> None:
        """Load the companions of an access at a scalar, admitted address, and store them at ``%so``.

        Args:
            lane: which makes the access; None: lanes act side by side, and the memory is not local.
            lanes: the lanes that get the one loaded element; 1: each lane has its own.
        """
        ...

    def store_beside(
        self, f: FunctionBuilder, access: AccessKind, address: Value, lane: Value | None = None
    ) -> None:
        """Store the companions ``%s`` of an access at a scalar, admitted address, in the lanes of ``%m``."""
        ...

    def signature(self, store: bool, element: str, space: str, width: int) -> Signature:
        """The function of :meth:`out_of_line`."""
        ...

    def out_of_line(
        self, store: bool, element: str, space: str, width: int, declarations: dict[str, str]
    ) -> Definition:
        """The companion of ``width`` elements anywhere, under a mask, as a function.

        A load takes (addresses, mask, pointer to the result, context), lanes that are off get 0; a store takes
        (addresses, companion, mask, context). ``element`` is an integer type.
        """
        ...


@dataclass(frozen=True, slots=True)
class AccessKind:
    """A kind of access: a load or store of one element by each lane.

    Attributes:
        element: its LLVM type.
        width: lanes of a vector; 1 for an access of one address.
        local: where local memory is.
        companions: where those of values are, for an access that moves them too; else None.
    """

    store: bool
    element: str
    space: str
    width: int
    local: LocalLayout
    companions: CompanionMemory | None = None

    @property
    def size(self) -> int:
        """Bytes of an element."""
        return max(LLVM_BITS[self.element] // 8, 1)

    @property
    def kind(self) -> FaultKind:
        """The fault if it is outside."""
        return FaultKind.OUT_OF_BOUNDS_STORE if self.store else FaultKind.OUT_OF_BOUNDS_LOAD

    @property
    def vector(self) -> str:
        """The LLVM type of the elements of all lanes."""
        return vector_type(self.element, self.width)

    @property
    def mask(self) -> str:
        """The LLVM type of the lanes' mask."""
        return vector_type("i1", self.width)

    @property
    def addresses(self) -> str:
        """The LLVM type of the lanes' addresses."""
        return vector_type("i64", self.width)

    @property
    def companion(self) -> str:
        """The LLVM type of the elements' companions."""
        return vector_type(integer_of(self.element), self.width)

    def signature(self, shape: str, parameters: Mapping[str, str]) -> Signature:
        """A function for it: ``shape`` distinguishes its name."""
        name = f"@kcheck.{'st' if self.store else 'ld'}.{self.space}.{shape}"
        return Signature(name, "void" if self.store else self.vector, parameters)

    @property
    def value(self) -> dict[str, str]:
        """The parameters for what is stored."""
        return {"v": self.vector} if self.store else {}

    @property
    def value_and_companion(self) -> dict[str, str]:
        """The same with companions: a load takes a pointer for them instead."""
        if self.companions is None:
            return self.value
        return {"v": self.vector, "s": self.companion} if self.store else {"so": "ptr"}


def context_of(space: str) -> dict[str, str]:
    """The parameters of an access that serve to check it."""
    return CONTEXT | (SHARED_CONTEXT if space == "shared" else {})


def slow_signature(access: AccessKind) -> Signature:
    """The function for accesses that the quick one of :func:`vector_ir` does not handle."""
    parameters = {"a": access.addresses, **access.value, "m": access.mask, **CONTEXT}
    return access.signature(f"{mangle(access.element, access.width)}.slow", parameters)
