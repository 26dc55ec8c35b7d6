"""The records at ``Worker.origins`` of :mod:`kcheck.ptx.abi`: where undefined and wrapped values came from."""

from __future__ import annotations

import ctypes


class Kept(ctypes.Structure):
    """The origin of a result computed from undefined bits, which was stored in shared or local memory."""

    _fields_ = [
        ("word", ctypes.c_uint64),  # the address of the result, divided by 4
        ("address", ctypes.c_uint64),  # as in Origin
        ("number", ctypes.c_uint64),
        ("site", ctypes.c_uint64),  # 1 + the site; 0: not known
    ]


KEPT = 1 << 16
"""The entries at ``Origins.kept``: one for each word of the largest shared memory."""


class Origins(ctypes.Structure):
    """The head of the records at ``Worker.origins``: private to the code."""

    _fields_ = [
        ("events", ctypes.c_uint64),  # number of events so far
        ("before", ctypes.c_uint64),  # number of events before the current block
        ("kept", Kept * KEPT),  # by the low bits of ``Kept.word``
    ]


class Origin(ctypes.Structure):
    """A thread's last event at a site that a later report may name: the address of the undefined bytes that it
    loaded, or the exact result of arithmetic that wrapped. ``number`` counts events; 0: no event.

    For a load of a result that was itself computed from undefined bits (``made``), site and address are those of
    the first load.
    """

    _fields_ = [
        ("address", ctypes.c_uint64),
        ("number", ctypes.c_uint64),
        ("site", ctypes.c_uint64),  # 1 + the site; 0: not known
        ("made", ctypes.c_uint64),
    ]
