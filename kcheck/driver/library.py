"""Calls about code: ``cuLibrary*``, ``cuKernel*``, ``cuFunc*``, occupancy.

Only PTX is loaded: :mod:`kcheck.driver.link` makes numba-cuda pass nothing else. Registers, local memory and
similar attributes come from the assembler when a program queries them.
"""

from __future__ import annotations

import ctypes
import re
import struct
from collections.abc import Callable
from dataclasses import field
from typing import TypeAlias

from kcheck.alignment import align_up, ceil_div
from kcheck.cpu.memory import OutOfMemory
from kcheck.cpu.module import Entry, LoadedModule
from kcheck.cpu.native import slots
from kcheck.dataclass import dataclass
from kcheck.driver import fatbin
from kcheck.driver.call import DriverCall, Table, get_u64, put_u32, put_u64
from kcheck.driver.cubin import CubinResources
from kcheck.driver.device import (
    MAX_BLOCKS_PER_MULTIPROCESSOR,
    MAX_THREADS_PER_BLOCK,
    MAX_THREADS_PER_MULTIPROCESSOR,
    MULTIPROCESSORS,
    SHARED_PER_BLOCK,
    shared_per_multiprocessor,
)
from kcheck.driver.machine import Handles, Machine
from kcheck.driver.ptx_link import link as link_ptx
from kcheck.driver.raising import reporting_of
from kcheck.driver.result import DriverFault, Result
from kcheck.errors import PtxError
from kcheck.model import Index3
from kcheck.model.multiprocessor import REGISTERS, RESERVED_SHARED, WARP

# CUfunction_attribute
_MAX_THREADS, _SHARED, _CONST, _LOCAL, _REGISTERS, _PTX_VERSION, _BINARY_VERSION = 0, 1, 2, 3, 4, 5, 6
_CACHE_MODE_CA, _MAX_DYNAMIC_SHARED, _CARVEOUT = 7, 8, 9
_REGISTER_UNIT = 256  # a warp's registers are allocated in units of this many (CUDA occupancy calculator)


Assembler: TypeAlias = Callable[[str, str], CubinResources]
"""A function (ptx, entry) -> resources; raises PtxError if the assembler rejects the code."""


Shape: TypeAlias = tuple[Index3, Index3, int, bool]
"""The shape of a launch: grid, block, bytes of dynamic shared memory, and whether it is cooperative."""


@dataclass
class Library:
    """One loaded module and the handles of its kernels."""

    module: LoadedModule
    kernels: dict[str, int] = field(default_factory=dict)


@dataclass
class LibraryKernel:
    """One kernel.

    Attributes:
        settings: the attributes that the program has set, by number.
        accepted: the shape of the last launch that was checked and accepted; None if there is none.
        slots_address: address of the offsets and sizes of its parameters, as
            :attr:`kcheck.cpu.native.Native.gather` reads them.
    """

    library: int
    module: LoadedModule
    entry: Entry
    settings: dict[int, int] = field(default_factory=dict)
    accepted: Shape | None = None
    name: ctypes.Array[ctypes.c_char] = field(init=False)
    slots_address: int = field(init=False)

    def __post_init__(self) -> None:
        self.name = ctypes.create_string_buffer(self.entry.name.encode())
        self._slots = slots(self.entry.params)
        self.slots_address = ctypes.addressof(self._slots)


