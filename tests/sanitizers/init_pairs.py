"""Uses of memory that nobody has written (initcheck).

A value that nobody wrote may be copied: it is found where something computed with it is stored, where it decides
a branch, and where it is an address.
"""

import numpy as np
from numba import cuda, float32, int32
from pairs import Unwritten, pair

ALL = 0xFFFFFFFF
PADDED = np.dtype([("tag", np.int8), ("value", np.int32), ("end", np.int8)], align=True)
NESTED = np.dtype([("tag", np.int8), ("value", np.int32), ("inner", PADDED)], align=True)


def ints(*shape):
    """An array of int32 zeros."""
    return np.zeros(shape, np.int32)


def counted(n):
    """0, 1, 2, ... as int32."""
    return np.arange(n, dtype=np.int32)


def never(*shape):
    """An array of int32 on the device that nobody has written."""
    return Unwritten(shape, np.int32)


# Global memory


@pair(like="NVIDIA Initcheck/memset_error.cu")
def partial_memset():
    """The host clears as many bytes as there are elements, of four bytes each."""

    @cuda.jit
    def add_index(numbers):
        i = cuda.grid(1)
        numbers[i] += i  # initcheck

    numbers = cuda.device_array(64, np.int32)
    size = numbers.nbytes  # bug: size = numbers.size
    cuda.cudadrv.driver.device_memset(numbers, 0, size)
    add_index[2, 32](numbers)


@pair(like="NVIDIA Suppressions/suppressions_initcheck_demo.cu")
def last_byte_missing():
    """The last byte of the last element is not cleared."""

    @cuda.jit
    def double(a, b):
        t = cuda.threadIdx.x
        if t < a.size:
            b[t] = a[t] * 2  # initcheck

    a, b = cuda.device_array(123, np.int32), cuda.device_array(123, np.int32)
    size = a.nbytes  # bug: size = a.nbytes - 1
    cuda.cudadrv.driver.device_memset(a, 0, size)
    double[1, 128](a, b)


@pair(
    1,
    1,
    x=np.ones(1, np.float32),
    spare=Unwritten(1, np.float32),
    y=np.zeros(1, np.float32),
    like="Oclgrind uninitialized/uninitialized_global_buffer",
)
@cuda.jit
def wrong_buffer(x, spare, y):
    """The buffer that is read is the one that nobody has filled."""
    source = x  # bug: source = spare
    y[0] = source[0] + 1  # initcheck


@pair(2, 32, x=never(64), y=ints(64))
@cuda.jit
def computed_not_copied(x, y):
    """To copy what nobody wrote is no use of it; to add one is."""
    i = cuda.grid(1)
    y[i] = x[i]  # bug: y[i] = x[i] + 1  # initcheck


@pair(2, 32, x=counted(64), y=never(64))
@cuda.jit
def added_to_nothing(x, y):
    """The sum goes on top of what the array happens to hold."""
    i = cuda.grid(1)
    y[i] = x[i]  # bug: y[i] += x[i]  # initcheck


@pair()
def counter_not_cleared():
    """An atomic counter counts from whatever it holds."""

    @cuda.jit
    def count(x, counter):
        if x[cuda.grid(1)] > 3:
            cuda.atomic.add(counter, 0, 1)  # initcheck

    counter = cuda.to_device(ints(1))  # bug: counter = cuda.device_array(1, np.int32)
    count[2, 32](cuda.to_device(counted(64)), counter)


@pair()
def memory_of_another():
    """Memory that was given back and taken again holds nothing of the new owner's, though it was written once."""

    @cuda.jit
    def double(x, y):
        i = cuda.grid(1)
        y[i] = 2 * x[i]  # initcheck

    y = cuda.to_device(ints(64))
    for _ in range(20):
        before = cuda.to_device(counted(64))
        del before
    cuda.current_context().memory_manager.deallocations.clear()
    x = cuda.to_device(counted(64))  # bug: x = cuda.device_array(64, np.int32)
    double[2, 32](x, y)


@pair()
def half_copied():
    """A copy from the host fills half of what the kernel reads."""

    @cuda.jit
    def double(x, y):
        i = cuda.grid(1)
        y[i] = 2 * x[i]  # initcheck

    x, y = cuda.device_array(64, np.int32), cuda.to_device(ints(64))
    part = x[:64]  # bug: part = x[:32]
    part.copy_to_device(counted(64)[: part.size])
    double[2, 32](x, y)


