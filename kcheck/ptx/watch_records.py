"""The structures in which code that watches stores records them: :mod:`kcheck.ptx.sanitizers.store_watch`."""

from __future__ import annotations

import ctypes


class WatchedBytes(ctypes.Structure):
    """Bytes for which the stores that come nearest are recorded, among the stores to a range around them."""

    _fields_ = [
        ("first", ctypes.c_uint64),  # the addresses of the bytes, half open
        ("last", ctypes.c_uint64),
        ("low", ctypes.c_uint64),  # the range, half open
        ("high", ctypes.c_uint64),
    ]


class StoreRecord(ctypes.Structure):
    """The store of one site that came nearest to the watched bytes. The last one that reached them, if any did."""

    _fields_ = [
        ("number", ctypes.c_uint64),  # of all that were recorded, in their order; 0: none
        ("distance", ctypes.c_uint64),  # in bytes; 0: it stored to the watched bytes
        ("address", ctypes.c_uint64),
        ("block", ctypes.c_uint32 * 3),
        ("thread", ctypes.c_uint32 * 3),
    ]


class StoreWatch(ctypes.Structure):
    """At ``Launch.watch``."""

    _fields_ = [
        ("watched", ctypes.c_uint64),  # address of WatchedBytes[count]
        ("count", ctypes.c_uint64),
        ("records", ctypes.c_uint64),  # address of StoreRecord[count][sites]
        ("sites", ctypes.c_uint64),
        ("stores", ctypes.c_uint64),  # how many were recorded
        ("lock", ctypes.c_uint64),  # held while a record is written
    ]
