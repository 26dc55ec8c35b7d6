"""Runs kernels, for the driver's launch calls."""

from __future__ import annotations

import ctypes
import functools
import math
import re
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from os.path import isfile

from kcheck.cpu.cache import ObjectCache
from kcheck.cpu.completion import Completion
from kcheck.cpu.faults import findings, still_running
from kcheck.cpu.jit import host
from kcheck.cpu.judging import FAULT_CAPACITY, LaunchJudge
from kcheck.cpu.kernel import Kernel
from kcheck.cpu.launches import Ending, KernelLaunch
from kcheck.cpu.lost_digits import set_noise
from kcheck.cpu.memory import Memory, MemoryKind, OutOfMemory
from kcheck.cpu.module import LoadedModule
from kcheck.cpu.native import Native
from kcheck.cpu.near_stores import NearStores
from kcheck.cpu.needless_checks import NO_CHECKS, CheckChooser, NeededChecks
from kcheck.cpu.order import set_order
from kcheck.cpu.printf import printed
from kcheck.cpu.races import Races
from kcheck.cpu.reached import ReachedCode, new_table
from kcheck.cpu.rehearsal import Reach, put_back, reachable, strayed
from kcheck.cpu.sanitizers import CHECKS
from kcheck.cpu.scheduler import Job, Scheduler, TierUp
from kcheck.cpu.scratch import Scratch
from kcheck.cpu.textures import Textures
from kcheck.cpu.tiers import CachedKernel, CodeOptions, LaunchedAlone, TieredKernels, looks
from kcheck.errors import PtxError
from kcheck.model import NATURAL, Finding, Index3
from kcheck.model.launch_facts import NO_FACTS
from kcheck.model.noise import Noise
from kcheck.ptx.abi import SCRATCH, Checks, FaultKind
from kcheck.ptx.abi import Launch as LaunchContext
from kcheck.ptx.program import Program
from kcheck.ptx.syntax.symbols import kernel_name

PRINT_CAPACITY = 1 << 20
HEAP = 64 << 20
SHORT_SECONDS = 1.5e-3
"""A launch runs on the launching thread if it is expected to take at most this long, or at most SHORT_ALONE times
as long if no other thread will join. Handing it to another thread costs about 0.2 ms."""
SHORT_ALONE = 10
LONG_SECONDS = 1.5e-3
"""A launch that is expected to take longer than this on one thread starts on all threads."""


_FILE = re.compile(r"^// kcheck-file: (.+)$", re.MULTILINE)
"""The name of the file that PTX was read from, for messages."""
__all__ = ["Ending", "Executor", "KernelLaunch"]


