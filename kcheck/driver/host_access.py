"""What calls of the API do to memory that they may not access: findings of memcheck, at the call.

On a GPU such a call returns an error, and a copy that goes a few bytes beyond an allocation may not even do that.
"""

from __future__ import annotations

from kcheck.cpu.memory import Memory, MemoryBlock, MemoryKind
from kcheck.driver.result import DriverFault, Result
from kcheck.model import Finding

_FREES = {
    MemoryKind.HOST: "cudaFreeHost",
    MemoryKind.REGISTERED: "cudaHostUnregister",
    MemoryKind.ARRAY: "cudaFreeArray",
}


def beyond(memory: Memory, verb: str, address: int, size: int) -> DriverFault:
    """The fault of a call that accesses ``size`` bytes that are not all in one allocation. ``verb``: what it does,
    such as *copies 4 bytes to*."""
    return DriverFault(Result.INVALID_VALUE, _told_beyond(memory, verb, address, size))


def _told_beyond(memory: Memory, verb: str, address: int, size: int) -> Finding:
    near = memory.nearest(address)
    if near is None or not (near[0].base <= address <= near[0].end):
        return Finding(
            "memcheck",
            f"{verb} address {address:#x}, which is in no allocation of the device",
            fix="check the order of the pointers, and the direction of the copy",
        )
    block, is_freed = near
    if is_freed:
        what = f"{verb} {block.told}, which was freed{block.told_freed}"
        return Finding("memcheck", what, fix="free the memory after its last use")
    offset = f" from byte {address - block.base} on" if address > block.base else ""
    extra = address + size - block.end
    return Finding(
        "memcheck",
        f"{verb} {block.told}{offset}: {extra} bytes past its end",
        fix="check the size of the call, which is in bytes, against that of the allocation",
    )


def wrong_free(memory: Memory, address: int) -> DriverFault:
    """The fault of a call that frees what it cannot."""
    return DriverFault(Result.INVALID_VALUE, _told_free(memory, address))


def _told_free(memory: Memory, address: int) -> Finding:
    near = memory.nearest(address)
    if near is None or not (near[0].base <= address < max(near[0].end, near[0].base + 1)):
        what = f"frees address {address:#x}, which is in no allocation of the device"
        return Finding("memcheck", what, fix="free what cudaMalloc returned, and host memory with free or delete")
    block, is_freed = near
    if is_freed:
        what = f"frees {block.told} again; it was freed{block.told_freed or ' before'}"
        return Finding("memcheck", what, fix="free it once, and set the pointer to nullptr after that")
    if block.base != address:
        what = f"frees byte {address - block.base} of {block.told}"
        return Finding("memcheck", what, fix="free the address that the allocation returned")
    return _wrong_kind(block)


def _wrong_kind(block: MemoryBlock) -> Finding:
    call = _FREES.get(block.kind, "cudaFree")
    return Finding("memcheck", f"frees {block.told} with a call for another kind of memory", fix=f"use {call}")
