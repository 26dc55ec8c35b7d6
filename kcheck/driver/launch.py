"""Calls that launch: ``cuLaunchKernel``, ``cuLaunchKernelEx``, ``cuLaunchCooperativeKernel``.

A launch that a GPU rejects is rejected with the same error code, before anything runs.
"""

from __future__ import annotations

import ctypes
import math
import struct
import threading
from collections.abc import Callable
from ctypes import string_at

from kcheck.cpu.executor import Ending, KernelLaunch
from kcheck.cpu.native import Native
from kcheck.driver.call import DriverCall, Table, get_struct, get_u32, get_u64
from kcheck.driver.device import MAX_BLOCK, MAX_GRID, MAX_THREADS_PER_BLOCK, MULTIPROCESSORS
from kcheck.driver.library import LibraryKernel, LoadedLibraries, Shape
from kcheck.driver.result import DriverFault, Result
from kcheck.driver.signals import keep
from kcheck.driver.staging import pointers_in, staged, with_pointers
from kcheck.model.multiprocessor import REGISTERS

# CUlaunchAttributeID; an attribute is 8 bytes of id and 64 of value. The ignored ones only affect scheduling or
# memory (priority, access and synchronization policy, memory domains, programmatic launch, carveout), not results.
_IGNORED = frozenset({0, 1, 3, 6, 7, 8, 9, 10, 12, 14})
_COOPERATIVE, _CLUSTER = 2, 4
_ATTRIBUTE_BYTES = 72
_MOST_REGISTERS = 256  # 255, rounded up to the allocation unit
_CONFIG = struct.Struct("<7I4xQQI")  # CUlaunchConfig
_BUFFER_POINTER, _BUFFER_SIZE, _BUFFER_END = 1, 2, 0  # CU_LAUNCH_PARAM_*

RESULTS = {
    Ending.FINISHED: Result.SUCCESS,
    Ending.NOT_COMPILED: Result.INVALID_PTX,
    Ending.OUT_OF_MEMORY: Result.OUT_OF_MEMORY,
    Ending.ILLEGAL_ADDRESS: Result.ILLEGAL_ADDRESS,
    Ending.MISALIGNED: Result.MISALIGNED_ADDRESS,
    Ending.TRAPPED: Result.LAUNCH_FAILED,
    Ending.STACK_OVERFLOW: Result.HARDWARE_STACK_ERROR,
    Ending.TIMED_OUT: Result.LAUNCH_TIMEOUT,
    Ending.INTERRUPTED: Result.LAUNCH_FAILED,
}


def calls(code: LoadedLibraries, wait: Callable[[int], None]) -> Table:
    """The calls of this family. ``wait(stream)`` waits for the callbacks of a stream."""

    def run(handle: int, shape: Shape, stream: int, params: int, extra: int) -> Result:
        if code.ended and (ended := code.ended.pop(threading.get_ident(), None)) is not None:
            return ended
        code.machine.require_context()
        kernel = code.kernels[handle]
        if kernel.accepted != shape:
            check_shape(code, kernel, shape)
            kernel.accepted = shape
        grid, block, shared, cooperative = shape
        content = gather(kernel, params, extra, code.machine.executor.native)
        wait(stream)
        executor = code.machine.executor
        with staged(code.machine, pointers_in(content)) as moved:
            content = with_pointers(content, moved)
            ending = executor.launch(
                KernelLaunch(kernel.module, kernel.entry.name, content, grid, block, shared, cooperative)
            )
        if ending is Ending.INTERRUPTED and executor.raised is not None:
            keep(executor.raised)
            executor.raised = None
        return RESULTS[ending]

    def launch(
        f: int,
        gx: int,
        gy: int,
        gz: int,
        bx: int,
        by: int,
        bz: int,
        shared: int,
        stream: int,
        params: int,
        extra: int,
    ) -> Result:
        return run(f, ((gx, gy, gz), (bx, by, bz), shared, False), stream, params, extra)

    def launch_cooperative(
        f: int, gx: int, gy: int, gz: int, bx: int, by: int, bz: int, shared: int, stream: int, params: int
    ) -> Result:
        return run(f, ((gx, gy, gz), (bx, by, bz), shared, True), stream, params, 0)

    def launch_ex(config: int, f: int, params: int, extra: int) -> Result:
        gx, gy, gz, bx, by, bz, shared, stream, attributes, count = _CONFIG.unpack(string_at(config, _CONFIG.size))
        cooperative = False
        for n in range(count):
            at = attributes + _ATTRIBUTE_BYTES * n
            number = get_u32(at)
            if number == _COOPERATIVE:
                cooperative = get_u32(at + 8) != 0
            elif number == _CLUSTER:
                if get_struct("<3I", at + 8) not in ((0, 0, 0), (1, 1, 1)):
                    raise DriverFault(Result.NOT_SUPPORTED)
            elif number not in _IGNORED:
                raise DriverFault(Result.NOT_SUPPORTED)
        return run(f, ((gx, gy, gz), (bx, by, bz), shared, cooperative), stream, params, extra)

    return {
        "cuLaunchKernel": DriverCall("zuuuuuuuzpp", launch),
        "cuLaunchCooperativeKernel": DriverCall("zuuuuuuuzp", launch_cooperative),
        "cuLaunchKernelEx": DriverCall("pzpp", launch_ex),
    }


