"""Kernels of this process, in two tiers of machine code: what is quick to make at first, better code once it pays.

Most kernels that are checked run for milliseconds, so making good code of them would take most of the time. Quick
code takes a third of the time to make and two to three times as long to run. When it has run for as long as better
code takes to make, that is made: before the next launch, or during a launch that takes so long, whose blocks then
go over to it. Both leave the same bits: they are one lowering, and nothing may reorder or fuse its floating-point
operations.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from kcheck.cpu.cache import ObjectCache
from kcheck.cpu.kernel import Kernel, Variant, compile_kernel
from kcheck.cpu.module import Module
from kcheck.cpu.scheduler import Job
from kcheck.errors import InternalError
from kcheck.model import Index3
from kcheck.ptx.abi import Checks, row_of


@dataclass(slots=True)
class Known:
    """A kernel, and what its last launch was.

    Attributes:
        job: None: it was never launched as usual.
        shape: grid, block and dynamic shared memory of the job.
        variables: where the module's variables lay, as :meth:`Module.variables` told it.
        seconds: that a thread of the last launch took; infinite before.
        spent: seconds that launches of quick code took.
    """

    variant: Variant
    kernel: Kernel
    job: Job | None = None
    shape: tuple[Index3, Index3, int] = ((0, 0, 0), (0, 0, 0), 0)
    variables: object = None
    seconds: float = math.inf
    spent: float = 0.0

    def expected(self, shape: tuple[Index3, Index3, int]) -> float:
        """Seconds that a launch will take, by the last one and its number of threads; infinite if unknown."""
        if self.shape == shape:
            return self.seconds
        before = math.prod(self.shape[0]) * math.prod(self.shape[1])
        threads = math.prod(shape[0]) * math.prod(shape[1])
        return self.seconds * max(threads / before, 1) if before else math.inf

    @property
    def left(self) -> float:
        """Seconds that its code may still take before better code is worth its making."""
        return self.kernel.worth - self.spent


@dataclass
class Kernels:
    """What was compiled, by module.

    Args:
        cache: where machine code is kept.
        clock: seconds from any origin.
        took: is called with the seconds that compiling before a launch took.

    Attributes:
        quick: whether to begin with quick code; else with the better one.
        known: what was found.
    """

    cache: ObjectCache
    clock: Callable[[], float]
    took: Callable[[float], None]
    quick: bool = True
    known: WeakKeyDictionary[Module, dict[Variant, Known]] = field(default_factory=WeakKeyDictionary)

    def find(self, module: Module, entry: str, block: Index3, width: int, checks: Checks, widens: bool) -> Known:
        """The kernel, compiled; for blocks as long as this one along x.

        Raises:
            PtxError: an instruction that is not supported, or code that breaks a rule of PTX.
        """
        variants = self.known.get(module)
        if variants is None:
            variants = self.known[module] = {}
        variant = Variant(entry, width, checks, row_of(block), widens)
        known = variants.get(variant)
        if known is None or known.left < 0:
            begun = self.clock()
            if known is None:
                known = variants[variant] = Known(
                    variant, compile_kernel(module, variant, self.cache, quick=self.quick)
                )
            else:
                self.improve(known, module)
            self.took(self.clock() - begun)
        return known

    def improve(self, known: Known, module: Module) -> Kernel:
        """Make better code of a kernel, which what runs the quick code may go over to between two blocks."""
        better = compile_kernel(module, known.variant, self.cache, quick=False)
        if better.head != known.kernel.head:
            raise InternalError(f"two lowerings of {known.variant.entry} differ")
        known.kernel, known.job = better, None
        return better
