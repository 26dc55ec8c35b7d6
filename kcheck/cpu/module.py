"""A loaded PTX module: its kernels by name, and its variables placed in device memory."""

from __future__ import annotations

import ctypes
import math
import struct
import threading
from collections.abc import Mapping
from dataclasses import dataclass

from kcheck.cpu.memory import Kind, Label, Memory
from kcheck.errors import PtxError
from kcheck.ptx.abi import GlobalVariable
from kcheck.ptx.ast import Function
from kcheck.ptx.ast import Module as Tree
from kcheck.ptx.parser import parse
from kcheck.ptx.types import TYPES
from kcheck.ptx.unit import module_variables


@dataclass(frozen=True, slots=True)
class Entry:
    """What a launch must know of a kernel before it is compiled.

    Attributes:
        params: (offset, size) of each parameter, in bytes.
        param_bytes: of all of them.
        max_threads: the most threads of a block that ``.maxntid`` or ``.reqntid`` allows; None: any.
    """

    name: str
    params: tuple[tuple[int, int], ...]
    param_bytes: int
    max_threads: int | None


def read_entry(function: Function) -> Entry:
    """The layout of a kernel's parameters (PTX ISA, "Kernel Function Parameters": in order, each aligned)."""
    slots: list[tuple[int, int]] = []
    end = 0
    for param in function.params:
        size = TYPES[param.type].bytes * (param.count or 0)
        offset = -(-end // param.align) * param.align
        slots.append((offset, size))
        end = offset + size
    limits = [
        math.prod(function.performance[name]) for name in ("maxntid", "reqntid") if name in function.performance
    ]
    return Entry(function.name, tuple(slots), end, min(limits, default=None))


class Module:
    """One loaded module.

    Attributes:
        text: the PTX.
        entries: its kernels by name.

    Raises:
        PtxError: it is not PTX, or has a directive that is not modelled.
    """

    def __init__(self, text: str, memory: Memory, file: str = "kernel.ptx") -> None:
        self.text = text
        self.file = file
        self._memory = memory
        self._lock = threading.Lock()
        self._variables: dict[str, tuple[int, int]] | None = None
        self.tree: Tree = parse(text, file)
        self.entries: Mapping[str, Entry] = {entry.name: read_entry(entry) for entry in self.tree.entries}

    def variables(self) -> Mapping[str, tuple[int, int]]:
        """Address and size, in bytes, of every variable; they are placed and initialised at the first call.

        Raises:
            PtxError: a variable declared here is defined in no module that was linked.
            OutOfMemory: there is no room for them.
        """
        with self._lock:
            if self._variables is None:
                self._variables = self._place(module_variables(self.tree))
            return self._variables

    def _place(self, variables: tuple[GlobalVariable, ...]) -> dict[str, tuple[int, int]]:
        placed: dict[str, tuple[int, int]] = {}
        for variable in variables:
            if variable.external:
                raise PtxError(
                    f"{self.file}: {variable.name} is .extern and defined nowhere; link the module that has it"
                )
            address = self._memory.allocate(variable.size, Kind.MODULE, fill=False)
            placed[variable.name] = (address, variable.size)
            end = address + variable.size
            self._memory.label(Label(variable.name, address, (variable.size,), (1,), 1, address, end))
        for variable in variables:
            address, size = placed[variable.name]
            ctypes.memmove(address, variable.initial, size)
            for offset, symbol, addend in variable.relocations:
                if symbol not in placed:
                    raise PtxError(
                        f"{self.file}: {variable.name} holds the address of {symbol}, which is no variable"
                    )
                ctypes.memmove(
                    address + offset, struct.pack("<Q", placed[symbol][0] + addend & 0xFFFFFFFFFFFFFFFF), 8
                )
        return placed

    def unload(self) -> None:
        """Free the variables."""
        with self._lock:
            for address, _ in (self._variables or {}).values():
                self._memory.free(address)
            self._variables = None
