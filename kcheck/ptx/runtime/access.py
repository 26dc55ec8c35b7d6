"""Checked memory accesses: their kinds, their parameters, and the companions that move with the values."""

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
    """Companions in memory: the code that functions for checked accesses need for them.

    Attributes:
        suffix: of the names of functions that also move companions.
    """

    @property
    def suffix(self) -> str: ...

    def load_beside(
        self, f: FunctionBuilder, access: AccessKind, address: Value, lane: Value | None = None, lanes: int = 1
    ) -> None:
        """Load the companions of an access whose address is a scalar and was checked, and store them at ``%so``.

        Args:
            lane: the lane that makes the access; None: the lanes access contiguous elements, not in local memory.
            lanes: how many lanes get the one loaded element; 1: each lane has its own.
        """
        ...

    def store_beside(
        self,
        f: FunctionBuilder,
        access: AccessKind,
        address: Value,
        lane: Value | None = None,
        everywhere: bool = False,
    ) -> None:
        """Store the companions ``%s`` likewise, in the lanes of ``%m``, or in all lanes if it is known that all
        are active (``everywhere``)."""
        ...

    def signature(self, store: bool, element: str, space: str, width: int) -> Signature:
        """The signature of :meth:`out_of_line`."""
        ...

    def out_of_line(
        self, store: bool, element: str, space: str, width: int, declarations: dict[str, str]
    ) -> Definition:
        """The function that loads or stores the companions of ``width`` elements at any addresses, under a mask.

        A load takes (addresses, mask, context), and inactive lanes get 0; a store takes (addresses, companion,
        mask, context). ``element`` is an integer type.
        """
        ...


@dataclass(frozen=True, slots=True)
class AccessKind:
    """A kind of access: a load or store of one element by each lane.

    Attributes:
        element: its LLVM type.
        width: lanes of a vector; 1 for an access of one address.
        local: where local memory is.
        companions: where companions are, for an access that also moves them; else None.
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
        """The fault of an access out of bounds."""
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
        """The signature of a function for this access, whose name contains ``shape``."""
        name = f"@kcheck.{'st' if self.store else 'ld'}.{self.space}.{shape}"
        return Signature(name, "void" if self.store else self.vector, parameters)

    @property
    def value(self) -> dict[str, str]:
        """The parameter for the stored value, if it is a store."""
        return {"v": self.vector} if self.store else {}

    @property
    def value_and_companion(self) -> dict[str, str]:
        """The parameters for the stored value and its companion; for a load, a pointer for the companion."""
        if self.companions is None:
            return self.value
        return {"v": self.vector, "s": self.companion} if self.store else {"so": "ptr"}


def context_of(space: str) -> dict[str, str]:
    """The parameters that are needed to check an access."""
    return CONTEXT | (SHARED_CONTEXT if space == "shared" else {})


def slow_signature(access: AccessKind) -> Signature:
    """The signature of the function for accesses that the fast path of :func:`vector_ir` does not handle."""
    parameters = {"a": access.addresses, **access.value, "m": access.mask, **CONTEXT}
    return access.signature(f"{mangle(access.element, access.width)}.slow", parameters)
