"""The contract between lowered code (``kcheck.ptx``) and the code that runs it (``kcheck.cpu``).

Lowered code is LLVM IR: the kernel's (``Program.ir``), linked with its scheduler's (``Program.scheduler``).
Linked, it calls no other kcheck symbol and defines::

    i32 kcheck_run(ptr launch, ptr worker, i64 first, i64 last)
        Runs blocks first..last-1 (linear index, x fastest) one after another.
        Returns FINISHED; STOPPED when ``Launch.stop`` became nonzero; GRID_BARRIER when a block reached a
        grid barrier (the launch was not cooperative).
    i32 kcheck_block(ptr launch, ptr worker, i64 block, i32 resume)
        Starts one block (resume 0), or continues it after a grid barrier (resume 1). The block uses the worker's
        shared memory and state: a cooperative launch has one Worker per block. The host calls each block until it
        has returned GRID_BARRIER or FINISHED, then those at the barrier again with resume 1.

Call both with the GIL released, from any OS thread; two threads need two Workers. The code accesses only the
memory named in its two arguments and in the allocation table: a stray access is recorded and dropped, never
performed.

Memory is host memory: generic, global, const, shared and local addresses are host addresses.

* ``Launch.allocations``: the memory that global and generic accesses may touch, sorted by base, not overlapping:
  arrays, module-scope ``.global`` and ``.const`` variables, the device heap, the parameters. The table may be
  large; a site finds its allocation by binary search and caches it in ``Worker.sites``.
* ``Worker.shared``: the block's shared window: ``Program.shared_bytes`` of static variables, then the dynamic
  ones (``Launch.dynamic_shared`` bytes). Aligned to a page, like ``Worker.state``.
* ``Worker.state``: ``Program.state_bytes(threads)`` bytes; the contents can be uninitialized.
* ``Worker.sites``: ``len(Program.sites)`` SiteCache records, all zero at the start of a launch.
* With ``Checks.init``, every byte of memory has an init byte, 0 if the byte is initialized and 0xFF if it is not:
  at ``Launch.init_delta`` from it; for shared memory at ``Worker.shared_init``, which has SHARED_INIT_SPARE more
  bytes, all zero; for local memory within the state. Other memory (the host's) counts as initialized.

``kcheck.cpu`` calls :func:`kcheck.ptx.compile.lower` and :func:`kcheck.ptx.compile.scheduler` for the code, and
:func:`kcheck.ptx.lowering.module.module_variables` for ``Program.globals`` before anything is lowered. They raise
PtxError if the PTX is not valid or not supported.

The stop flag is polled at loop back-edges, calls and barriers, and between blocks or strips of interior blocks.
The host sets it to STOP_REQUESTED for a timeout or an interrupt; the code sets it to STOP_FAULT after a fault that
ends a kernel on a GPU too (``FAULTS[kind].stops``).
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from enum import IntEnum

from kcheck.dataclass import dataclass

RESERVED_BYTES = 1024
RESERVED = "%reserved_smem"
"""The shared variable that takes up the memory that is reserved for system software
(:mod:`kcheck.ptx.syntax.reserved_shared`), at the start of the window. No variable of a program has this name."""

STACK_BYTES = 16384
"""Bytes that one thread can ``alloca`` in a function (a GPU's default for its whole stack is 1024)."""

AXES = "xyz"
"""The axes of a block. The lanes of a vector are neighbors along one of them; the other axes follow in this
order."""


def row_of(block: tuple[int, int, int], axis: str = "x") -> int:
    """The lanes, at most 32, of the widest vectors whose threads are neighbors along ``axis`` in a block of this
    size."""
    n = block[AXES.index(axis)]
    if n == block[0] * block[1] * block[2]:
        return 32
    return min(n & -n, 32)


@dataclass(frozen=True, slots=True, order=True)
class Checks:
    """What lowered code checks in addition to memcheck and synccheck, which are always on.

    Attributes:
        race: accesses not ordered by a barrier, ``syncwarp`` or fence (racecheck).
        init: uses of uninitialized memory (initcheck).
        overflow: 32-bit arithmetic that wraps on its way to an address.
        cover: not a check: the code records which basic blocks and which edges of branches were reached.
        values: not a check: the code records which operations make a NaN or an infinity.
        stores: not a check: the code records which stores come nearest to watched bytes.
        noise: not a check: the code rounds at random, and records which operations lose digits.
    """

    race: bool = False
    init: bool = False
    overflow: bool = False
    cover: bool = False
    values: bool = False
    stores: bool = False
    noise: bool = False

    def __str__(self) -> str:
        every = ("race", "init", "overflow", "cover", "values", "stores", "noise")
        names = [name for name in every if getattr(self, name)]
        return "+".join(names) or "none"


SHARED_INIT_SPARE = 1024
"""Bytes after those of the shared window at ``Worker.shared_init``, for stray accesses."""

FINISHED, STOPPED, GRID_BARRIER = 0, 1, 2
"""What ``kcheck_run`` and ``kcheck_block`` return."""

STOP_REQUESTED, STOP_FAULT = 1, 2
"""Values of ``Launch.stop``: set by the host; set by the code."""


class AllocationRecord(ctypes.Structure):
    """One entry of the allocation table: ``size`` bytes from ``base`` (without guard zones)."""

    _fields_ = [("base", ctypes.c_uint64), ("size", ctypes.c_uint64)]


class TextureFormat(IntEnum):
    """The type of a texel's channel."""

    UINT8 = 0
    INT8 = 1
    UINT16 = 2
    INT16 = 3
    UINT32 = 4
    INT32 = 5
    FLOAT16 = 6
    FLOAT32 = 7


class Addressing(IntEnum):
    """How a coordinate outside a texture is handled, with the values of CUaddress_mode."""

    WRAP = 0
    CLAMP = 1
    MIRROR = 2
    BORDER = 3


class Texture(ctypes.Structure):
    """A texture or a surface object, in the table at ``Launch.textures``."""

    _fields_ = [
        ("handle", ctypes.c_uint64),  # the value in kernels; its low 32 bits are the index in the table. 0: none
        ("base", ctypes.c_uint64),  # address of the first texel
        ("row_pitch", ctypes.c_uint64),  # bytes from a row to the next
        ("slice_pitch", ctypes.c_uint64),  # bytes from a slice or a layer to the next
        ("extent", ctypes.c_uint32 * 3),  # texels along x, y, z; z of a layered texture: the number of layers
        ("channels", ctypes.c_uint32),  # of a texel
        ("format", ctypes.c_uint32),  # a TextureFormat
        ("texel_bytes", ctypes.c_uint32),
        ("addressing", ctypes.c_uint32 * 3),  # an Addressing for each axis
        ("linear", ctypes.c_uint32),  # interpolate between texels
        ("normalized", ctypes.c_uint32),  # coordinates from 0 to 1
        ("to_float", ctypes.c_uint32),  # integers of 8 or 16 bits are read as floats in [0, 1] or [-1, 1]
        ("is_linear_memory", ctypes.c_uint32),  # one row that is indexed by integers
        ("is_surface", ctypes.c_uint32),
        ("border", ctypes.c_uint32 * 4),  # the bits of each channel, as read
    ]


class SiteCache(ctypes.Structure):
    """The allocation that an instruction accessed last, on one worker. All 0: none yet.

    ``limit`` is the number of addresses from ``base`` on at which the instruction may access memory. ``elements``
    and ``rows`` count only the aligned ones, for an access by one lane and for one by all lanes of a vector side
    by side; they are 0 if ``base`` is not aligned itself.
    """

    _fields_ = [
        ("base", ctypes.c_uint64),
        ("limit", ctypes.c_uint64),
        ("elements", ctypes.c_uint64),
        ("rows", ctypes.c_uint64),
    ]


class FaultRecord(ctypes.Structure):
    """One fault; ``site`` indexes ``Program.sites``. ``Launch.fault_count`` can exceed the capacity."""

    _fields_ = [
        ("kind", ctypes.c_uint32),  # a FaultKind
        ("site", ctypes.c_uint32),
        ("block", ctypes.c_uint32 * 3),
        ("thread", ctypes.c_uint32 * 3),
        # The address of the access. Barriers: see runtime/waiting.py. Masks of a warp: see FaultKind. UNDEFINED_*:
        # the address that the value was loaded from. WRAPPED_*: the exact result, which did not fit. MADE_*: the
        # first two operands, as float32. LOCAL_BOUNDS: the distance from the start of the array.
        ("address", ctypes.c_uint64),
        # Bytes of the access; waiting threads; lanes of the warp. UNDEFINED_*, WRAPPED_*: 1 + the site of origin,
        # or 0. MADE_*: the third operand.
        ("size", ctypes.c_uint32),
        ("lanes", ctypes.c_uint32),  # which lanes of the warp, as bits
    ]


class Launch(ctypes.Structure):
    """What all workers of one launch share. Only the host writes to it, except for the counters and ``stop``."""

    _fields_ = [
        ("params", ctypes.c_uint64),  # address of the parameters, packed as Program.params says
        ("block_dim", ctypes.c_uint32 * 3),
        ("grid_dim", ctypes.c_uint32 * 3),
        ("threads", ctypes.c_uint32),  # of one block: the product of block_dim
        ("dynamic_shared", ctypes.c_uint32),  # bytes
        ("stop", ctypes.c_uint32),
        ("workers", ctypes.c_uint32),  # how many OS threads run this launch; 1: global atomics need no lock
        ("allocations", ctypes.c_uint64),  # address of AllocationRecord[allocation_count]
        ("allocation_count", ctypes.c_uint64),
        ("globals", ctypes.c_uint64),  # address of uint64[]: the address of each of Program.globals
        ("faults", ctypes.c_uint64),  # address of FaultRecord[fault_capacity]
        ("fault_capacity", ctypes.c_uint64),
        ("fault_count", ctypes.c_uint64),  # number of faults, including those not kept
        ("print_buffer", ctypes.c_uint64),  # address of PrintRecords, see below
        ("print_capacity", ctypes.c_uint64),  # bytes
        ("print_used", ctypes.c_uint64),  # bytes requested; nothing is written beyond the capacity
        ("heap", ctypes.c_uint64),  # the device heap, for malloc in a kernel; also in the allocation table
        ("heap_size", ctypes.c_uint64),  # bytes; 0: malloc returns null
        ("heap_used", ctypes.c_uint64),
        ("grid_id", ctypes.c_uint64),
        (
            "race",
            ctypes.c_uint64,
        ),  # address of race.layout.RaceState; 0 where the code has no Checks.race
        ("init_delta", ctypes.c_uint64),  # added to an address: the address of its init byte
        ("vector_order", ctypes.c_uint64),  # uint32[vectors]: the order to run them in; 0: in memory order
        ("lane_order", ctypes.c_uint32),  # where lanes act one by one: the k-th is lane k ^ lane_order
        ("cooperative", ctypes.c_uint32),  # 1: grid barriers are allowed
        ("init_low", ctypes.c_uint64),  # the addresses to which init_delta applies: from here …
        ("init_size", ctypes.c_uint64),  # … this many; two pages after their init bytes serve all other addresses
        ("textures", ctypes.c_uint64),  # address of Texture[texture_count]
        ("texture_count", ctypes.c_uint64),
        ("coverage", ctypes.c_uint64),  # address of uint8[]: a byte for each of Program.points
        ("scratch", ctypes.c_uint64),  # address of AllocationRecord[scratch_count]: memory without outputs
        ("scratch_count", ctypes.c_uint64),
        ("watch", ctypes.c_uint64),  # address of watch_records.StoreWatch, for Checks.stores
        ("noise", ctypes.c_double),  # the largest change of a result, in halves of its last bit; 0: none
        ("noise_line", ctypes.c_uint32),  # the line of the source whose results change; 0: all lines
        ("noise_seed", ctypes.c_uint32),
    ]


class Block(ctypes.Structure):
    """The head of ``Worker.state``: private to the code. ``thread_x`` and so on: addresses of uint32[threads]."""

    _fields_ = [
        ("index", ctypes.c_uint32 * 3),
        ("vectors", ctypes.c_uint32),
        ("linear", ctypes.c_uint64),
        ("thread_x", ctypes.c_uint64),
        ("thread_y", ctypes.c_uint64),
        ("thread_z", ctypes.c_uint64),
        ("true_count", ctypes.c_uint32 * 16),  # bar.red: lanes that arrived with a true predicate, by barrier
        ("arrived", ctypes.c_uint32 * 16),  # bar.red: lanes that arrived
        ("true_result", ctypes.c_uint32 * 16),  # the same, for the barrier completed last
        ("arrived_result", ctypes.c_uint32 * 16),
        ("arrive_count", ctypes.c_uint32 * 16),  # bar.arrive: threads
        ("told", ctypes.c_uint64),  # which barrier errors were recorded: runtime.diagnosis.BLAMED, WARNED
    ]


class Worker(ctypes.Structure):
    """The private memory of one OS thread (or of one block of a cooperative launch)."""

    _fields_ = [
        ("shared", ctypes.c_uint64),
        ("state", ctypes.c_uint64),
        ("sites", ctypes.c_uint64),
        ("stack_bytes", ctypes.c_uint64),  # native stack that the code may use below the frame of kcheck_run
        ("stack_limit", ctypes.c_uint64),  # written by the code
        ("shared_init", ctypes.c_uint64),  # address of a byte for each byte of the shared window, for initcheck
        ("origins", ctypes.c_uint64),  # address of Origins and Origin[sites][threads up to a multiple of 32]
        ("grid_site", ctypes.c_uint64),  # written by the code: the site of the grid barrier at which a block waits
        # Private to initcheck: the ranges of shared memory that it last found initialized, and the address from
        # which they are counted; 0 if shared memory has been written since.
        ("initialized_at", ctypes.c_uint64),
        ("initialized_ranges", ctypes.c_uint64),
    ]


class PrintRecord(ctypes.Structure):
    """The head of one ``vprintf`` record; ``argument_bytes`` bytes follow, padded to 8.

    The arguments are laid out by the PTX ABI of vprintf: each at its natural alignment, floats as f64. There may
    be more bytes than the format uses.
    """

    _fields_ = [
        ("format", ctypes.c_uint64),  # address of the NUL-terminated format
        ("argument_bytes", ctypes.c_uint32),
        ("block", ctypes.c_uint32 * 3),
        ("thread", ctypes.c_uint32 * 3),
        ("reserved", ctypes.c_uint32),
    ]


class FaultKind(IntEnum):
    """What went wrong.

    For the kinds of a warp (WARP_* and SHUFFLE_GONE), ``FaultRecord.address`` has the lanes that break the rule,
    and from bit 32 on the lanes that execute the instruction. RUNNING is not a fault: it says where a thread was
    when the host stopped the launch.
    """

    OUT_OF_BOUNDS_LOAD = 1
    OUT_OF_BOUNDS_STORE = 2
    OUT_OF_BOUNDS_ATOMIC = 3
    MISALIGNED = 4
    TRAP = 5
    STACK_OVERFLOW = 6
    DIVISION_BY_ZERO = 7
    BARRIER_DIVERGENCE = 8
    BARRIER_EXITED = 9
    WARP_MASK = 10
    GRID_BARRIER_EXITED = 11
    INDIRECT_CALL = 12
    WARP_MASK_SELF = 13
    WARP_MASK_GONE = 23
    UNDEFINED_BRANCH = 14
    UNDEFINED_ADDRESS = 15
    UNDEFINED_STORE = 16
    UNDEFINED_ATOMIC = 17
    WRAPPED_ADDRESS = 18
    BARRIER_COUNT = 20
    BARRIER_SPLIT = 21
    RUNNING = 22
    WARP_ALIGNED = 24
    BARRIER_GONE = 25
    SHUFFLE_GONE = 26
    RAISED = 27
    TEXTURE_HANDLE = 28
    SURFACE_BOUNDS_LOAD = 29
    SURFACE_BOUNDS_STORE = 30
    MBARRIER_ARRIVALS = 31
    MADE_NAN = 32
    MADE_INFINITY = 33
    UNDEFINED_SCRATCH = 34
    LOST_DIGITS = 35
    ABSORBED_DIGITS = 36
    LOCAL_BOUNDS = 37


SCRATCH = "scratch"
"""The rule of a store of an undefined result in scratch memory. It is an error only if the result gets into an
output."""


@dataclass(frozen=True, slots=True)
class FaultRow:
    """How to report a kind of fault.

    Attributes:
        rule: the rule that it breaks: NVIDIA's tool if one reports it (``memcheck``), otherwise kcheck's name.
        stops: whether a GPU would end the kernel.
        what: the message.
    """

    rule: str
    stops: bool
    what: str


FAULTS: Mapping[FaultKind, FaultRow] = {
    FaultKind.MADE_NAN: FaultRow("values", False, "makes a NaN"),
    FaultKind.MADE_INFINITY: FaultRow("values", False, "makes an infinity"),
    FaultKind.LOST_DIGITS: FaultRow("noise", False, "loses digits"),
    FaultKind.ABSORBED_DIGITS: FaultRow("noise", False, "loses digits of the smaller term"),
    FaultKind.OUT_OF_BOUNDS_LOAD: FaultRow("memcheck", True, "reads outside all allocations"),
    FaultKind.OUT_OF_BOUNDS_STORE: FaultRow("memcheck", True, "writes outside all allocations"),
    FaultKind.OUT_OF_BOUNDS_ATOMIC: FaultRow("memcheck", True, "updates memory outside all allocations"),
    FaultKind.LOCAL_BOUNDS: FaultRow("memcheck", True, "accesses memory outside a local array"),
    FaultKind.MISALIGNED: FaultRow("memcheck", True, "accesses an address that is not aligned to the size"),
    FaultKind.MBARRIER_ARRIVALS: FaultRow(
        "synccheck", False, "arrives at an mbarrier more often than its phase waits for"
    ),
    FaultKind.TEXTURE_HANDLE: FaultRow("memcheck", True, "uses a value that is not a texture or surface object"),
    FaultKind.SURFACE_BOUNDS_LOAD: FaultRow("memcheck", True, "reads outside a surface"),
    FaultKind.SURFACE_BOUNDS_STORE: FaultRow("memcheck", True, "writes outside a surface"),
    FaultKind.TRAP: FaultRow("trap", True, "executed a trap"),
    FaultKind.STACK_OVERFLOW: FaultRow("stack", True, "overflowed the stack"),
    FaultKind.DIVISION_BY_ZERO: FaultRow("division", False, "divides an integer by zero: the result is undefined"),
    FaultKind.BARRIER_DIVERGENCE: FaultRow("synccheck", False, "threads of one block wait at different barriers"),
    FaultKind.BARRIER_EXITED: FaultRow("synccheck", False, "threads of the block skipped this barrier"),
    FaultKind.BARRIER_GONE: FaultRow("synccheck", False, "threads of the block exited before this barrier"),
    FaultKind.WARP_MASK: FaultRow("synccheck", False, "lanes named in the mask do not take part"),
    FaultKind.WARP_MASK_GONE: FaultRow("synccheck", False, "lanes named in the mask have exited"),
    FaultKind.SHUFFLE_GONE: FaultRow("synccheck", False, "a shuffle reads lanes that have exited"),
    FaultKind.WARP_MASK_SELF: FaultRow("synccheck", False, "a lane takes part that its own mask does not name"),
    FaultKind.WARP_ALIGNED: FaultRow("synccheck", False, "lanes of the warp do not execute this instruction"),
    FaultKind.GRID_BARRIER_EXITED: FaultRow("synccheck", False, "threads exited before the grid barrier"),
    FaultKind.UNDEFINED_BRANCH: FaultRow("initcheck", False, "branches on an uninitialized value"),
    FaultKind.UNDEFINED_ADDRESS: FaultRow("initcheck", False, "uses an uninitialized value as an address"),
    FaultKind.UNDEFINED_STORE: FaultRow("initcheck", False, "computes with an uninitialized value"),
    FaultKind.UNDEFINED_SCRATCH: FaultRow(SCRATCH, False, "computes with an uninitialized value"),
    FaultKind.UNDEFINED_ATOMIC: FaultRow("initcheck", False, "updates uninitialized memory"),
    FaultKind.WRAPPED_ADDRESS: FaultRow("overflow", False, "uses 32-bit arithmetic that wrapped in an address"),
    FaultKind.BARRIER_COUNT: FaultRow(
        "synccheck", False, "a different number of threads than the barrier expects"
    ),
    FaultKind.BARRIER_SPLIT: FaultRow("synccheck", False, "a part of a warp waits at an aligned barrier"),
    FaultKind.RAISED: FaultRow("launch", False, "a thread raised an exception"),
    FaultKind.RUNNING: FaultRow("timeout", False, "was still running at the time limit"),
    FaultKind.INDIRECT_CALL: FaultRow("memcheck", True, "calls an address that is not a function"),
}
"""Every kind with its meaning."""
