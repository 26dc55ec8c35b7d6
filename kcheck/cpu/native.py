"""Two functions in machine code for launches.

``kcheck_gather`` copies a launch's parameters, which are passed as pointers, into one buffer. ``kcheck_here`` runs
blocks on the calling thread, but on another stack: the thread may be any of the program's threads, with deep calls
or a small stack, and a kernel may recurse.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Sequence

from kcheck.cpu.cache import ObjectCache
from kcheck.cpu.jit import LoadedCode, compile_ir, toolchain
from kcheck.cpu.module import version

# System V ABI, x86-64: arguments in rdi, rsi, rdx, rcx, which are passed to the function at r8 unchanged; the
# stack pointer is a multiple of 16 at a call, as r9 is.
_SWITCH = r"endbr64\0Apushq %rbp\0Amovq %rsp, %rbp\0Amovq %r9, %rsp\0Acallq *%r8\0Aleave\0Aretq"

_HERE = ctypes.CFUNCTYPE(
    ctypes.c_int32,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_int64,
    ctypes.c_int64,
    ctypes.c_void_p,
    ctypes.c_void_p,
)
_GATHER = ctypes.PYFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)


class Native:
    """The functions, in this process.

    Attributes:
        here: ``(launch, worker, first, last, run, top)``: calls ``run``, the address of a ``kcheck_run``, on a
            stack that begins at ``top``, and returns its result. Releases the GIL.
        gather: ``(to, from, slots, count)``: copies, for each slot, a pair of offset and size, from the next of
            the pointers at ``from``. Keeps the GIL.
    """

    def __init__(self, cache: ObjectCache) -> None:
        key = "\0".join(("native", toolchain(), version()))
        code = cache.get(key)
        if code is None:
            code = compile_ir(_module(), 1)
            cache.put(key, code)
        self._code = LoadedCode((code,), ("kcheck_here", "kcheck_gather"))
        self.here = _HERE(self._code.address("kcheck_here"))
        self.gather = _GATHER(self._code.address("kcheck_gather"))


def _module() -> str:
    """LLVM IR of the functions."""
    from kcheck.ptx.ir.function import FunctionBuilder  # a run from a full cache skips these
    from kcheck.ptx.ir.module import LlvmModule
    from kcheck.ptx.ir.signature import Signature

    given = {"launch": "ptr", "worker": "ptr", "first": "i64", "last": "i64", "run": "ptr", "top": "ptr"}
    here = FunctionBuilder(Signature("@kcheck_here", "i32", given), attributes="naked", exported=True)
    here.assembly(_SWITCH)
    given = {"to": "ptr", "from": "ptr", "slots": "ptr", "count": "i64"}
    gather = FunctionBuilder(Signature("@kcheck_gather", "void", given), exported=True)
    sources, slots = gather.array("from", "ptr"), gather.array("slots", "i64")
    with gather.range(gather.argument("count")) as n:
        target = gather.offset(gather.argument("to"), slots[n * 2])
        gather.copy(target, sources[n], slots[n * 2 + 1])
    functions = {made.name: made for made in (here.definition(), gather.definition())}
    return LlvmModule(gather.declarations, functions).text


class Stack:
    """``size`` bytes of stack, with a guard page below. Pages are allocated on first use."""

    def __init__(self, size: int) -> None:
        self._pages = mmap.mmap(-1, size + mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        low = ctypes.addressof(ctypes.c_char.from_buffer(self._pages))
        _protect(low, mmap.PAGESIZE)
        self.top = low + len(self._pages)


def _protect(address: int, size: int) -> None:
    """Make pages inaccessible.

    Raises:
        OSError: the system refuses; without its guard page a stack overflow would overwrite other memory.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(size), 0):
        raise OSError(ctypes.get_errno(), f"mprotect: {os.strerror(ctypes.get_errno())}")


def slots(pairs: Sequence[tuple[int, int]]) -> ctypes.Array[ctypes.c_int64]:
    """(offset, size) pairs, in bytes, as ``gather`` reads them."""
    return (ctypes.c_int64 * max(2 * len(pairs), 1))(*(field for pair in pairs for field in pair))