@pair()
def written_by_fewer_blocks():
    """The first kernel fills what its grid covers, and the second reads on."""

    @cuda.jit
    def fill(x):
        x[cuda.grid(1)] = cuda.grid(1)

    @cuda.jit
    def double(x, y):
        i = cuda.grid(1)
        y[i] = 2 * x[i]  # initcheck

    x, y = cuda.device_array(96, np.int32), cuda.to_device(ints(96))
    blocks = 3  # bug: blocks = 2
    fill[blocks, 32](x)
    double[3, 32](x, y)


@pair(1, 64, flags=never(64), y=ints(64))
@cuda.jit
def branch_by_a_flag(flags, y):
    """Flags are looked at before anybody has set them."""
    t = cuda.threadIdx.x
    if t < 64:  # bug: if t < 62:
        flags[t ^ 1] = t % 3
    cuda.syncthreads()
    if flags[t] > 1:  # initcheck
        cuda.atomic.add(y, t, 1)


@pair(1, 32, x=counted(32), order=never(32), y=ints(32))
@cuda.jit
def index_by_a_permutation(x, order, y):
    """A permutation has a hole, and what is in the hole is an index."""
    t = cuda.threadIdx.x
    first = 0  # bug: first = 1
    if t >= first:
        order[31 - t] = t
    cuda.syncwarp()
    y[t] = x[order[t] & 31]  # initcheck


# Shared memory


@pair(1, 16, y=np.zeros(16, np.float32), like="Oclgrind uninitialized/uninitialized_local_array")
@cuda.jit
def one_slot_left_out(y):
    """One thread does not fill its slot of the tile."""
    tile = cuda.shared.array(16, float32)
    t = cuda.threadIdx.x
    if t < 16:  # bug: if t != 8:
        tile[t] = t
    y[t] = tile[t] * 2  # initcheck


@pair(1, 16, shared=64, y=np.zeros(16, np.float32), like="Oclgrind uninitialized/uninitialized_local_ptr")
@cuda.jit
def one_dynamic_slot_left_out(y):
    """The same in dynamic shared memory."""
    tile = cuda.shared.array(0, float32)
    t = cuda.threadIdx.x
    if t < 16:  # bug: if t != 8:
        tile[t] = t
    y[t] = tile[t] * 2  # initcheck


@pair(1, 1, value=ints(1), like="Oclgrind uninitialized/uninitialized_local_variable")
@cuda.jit
def set_in_one_branch(value):
    """A shared variable is set under a condition, and read under none."""
    kept = cuda.shared.array(1, int32)
    if value[0] >= 0:  # bug: if value[0] > 0:
        kept[0] = value[0]
    cuda.syncthreads()
    value[0] = kept[0] + 1  # initcheck


@pair(1, 64, x=counted(40), sums=ints(1), n=40)
@cuda.jit
def tree_over_a_part(x, sums, n):
    """Threads past the end leave their slots as they are, and the tree of sums takes them all."""
    tile = cuda.shared.array(64, int32)
    t = cuda.threadIdx.x
    tile[t] = x[t] if t < n else 0  # bug: if t < n: tile[t] = x[t]
    cuda.syncthreads()
    step = 32
    while step > 0:
        if t < step:
            tile[t] += tile[t + step]
        cuda.syncthreads()
        step //= 2
    if t == 0:
        sums[0] = tile[0]  # initcheck


@pair(1, 32, x=counted(32), y=ints(32), n=32)
@cuda.jit
def padding_added_up(x, y, n):
    """The column that pads a tile against bank conflicts is taken into the sums."""
    tile = cuda.shared.array((32, 33), int32)
    t = cuda.threadIdx.x
    for j in range(n):
        tile[j, t] = x[t] + j
    cuda.syncwarp()
    total = 0
    for j in range(n):  # bug: for j in range(n + 1):
        total += tile[t, j]
    y[t] = total  # initcheck


@pair(1, 32, x=counted(32), sums=ints(1), n=20)
@cuda.jit
def shuffled_from_afar(x, sums, n):
    """A value that nobody wrote goes through five shuffles and additions before it is stored."""
    tile = cuda.shared.array(32, int32)
    t = cuda.threadIdx.x
    if t < n or t >= 0:  # bug: if t < n:
        tile[t] = x[t]
    cuda.syncwarp()
    total = tile[t]
    for step in (16, 8, 4, 2, 1):
        total += cuda.shfl_down_sync(ALL, total, step)
    if t == 0:
        sums[0] = total  # initcheck


