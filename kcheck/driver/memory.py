"""Calls about memory: ``cuMem*`` and ``cuPointer*``, memory pools.

A device address is a host address, so a copy is a memmove, and mapped memory has the same address on the device.
Every call is complete when it returns: asynchronous calls first wait for the stream's host callbacks.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from kcheck.cpu.memory import Memory, MemoryBlock, MemoryKind, OutOfMemory
from kcheck.driver.call import DriverCall, Table, get_u32, get_u64, put_u32, put_u64
from kcheck.driver.host_access import beyond, wrong_free
from kcheck.driver.machine import PRIMARY_CONTEXT, Handles, Machine
from kcheck.driver.result import DriverFault, Result

# CUpointer_attribute
_CONTEXT, _MEMORY_TYPE, _DEVICE_POINTER, _HOST_POINTER = 1, 2, 3, 4
_SYNC_MEMOPS, _BUFFER_ID, _IS_MANAGED, _DEVICE_ORDINAL, _RANGE_START, _RANGE_SIZE, _MAPPED = 6, 7, 8, 9, 11, 12, 13
_HOST_MEMORY, _DEVICE_MEMORY = 1, 2  # CUmemorytype
_POOL_FLAGS = (1, 2, 3)  # CU_MEMPOOL_ATTR_REUSE_*, of 4 bytes
_POOL_THRESHOLD, _POOL_RESERVED, _POOL_USED, _POOL_MOST = 4, (5, 6), 7, 8
_READ_WRITE = 3  # CU_MEM_ACCESS_FLAGS_PROT_READWRITE
_WIDE = {_CONTEXT, _DEVICE_POINTER, _HOST_POINTER, _BUFFER_ID, _RANGE_START, _RANGE_SIZE}

_TO, _FROM = "copies {} bytes to", "copies {} bytes from"

Wait = Callable[[int], None]


def calls(machine: Machine, wait: Wait) -> Table:
    """The calls of this family. ``wait(stream)`` waits for the callbacks of a stream."""
    return {**_allocation(machine), **_copies(machine, wait), **_queries(machine), **_pools(machine, wait)}


def _allocate(machine: Machine, out: int, size: int, kind: MemoryKind) -> None:
    machine.require_context()
    if size == 0:
        raise DriverFault(Result.INVALID_VALUE)
    try:
        put_u64(out, machine.memory.allocate(size, kind))
    except OutOfMemory:
        raise DriverFault(Result.OUT_OF_MEMORY) from None


def _free(memory: Memory, address: int, *kinds: MemoryKind) -> None:
    """Free a block of one of these kinds; freeing NULL does nothing."""
    block = memory.find(address)
    if address and (block is None or block.kind not in kinds or not memory.free(address)):
        raise wrong_free(memory, address)


def _allocation(machine: Machine) -> Table:
    memory = machine.memory

    def register(address: int, size: int, flags: int) -> None:
        if not address or not size:
            raise DriverFault(Result.INVALID_VALUE)
        if not memory.register(address, size):
            raise DriverFault(Result.HOST_MEMORY_ALREADY_REGISTERED)

    def unregister(address: int) -> None:
        if not memory.unregister(address):
            raise DriverFault(Result.HOST_MEMORY_NOT_REGISTERED)

    def device_pointer(out: int, address: int, flags: int) -> None:
        _host_block(memory, address)
        put_u64(out, address)

    def host_flags(out: int, address: int) -> None:
        _host_block(memory, address)
        put_u32(out, 0)

    return {
        "cuMemAlloc": DriverCall("pz", lambda out, size: _allocate(machine, out, size, MemoryKind.DEVICE)),
        "cuMemAllocManaged": DriverCall(
            "pzu", lambda out, size, flags: _allocate(machine, out, size, MemoryKind.MANAGED)
        ),
        "cuMemHostAlloc": DriverCall(
            "pzu", lambda out, size, flags: _allocate(machine, out, size, MemoryKind.HOST)
        ),
        "cuMemAllocHost": DriverCall("pz", lambda out, size: _allocate(machine, out, size, MemoryKind.HOST)),
        "cuMemFree": DriverCall(
            "p", lambda address: _free(memory, address, MemoryKind.DEVICE, MemoryKind.MANAGED)
        ),
        "cuMemFreeHost": DriverCall("p", lambda address: _free(memory, address, MemoryKind.HOST)),
        "cuMemHostRegister": DriverCall("pzu", register),
        "cuMemHostUnregister": DriverCall("p", unregister),
        "cuMemHostGetDevicePointer": DriverCall("ppu", device_pointer),
        "cuMemHostGetFlags": DriverCall("pp", host_flags),
    }


def _host_block(memory: Memory, address: int) -> MemoryBlock:
    block = memory.find(address)
    if block is None or block.kind is MemoryKind.DEVICE:
        raise DriverFault(Result.INVALID_VALUE)
    return block


def _copies(machine: Machine, wait: Wait) -> Table:
    memory = machine.memory

    def require(address: int, size: int, verb: str) -> None:
        if size and memory.find(address, size) is None:
            raise beyond(memory, verb.format(size), address, size)

    def copy(target: int, source: int, size: int) -> None:
        machine.require_context()
        if size:
            ctypes.memmove(target, source, size)

    def to_device(target: int, source: int, size: int, stream: int = 0) -> None:
        require(target, size, _TO)
        wait(stream)
        copy(target, source, size)
        memory.define(target, size)

    def to_host(target: int, source: int, size: int, stream: int = 0) -> None:
        require(source, size, _FROM)
        wait(stream)
        copy(target, source, size)

    def within(target: int, source: int, size: int, stream: int = 0) -> None:
        require(source, size, _FROM)
        require(target, size, _TO)
        anywhere(target, source, size, stream)

    def anywhere(target: int, source: int, size: int, stream: int = 0) -> None:
        wait(stream)
        copy(target, source, size)
        memory.copied(target, source, size)

    def fill(itemsize: int) -> Callable[..., None]:
        def memset(target: int, value: int, count: int, stream: int = 0) -> None:
            machine.require_context()
            require(target, count * itemsize, "sets {} bytes of")
            wait(stream)
            memory.define(target, count * itemsize)
            if itemsize == 1:
                ctypes.memset(target, value, count)
            else:
                pattern = value.to_bytes(itemsize, "little")
                for start in range(0, count, 1 << 20):  # in chunks, so that the pattern stays small
                    piece = min(count - start, 1 << 20) * itemsize
                    ctypes.memmove(target + start * itemsize, pattern * (piece // itemsize), piece)

        return memset

    table: Table = {}
    for name, function in (("HtoD", to_device), ("DtoH", to_host), ("DtoD", within), ("", anywhere)):
        table[f"cuMemcpy{name}"] = DriverCall("ppz", function)
        table[f"cuMemcpy{name}Async"] = DriverCall("ppzz", function)
    for bits, kind in ((8, "B"), (16, "H"), (32, "u")):
        table[f"cuMemsetD{bits}"] = DriverCall(f"p{kind}z", fill(bits // 8))
        table[f"cuMemsetD{bits}Async"] = DriverCall(f"p{kind}zz", fill(bits // 8))
    return table


def _queries(machine: Machine) -> Table:
    memory = machine.memory

    def info(free: int, total: int) -> None:
        machine.require_context()
        put_u64(free, memory.capacity - memory.used)
        put_u64(total, memory.capacity)

    def address_range(base: int, size: int, address: int) -> None:
        block = memory.find(address)
        if block is None:
            raise DriverFault(Result.NOT_FOUND)
        put_u64(base, block.base)
        put_u64(size, block.size)

    def value(attribute: int, address: int, block: MemoryBlock) -> int:
        on_host = block.kind in (MemoryKind.HOST, MemoryKind.REGISTERED)
        values = {
            _CONTEXT: PRIMARY_CONTEXT,
            _MEMORY_TYPE: _HOST_MEMORY if on_host else _DEVICE_MEMORY,
            _DEVICE_POINTER: address,
            _HOST_POINTER: address if block.kind is not MemoryKind.DEVICE else 0,
            _SYNC_MEMOPS: 0,
            _BUFFER_ID: block.serial,
            _IS_MANAGED: int(block.kind is MemoryKind.MANAGED),
            _DEVICE_ORDINAL: 0,
            _RANGE_START: block.base,
            _RANGE_SIZE: block.size,
            _MAPPED: 1,
        }
        if attribute not in values:
            raise DriverFault(Result.NOT_SUPPORTED)
        return values[attribute]

    def attribute(out: int, number: int, address: int) -> None:
        block = memory.find(address)
        if block is None or (number == _HOST_POINTER and block.kind is MemoryKind.DEVICE):
            raise DriverFault(Result.INVALID_VALUE)
        (put_u64 if number in _WIDE else put_u32)(out, value(number, address, block))

    def attributes(count: int, numbers: int, outs: int, address: int) -> None:
        block = memory.find(address)
        for n in range(count):
            number, out = get_u32(numbers + 4 * n), get_u64(outs + 8 * n)
            # By the call's contract, every attribute of unknown memory is 0.
            (put_u64 if number in _WIDE else put_u32)(out, value(number, address, block) if block else 0)

    return {
        "cuMemGetInfo": DriverCall("pp", info),
        "cuMemGetAddressRange": DriverCall("ppp", address_range),
        "cuPointerGetAttribute": DriverCall("pip", attribute),
        "cuPointerGetAttributes": DriverCall("uppp", attributes),
    }


def _pools(machine: Machine, wait: Wait) -> Table:
    """Stream-ordered allocation. Pools do not retain freed memory, so what is reserved is what is used."""
    pools: Handles[dict[int, int]] = Handles()
    default = pools.add({})
    chosen = [default]
    taken: dict[int, tuple[dict[int, int], int]] = {}  # by address: the attributes of the pool, and the bytes

    def choose(device: int, pool: int) -> None:
        pools[pool]
        chosen[0] = pool

    def allocate(out: int, size: int, pool: int, stream: int) -> None:
        values = pools[pool]
        wait(stream)
        _allocate(machine, out, size, MemoryKind.DEVICE)
        taken[get_u64(out)] = values, size
        values[_POOL_USED] = values.get(_POOL_USED, 0) + size
        values[_POOL_MOST] = max(values.get(_POOL_MOST, 0), values[_POOL_USED])

    def free(address: int, stream: int) -> None:
        wait(stream)
        _free(machine.memory, address, MemoryKind.DEVICE, MemoryKind.MANAGED)
        values, size = taken.pop(address, ({}, 0))
        values[_POOL_USED] = values.get(_POOL_USED, 0) - size

    def destroy(pool: int) -> None:
        pools.pop(pool)
        if chosen[0] == pool:
            chosen[0] = default

    def attribute(pool: int, number: int, out: int) -> None:
        values = pools[pool]
        if not 0 < number <= _POOL_MOST:
            raise DriverFault(Result.INVALID_VALUE)
        kept = number + 2 if number in _POOL_RESERVED else number
        value = values.get(kept, int(number in _POOL_FLAGS))
        (put_u32 if number in _POOL_FLAGS else put_u64)(out, value)

    def set_attribute(pool: int, number: int, at: int) -> None:
        values = pools[pool]
        if number in _POOL_FLAGS:
            values[number] = get_u32(at)
        elif number == _POOL_THRESHOLD:
            values[number] = get_u64(at)
        elif number in (_POOL_MOST, _POOL_MOST - 2) and get_u64(at) == 0:
            values[_POOL_MOST] = values.get(_POOL_USED, 0)
        else:
            raise DriverFault(Result.INVALID_VALUE)

    def known(pool: int, *rest: int) -> None:
        pools[pool]

    return {
        "cuDeviceGetDefaultMemPool": DriverCall("pi", lambda out, device: put_u64(out, default)),
        "cuDeviceGetMemPool": DriverCall("pi", lambda out, device: put_u64(out, chosen[0])),
        "cuDeviceSetMemPool": DriverCall("iz", choose),
        "cuMemGetDefaultMemPool": DriverCall("ppi", lambda out, location, kind: put_u64(out, default)),
        "cuMemGetMemPool": DriverCall("ppi", lambda out, location, kind: put_u64(out, chosen[0])),
        "cuMemPoolCreate": DriverCall("pp", lambda out, properties: put_u64(out, pools.add({}))),
        "cuMemPoolDestroy": DriverCall("z", destroy),
        "cuMemPoolSetAttribute": DriverCall("zip", set_attribute),
        "cuMemPoolGetAttribute": DriverCall("zip", attribute),
        "cuMemPoolSetAccess": DriverCall("zpz", known),
        "cuMemPoolGetAccess": DriverCall("pzp", lambda out, pool, location: put_u32(out, _READ_WRITE)),
        "cuMemPoolTrimTo": DriverCall("zz", known),
        "cuMemAllocAsync": DriverCall("pzz", lambda out, size, stream: allocate(out, size, chosen[0], stream)),
        "cuMemAllocFromPoolAsync": DriverCall("pzzz", allocate),
        "cuMemFreeAsync": DriverCall("pz", free),
    }