class Executor:
    """The memory and the processors of one device. Launches run one after another.

    Args:
        memory: its memory.
        processors: OS threads to use.
        cache: where machine code is kept.
        clock: seconds from any origin.
        report: called with each finding, on the launching thread.
        write: called with the output of kernels.

    Attributes:
        deadline: the time of ``clock`` at which a launch is stopped; None: never. Compilation postpones it.
        limit: seconds that a launch may take; None: no limit.
        ending: how the last launch ended.
        raised: the exception of a signal handler that ended it, if any.
        report: as given; may be changed between launches.
        schedule: the order of blocks, warps and lanes; may be changed between launches.
        noise: how launches with ``Checks.noise`` round; may be changed between launches.
        kernels: the compiled kernels.
        facts: those of the kernels launched since the caller last reset this.
        lends: checks whose code may run launches without checks; their findings are dropped (:meth:`.lend`).
        otherwise: the checks of launches whose code with ``checks`` is not in the cache; None: compile it.
        left_out: whether a launch ran with ``otherwise``, since the caller last reset it.
        textures: texture and surface objects.
        seen: a list to which launches are added; None: they are not recorded.
        reached: what launches with ``Checks.cover`` reached.
        stores: what launches with ``Checks.stores`` stored near watched bytes; ``scratch``: no outputs.
        last: the last launch, if :meth:`again` can run it.
        unfinished: blocks of sampled launches that were stopped, since the caller last reset it.
    """

    def __init__(
        self,
        memory: Memory,
        processors: int,
        cache: ObjectCache,
        clock: Callable[[], float],
        report: Callable[[Finding], None],
        write: Callable[[bytes], None],
    ) -> None:
        self.memory = memory
        self._width = host().width
        self._adapts = True
        self._checks = self.lends = NO_CHECKS
        self.otherwise: Checks | None = None
        self.left_out = False
        self.deadline: float | None = None
        self.limit: float | None = None
        self.ending = Ending.FINISHED
        self.raised: BaseException | None = None
        self._clock = clock
        self._cache = cache
        self.report = report
        self.schedule = NATURAL
        self.noise = Noise()
        self._write = write
        self._scheduler = Scheduler(processors, clock)
        self._races = Races(memory)
        self._chooser = CheckChooser(memory)
        self.textures = Textures(memory)
        self.kernels = TieredKernels(cache, clock, self.postpone)
        self.facts = NO_FACTS
        self._judge = LaunchJudge(memory, self.textures, self._tell, lambda finding: self.report(finding))
        self._prints = ctypes.create_string_buffer(PRINT_CAPACITY)
        self._heap = 0
        self._heap_used = 0
        self._launches = 0
        self._lock = threading.Lock()
        self.seen: list[KernelLaunch] | None = None
        self.reached = ReachedCode()
        self.stores, self.scratch = NearStores(memory), Scratch(memory)
        self.last: LaunchedAlone | None = None
        self.unfinished = 0

    @property
    def checks(self) -> Checks:
        """The checks of launches in addition to memory and barriers; may be changed between launches. Memory that
        is allocated before ``init`` is first enabled counts as initialized."""
        return self._checks

    @checks.setter
    def checks(self, checks: Checks) -> None:
        self._checks = NO_CHECKS if checks == NO_CHECKS else checks
        if checks.init:
            self.memory.track()

    @property
    def width(self) -> int:
        """Lanes per vector. Unless it was set, small kernels may use more, and blocks with short rows fewer."""
        return self._width

    @width.setter
    def width(self, lanes: int) -> None:
        self._width, self._adapts = lanes, False
        self.kernels.last = None

    def load(self, text: str) -> LoadedModule:
        """A module; raises PtxError."""
        name = _FILE.search(text)
        return LoadedModule(text, self.memory, self._cache, *(name.groups() if name else ()))

    def compile(self, module: LoadedModule, entry: str) -> None:
        """Compile a kernel, or take it from the cache, as a launch would; raises PtxError.

        Code depends on the launch. It is compiled for threads that store to different elements, for arrays that
        are initialized unless the kernel stores to them, and for one-dimensional blocks, or for blocks of 16 by 16
        if a thread reads its index along y.
        """
        with self._lock:
            self._known(module, entry, (16, 16, 1) if module.entries[entry].uses_y else (32, 1, 1))

    def report_compile_error(self, kernel: str, fault: Exception) -> None:
        """Report code that cannot be compiled, at its line if it is from a file."""
        place = fault.place if isinstance(fault, PtxError) else None
        if (
            isinstance(fault, PtxError)
            and place is not None
            and place.file.endswith(".ptx")
            and isfile(place.file)
        ):
            found = Finding("compile", fault.what, kernel=kernel_name(kernel) or None, place=place)
        else:
            found = Finding("compile", str(fault), kernel=kernel_name(kernel) or None)
        self.report(found)

    def reset(self) -> None:
        """Free all memory."""
        with self._lock:
            self._heap = self._heap_used = 0
            self.textures.reset()
            self.memory.reset()

    @functools.cached_property
    def native(self) -> Native:
        """Machine code that every launch needs."""
        return Native(self._cache)

    def launch(self, launch: KernelLaunch) -> Ending:
        """Run a launch to its end, report what was found, write what was printed."""
        with self._lock:
            if self.seen is not None:
                self.seen.append(launch)
            try:
                if launch.module.reporting is not None and self.schedule == NATURAL:
                    stopped = self._rehearse(launch, launch.module.reporting)
                    if stopped is not None:
                        self.ending = stopped
                        return stopped
                needed = self._affordable(self._needed(self._checks, launch), launch)
                known = self._known(launch.module, launch.entry, launch.block, launch, needed)
                self.kernels.select(known, launch.module, (launch.grid, launch.block, launch.shared))
                job = self._renewed(known, launch, needed) or self._prepare(known.kernel, launch, needed)
                self._record(job.kernel.program)
            except PtxError as fault:
                self.report_compile_error(launch.entry, fault)
                return Ending.NOT_COMPILED
            except OutOfMemory:
                return Ending.OUT_OF_MEMORY
            begins_in = job.kernel
            completion, took = self._timed(job, known, launch)
            self._heap_used = job.launch.heap_used
            if job.kernel.program.prints:
                self._write(printed(self._prints, job.launch.print_used, self.memory.string))
            in_order = known.variant.axis == "x" and len(completion.workspaces) == 1
            self.ending = self._judge.judge(job, completion, launch, in_order=in_order)
            self.raised = completion.raised if self.ending is Ending.INTERRUPTED else self.raised
            if self.ending is Ending.FINISHED:
                known.seconds = took * len(completion.workspaces)
                known.job, known.shape = job, (launch.grid, launch.block, launch.shared)
                known.variables = launch.module.variables()
                if job.kernel is begins_in:
                    known.measured(begins_in, known.seconds)
            self.last = self._alone(job, known, launch) if self.ending is Ending.FINISHED else None
            return self.ending

    def again(self, last: LaunchedAlone, params: bytes) -> Ending | None:
        """Run a launch again that was ``last``, with other parameters, in fewer steps than :meth:`launch`.

        Returns:
            None if anything else has changed since. Then nothing was run, and :meth:`launch` has to run it.
        """
        with self._lock:
            job, known = last.job, last.known
            if known.job is not job or known.seconds > SHORT_SECONDS or not self._is_as_usual(last):
                return None
            self.memory.define_all()  # it does not track what it initializes
            self.kernels.select(known, last.launch.module, known.shape)
            self._set_again(job, params)
            job.kernel = known.kernel
            if last.is_remarkable:
                self._record(job.kernel.program)
            begun = self._clock()
            completion = self._scheduler.run_here(job, self._stop_at(), NATURAL, self.native)
            if completion is None:
                return None
            took = self._clock() - begun
            known.spend(took, is_lent=False)
            if known.scales is False:
                known.stayed_alone()
            self._heap_used = job.launch.heap_used
            if not job.launch.fault_count and completion.is_plain:
                known.seconds, self.ending = took, Ending.FINISHED
                known.measured(job.kernel, took)
                return self.ending
            launch = replace(last.launch, params=params)
            self.ending = self._judge.judge(job, completion, launch, in_order=known.variant.axis == "x")
            self.raised = completion.raised if self.ending is Ending.INTERRUPTED else self.raised
            return self.ending

    def _is_as_usual(self, last: LaunchedAlone) -> bool:
        """Whether a launch runs the same code as the last one, without checks and in the usual order."""
        is_plain = self._checks is NO_CHECKS and self.schedule is NATURAL and self.lends is NO_CHECKS
        if not is_plain or self.seen is not None or not self._heap or last.width != self._width:
            return False
        known, module = last.known, last.launch.module
        return known.variables is module.variables() and self.kernels.has(module) and known.left >= 0

    def _alone(self, job: Job, known: CachedKernel, launch: KernelLaunch) -> LaunchedAlone | None:
        """A launch for :meth:`again`; None if it needs more than parameters."""
        program = job.kernel.program
        needs_more = launch.cooperative or program.prints or launch.module.reporting is not None
        if needs_more or program.checks != NO_CHECKS or job.keep[-1] is not None:
            return None
        is_remarkable = program.facts != NO_FACTS
        return LaunchedAlone(job, known, launch, self._width, is_remarkable)

    def _record(self, program: Program) -> None:
        if program.facts != self.facts:
            self.facts = self.facts | program.facts

    def _rehearse(self, launch: KernelLaunch, reporting: LoadedModule) -> Ending | None:
        """Report what a launch raises: run it in code that reports exceptions, and restore memory afterwards.

        Returns:
            How the launch ended, if it must not run again because it did not end by itself; else None.

        Raises:
            PtxError: the code cannot be run.
            OutOfMemory: there is no room for its variables.
        """
        begun = self._clock()
        again = replace(launch, module=reporting)
        options = CodeOptions(self.width, NO_CHECKS, self._adapts)
        known = self.kernels.find(reporting, launch.entry, launch.block, options)
        variables = {**reporting.variables(), **launch.module.variables()}
        self.allocate_heap()
        for blocks in (reachable(self.memory, launch.params, variables), list(self.memory)):
            with put_back(self.memory, blocks, self._heap_used):
                reach = Reach(*self.memory.table_of(blocks), variables)
                job = self._prepare(known.kernel, again, NeededChecks(NO_CHECKS), reach)
                completion, took = self._timed(job, known, again)
            faults = self._judge.faults_of(job)
            if not strayed(faults):
                break
        program = known.kernel.program
        raised = [fault for fault in faults if fault.kind == FaultKind.RAISED]
        naming = self._judge.naming(job, completion, again)
        for finding in findings(raised, program, self.memory, naming, job.launch.threads, self.textures):
            self._tell(again, finding)
        cut_off = self._judge.cut_off(
            again, completion, partial(still_running, faults, program, job.launch.grid_dim)
        )
        if cut_off is not None:
            self.raised = completion.raised
            return cut_off
        known.seconds = took * len(completion.workspaces)
        known.shape = (launch.grid, launch.block, launch.shared)
        self.postpone(self._clock() - begun)
        return None

    def _timed(self, job: Job, known: CachedKernel, launch: KernelLaunch) -> tuple[Completion, float]:
        """Run a job; also returns the seconds it took. It runs on this thread if it is short, except racecheck's
        code, which may call Python: that must not run on another stack."""
        expected = known.expected((launch.grid, launch.block, launch.shared))
        most = SHORT_SECONDS * (SHORT_ALONE if self._scheduler.is_single or known.scales is False else 1)
        is_short = expected <= most and job.races is None and not launch.cooperative
        native = self.native if is_short else None
        begun = self._clock()
        completion = self._run(job, known, launch, native, LONG_SECONDS < expected < math.inf)
        took = self._clock() - begun
        if len(completion.workspaces) > 1 and not launch.cooperative:
            known.scales = not completion.is_faster_alone
        elif known.scales is False:
            known.stayed_alone()
        is_plain = self._checks is NO_CHECKS or self.left_out
        known.spend(took, is_lent=is_plain and known.variant.checks != NO_CHECKS)
        return completion, took

    def _run(
        self, job: Job, known: CachedKernel, launch: KernelLaunch, native: Native | None, is_long: bool
    ) -> Completion:
        """Run a job, on this thread if ``native`` is given. A long job switches to better code while it runs."""
        deadline = self._stop_at()
        if self.schedule.order == "sample":
            sampled = self._scheduler.run_sample(job, deadline, self.schedule.blocks)
            self.unfinished += sampled.unfinished
            return sampled
        if launch.cooperative:
            return self._scheduler.run_cooperative(job, deadline, self.schedule)
        here = None if native is None else self._scheduler.run_here(job, deadline, self.schedule, native)
        if here is not None:
            return here
        better = TierUp(
            known.left, known.kernel.compile_seconds, lambda: self.kernels.improve(known, launch.module)
        )
        with_all = known.starts_with_all(is_long)
        return self._scheduler.run(job, deadline, self.schedule, better, with_all=with_all)

    def _stop_at(self) -> float | None:
        if self.limit is None:
            return self.deadline
        end = self._clock() + self.limit
        return end if self.deadline is None else min(self.deadline, end)

    def _needed(self, checks: Checks, launch: KernelLaunch) -> NeededChecks:
        """The checks that may find something in a launch."""
        use = launch.module.entries[launch.entry].use
        return self._chooser.needed(checks, use, launch.params, launch.grid, launch.block)

    def _affordable(self, needed: NeededChecks, launch: KernelLaunch) -> NeededChecks:
        """The checks of a launch, or :attr:`otherwise` if their code would have to be compiled."""
        if self.otherwise is None or self.otherwise == needed.checks or self._has_code(needed, launch):
            return needed
        self.left_out = True
        return NeededChecks(self.otherwise)

    def _has_code(self, needed: NeededChecks, launch: KernelLaunch) -> bool:
        options = self._options(needed, math.prod((*launch.grid, *launch.block)))
        return self.kernels.is_compiled(launch.module, launch.entry, launch.block, options)

    def _lent(self, launch: KernelLaunch, options: CodeOptions) -> CachedKernel | None:
        """Code with checks for a launch that needs none; None to use code without. ``options``: of that code.

        An earlier run may have compiled only the code with checks. Then it is in the cache.
        """
        module, entry, shape = launch.module, launch.entry, (launch.grid, launch.block, launch.shared)
        lent = self.kernels.lend(module, entry, shape, options, self.lends)
        if lent is not None or self.kernels.is_compiled(module, entry, launch.block, options):
            return lent
        checked = self._options(self._needed(self.lends, launch), options.threads)
        return self.kernels.lend_stored(module, entry, launch.block, checked)

    def _known(
        self,
        module: LoadedModule,
        entry: str,
        block: Index3,
        launch: KernelLaunch | None = None,
        needed: NeededChecks | None = None,
    ) -> CachedKernel:
        """The code for a launch. With sanitizers or a schedule, vectors are along x, as warps are."""
        is_plain = self._checks is NO_CHECKS
        is_usual = is_plain and self.schedule is NATURAL and self.lends is NO_CHECKS
        shape = (launch.grid, block, launch.shared) if is_usual and launch is not None else None
        if shape is not None and (repeated := self.kernels.repeated(module, entry, shape)) is not None:
            return repeated
        needed = needed or self._chooser.expected(self._checks, module.entries[entry].use)
        threads = 0 if launch is None else math.prod((*launch.grid, *block))
        options = self._options(needed, threads)
        if launch is not None and self.lends != NO_CHECKS and needed.checks == NO_CHECKS:
            lent = self._lent(launch, options)
            if lent is not None:
                return lent
        return self.kernels.find(module, entry, block, options, shape)

    def _options(self, needed: NeededChecks, threads: int) -> CodeOptions:
        any_axis = self.schedule == NATURAL and not looks(needed.checks, is_clean=needed.is_clean)
        is_clean, defined = needed.is_clean, needed.defined
        return CodeOptions(self.width, needed.checks, self._adapts, any_axis, threads, defined, is_clean)

    def _track(self, program: Program, needed: NeededChecks) -> None:
        """Update the record of initialized memory for a launch."""
        if program.checks.init:
            self.memory.taint(needed.changed)
        elif not needed.keeps:
            self.memory.define_all()

    def postpone(self, seconds: float) -> None:
        """Postpone the deadline by time that the kernel did not use."""
        if self.deadline is not None:
            self.deadline += seconds

    def _renewed(self, known: CachedKernel, launch: KernelLaunch, needed: NeededChecks) -> Job | None:
        """The job of the last launch, for a launch that differs only in its parameters; else None."""
        job = known.job
        program = known.kernel.program
        if job is None or known.shape != (launch.grid, launch.block, launch.shared):
            return None
        if not self._heap or known.variables is not launch.module.variables() or program.prints:
            return None
        self._track(program, needed)
        self._set_again(job, launch.params)
        job.kernel = known.kernel
        context = job.launch
        job.keep[-2] = self._recorded(context, program, launch)
        set_noise(context, self.noise)
        if self.schedule is not NATURAL or job.keep[-1] is not None:
            job.keep[-1] = set_order(context, self.schedule, program.width)
        context.race = self._races.begin(program, job.shared, launch.params, launch.module.replicates)
        return job

    def _set_again(self, job: Job, params: bytes) -> None:
        """Set what may differ in a launch that runs again: its parameters, and what is allocated."""
        table, entries = self.memory.table()
        textures, count = self.textures.table()
        self._launches += 1
        context, keep = job.launch, job.keep
        ctypes.memmove(context.params, params, len(params))
        if keep[0] is not table or keep[1] is not textures:  # tables do not change
            context.allocations, context.allocation_count = ctypes.addressof(table), entries
            context.textures, context.texture_count = ctypes.addressof(textures), count
            keep[:2] = [table, textures]
        context.workers, context.stop, context.fault_count = 1, 0, 0
        context.heap, context.heap_used = self._heap, self._heap_used
        context.grid_id = self._launches

    def allocate_heap(self) -> None:
        """Allocate the heap from which kernels allocate, if there is none yet; raises OutOfMemory."""
        if not self._heap:
            self._heap = self.memory.allocate(HEAP, MemoryKind.HEAP, fill=False)

    def adopt_heap(self) -> None:
        """Use the heap that another process has allocated in memory that it shares with this one.

        Raises:
            ValueError: there is none.
        """
        heap = next((block for block in self.memory if block.kind is MemoryKind.HEAP), None)
        if heap is None or heap.size != HEAP:
            raise ValueError("the device heap")
        if heap.base != self._heap:
            self._heap, self._heap_used = heap.base, 0

    def _prepare(
        self, kernel: Kernel, launch: KernelLaunch, needed: NeededChecks, reach: Reach | None = None
    ) -> Job:
        """A job for a launch. ``reach``: of a rehearsal; None: all memory."""
        program = kernel.program
        placed = launch.module.variables() if reach is None else reach.variables
        self.allocate_heap()
        addresses = [placed[name][0] for name in program.globals]
        variables = (ctypes.c_uint64 * max(len(addresses), 1))(*addresses)
        params = ctypes.create_string_buffer(launch.params, max(len(launch.params), 16))
        table, entries = self.memory.table() if reach is None else (reach.table, reach.entries)
        threads = math.prod(launch.block)
        if program.prints:
            ctypes.memset(self._prints, 0, PRINT_CAPACITY)  # so that unwritten records can be recognized
        self._launches += 1
        if reach is None:
            self._track(program, needed)
        init_low, init_size, init_delta = self.memory.shadow
        textures, texture_count = self.textures.table()
        shared = program.shared_bytes + launch.shared
        context = LaunchContext(
            params=ctypes.addressof(params),
            block_dim=launch.block,
            grid_dim=launch.grid,
            threads=threads,
            dynamic_shared=launch.shared,
            workers=1,
            allocations=ctypes.addressof(table),
            allocation_count=entries,
            globals=ctypes.addressof(variables),
            faults=ctypes.addressof(self._judge.faults),
            fault_capacity=FAULT_CAPACITY,
            print_buffer=ctypes.addressof(self._prints),
            print_capacity=PRINT_CAPACITY,
            heap=self._heap,
            heap_size=HEAP,
            heap_used=self._heap_used,
            grid_id=self._launches,
            cooperative=int(launch.cooperative),
            init_delta=init_delta,
            init_low=init_low,
            init_size=init_size,
            textures=ctypes.addressof(textures),
            texture_count=texture_count,
            race=self._races.begin(program, shared, launch.params, launch.module.replicates),
        )
        set_noise(context, self.noise)
        recorded = self._recorded(context, program, launch)
        order = set_order(context, self.schedule, program.width)
        return Job(
            kernel,
            context,
            math.prod(launch.grid),
            shared,
            program.state_bytes(threads),
            keep=[table, textures, params, variables, recorded, order],
            races=self._races if program.checks.race else None,
        )

    def _recorded(self, context: LaunchContext, program: Program, launch: KernelLaunch) -> object:
        """Set where a launch records what it reaches and stores; returns what that points to."""
        stores = self.stores.begin(program, context, launch) if program.checks.stores else None
        scratch = self.scratch.begin(context) if program.checks.init else None
        if not program.checks.cover:
            return stores, scratch
        # Lent code records what it reaches even if the launch does not need it.
        table = self.reached.table(program, launch.module.text) if self.checks.cover else new_table(program)
        context.coverage = ctypes.addressof(table)
        return stores, scratch, table

    def _tell(self, launch: KernelLaunch, finding: Finding) -> None:
        """Report a finding, unless it is from checks of lent code."""
        if self.checks == NO_CHECKS and finding.rule in (*CHECKS, SCRATCH):
            return
        self.report(replace(finding, unit="program") if launch.module.replicates else finding)
