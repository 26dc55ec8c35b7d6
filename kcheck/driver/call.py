"""One call of the driver API: a Python function with a C signature.

Each family of calls is a function that takes the machine and returns a table from C names to :class:`DriverCall`.
The stub returns ``CUDA_ERROR_NOT_SUPPORTED`` for a function that is in no table.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from typing import Any, TypeAlias

from kcheck.cpu.interrupts import raised_by_handler
from kcheck.dataclass import dataclass
from kcheck.driver.result import DriverFault, Result
from kcheck.driver.signals import entered_from_c, keep

Function: TypeAlias = Callable[..., Result | None]
Table: TypeAlias = dict[str, "DriverCall"]

_KINDS = {
    "p": ctypes.c_uint64,  # an address, host or device
    "z": ctypes.c_uint64,  # size_t, and handles, which are opaque addresses
    "u": ctypes.c_uint32,
    "i": ctypes.c_int32,
    "B": ctypes.c_uint8,
    "H": ctypes.c_uint16,
}


@dataclass(frozen=True, slots=True)
class DriverCall:
    """A function of the driver API.

    Attributes:
        kinds: one letter per argument: ``p`` address, ``z`` size or handle, ``u`` uint32, ``i`` int32 and enums,
            ``B`` uint8, ``H`` uint16.
        function: takes one int per argument; returns a result, or None for success; may raise DriverFault.
    """

    kinds: str
    function: Function

    def callback(self, name: str, on_crash: Callable[[str, BaseException], None]) -> Any:
        """The ctypes callback. It keeps an exception that a signal handler raises for the driver's Python caller,
        and passes any other exception except DriverFault to ``on_crash``. Then it returns UNKNOWN."""
        function = self.function

        def entry(*arguments: int) -> int:
            try:
                result = function(*arguments)
                return 0 if result is None else int(result)
            except DriverFault as fault:
                return int(fault.result)
            except BaseException as error:  # no exception may pass through the C caller
                if (raised := raised_by_handler(error)) is not None:
                    keep(raised)
                else:
                    on_crash(name, error)
                return int(Result.UNKNOWN)

        entered_from_c(entry.__code__)
        return ctypes.CFUNCTYPE(ctypes.c_int, *(_KINDS[kind] for kind in self.kinds))(entry)


def put_u32(address: int, value: int) -> None:
    """Store 32 bits at a host address; do nothing if it is NULL."""
    if address:
        ctypes.c_uint32.from_address(address).value = value & 0xFFFFFFFF


def put_u64(address: int, value: int) -> None:
    """Store 64 bits at a host address; do nothing if it is NULL."""
    if address:
        ctypes.c_uint64.from_address(address).value = value


def put_f32(address: int, value: float) -> None:
    """Store a float at a host address; do nothing if it is NULL."""
    if address:
        ctypes.c_float.from_address(address).value = value


def put_text(address: int, size: int, text: str) -> None:
    """Store a NUL-terminated string, truncated to ``size`` bytes including its NUL."""
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