@pair(1, 32, x=counted(32), y=ints(32), n=20)
@cuda.jit
def chosen_with_care(x, y, n):
    """What was not written may be read as long as it is not chosen."""
    tile = cuda.shared.array(32, int32)
    t = cuda.threadIdx.x
    if t < n:
        tile[t] = x[t]
    cuda.syncwarp()
    y[t] = tile[t] * 3 if t < n else 0  # bug: y[t] = tile[t] * 3 if t <= n else 0  # initcheck


@pair(1, 2, output=np.zeros(1, PADDED), total=ints(1), like="Oclgrind uninitialized/padded_struct_memcpy_fp")
@cuda.jit
def record_copied_as_a_whole(output, total):
    """A record is copied with the padding between its fields, which is no use of it; a missing field is."""
    scratch = cuda.shared.array(1, PADDED)
    t = cuda.threadIdx.x
    if t == 0:
        scratch[0].tag = 42
        scratch[0].value = 0x79FFFFF9  # bug: scratch[0].tag = 43
        scratch[0].end = 127
    cuda.syncthreads()
    if t == 1:
        output[0] = scratch[0]
        total[0] = scratch[0].value + 1  # initcheck


@pair(1, 2, output=np.zeros(1, NESTED), total=ints(1), like="Oclgrind uninitialized/padded_nested_struct_memcpy")
@cuda.jit
def record_in_a_record(output, total):
    """A record within a record is copied with all their padding; the inner one lacks a field."""
    scratch = cuda.shared.array(1, NESTED)
    t = cuda.threadIdx.x
    if t == 0:
        scratch[0].tag = 1
        scratch[0].value = 0x02000002
        scratch[0].inner.tag = 4
        scratch[0].inner.value = 0x05000005  # bug: scratch[0].value = 5
        scratch[0].inner.end = 6
    cuda.syncthreads()
    if t == 1:
        output[0] = scratch[0]
        total[0] = scratch[0].inner.value + 1  # initcheck


@pair(1, 32, x=counted(64) % 5, y=ints(32, 8), n=8)
@cuda.jit
def bins_not_cleared(x, y, n):
    """A thread's own histogram is counted up from what its part of shared memory holds."""
    bins = cuda.shared.array((32, 8), int32)
    t = cuda.threadIdx.x
    for j in range(n):
        bins[t, j] = 0  # bug: bins[t, 0] = 0
    for j in range(n):
        bins[t, x[t + j]] += 1
    for j in range(n):
        y[t, j] = bins[t, j]  # initcheck


@pair(1, 32, x=counted(32), y=ints(32), n=20)
@cuda.jit
def scan_of_a_part(x, y, n):
    """A warp scans all slots of shared memory and stores them back; only the sums of written slots leave it."""
    tile = cuda.shared.array(32, int32)
    t = cuda.threadIdx.x
    if t < n:
        tile[t] = x[t]
    cuda.syncwarp()
    total = tile[t]
    for step in (1, 2, 4, 8, 16):
        other = cuda.shfl_up_sync(ALL, total, step)
        if t >= step:
            total += other
    tile[t] = total
    cuda.syncwarp()
    if t < n:  # bug: if t <= n:
        y[t] = tile[t]  # initcheck


@pair(1, 32, x=counted(32), y=ints(32), n=20)
@cuda.jit
def sum_copied_twice(x, y, n):
    """A sum that is not known goes through shared memory, another lane and shared memory again."""
    tile = cuda.shared.array(32, int32)
    t = cuda.threadIdx.x
    if t < n:
        tile[t] = x[t]
    cuda.syncwarp()
    tile[t] += 1
    cuda.syncwarp()
    moved = cuda.shfl_xor_sync(ALL, tile[t], 1)
    cuda.syncwarp()
    tile[t ^ 1] = moved
    cuda.syncwarp()
    if t < n:  # bug: if t < n + 1:
        y[t] = tile[t]  # initcheck


@pair(1, 32, x=counted(32), y=ints(32), n=20)
@cuda.jit
def written_after_all(x, y, n):
    """A sum that is not known is overwritten before anybody takes it."""
    tile = cuda.shared.array(32, int32)
    t = cuda.threadIdx.x
    tile[t] += 1
    tile[t] = x[t]  # bug: tile[t] = x[t] if t < n else tile[t]
    cuda.syncwarp()
    y[t] = tile[t]  # initcheck