@dataclass
class LoadedLibraries:
    """Every library and kernel.

    Attributes:
        ended: by thread, the result of a launch that ran without the driver (:mod:`kcheck.driver.repeats`). The
            thread's next launch is that one again: it returns this result.
    """

    machine: Machine
    assemble: Assembler
    libraries: Handles[Library] = field(default_factory=Handles)
    kernels: Handles[LibraryKernel] = field(default_factory=Handles)
    ended: dict[int, Result] = field(default_factory=dict)

    def resources(self, kernel: LibraryKernel) -> CubinResources:
        """The resources of a kernel. Raises DriverFault(INVALID_PTX) if the assembler rejects the code."""
        try:
            return self.assemble(kernel.module.text, kernel.entry.name)
        except PtxError as fault:
            self.machine.executor.report_compile_error(kernel.entry.name, fault)
            raise DriverFault(Result.INVALID_PTX) from fault

    def max_dynamic_shared(self, kernel: LibraryKernel) -> int:
        """Bytes of dynamic shared memory that a launch may request."""
        return kernel.settings.get(_MAX_DYNAMIC_SHARED, SHARED_PER_BLOCK)

    def occupancy(self, kernel: LibraryKernel, threads: int, dynamic_shared: int) -> int:
        """Blocks that fit on one multiprocessor at once, limited by threads, registers and shared memory."""
        if not 0 < threads <= MAX_THREADS_PER_BLOCK:
            raise DriverFault(Result.INVALID_VALUE)
        resources = self.resources(kernel)
        warps = ceil_div(threads, WARP)
        shared = resources.shared + dynamic_shared + RESERVED_SHARED
        return min(
            MAX_BLOCKS_PER_MULTIPROCESSOR,
            MAX_THREADS_PER_MULTIPROCESSOR // (warps * WARP),
            REGISTERS // self.registers(kernel, threads),
            shared_per_multiprocessor(self.machine.cc) // shared,
        )

    def registers(self, kernel: LibraryKernel, threads: int) -> int:
        """Registers that a block allocates; each warp allocates whole units."""
        per_warp = align_up(max(self.resources(kernel).registers, 1) * WARP, _REGISTER_UNIT)
        return per_warp * ceil_div(threads, WARP)

    def reset(self) -> None:
        """Unload everything."""
        for library in self.libraries:
            library.module.unload()
        self.libraries.clear()
        self.kernels.clear()


def calls(code: LoadedLibraries) -> Table:
    """The calls of this family."""
    return {**_loading(code), **_symbols(code), **_kernels(code), **_occupancy(code)}


_ELF = b"\x7fELF"
_FAT_BINARY, _WRAPPER = struct.pack("<I", fatbin.MAGIC), struct.pack("<I", fatbin.WRAPPER_MAGIC)


def _loading(code: LoadedLibraries) -> Table:
    """What loads and unloads. There is one context, so a module is a library, and a function a kernel."""
    machine = code.machine

    def load(out: int, image: int, *options: int) -> None:
        machine.require_context()
        head = ctypes.string_at(image, 4)
        if head == _ELF:
            what = "this program loads machine code (a cubin); kcheck runs PTX: load PTX text, or write a spec"
            machine.executor.report_compile_error("", PtxError(what))
            raise DriverFault(Result.NO_BINARY_FOR_GPU)
        if head == _WRAPPER:
            image = fatbin.wrapped(image)
        load_text(out, ptx_of(image) if head in (_FAT_BINARY, _WRAPPER) else ctypes.string_at(image))

    def ptx_of(address: int) -> bytes:
        try:
            return fatbin.choose_ptx(fatbin.fat_binary_at(address), machine.cc)
        except fatbin.FatBinaryError as fault:
            machine.executor.report_compile_error("", PtxError(str(fault)))
            raise DriverFault(Result.NO_BINARY_FOR_GPU) from fault

    def load_linked(out: int, images: int, count: int) -> None:
        """Load the fat binaries of a program's files as one module. NVIDIA's runtime does this by cuLink*."""
        machine.require_context()
        texts = [ptx_of(get_u64(images + 8 * n)).decode(errors="replace") for n in range(count)]
        load_text(out, link_ptx(texts).encode())

    def load_text(out: int, text: bytes) -> None:
        try:
            module = machine.executor.load(text.decode())
            reporting = reporting_of(text)
            module.reporting = machine.executor.load(reporting) if reporting else None
        except (PtxError, UnicodeDecodeError) as fault:
            machine.executor.report_compile_error("", fault)
            raise DriverFault(Result.INVALID_PTX) from fault
        put_u64(out, code.libraries.add(Library(module)))

    def load_file(out: int, path: int, *options: int) -> None:
        machine.require_context()
        try:
            with open(ctypes.string_at(path), "rb") as file:
                content = ctypes.create_string_buffer(file.read())
        except OSError:
            raise DriverFault(Result.FILE_NOT_FOUND) from None
        load(out, ctypes.addressof(content))

    def unload(handle: int) -> None:
        library = code.libraries.pop(handle)
        library.module.unload()
        for kernel in library.kernels.values():
            code.kernels.pop(kernel)

    return {
        "cuLibraryLoadData": DriverCall("ppppuppu", load),
        "cuLibraryUnload": DriverCall("z", unload),
        "cuModuleLoad": DriverCall("pp", load_file),
        "cuModuleLoadData": DriverCall("pp", load),
        "cuModuleLoadDataEx": DriverCall("ppupp", load),
        "cuModuleLoadFatBinary": DriverCall("pp", load),
        "cuModuleUnload": DriverCall("z", unload),
        "kcheckLibraryLoad": DriverCall("ppu", load_linked),
    }


