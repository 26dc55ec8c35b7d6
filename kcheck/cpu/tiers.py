"""The kernels of this process, in two tiers of machine code: quick code first, better code once it pays off. Most
kernels run for milliseconds when they are checked, so compiling good code would take most of the time. Quick code
compiles in a third of the time and mostly runs two to three times as long. Better code is compiled once all
compilations of a kernel together would still take at most COMPILE_SHARE of the time that it has run, in this
process and in earlier ones (:mod:`kcheck.cpu.history`): before the next launch, or during a long launch, whose
remaining blocks then use it. The results are bit-identical: both come from the same lowering, and floating-point
operations are never reordered or fused.

Some kernels are faster in quick code. So once there is better code, both run launches in turn, and the faster one
stays (:mod:`kcheck.cpu.contest`).

Code with checks computes the same bits, so it also runs launches that need no checks, until these have taken as
long as code without checks takes to compile. Most kernels of a test are never compiled without checks.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable
from dataclasses import field, replace
from typing import TypeAlias
from weakref import WeakKeyDictionary

from kcheck.cpu.cache import ObjectCache
from kcheck.cpu.contest import Contest, LaunchClass, class_of
from kcheck.cpu.history import CodeHistory, save_all
from kcheck.cpu.kernel import Kernel, Tier, Variant, code_key, compile_kernel, is_stored, stored_kernel
from kcheck.cpu.launches import KernelLaunch
from kcheck.cpu.module import LoadedModule
from kcheck.cpu.scheduler import Job
from kcheck.dataclass import dataclass
from kcheck.errors import InternalError
from kcheck.model import Index3
from kcheck.ptx.abi import Checks, row_of

_NO_CHECKS = Checks()
_CHECKS = ("race", "init", "overflow", "cover", "values", "stores")


def looks(checks: Checks, *, is_clean: bool) -> bool:
    """Whether code with these checks examines values or the order of accesses. Recording what is reached or
    written costs little.

    Args:
        is_clean: whether initcheck only records what is written.
    """
    return checks.race or (checks.init and not is_clean) or checks.overflow


def _includes(checks: Checks, some: Checks) -> bool:
    return all(getattr(checks, name) for name in _CHECKS if getattr(some, name))


_NARROWEST, _NARROWEST_CHECKED = 2, 4
"""Vectors are at most as wide as the rows of a block, down to this many lanes (without and with checks), because
threads of one row access neighboring elements, and threads of several rows do not."""


MANY = 1 << 13
"""A launch of this many threads runs long enough to justify a longer compile time."""

COMPILE_SHARE = 0.2
"""The most time that compiling a kernel may take, as a share of the time that it has run, once it has code."""

WORTH = 0.05
"""Seconds that launches of a class take in better code before quick code is loaded to compete with it."""

RETRY = 50
"""The launches on one OS thread, because several were slower, after which several are tried again."""


LaunchShape: TypeAlias = tuple[Index3, Index3, int]
"""Grid, block and dynamic shared memory of a launch."""


@dataclass(slots=True)
class CachedKernel:
    """A kernel and its last launch.

    Attributes:
        kernel: the code that the next launch runs.
        codes: all its code in this process.
        history: what earlier processes measured, too.
        contests: those of quick and better code, by class of launches.
        settled: the shape of launches for which ``kernel`` is known to be the code to run.
        job: of the last usual launch; None if there was none yet.
        shape: grid, block and dynamic shared memory of the job.
        variables: where the module's variables were, from :meth:`LoadedModule.variables`.
        seconds: the time of the last launch times its OS threads; infinite before the first launch.
        lent: the total time of launches that needed none of its checks.
        scales: whether several OS threads were faster than one; None if this was not tried.
        alone: the launches since ``scales`` is False.
    """

    variant: Variant
    kernel: Kernel
    history: CodeHistory
    codes: dict[Tier, Kernel] = field(default_factory=dict)
    contests: dict[LaunchClass, Contest] = field(default_factory=dict)
    settled: LaunchShape | None = None
    job: Job | None = None
    shape: LaunchShape = ((0, 0, 0), (0, 0, 0), 0)
    variables: object = None
    seconds: float = math.inf
    lent: float = 0.0
    scales: bool | None = None
    alone: int = 0

    def expected(self, shape: LaunchShape) -> float:
        """The expected seconds of a launch, from the last launch and its number of threads; infinite if
        unknown."""
        if self.shape == shape:
            return self.seconds
        before, threads = _threads(self.shape), _threads(shape)
        return self.seconds * max(threads / before, 1) if before else math.inf

    def spend(self, seconds: float, *, is_lent: bool) -> None:
        """Count the time of a launch. ``is_lent``: it needed none of the checks."""
        if is_lent:
            self.lent += seconds
        elif Tier.BETTER not in self.codes:
            self.history.add_launch(seconds)

    def stayed_alone(self) -> None:
        """Count a launch on one thread because several were slower. That may have been because another program was
        running, so several are tried again after RETRY launches."""
        self.alone += 1
        if self.alone >= RETRY:
            self.scales, self.alone = None, 0

    def starts_with_all(self, is_long: bool) -> bool | None:
        """Whether a launch starts on all threads (True), stays on one (False), or decides later (None)."""
        if self.scales is False:
            return False
        return True if is_long and self.scales else None

    @property
    def left(self) -> float:
        """The seconds that quick code may still run before better code is compiled; infinite if there is some."""
        if Tier.BETTER in self.codes:
            return math.inf
        return (self.history.compiled + self.kernel.compile_seconds) / COMPILE_SHARE - self.history.ran

    def add(self, kernel: Kernel) -> None:
        """Run other code of the same program from the next launch on."""
        if kernel.program != self.kernel.program:
            raise InternalError(f"two lowerings of {self.variant.entry} differ")
        self.codes[kernel.tier] = self.kernel = kernel
        self.settled = None

    def measured(self, kernel: Kernel, seconds: float) -> None:
        """A launch of the last shape took so long, in one code from beginning to end."""
        if self.settled == self.shape:
            return
        launches, threads = class_of(*self.shape[:2]), _threads(self.shape)
        contest = self.contests.setdefault(launches, Contest())
        each = seconds / max(threads, 1)
        if kernel.tier is Tier.BETTER:
            contest.better.append(each)
        elif Tier.BETTER in self.codes:
            contest.quick.append(each)
        else:
            contest.before = min(contest.before or each, each)
        if (quick_won := contest.quick_won) is not None:
            self.history.decide(launches, quick_won=quick_won)
            del self.contests[launches]


@dataclass(frozen=True, slots=True)
class CodeOptions:
    """What code to compile for a kernel.

    Attributes:
        width: lanes per vector; ``adapts``: whether to use more or fewer if they suit the kernel and its blocks.
        any_axis: whether vectors may be along the axis that suits the kernel, not only along x.
        defined: the reads of initialized memory, as in :class:`kcheck.cpu.kernel.Variant`.
        is_clean: whether no value can be uninitialized.
        threads: of the launch; for MANY, quick code keeps values in registers.
    """

    width: int
    checks: Checks
    adapts: bool
    any_axis: bool = False
    threads: int = 0
    defined: int = 0
    is_clean: bool = False


@dataclass(frozen=True, slots=True)
class LastLaunch:
    """The last launch without checks, in the usual order, and its code."""

    module: weakref.ref[LoadedModule]
    entry: str
    shape: LaunchShape
    known: CachedKernel


@dataclass(frozen=True, slots=True)
class LaunchedAlone:
    """A launch that ran on the launching thread, without checks, in the usual order.

    Attributes:
        width: lanes per vector, as set for the executor.
        is_remarkable: whether it does something that the executor records for its caller.
    """

    job: Job
    known: CachedKernel
    launch: KernelLaunch
    width: int
    is_remarkable: bool


@dataclass
class TieredKernels:
    """The compiled kernels, by module.

    Args:
        cache: where machine code is kept.
        clock: seconds from any origin.
        took: called with the seconds that a compilation before a launch took.

    Attributes:
        quick: whether to start with quick code; else with better code.
        known: the kernels.
        last: the launch for :meth:`repeated`.
        compiled: how many kernels were not in the cache when they were first launched.
    """

    cache: ObjectCache
    clock: Callable[[], float]
    took: Callable[[float], None]
    quick: bool = True
    known: WeakKeyDictionary[LoadedModule, dict[Variant, CachedKernel]] = field(default_factory=WeakKeyDictionary)
    last: LastLaunch | None = None
    compiled: int = 0
    _histories: dict[str, CodeHistory] = field(default_factory=dict)

    def __post_init__(self) -> None:
        weakref.finalize(self, _save, self._histories)

    def has(self, module: LoadedModule) -> bool:
        """Whether there is compiled code of a module."""
        return bool(self.known.get(module))

    def repeated(self, module: LoadedModule, entry: str, shape: LaunchShape) -> CachedKernel | None:
        """The code of the last launch, for one that differs only in its parameters; None if better code is due."""
        last = self.last
        if last is None or last.module() is not module or (last.entry, last.shape) != (entry, shape):
            return None
        if not self.has(module):  # its code was discarded meanwhile
            return None
        return last.known if last.known.left >= 0 else None

    def find(
        self, module: LoadedModule, entry: str, block: Index3, code: CodeOptions, shape: LaunchShape | None = None
    ) -> CachedKernel:
        """The compiled kernel, for blocks as long as this one along the axis of its vectors.

        Args:
            shape: of the launch, for :meth:`repeated`; None for no launch, or one with checks or a schedule.

        Raises:
            PtxError: an unsupported instruction, or invalid PTX.
        """
        variants = self.known.get(module)
        if variants is None:
            variants = self.known[module] = {}
        variant = self.variant(module, entry, block, code)
        known = variants.get(variant)
        if known is None or known.left < 0:
            begun = self.clock()
            if known is None:
                known = variants[variant] = self._new(module, variant, code)
            else:
                self.improve(known, module)
            self.took(self.clock() - begun)
        if shape is not None:
            self.last = LastLaunch(weakref.ref(module), entry, shape, known)
        return known

    def _new(self, module: LoadedModule, variant: Variant, code: CodeOptions) -> CachedKernel:
        """A kernel with better code, if this is in the cache; else with quick code."""
        begun = self.clock()
        kernel = stored_kernel(module, variant, self.cache, Tier.BETTER)
        if kernel is None:
            quick = Tier.REGISTERS if code.threads >= MANY else Tier.QUICK
            kernel = compile_kernel(module, variant, self.cache, quick if self.quick else Tier.BETTER)
        name = self.cache.name(code_key(module, variant))
        history = self._histories.get(name)
        if history is None:
            history = self._histories[name] = CodeHistory(self.cache, name)
        if kernel.is_new:
            self.compiled += 1
            history.add_compilation(self.clock() - begun)
        return CachedKernel(variant, kernel, history, {kernel.tier: kernel})

    def is_compiled(self, module: LoadedModule, entry: str, block: Index3, code: CodeOptions) -> bool:
        """Whether the kernel that :meth:`find` would return is in this process or in the cache."""
        variant = self.variant(module, entry, block, code)
        return variant in self.known.get(module, {}) or is_stored(module, variant, self.cache)

    def select(self, known: CachedKernel, module: LoadedModule, shape: LaunchShape) -> None:
        """Set which code of a kernel a launch runs: the faster one, or the one whose turn it is."""
        if known.settled == shape or Tier.BETTER not in known.codes or not self.quick:
            return
        launches = class_of(*shape[:2])
        quick_won = known.history.quick_won(launches)
        wants_quick = quick_won
        if quick_won is None and (contest := known.contests.get(launches)) is not None:
            is_worth = contest.before or len(known.codes) > 1 or sum(contest.better) * _threads(shape) >= WORTH
            wants_quick = is_worth and contest.is_turn_of_quick
        tier = (self._quick(known, module) if wants_quick else None) or Tier.BETTER
        known.kernel = known.codes[tier]
        if quick_won is not None or (wants_quick and tier is Tier.BETTER):  # or there is no quick code
            known.settled = shape

    def _quick(self, known: CachedKernel, module: LoadedModule) -> Tier | None:
        """The tier of the kernel's quick code, which may have to be loaded; None if there is none in the cache."""
        for tier in (Tier.REGISTERS, Tier.QUICK):
            if tier in known.codes:
                return tier
        for tier in (Tier.REGISTERS, Tier.QUICK):
            if (kernel := stored_kernel(module, known.variant, self.cache, tier)) is not None:
                known.add(kernel)
                return tier
        return None

    def variant(self, module: LoadedModule, entry: str, block: Index3, code: CodeOptions) -> Variant:
        """The variant that :meth:`find` looks for."""
        preferred = module.entries[entry].axis
        is_quick = not looks(code.checks, is_clean=code.is_clean)
        narrowest = _NARROWEST if is_quick else _NARROWEST_CHECKED
        fits = min(code.width, narrowest) if code.adapts else code.width
        axis = preferred if code.any_axis and 1 < fits <= row_of(block, preferred) else "x"
        row, width = row_of(block, axis), code.width
        if code.adapts and axis == preferred and narrowest <= row < width:
            width = row
        return Variant(entry, width, code.checks, row, code.adapts and is_quick, axis, code.defined)

    def lend(
        self, module: LoadedModule, entry: str, shape: LaunchShape, wanted: CodeOptions, lends: Checks
    ) -> CachedKernel | None:
        """The kernel with some checks of ``lends``, for a short launch that needs none, if it is compiled and
        ``wanted``, which has none, is not.

        Args:
            shape: grid, block and dynamic shared memory of the launch.
        """
        variants = self.known.get(module, {})
        if self.variant(module, entry, shape[1], wanted) in variants:
            return None
        for variant, found in variants.items():
            if variant.entry != entry or not _includes(lends, variant.checks):
                continue
            is_clean = module.entries[entry].use.is_clean(variant.defined)
            any_axis = wanted.any_axis and not looks(variant.checks, is_clean=is_clean)
            options = replace(
                wanted, checks=variant.checks, defined=variant.defined, is_clean=is_clean, any_axis=any_axis
            )
            if self.variant(module, entry, shape[1], options) == variant:
                lent = found.lent + found.expected(shape) < found.kernel.compile_seconds
                return found if lent else None
        return None

    def lend_stored(
        self, module: LoadedModule, entry: str, block: Index3, checked: CodeOptions
    ) -> CachedKernel | None:
        """The kernel with checks, if it is in the cache and was not needed yet in this process."""
        variant = self.variant(module, entry, block, checked)
        if variant in self.known.get(module, {}) or not is_stored(module, variant, self.cache):
            return None
        return self.find(module, entry, block, checked)

    def improve(self, known: CachedKernel, module: LoadedModule) -> Kernel:
        """Compile better code for a kernel. A launch that runs the quick code can switch to it between two
        blocks."""
        begun = self.clock()
        better = compile_kernel(module, known.variant, self.cache, Tier.BETTER)
        known.add(better)
        known.history.add_compilation(self.clock() - begun)
        return better


def _threads(shape: LaunchShape) -> int:
    return math.prod(shape[0]) * math.prod(shape[1])


def _save(histories: dict[str, CodeHistory]) -> None:
    save_all(histories.values())
