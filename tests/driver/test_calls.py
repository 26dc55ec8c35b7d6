"""The driver API as a C program sees it: results and what is stored, call by call."""

from __future__ import annotations

import ctypes
import functools
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from kcheck.cpu.cache import ObjectCache
from kcheck.cpu.executor import Executor
from kcheck.cpu.memory import Memory
from kcheck.driver.install import calls
from kcheck.driver.machine import Machine
from kcheck.driver.result import DriverFault, Result

MIB = 1 << 20
PTX = b"""
.version 8.7
.target sm_80
.address_size 64
.visible .global .align 4 .b32 counter[3] = {7, 8, 9};
.visible .entry fill(.param .u64 out, .param .u8 flag, .param .align 8 .b8 pair[16])
.maxntid 128, 1, 1
{
    ret;
}
\0"""


class Api:
    """Calls by name: raises DriverFault for a result that is not success."""

    def __init__(self, folder: Path) -> None:
        self.findings: list[object] = []
        cache = ObjectCache(folder)
        executor = Executor(Memory(64 * MIB), 1, cache, lambda: 0.0, self.findings.append, lambda text: None)
        self.table = calls(Machine((8, 0), executor, clock=iter(range(1000)).__next__), cache)

    def __call__(self, name: str, *arguments: int) -> None:
        result = self.table[name].function(*arguments)
        if result is not None and result != Result.SUCCESS:
            raise DriverFault(result)

    def u64(self, name: str, *arguments: int) -> int:
        """A call whose first argument is where a 64-bit result goes."""
        out = ctypes.c_uint64(0)
        self(name, ctypes.addressof(out), *arguments)
        return out.value

    def u32(self, name: str, *arguments: int) -> int:
        """A call whose first argument is where a 32-bit result goes."""
        return self.u64(name, *arguments) & 0xFFFFFFFF


@pytest.fixture
def api(tmp_path: Path) -> Api:
    """The calls, with the primary context current."""
    made = Api(tmp_path)
    made("cuCtxPushCurrent", made.u64("cuDevicePrimaryCtxRetain", 0))
    return made


def fails(api: Api, result: Result, name: str, *arguments: int) -> None:
    """The call returns this result."""
    with pytest.raises(DriverFault) as caught:
        api(name, *arguments)
    assert caught.value.result is result


def test_one_device_with_the_chosen_capability(api: Api) -> None:
    """There is device 0 and no other; its attributes tell the compute capability."""
    assert api.u32("cuDeviceGetCount") == 1
    assert (api.u32("cuDeviceGetAttribute", 75, 0), api.u32("cuDeviceGetAttribute", 76, 0)) == (8, 0)
    fails(api, Result.INVALID_DEVICE, "cuDeviceGet", 0, 1)


def test_contexts_are_a_stack_per_thread(api: Api) -> None:
    """What one thread pushes is not current in another, and an empty stack cannot be popped."""
    seen: list[int] = []
    other = threading.Thread(target=lambda: seen.append(api.u64("cuCtxGetCurrent")))
    other.start()
    other.join()
    assert seen == [0]
    assert api.u64("cuCtxPopCurrent") == api.u64("cuDevicePrimaryCtxRetain", 0)
    fails(api, Result.INVALID_CONTEXT, "cuCtxPopCurrent", 0)
    fails(api, Result.INVALID_CONTEXT, "cuCtxSynchronize")


def test_copies_round_trip(api: Api) -> None:
    """What is copied to the device comes back, in whole and from the middle."""
    host = ctypes.create_string_buffer(b"abcdefgh", 8)
    back = ctypes.create_string_buffer(8)
    device = api.u64("cuMemAlloc", 8)
    api("cuMemcpyHtoD", device, ctypes.addressof(host), 8)
    api("cuMemsetD8", device + 2, 0x5A, 2)
    api("cuMemcpyDtoH", ctypes.addressof(back), device, 8)
    assert back.raw == b"abZZefgh"