def _symbols(code: LoadedLibraries) -> Table:
    """The kernels and variables of what is loaded."""

    def get_kernel(out: int, handle: int, name: int) -> None:
        library = code.libraries[handle]
        text = ctypes.string_at(name).decode()
        if text not in library.module.entries:
            raise DriverFault(Result.NOT_FOUND)
        if text not in library.kernels:
            library.kernels[text] = code.kernels.add(
                LibraryKernel(handle, library.module, library.module.entries[text])
            )
        put_u64(out, library.kernels[text])

    def kernel_count(out: int, handle: int) -> None:
        put_u32(out, len(code.libraries[handle].module.entries))

    def get_global(address: int, size: int, handle: int, name: int) -> None:
        try:
            variables = code.libraries[handle].module.variables()
        except OutOfMemory:
            raise DriverFault(Result.OUT_OF_MEMORY) from None
        except PtxError as fault:
            code.machine.executor.report_compile_error("", fault)
            raise DriverFault(Result.INVALID_PTX) from fault
        found = variables.get(ctypes.string_at(name).decode())
        if found is None:
            raise DriverFault(Result.NOT_FOUND)
        put_u64(address, found[0])
        put_u64(size, found[1])

    return {
        "cuLibraryGetKernel": DriverCall("pzp", get_kernel),
        "cuLibraryGetKernelCount": DriverCall("pz", kernel_count),
        "cuLibraryGetGlobal": DriverCall("ppzp", get_global),
        "cuModuleGetFunction": DriverCall("pzp", get_kernel),
        "cuModuleGetFunctionCount": DriverCall("pz", kernel_count),
        "cuModuleGetGlobal": DriverCall("ppzp", get_global),
        "cuModuleGetGlobal_v2": DriverCall("ppzp", get_global),
    }


_TARGET = re.compile(r"^\s*\.target\s+sm_(\d+)", re.MULTILINE)


def ptx_target(text: str) -> int:
    """The compute capability that PTX is compiled for, as 75; 0 if it does not say."""
    found = _TARGET.search(text)
    return int(found[1]) if found else 0


