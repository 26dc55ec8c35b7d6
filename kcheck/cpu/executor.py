"""Runs kernels: what is under the driver's launch calls."""

from __future__ import annotations

import ctypes
import math
import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from weakref import WeakKeyDictionary

from kcheck.cpu.cache import ObjectCache
from kcheck.cpu.faults import Windows, findings, kernel_name
from kcheck.cpu.jit import host
from kcheck.cpu.kernel import Kernel, compile_kernel
from kcheck.cpu.memory import Kind, Memory, OutOfMemory
from kcheck.cpu.module import Module
from kcheck.cpu.printf import printed
from kcheck.cpu.scheduler import Completion, Job, Scheduler
from kcheck.errors import PtxError
from kcheck.model import NATURAL, Finding, Index3
from kcheck.ptx.abi import FAULTS, Checks, Fault, FaultKind
from kcheck.ptx.abi import Launch as LaunchContext
from kcheck.rng import Xorshift128Plus, arranged

FAULT_CAPACITY = 1024
PRINT_CAPACITY = 1 << 20
HEAP = 64 << 20


class Ending(StrEnum):
    """How a launch ended."""

    FINISHED = "finished"
    NOT_COMPILED = "not compiled"
    OUT_OF_MEMORY = "out of memory"
    ILLEGAL_ADDRESS = "illegal address"
    MISALIGNED = "misaligned address"
    TRAPPED = "trapped"
    STACK_OVERFLOW = "stack overflow"
    TIMED_OUT = "timed out"
    INTERRUPTED = "interrupted"


_ENDINGS = {
    FaultKind.MISALIGNED: Ending.MISALIGNED,
    FaultKind.TRAP: Ending.TRAPPED,
    FaultKind.STACK_OVERFLOW: Ending.STACK_OVERFLOW,
}


@dataclass(frozen=True, slots=True)
class KernelLaunch:
    """One launch.

    Attributes:
        params: the bytes of the parameters, laid out as ``module.entries[entry]`` says.
        grid, block: in blocks and threads.
        shared: dynamic shared memory, in bytes.
        cooperative: whether a grid barrier is allowed: every block is resident.
    """

    module: Module
    entry: str
    params: bytes
    grid: Index3
    block: Index3
    shared: int
    cooperative: bool