_MORE_SHARED = "reduce launch.shared, or set CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES of the kernel first"


def check_shape(code: LoadedLibraries, kernel: LibraryKernel, shape: Shape) -> None:
    """Reject a launch that a GPU would reject.

    Raises:
        DriverFault: INVALID_VALUE for sizes beyond CUDA's limits, LAUNCH_OUT_OF_RESOURCES for too many registers,
            COOPERATIVE_LAUNCH_TOO_LARGE for more blocks than can be resident at once.
    """
    grid, block, shared, cooperative = shape
    inside = all(0 < size <= most for size, most in zip((*grid, *block), (*MAX_GRID, *MAX_BLOCK), strict=True))
    most_threads = min(MAX_THREADS_PER_BLOCK, kernel.entry.max_threads or MAX_THREADS_PER_BLOCK)
    threads, most_shared = math.prod(block), code.max_dynamic_shared(kernel)
    code.machine.refusal = ("", "")
    if threads > most_threads:
        what = f"the block has {threads:,} threads, but the kernel is compiled for at most {most_threads:,}"
        what += " (__launch_bounds__, .maxntid)" if most_threads < MAX_THREADS_PER_BLOCK else ""
        code.machine.refusal = (what, f"launch at most {most_threads:,} threads per block, or raise the bound")
    elif shared > most_shared:
        what = f"the launch has {shared:,} bytes of dynamic shared memory, but may have at most {most_shared:,}"
        code.machine.refusal = (what, _MORE_SHARED)
    if not inside or threads > most_threads or shared > most_shared:
        raise DriverFault(Result.INVALID_VALUE)
    # skip the assembler if even the maximum number of registers per thread fits
    if threads * _MOST_REGISTERS > REGISTERS and code.registers(kernel, threads) > REGISTERS:
        raise DriverFault(Result.LAUNCH_OUT_OF_RESOURCES)
    if cooperative and math.prod(grid) > MULTIPROCESSORS * code.occupancy(kernel, threads, shared):
        raise DriverFault(Result.COOPERATIVE_LAUNCH_TOO_LARGE)


def gather(kernel: LibraryKernel, params: int, extra: int, native: Native) -> bytes:
    """The bytes of the parameters, from an array of pointers or from one buffer (``extra``).

    Raises:
        DriverFault: INVALID_VALUE if the buffer is too small, or ``extra`` contains an unknown option.
    """
    if params:
        content = ctypes.create_string_buffer(kernel.entry.param_bytes)
        native.gather(ctypes.addressof(content), params, kernel.slots_address, len(kernel.entry.params))
        return content.raw
    buffer = size = 0
    while extra and (kind := get_u64(extra)) != _BUFFER_END:
        if kind == _BUFFER_POINTER:
            buffer = get_u64(extra + 8)
        elif kind == _BUFFER_SIZE:
            size = get_u64(get_u64(extra + 8))
        else:
            raise DriverFault(Result.INVALID_VALUE)
        extra += 16
    if size < kernel.entry.param_bytes:
        raise DriverFault(Result.INVALID_VALUE)
    return string_at(buffer, kernel.entry.param_bytes) if buffer else b""