@pair(1, 32, y=ints(32))
@cuda.jit
def neither_case(y):
    """Of three cases one sets the element by which a branch is then decided."""
    state = cuda.shared.array((32, 3), int32)
    t = cuda.threadIdx.x
    case = t % 3
    state[t, case] = 5
    look = case  # bug: look = 2 - case
    if state[t, look] > 4:  # initcheck
        y[t] = 1


# Local memory: numba clears a local array where it is made, the C of a linked function does not


def from_cuda_c(name, signature, result, parameters, body):
    """A device function in CUDA C. ``KEEP`` has the compiler believe that others look at a local variable."""
    source = f"""
#define KEEP(x) asm volatile("" :: "l"(&x) : "memory")
struct Record {{ char tag; int value; char end; }};
extern "C" __device__ int {name}({result} *result, {parameters}) {{ {body} return 0; }}
"""
    return cuda.declare_device(name, signature, link=cuda.CUSource(source))


scattered = from_cuda_c(
    "scattered",
    "float32(int32, int32, int32)",
    "float",
    "int first, int second, int k",
    "float kept[2]; KEEP(kept); kept[first] = 1; kept[second] = 2; KEEP(kept); *result = kept[k];",
)
"""Two elements are set, and one is read."""

listed = from_cuda_c(
    "listed",
    "float32(int32, int32)",
    "float",
    "int count, int k",
    "float kept[4]; KEEP(kept); for (int j = 0; j < count; j++) kept[j] = 7 - j; KEEP(kept); *result = kept[k];",
)
"""So many of four elements are set, and one is read."""

component = from_cuda_c(
    "component",
    "float32(int32, int32)",
    "float",
    "int without, int k",
    "float f[4]; KEEP(f); for (int j = 0; j < 4; j++) if (j != without) f[j] = 4.2f; KEEP(f); *result = f[k];",
)
"""All components but one are set, and one is read."""

record = from_cuda_c(
    "record",
    "int32(uint64, int32)",
    "int",
    "unsigned long long to, int whole",
    "Record r; KEEP(r); r.tag = 42; if (whole) r.value = 0x79fffff9; r.end = 127; KEEP(r);"
    " *(Record *)to = r; KEEP(r); *result = r.value;",
)
"""A record is set, copied and one of its fields read."""


@pair(1, 2, k=ints(1), y=np.zeros(2, np.float32), like="Oclgrind uninitialized/uninitialized_private_array")
@cuda.jit
def scattered_to_the_same(k, y):
    """Indices that repeat leave an element of a local array as it was."""
    t = int32(cuda.threadIdx.x)
    other = k[0] + 1  # bug: other = k[0]
    y[t] = scattered(k[0], other, t) * 2  # initcheck


@pair(
    1,
    4,
    count=np.int32(4),
    y=np.zeros(4, np.float32),
    like="Oclgrind uninitialized/private_array_initializer_list",
)
@cuda.jit
def list_too_short(count, y):
    """The last element of a local array is not set."""
    t = int32(cuda.threadIdx.x)
    given = count  # bug: given = count - 1
    y[t] = listed(given, t) / 2  # initcheck


@pair(
    1,
    4,
    none=np.int32(4),
    y=np.zeros((2, 4), np.float32),
    like="Oclgrind uninitialized/partially_uninitialized_fract",
)
@cuda.jit
def one_of_four_components(none, y):
    """A vector has three of its four components set; whole part and fraction are computed of all."""
    t = int32(cuda.threadIdx.x)
    f = component(none, t)  # bug: f = component(none - 3, t)
    whole = int32(f)
    y[0, t] = whole  # initcheck
    y[1, t] = f - whole  # initcheck


@pair(1, 1, count=np.int32(2), y=ints(4), like="Oclgrind uninitialized/uninitialized_address")
@cuda.jit
def index_never_set(count, y):
    """An index is taken from a local array in which nobody has put it."""
    place = int32(listed(count, 1))  # bug: place = int32(listed(count - 1, 1))
    y[place & 3] = 4  # initcheck


@pair(like="Oclgrind uninitialized/padded_struct_alloca_fp")
def record_of_one_thread():
    """A thread's own record is copied with its padding; a field that was not set is then added to."""

    @cuda.jit
    def keep(at, whole, total):
        total[0] = record(at, whole) + 1  # initcheck

    output, total = cuda.to_device(np.zeros(1, PADDED)), cuda.to_device(ints(1))
    whole = 1  # bug: whole = 0
    keep[1, 1](np.uint64(output.device_ctypes_pointer.value), np.int32(whole), total)
