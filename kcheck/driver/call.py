"""One call of the driver API: a Python function with a C signature.

A family of calls is a function from the machine to a table, C name -> :class:`Call`. What no table holds does
not exist: the stub answers ``CUDA_ERROR_NOT_SUPPORTED`` for it.
"""

from __future__ import annotations

import ctypes
import signal
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from kcheck.driver.result import DriverFault, Result

Function: TypeAlias = Callable[..., Result | None]
Table: TypeAlias = dict[str, "Call"]

_INTERRUPT_AGAIN_SECONDS = 0.02
_again: list[threading.Timer] = []  # the last Ctrl-C that is to be raised again, if any
_KINDS = {
    "p": ctypes.c_uint64,  # an address, host or device
    "z": ctypes.c_uint64,  # size_t, and handles, which are opaque addresses
    "u": ctypes.c_uint32,
    "i": ctypes.c_int32,
    "B": ctypes.c_uint8,
    "H": ctypes.c_uint16,
}


@dataclass(frozen=True, slots=True)
class Call:
    """A function of the driver API.

    Attributes:
        kinds: one letter per argument: ``p`` address, ``z`` size or handle, ``u`` uint32, ``i`` int32 and enums,
            ``B`` uint8, ``H`` uint16.
        function: takes one int per argument; returns None for success; raises DriverFault.
    """

    kinds: str
    function: Function

    def callback(self, name: str, on_crash: Callable[[str, BaseException], None]) -> Any:
        """The ctypes callback. Ctrl-C is raised again later; any other exception that is no DriverFault goes to
        ``on_crash``. Both return UNKNOWN."""
        function = self.function

        def entry(*arguments: int) -> int:
            try:
                result = function(*arguments)
            except DriverFault as fault:
                return int(fault.result)
            except KeyboardInterrupt:
                interrupt_again()
                return int(Result.UNKNOWN)
            except BaseException as crash:  # nothing may pass through the C caller
                on_crash(name, crash)
                return int(Result.UNKNOWN)
            return 0 if result is None else int(result)

        return ctypes.CFUNCTYPE(ctypes.c_int, *(_KINDS[kind] for kind in self.kinds))(entry)


def interrupt_again() -> None:
    """Have Ctrl-C, which cannot pass through the C caller, raised again in Python once the call has returned.

    Whoever learns of it in another way, and raises it, calls :func:`interrupt_no_more`.
    """

    def interrupt() -> None:
        if callable(signal.getsignal(signal.SIGINT)):
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)  # ends a sleep, too

    interrupt_no_more()
    timer = threading.Timer(_INTERRUPT_AGAIN_SECONDS, interrupt)
    _again.append(timer)
    timer.start()


def interrupt_no_more() -> None:
    """Take back what :func:`interrupt_again` has arranged, unless it has happened."""
    while _again:
        _again.pop().cancel()


def put_u32(address: int, value: int) -> None:
    """Store 32 bits at a host address that the caller gave; nothing when it gave NULL."""
    if address:
        ctypes.c_uint32.from_address(address).value = value & 0xFFFFFFFF


def put_u64(address: int, value: int) -> None:
    """Store 64 bits at a host address that the caller gave; nothing when it gave NULL."""
    if address:
        ctypes.c_uint64.from_address(address).value = value


def put_f32(address: int, value: float) -> None:
    """Store a float at a host address that the caller gave; nothing when it gave NULL."""
    if address:
        ctypes.c_float.from_address(address).value = value


def put_text(address: int, size: int, text: str) -> None:
    """Store a NUL-terminated string, cut to ``size`` bytes with its NUL."""
    if size > 0:
        ctypes.memmove(address, text.encode()[: size - 1] + b"\0", min(len(text.encode()), size - 1) + 1)


def get_u32(address: int) -> int:
    """The 32 bits at a host address."""
    return ctypes.c_uint32.from_address(address).value


def get_u64(address: int) -> int:
    """The 64 bits at a host address."""
    return ctypes.c_uint64.from_address(address).value


def get_struct(layout: str, address: int) -> tuple[int, ...]:
    """The fields of a C struct at a host address, ``layout`` as in :mod:`struct`."""
    return struct.unpack(layout, ctypes.string_at(address, struct.calcsize(layout)))