@pytest.mark.parametrize(("bits", "value", "text"), [(16, 0x4241, b"AB"), (32, 0x44434241, b"ABCD")])
def test_wide_memsets_repeat_their_pattern(api: Api, bits: int, value: int, text: bytes) -> None:
    """A memset of 16 or 32 bits counts elements, not bytes."""
    device = api.u64("cuMemAlloc", 12)
    api(f"cuMemsetD{bits}", device, value, 96 // bits)
    assert ctypes.string_at(device, 12) == text * (12 // len(text))


@pytest.mark.parametrize("name", ["cuMemcpyHtoD", "cuMemcpyDtoH"])
def test_a_copy_past_the_end_is_refused(api: Api, name: str) -> None:
    """A copy that leaves its allocation is CUDA_ERROR_INVALID_VALUE, and copies nothing."""
    host = ctypes.create_string_buffer(16)
    device = api.u64("cuMemAlloc", 8)
    arguments = [device, ctypes.addressof(host)] if name == "cuMemcpyHtoD" else [ctypes.addressof(host), device]
    fails(api, Result.INVALID_VALUE, name, *arguments, 9)
    assert host.raw == bytes(16)


def test_an_allocation_that_does_not_fit_is_out_of_memory(api: Api) -> None:
    """No bytes is an invalid value; more than the device has is out of memory."""
    fails(api, Result.INVALID_VALUE, "cuMemAlloc", 0, 0)
    fails(api, Result.OUT_OF_MEMORY, "cuMemAlloc", 0, 65 * MIB)


def test_a_block_is_freed_once_and_by_its_own_call(api: Api) -> None:
    """A second free, and a free of pinned memory as device memory, are invalid values; NULL is fine."""
    device, host = api.u64("cuMemAlloc", 8), api.u64("cuMemHostAlloc", 8, 0)
    api("cuMemFree", device)
    fails(api, Result.INVALID_VALUE, "cuMemFree", device)
    fails(api, Result.INVALID_VALUE, "cuMemFree", host)
    api("cuMemFreeHost", host)
    api("cuMemFree", 0)


def test_registered_memory_is_its_own_device_pointer(api: Api) -> None:
    """Registered host memory is mapped where it is; twice is an error, and so is one unregister too many."""
    host = ctypes.create_string_buffer(64)
    at = ctypes.addressof(host)
    api("cuMemHostRegister", at, 64, 2)
    assert api.u64("cuMemHostGetDevicePointer", at, 0) == at
    fails(api, Result.HOST_MEMORY_ALREADY_REGISTERED, "cuMemHostRegister", at, 64, 2)
    api("cuMemHostUnregister", at)
    fails(api, Result.HOST_MEMORY_NOT_REGISTERED, "cuMemHostUnregister", at)
    fails(api, Result.INVALID_VALUE, "cuMemHostGetDevicePointer", 0, at, 0)


def test_a_pool_keeps_its_attributes_and_counts_its_bytes(api: Api) -> None:
    """Attributes 1 to 3 are flags of 4 bytes, which are set; 4 is a threshold; 7 and 8 are the bytes in use, now
    and at most."""
    pool = api.u64("cuDeviceGetDefaultMemPool", 0)
    value = ctypes.c_uint64(7 << 32)
    at = ctypes.addressof(value)

    def get(number: int) -> int:
        api("cuMemPoolGetAttribute", pool, number, at)
        return value.value

    assert get(1) == 7 << 32 | 1
    value.value = 1 << 40
    api("cuMemPoolSetAttribute", pool, 4, at)
    first, second = (api.u64("cuMemAllocFromPoolAsync", size, pool, 0) for size in (100, 20))
    api("cuMemFreeAsync", first, 0)
    assert [get(number) for number in (4, 5, 7, 8)] == [1 << 40, 20, 20, 120]
    value.value = 0
    api("cuMemPoolSetAttribute", pool, 8, at)
    assert get(8) == 20
    api("cuMemFreeAsync", second, 0)
    fails(api, Result.INVALID_VALUE, "cuMemPoolGetAttribute", pool, 9, at)


def test_memory_info_counts_live_bytes(api: Api) -> None:
    """Free memory falls by what is allocated and rises when it is freed."""
    free, total = ctypes.c_uint64(), ctypes.c_uint64()

    def left() -> int:
        api("cuMemGetInfo", ctypes.addressof(free), ctypes.addressof(total))
        return free.value

    before = left()
    device = api.u64("cuMemAlloc", MIB)
    assert before - left() == MIB
    api("cuMemFree", device)
    assert (left(), total.value) == (before, 64 * MIB)


def test_an_address_knows_its_block(api: Api) -> None:
    """Any address within an allocation tells its base and size; one that is in none is not found."""
    device = api.u64("cuMemAlloc", 100)
    base, size = ctypes.c_uint64(), ctypes.c_uint64()
    api("cuMemGetAddressRange", ctypes.addressof(base), ctypes.addressof(size), device + 99)
    assert (base.value, size.value) == (device, 100)
    fails(api, Result.NOT_FOUND, "cuMemGetAddressRange", 0, 0, device + 100)


def test_freed_handles_are_invalid(api: Api) -> None:
    """A stream or event that was destroyed, or is of the other kind, is an invalid handle."""
    stream, event = api.u64("cuStreamCreate", 0), api.u64("cuEventCreate", 0)
    fails(api, Result.INVALID_HANDLE, "cuStreamSynchronize", event)
    api("cuStreamDestroy", stream)
    fails(api, Result.INVALID_HANDLE, "cuStreamSynchronize", stream)
    fails(api, Result.INVALID_HANDLE, "cuEventRecord", event, stream)


def test_events_measure_the_clock(api: Api) -> None:
    """Milliseconds between two records; an event that was not recorded, or has no timing, measures nothing."""
    first, last, untimed = (api.u64("cuEventCreate", flags) for flags in (0, 0, 2))
    api("cuEventRecord", first, 0)
    out = ctypes.c_float()
    fails(api, Result.INVALID_HANDLE, "cuEventElapsedTime", 0, first, last)
    api("cuEventRecord", last, 0)
    api("cuEventElapsedTime", ctypes.addressof(out), first, last)
    assert out.value == 1000.0
    api("cuEventRecord", untimed, 0)
    fails(api, Result.INVALID_HANDLE, "cuEventElapsedTime", 0, first, untimed)


def test_callbacks_run_elsewhere_and_in_order(api: Api) -> None:
    """Host functions run on another thread, in the order of their stream, and a synchronize waits for them."""
    seen: list[tuple[int, bool]] = []
    here = threading.get_ident()
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    functions = [kind(lambda data, n=n: seen.append((n, threading.get_ident() == here))) for n in range(5)]
    stream = api.u64("cuStreamCreate", 0)
    for function in functions:
        api("cuLaunchHostFunc", stream, ctypes.cast(function, ctypes.c_void_p).value or 0, 0)
    api("cuStreamSynchronize", stream)
    assert seen == [(n, False) for n in range(5)]


@pytest.fixture
def library(api: Api) -> int:
    """A loaded module."""
    image = ctypes.create_string_buffer(PTX)
    return api.u64("cuLibraryLoadData", ctypes.addressof(image), 0, 0, 0, 0, 0, 0)


@functools.cache
def _named(name: str) -> ctypes.Array[ctypes.c_char]:
    return ctypes.create_string_buffer(name.encode())


def test_a_kernel_tells_its_parameters(api: Api, library: int) -> None:
    """Each parameter lies at its own alignment, in order; past the last there is none."""
    kernel = api.u64("cuLibraryGetKernel", library, ctypes.addressof(_named("fill")))
    offset, size = ctypes.c_uint64(), ctypes.c_uint64()
    found = []
    for n in range(3):
        api("cuKernelGetParamInfo", kernel, n, ctypes.addressof(offset), ctypes.addressof(size))
        found.append((offset.value, size.value))
    assert found == [(0, 8), (8, 1), (16, 16)]
    fails(api, Result.INVALID_VALUE, "cuKernelGetParamInfo", kernel, 3, 0, 0)


def test_module_variables_are_in_device_memory(api: Api, library: int) -> None:
    """A variable has an address and its initial value; what no module has is not found; unload frees them."""
    out, size = ctypes.c_uint64(), ctypes.c_uint64()
    name = _named("counter")
    api("cuLibraryGetGlobal", ctypes.addressof(out), ctypes.addressof(size), library, ctypes.addressof(name))
    assert size.value == 12
    assert list((ctypes.c_uint32 * 3).from_address(out.value)) == [7, 8, 9]
    fails(api, Result.NOT_FOUND, "cuLibraryGetGlobal", 0, 0, library, ctypes.addressof(_named("absent")))
    api("cuLibraryUnload", library)
    fails(api, Result.NOT_FOUND, "cuMemGetAddressRange", 0, 0, out.value)


@pytest.mark.parametrize(
    ("grid", "block", "shared"),
    [
        ((0, 1, 1), (1, 1, 1), 0),
        ((1, 1, 1), (1, 0, 1), 0),
        ((1, 1, 1), (129, 1, 1), 0),
        ((1, 1, 1), (1, 1, 65), 0),
        ((1, 65536, 1), (1, 1, 1), 0),
        ((1, 1, 1), (1, 1, 1), (48 << 10) + 1),
        ((1, 1, 1), (1, 1, 1), 0xFFFFFFFF),
    ],
)
def test_a_launch_that_a_gpu_refuses_is_refused(api: Api, library: int, grid, block, shared) -> None:
    """Empty, too large, over .maxntid, or with more shared memory than a block may have: an invalid value."""
    kernel = api.u64("cuLibraryGetKernel", library, ctypes.addressof(_named("fill")))
    params = (ctypes.c_uint64 * 3)(*[ctypes.addressof(ctypes.create_string_buffer(16))] * 3)
    fails(
        api, Result.INVALID_VALUE, "cuLaunchKernel", kernel, *grid, *block, shared, 0, ctypes.addressof(params), 0
    )


@pytest.mark.parametrize(
    ("image", "result"),
    [
        (b"\x7fELF\2\1\1", Result.NO_BINARY_FOR_GPU),
        (b"\x50\xed\x55\xba", Result.NO_BINARY_FOR_GPU),
        (b"not PTX at all", Result.INVALID_PTX),
        (b"\xff\xfe", Result.INVALID_PTX),
        (b"", Result.INVALID_PTX),
    ],
)
def test_what_is_not_ptx_does_not_load(api: Api, image: bytes, result: Result) -> None:
    """Machine code and junk are refused with the codes of a GPU that has no such binary."""
    buffer = ctypes.create_string_buffer(image, len(image) + 8)
    fails(api, result, "cuLibraryLoadData", 0, ctypes.addressof(buffer), 0, 0, 0, 0, 0, 0)


def test_resources_are_the_assembler_s(api: Api, library: int) -> None:
    """Registers come from a real link of the same code; the block limit is the smaller of .maxntid and theirs."""
    kernel = api.u64("cuLibraryGetKernel", library, ctypes.addressof(_named("fill")))
    assert 0 < api.u32("cuKernelGetAttribute", 4, kernel, 0) < 32
    assert api.u32("cuKernelGetAttribute", 0, kernel, 0) == 128


HUNGRY = b"""
.version 8.7
.target sm_80
.address_size 64
.visible .entry hungry(.param .u64 out)
{
    .reg .b64 %rd<2>;
    .reg .b32 %r<101>;
    ld.param.u64 %rd1, [out];
    LOADS
    bar.sync 0;
    STORES
    ret;
}
\0"""


def test_more_registers_than_there_are(api: Api) -> None:
    """A block whose threads take more registers than a multiprocessor has is out of resources, as on a GPU."""
    loads = "\n".join(f"ld.volatile.global.u32 %r{n}, [%rd1+{4 * n}];" for n in range(1, 101))
    stores = "\n".join(f"st.volatile.global.u32 [%rd1+{4 * n}], %r{n};" for n in range(1, 101))
    image = ctypes.create_string_buffer(
        HUNGRY.replace(b"LOADS", loads.encode()).replace(b"STORES", stores.encode())
    )
    library = api.u64("cuLibraryLoadData", ctypes.addressof(image), 0, 0, 0, 0, 0, 0)
    kernel = api.u64("cuLibraryGetKernel", library, ctypes.addressof(_named("hungry")))
    assert api.u32("cuKernelGetAttribute", 4, kernel, 0) > 100
    params = (ctypes.c_uint64 * 1)(ctypes.addressof(ctypes.c_uint64(0)))
    launch = ("cuLaunchKernel", kernel, 1, 1, 1, 1024, 1, 1, 0, 0, ctypes.addressof(params), 0)
    fails(api, Result.LAUNCH_OUT_OF_RESOURCES, *launch)


def test_reset_frees_everything(api: Api) -> None:
    """After a reset of the primary context nothing is allocated and no stream is left."""
    device, stream = api.u64("cuMemAlloc", 8), api.u64("cuStreamCreate", 0)
    api("cuDevicePrimaryCtxReset", 0)
    fails(api, Result.INVALID_VALUE, "cuMemFree", device)
    fails(api, Result.INVALID_HANDLE, "cuStreamSynchronize", stream)


def test_every_call_fits_its_signature(api: Api) -> None:
    """A function takes as many arguments as its C signature says, defaults aside."""
    for name, call in api.table.items():
        function: Callable[..., object] = call.function
        code = getattr(function, "__func__", function).__code__
        bound = int(hasattr(function, "__self__"))
        most = code.co_argcount - bound
        least = most - len(function.__defaults__ or ())
        has_rest = bool(code.co_flags & 0x04)
        assert least <= len(call.kinds), name
        assert has_rest or len(call.kinds) <= most, name


LOOKS_UP = """
import ctypes, os
from kcheck.device.cuda import driver_answers
from kcheck.driver.install import install, settings
stub = install(settings(os.environ), print, print).stub
stub.answer_dlsym()
driver = ctypes.CDLL("libcuda.so.1")
made, context = ctypes.c_uint64(), ctypes.c_void_p()
results = [
    driver.cuInit(0),
    driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0),
    driver.cuCtxSetCurrent(context),
    driver.cuMemAlloc_v2(ctypes.byref(made), ctypes.c_size_t(100)),
    driver.cuMemFree_v2(made),
    driver.cuMemFree_v2(made),
]
print(results, made.value > 0, driver_answers())
"""


def test_a_library_that_looks_names_up_by_dlsym_finds_them() -> None:
    """As CuPy does. The second free fails. A process with this driver still has no GPU."""
    done = subprocess.run([sys.executable, "-c", LOOKS_UP], capture_output=True, text=True, check=False)
    assert done.stdout == "[0, 0, 0, 0, 0, 1] True False\n", done.stderr
