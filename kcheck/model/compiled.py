"""The output of the compiler for a kernel, for the linter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Any, TypeAlias

from kcheck.dataclass import dataclass
from kcheck.model.outcome import Index3
from kcheck.span import Span


@dataclass(frozen=True, slots=True)
class ArrayType:
    """The type of an array argument. ``layout``: C, F (both contiguous) or A (any strides), in Numba's terms."""

    dtype: str
    ndim: int
    layout: str

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(':' * self.ndim)}]{'' if self.layout == 'C' else ' ' + self.layout}"


@dataclass(frozen=True, slots=True)
class ScalarType:
    """The type of a scalar argument; ``struct`` and ``null`` for those that have no dtype."""

    dtype: str

    def __str__(self) -> str:
        return self.dtype


Signature: TypeAlias = tuple[ArrayType | ScalarType, ...]


@dataclass(frozen=True, slots=True)
class Launched:
    """A kernel launched by a launcher, with the types of its arguments.

    Attributes:
        kernel: its name at the top level of its file if it has one there, otherwise the name of the function;
            ``place`` is its absolute path and line.
        signature: None if an argument is neither an array nor a scalar of a known dtype.
        block: threads per block; ``shared`` is bytes of dynamic shared memory.
        code: the code that ran, for a kernel of another kind than Numba.
        is_local: whether it has no name at the top level of its file, as a kernel that a function creates and
            returns. It cannot be loaded from the file.
        given: the kernel itself if it is local; None outside the process that launched it.
        again: compiles ``code`` for another target; None if that is impossible, or outside that process.
    """

    kernel: str
    place: Span
    signature: Signature | None
    block: Index3
    shared: int
    code: CompiledKernel | None = None
    is_local: bool = False
    given: Callable[..., Any] | None = field(default=None, repr=False)
    again: Callable[[str], CompiledKernel] | None = field(default=None, repr=False, compare=False)

    def __reduce__(self) -> tuple[Any, ...]:
        values = (self.kernel, self.place, self.signature, self.block, self.shared, self.code, self.is_local)
        return Launched, values


@dataclass(frozen=True, slots=True)
class Resources:
    """What ptxas allocates for one thread (registers, spills, stack) and one block (static shared memory).

    All except ``registers`` are in bytes.

    Attributes:
        registers: 32-bit registers per thread, including those of linked subroutines.
        spill_stores, spill_loads: stored to and loaded from local memory per thread, because registers are full.
        stack: local memory per thread: arrays indexed by a variable, spills, call frames.
        shared: per block, as declared in the kernel; without dynamic shared memory.
        constant: memory for parameters and tables; ptxas reports 0 for sm_90 and later.
    """

    registers: int
    spill_stores: int
    spill_loads: int
    stack: int
    shared: int
    constant: int

    @property
    def spills(self) -> int:
        """Bytes of spill stores and spill loads."""
        return self.spill_stores + self.spill_loads


@dataclass(frozen=True, slots=True)
class CompiledKernel:
    """One specialization of a kernel for one target.

    Attributes:
        kernel: the kernel's name in its source; ``place`` is its line, or the line of a compile error.
        target: ``sm_80``.
        ptx: the whole module; ``entry`` is the name of this kernel in it.
        sass: the machine code of the module as listed by nvdisasm; empty if not requested.
        no_sass: why the requested machine code is missing, in one clause; empty otherwise.
        problem: why there is no code, in one sentence; empty if the kernel compiled.
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