class Executor:
    """The memory and the processors of one device. Launches run one after another.

    Args:
        memory: its memory.
        processors: OS threads to use.
        cache: where machine code is kept.
        clock: seconds from any origin.
        report: is called with each finding, on the thread that launches.
        write: is called with what kernels print.

    Attributes:
        width: lanes per vector.
        checks: what launches are checked for beyond memory and barriers; may be changed between launches.
        deadline: the time of the clock at which a launch is stopped; None: never. Compiling moves it on.
        limit: seconds that a launch may take; None: any.
        ending: how the last launch that ran ended.
        report: as given; may be changed between launches.
        schedule: the order of blocks, warps and lanes; may be changed between launches.
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
        self.width = host().width
        self.checks = Checks()
        self.deadline: float | None = None
        self.limit: float | None = None
        self.ending = Ending.FINISHED
        self._clock = clock
        self._cache = cache
        self.report = report
        self.schedule = NATURAL
        self._write = write
        self._scheduler = Scheduler(processors, clock)
        self._kernels: WeakKeyDictionary[Module, dict[tuple[str, int, Checks], Kernel]] = WeakKeyDictionary()
        self._faults = (Fault * FAULT_CAPACITY)()
        self._prints = ctypes.create_string_buffer(PRINT_CAPACITY)
        self._heap = 0
        self._heap_used = 0
        self._launches = 0
        self._lock = threading.Lock()

    def load(self, text: str) -> Module:
        """A module; raises PtxError."""
        return Module(text, self.memory, self._cache)

    def report_compile_error(self, kernel: str, fault: Exception) -> None:
        """Report code that cannot be run."""
        self.report(Finding("compile", str(fault), kernel=kernel_name(kernel) or None))

    def reset(self) -> None:
        """Free all memory."""
        with self._lock:
            self._heap = self._heap_used = 0
            self.memory.reset()

    def launch(self, launch: KernelLaunch) -> Ending:
        """Run a launch to its end, report what was found, write what was printed."""
        with self._lock:
            try:
                job = self._prepare(self._compiled(launch.module, launch.entry), launch)
            except PtxError as fault:
                self.report_compile_error(launch.entry, fault)
                return Ending.NOT_COMPILED
            except OutOfMemory:
                return Ending.OUT_OF_MEMORY
            if launch.cooperative:
                completion = self._scheduler.run_cooperative(job, self._stop_at(), self.schedule)
            else:
                completion = self._scheduler.run(job, self._stop_at(), self.schedule)
            self._heap_used = job.launch.heap_used
            if job.kernel.program.prints:
                self._write(printed(self._prints, job.launch.print_used, self._string))
            self.ending = self._judge(job, completion)
            return self.ending

    def _stop_at(self) -> float | None:
        times = [] if self.deadline is None else [self.deadline]
        if self.limit is not None:
            times.append(self._clock() + self.limit)
        return min(times, default=None)

    def _compiled(self, module: Module, entry: str) -> Kernel:
        kernels = self._kernels.setdefault(module, {})
        key = (entry, self.width, self.checks)
        if key not in kernels:
            begun = self._clock()
            kernels[key] = compile_kernel(module, entry, self.width, self._cache, self.checks)
            self.postpone(self._clock() - begun)
        return kernels[key]

    def postpone(self, seconds: float) -> None:
        """Move the deadline on, for what is no work of a kernel's."""
        if self.deadline is not None:
            self.deadline += seconds

    def _prepare(self, kernel: Kernel, launch: KernelLaunch) -> Job:
        program = kernel.program
        placed = launch.module.variables()
        if not self._heap:
            self._heap = self.memory.allocate(HEAP, Kind.HEAP, fill=False)
        variables = (ctypes.c_uint64 * max(len(program.globals), 1))(*(placed[v.name][0] for v in program.globals))
        params = ctypes.create_string_buffer(launch.params, max(len(launch.params), 16))
        table, entries = self.memory.table()
        threads = math.prod(launch.block)
        if program.prints:
            ctypes.memset(self._prints, 0, PRINT_CAPACITY)  # so that a record that was not written shows
        self._launches += 1
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
            faults=ctypes.addressof(self._faults),
            fault_capacity=FAULT_CAPACITY,
            print_buffer=ctypes.addressof(self._prints),
            print_capacity=PRINT_CAPACITY,
            heap=self._heap,
            heap_size=HEAP,
            heap_used=self._heap_used,
            grid_id=self._launches,
        )
        order = self._order(context, program.width)
        return Job(
            kernel,
            context,
            math.prod(launch.grid),
            program.shared_bytes + launch.shared,
            program.state_bytes(threads),
            keep=(params, variables, table, order),
        )

    def _order(self, context: LaunchContext, width: int) -> object:
        """Enter the order of vectors and lanes into a launch; returns what it holds the address of."""
        schedule = self.schedule
        if schedule == NATURAL:
            return None
        vectors = arranged(schedule, -(-context.threads // width), "warps")
        context.vector_order = vectors.ctypes.data
        if width > 1:
            context.lane_order = width - 1
            if schedule.order == "shuffle":
                context.lane_order = 1 + Xorshift128Plus(schedule.seed).below(width - 1)
        return vectors

    def _judge(self, job: Job, completion: Completion) -> Ending:
        """Report what was found; how the launch ended."""
        program = job.kernel.program
        windows = Windows(
            shared=[(workspace.context.shared, job.shared) for workspace in completion.workspaces],
            state=[(workspace.context.state, job.state) for workspace in completion.workspaces],
        )
        faults = self._faults[: min(job.launch.fault_count, FAULT_CAPACITY)]
        for finding in findings(faults, program, self.memory, windows):
            self.report(finding)
        name = kernel_name(program.entry)
        if completion.timed_out:
            self.report(Finding("timeout", "the kernel was still running at the time limit", kernel=name))
            return Ending.TIMED_OUT
        if completion.interrupted:
            return Ending.INTERRUPTED
        if completion.reached_grid_barrier:
            message = "reached a grid barrier in a launch that is not cooperative"
            self.report(Finding("synccheck", message, kernel=name))
            return Ending.TRAPPED
        if completion.left_grid_barrier:
            message = f"{completion.left_grid_barrier} blocks ended while the others waited at a grid barrier"
            self.report(Finding("synccheck", message, kernel=name))
        for fault in faults:
            kind = FaultKind(fault.kind)
            if FAULTS[kind].stops:
                return _ENDINGS.get(kind, Ending.ILLEGAL_ADDRESS)
        return Ending.FINISHED

    def _string(self, address: int) -> bytes:
        """The NUL-terminated string at a device address, as far as it lies in an allocation."""
        block = self.memory.find(address)
        if block is None:
            return b"(null)" if address == 0 else b"(bad address)"
        return ctypes.string_at(address, block.end - address).split(b"\0", 1)[0]
