"""Compiles and launches damaged PTX, in a process on the cpu device: what is accepted must do no harm."""

from __future__ import annotations

import struct
from typing import Any

from kcheck.cpu.executor import KernelLaunch
from kcheck.cpu.memory import MemoryKind
from kcheck.errors import PtxError
from kcheck.ptx.abi import Checks

_SECONDS = 0.5
_ALL_CHECKS = Checks(race=True, init=True, overflow=True, cover=True)
_BYTES = 1 << 16


def answer(device: Any, request: dict[str, Any]) -> str:
    """How it went with a seed: ``refused``, or how the launch of its kernel ended.

    Seeds run at one of two widths, and one in three under every sanitizer.
    """
    from damaged import damaged

    seed = request["seed"]
    executor = device.executor
    executor.limit = _SECONDS
    executor.width = 1 if seed % 4 == 0 else 16
    executor.checks = _ALL_CHECKS if seed % 3 == 0 else Checks()
    _, text = damaged(seed)
    device.findings.clear()
    try:
        module = executor.load(text)
    except PtxError:
        return "refused"
    memory = executor.memory.allocate(_BYTES, MemoryKind.DEVICE)
    try:
        endings = []
        for name, entry in module.entries.items():
            content = bytearray(entry.param_bytes)
            for n, (offset, size) in enumerate(entry.params):
                word = (0, 0, 64, 4, memory, 64, 4)[n % 7]  # numba's array: two headers, size, itemsize, data, …
                content[offset : offset + size] = struct.pack("<Q", word)[:size].ljust(size, b"\0")
            launch = KernelLaunch(module, name, bytes(content), (3, 1, 1), (40, 1, 1), 1024, cooperative=False)
            endings.append(str(executor.launch(launch)))
        return endings[0] if endings else "no kernel"
    finally:
        executor.memory.free(memory)
