"""The result codes of the driver API that kcheck returns, and the exception that carries one.

Source: CUDA Driver API, ``CUresult``.
"""

from __future__ import annotations

from enum import IntEnum

from kcheck.model import Finding


class Result(IntEnum):
    """A ``CUresult``: the documented names without the prefix ``CUDA_`` or ``CUDA_ERROR_``."""

    SUCCESS = 0
    INVALID_VALUE = 1
    OUT_OF_MEMORY = 2
    NOT_INITIALIZED = 3
    INVALID_DEVICE = 101
    INVALID_CONTEXT = 201
    NO_BINARY_FOR_GPU = 209
    INVALID_PTX = 218
    PEER_ACCESS_UNSUPPORTED = 217
    INVALID_HANDLE = 400
    FILE_NOT_FOUND = 301
    NOT_FOUND = 500
    NOT_READY = 600
    ILLEGAL_ADDRESS = 700
    LAUNCH_OUT_OF_RESOURCES = 701
    LAUNCH_TIMEOUT = 702
    HOST_MEMORY_ALREADY_REGISTERED = 712
    HOST_MEMORY_NOT_REGISTERED = 713
    HARDWARE_STACK_ERROR = 714
    ILLEGAL_INSTRUCTION = 715
    MISALIGNED_ADDRESS = 716
    LAUNCH_FAILED = 719
    COOPERATIVE_LAUNCH_TOO_LARGE = 720
    NOT_PERMITTED = 800
    NOT_SUPPORTED = 801
    UNKNOWN = 999


class DriverFault(Exception):
    """Raised inside a call to return a result other than success. ``finding``: what the program did wrong, for
    programs that may not look at the result."""

    def __init__(self, result: Result, finding: Finding | None = None) -> None:
        super().__init__(result.name)
        self.result = result
        self.finding = finding
