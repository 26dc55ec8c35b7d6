"""What the compiler made of a kernel, for the linter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from kcheck.model.outcome import Index3
from kcheck.model.span import Span


@dataclass(frozen=True, slots=True)
class ArrayType:
    """The type of an array argument. ``layout``: C, F (both contiguous) or A (any strides), as Numba says it."""

    dtype: str
    ndim: int
    layout: str

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(':' * self.ndim)}]{'' if self.layout == 'C' else ' ' + self.layout}"


@dataclass(frozen=True, slots=True)
class ScalarType:
    """The type of a scalar argument."""

    dtype: str

    def __str__(self) -> str:
        return self.dtype


Signature: TypeAlias = tuple[ArrayType | ScalarType, ...]


@dataclass(frozen=True, slots=True)
class Launched:
    """A kernel that a launcher launched, with the types of its arguments.

    Attributes:
        kernel: the function's name; ``place`` its file, absolute, and line.
        signature: None where an argument is neither an array nor a scalar of a known dtype.
        block: threads per block; ``shared``: bytes of dynamic shared memory.
    """

    kernel: str
    place: Span
    signature: Signature | None
    block: Index3
    shared: int


@dataclass(frozen=True, slots=True)
class Resources:
    """What one thread (registers, spills, stack) and one block (static shared) need, as ptxas allocates it.

    All but ``registers`` in bytes.

    Attributes:
        registers: per thread, 32-bit ones; of the subroutines that are linked in, too.
        spill_stores, spill_loads: written to and read back from local memory for want of registers, per thread.
        stack: local memory of a thread: arrays that are indexed by a variable, spills, frames of calls.
        shared: declared in the kernel, per block; what a launch adds is not in it.
        constant: of the kernel's parameters and tables; ptxas tells of none for sm_90 and later.
    """

    registers: int
    spill_stores: int
    spill_loads: int
    stack: int
    shared: int
    constant: int

    @property
    def spills(self) -> int:
        """Bytes of spill stores and of spill loads."""
        return self.spill_stores + self.spill_loads


@dataclass(frozen=True, slots=True)
class CompiledKernel:
    """One specialization of a kernel for one target.

    Attributes:
        kernel: the Python function's name; ``place`` its line, or where a compiler stopped in it.
        target: ``sm_80``.
        ptx: the whole module; ``entry`` is the name of this kernel in it.
        sass: the machine code of the module as nvdisasm lists it; empty where nobody asked.
        no_sass: why there is none although it was asked for, in one clause; empty otherwise.
        problem: why there is no code, in one sentence; empty when it compiled.
    """

    kernel: str
    place: Span
    signature: Signature
    target: str
    entry: str = ""
    ptx: str = ""
    resources: Resources | None = None
    sass: str = ""
    no_sass: str = ""
    problem: str = ""