def _kernels(code: LoadedLibraries) -> Table:
    cc = code.machine.cc

    def attribute(out: int, number: int, handle: int, device: int = 0) -> None:
        kernel = code.kernels[handle]
        if number in kernel.settings:
            value = kernel.settings[number]
        elif number == _MAX_DYNAMIC_SHARED:
            value = SHARED_PER_BLOCK
        elif number == _CARVEOUT:
            value = -1
        elif number == _PTX_VERSION:  # the PTX may be older than the device; CUB chooses its kernels by this
            value = ptx_target(kernel.module.text) or 10 * cc[0] + cc[1]
        elif number == _BINARY_VERSION:
            value = 10 * cc[0] + cc[1]
        else:
            resources = code.resources(kernel)
            by_registers = REGISTERS // max(resources.registers, 1) // WARP * WARP
            values = {
                _MAX_THREADS: min(
                    kernel.entry.max_threads or MAX_THREADS_PER_BLOCK, MAX_THREADS_PER_BLOCK, by_registers
                ),
                _SHARED: resources.shared,
                _CONST: resources.constant,
                _LOCAL: resources.local,
                _REGISTERS: resources.registers,
                _CACHE_MODE_CA: 0,
            }
            value = values.get(number, 0)
        put_u32(out, value)

    def set_attribute(number: int, value: int, handle: int, device: int = 0) -> None:
        kernel = code.kernels[handle]
        if number == _MAX_DYNAMIC_SHARED:
            if not 0 <= value <= shared_per_multiprocessor(cc) - RESERVED_SHARED:
                raise DriverFault(Result.INVALID_VALUE)
        elif number == _CARVEOUT:
            if not -1 <= value <= 100:
                raise DriverFault(Result.INVALID_VALUE)
        else:
            raise DriverFault(Result.INVALID_VALUE)
        kernel.settings[number] = value
        kernel.accepted = None

    def name(out: int, handle: int) -> None:
        put_u64(out, ctypes.addressof(code.kernels[handle].name))

    def param_info(handle: int, index: int, offset: int, size: int) -> None:
        params = code.kernels[handle].entry.params
        if index >= len(params):
            raise DriverFault(Result.INVALID_VALUE)
        put_u64(offset, params[index][0])
        put_u64(size, params[index][1])

    def function(out: int, handle: int) -> None:
        code.kernels[handle]
        put_u64(out, handle)  # there is only one context, so a kernel is its own function

    def known(handle: int, *rest: int) -> None:
        code.kernels[handle]

    return {
        "cuKernelGetFunction": DriverCall("pz", function),
        "cuKernelGetLibrary": DriverCall("pz", lambda out, handle: put_u64(out, code.kernels[handle].library)),
        "cuKernelGetName": DriverCall("pz", name),
        "cuFuncGetName": DriverCall("pz", name),
        "cuKernelGetAttribute": DriverCall("pizi", attribute),
        "cuFuncGetAttribute": DriverCall("piz", attribute),
        "cuKernelSetAttribute": DriverCall("iizi", set_attribute),
        "cuFuncSetAttribute": DriverCall(
            "zii", lambda handle, number, value: set_attribute(number, value, handle)
        ),
        "cuKernelSetCacheConfig": DriverCall("zii", known),
        "cuFuncSetCacheConfig": DriverCall("zi", known),
        "cuKernelGetParamInfo": DriverCall("zzpp", param_info),
        "cuFuncGetParamInfo": DriverCall("zzpp", param_info),
    }


def _occupancy(code: LoadedLibraries) -> Table:
    def blocks(out: int, handle: int, threads: int, dynamic_shared: int, flags: int = 0) -> None:
        put_u32(out, code.occupancy(code.kernels[handle], threads, dynamic_shared))

    def block_size(grid: int, block: int, handle: int, function: int, dynamic_shared: int, limit: int) -> None:
        kernel = code.kernels[handle]
        # an optional C callback: bytes of shared memory as a function of the block size
        shared = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_int)(function) if function else None
        best = (0, 0, 0)
        most = min(limit or MAX_THREADS_PER_BLOCK, kernel.entry.max_threads or MAX_THREADS_PER_BLOCK)
        for threads in range(WARP, most + 1, WARP):
            count = code.occupancy(kernel, threads, shared(threads) if shared else dynamic_shared)
            best = max(best, (count * threads, threads, count))
        put_u32(block, best[1])
        put_u32(grid, best[2] * MULTIPROCESSORS)

    return {
        "cuOccupancyMaxActiveBlocksPerMultiprocessor": DriverCall("pziz", blocks),
        "cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags": DriverCall("pzizu", blocks),
        "cuOccupancyMaxPotentialBlockSize": DriverCall("ppzpzi", block_size),
    }
