"""A loaded PTX module: its kernels by name, and its variables placed in device memory."""

from __future__ import annotations

import ctypes
import functools
import math
import struct
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

import kcheck.cpu
import kcheck.ptx
from kcheck.cpu.cache import ObjectCache
from kcheck.cpu.memory import Memory, MemoryKind, RangeLabel
from kcheck.cpu.replicated import in_lockstep
from kcheck.dataclass import dataclass
from kcheck.errors import PtxError
from kcheck.interpreter import no_collection
from kcheck.ptx.program import GlobalVariable, MemoryUse
from kcheck.ptx.syntax.symbols import REPLICATES
from kcheck.version import __version__, code_digest

if TYPE_CHECKING:
    from kcheck.ptx.syntax.ast import Function
    from kcheck.ptx.syntax.ast import Module as Tree


@dataclass(frozen=True, slots=True)
class Entry:
    """What a launch needs to know about a kernel before it is compiled.

    Attributes:
        params: (offset, size) of each parameter, in bytes.
        param_bytes: the size of all parameters.
        max_threads: the maximum number of threads per block that ``.maxntid`` or ``.reqntid`` allows; None: any.
        uses_y: whether a thread reads its index along y.
        axis: the axis along which threads should be grouped into vectors: see :func:`.preferred_axis`.
        use: what is known about its accesses of global memory.
    """

    name: str
    params: tuple[tuple[int, int], ...]
    param_bytes: int
    max_threads: int | None
    uses_y: bool
    axis: str
    use: MemoryUse = MemoryUse()


def _entry(module: Tree, function: Function) -> Entry:
    from kcheck.ptx.analysis.kernel_facts import called_functions, param_slots, uses_thread_y
    from kcheck.ptx.analysis.vector_axis import preferred_axis
    from kcheck.ptx.sanitizers.memory_use import memory_use

    slots, end = param_slots(function)
    limits = [
        math.prod(function.performance[name]) for name in ("maxntid", "reqntid") if name in function.performance
    ]
    places = tuple((slot.offset, slot.size) for slot in slots)
    most = min(limits, default=None)
    functions = called_functions(module, function)
    axis = preferred_axis(functions, module.file)
    use = memory_use(functions, module.file)
    return Entry(function.name, places, end, most, uses_thread_y(functions), axis, use)


@functools.cache
def version() -> str:
    """kcheck's version and a digest of the code that compiles kernels. Cached code is stale when this changes."""
    return f"{__version__} {code_digest(kcheck.cpu, kcheck.ptx)}"


_PARSED: WeakValueDictionary[tuple[str, str], LoadedModule] = WeakValueDictionary()
"""By file and text, a module whose tree has been parsed."""


class LoadedModule:
    """One loaded module.

    Attributes:
        text: the PTX, with barriers added if its compiler relies on lockstep (:func:`in_lockstep`).
        entries: its kernels by name.
        replicates: whether one instruction may store copies of a value in several lanes of a warp (REPLICATES).
        reporting: the same kernels in code that reports the exceptions that they raise; None if there are none.

    Raises:
        PtxError: it is not PTX, or has an unsupported directive.
    """

    def __init__(self, text: str, memory: Memory, cache: ObjectCache, file: str = "kernel.ptx") -> None:
        self.replicates = REPLICATES in text
        self.text = in_lockstep(text) if self.replicates else text
        self.reporting: LoadedModule | None = None
        self.file = file
        self._memory = memory
        self._lock = threading.Lock()
        self._placed: dict[str, tuple[int, int]] | None = None
        self.entries, self._variables = self._declared(cache)

    @functools.cached_property
    def tree(self) -> Tree:
        """The syntax tree, parsed on first use: code from the cache does not need it. Modules with the same text
        share it."""
        from kcheck.ptx.syntax.grid_barrier import with_own_barrier
        from kcheck.ptx.syntax.parser import parse

        key = (self.file, self.text)
        if (same := _PARSED.get(key)) is not None:
            return same.tree
        with no_collection():  # the collector would visit all of the compiler's objects
            tree = with_own_barrier(parse(self.text, self.file))
        _PARSED[key] = self
        return tree

    def _declared(self, cache: ObjectCache) -> tuple[dict[str, Entry], tuple[GlobalVariable, ...]]:
        """Kernels and variables, from the cache or from the text."""
        key = "\0".join(("module", version(), self.file, self.text))
        found: tuple[dict[str, Entry], tuple[GlobalVariable, ...]] | None = cache.load(key)
        if found is None:
            from kcheck.ptx.lowering.module import module_variables

            entries = {entry.name: _entry(self.tree, entry) for entry in self.tree.entries}
            found = entries, module_variables(self.tree)
            cache.store(key, found)
        return found

    def variables(self) -> Mapping[str, tuple[int, int]]:
        """Address and size, in bytes, of every variable; the first call places and initializes them.

        Raises:
            PtxError: a variable that is declared here is not defined in any linked module.
            OutOfMemory: there is no room for them.
        """
        with self._lock:
            if self._placed is None:
                self._placed = self._place(self._variables)
            return self._placed

    def _place(self, variables: tuple[GlobalVariable, ...]) -> dict[str, tuple[int, int]]:
        placed: dict[str, tuple[int, int]] = {}
        for variable in variables:
            if variable.external:
                raise PtxError(
                    f"{self.file}: {variable.name} is .extern and not defined; link the module that defines it"
                )
            address = self._memory.allocate(variable.size, MemoryKind.MODULE, fill=False)
            placed[variable.name] = (address, variable.size)
            end = address + variable.size
            self._memory.label(RangeLabel(variable.name, address, (variable.size,), (1,), 1, address, end))
        for variable in variables:
            address, size = placed[variable.name]
            ctypes.memmove(address, variable.initial, size)
            for offset, symbol, addend in variable.relocations:
                if symbol not in placed:
                    raise PtxError(
                        f"{self.file}: {variable.name} holds the address of {symbol}, which is not a variable"
                    )
                ctypes.memmove(
                    address + offset, struct.pack("<Q", placed[symbol][0] + addend & 0xFFFFFFFFFFFFFFFF), 8
                )
        return placed

    def place_at(self, places: Mapping[str, tuple[int, int]]) -> None:
        """Use variables that another process has placed in memory that it shares with this one.

        Args:
            places: address and size of each.

        Raises:
            ValueError: a variable is missing, has another size or is not in device memory.
        """
        with self._lock:
            if places == self._placed:
                return
            for variable in self._variables:
                address, size = places[variable.name]
                if size != variable.size or self._memory.find(address, size) is None:
                    raise ValueError(f"the variable {variable.name}")
            self._placed = {variable.name: places[variable.name] for variable in self._variables}

    def unload(self) -> None:
        """Free the variables."""
        with self._lock:
            for address, _ in (self._placed or {}).values():
                self._memory.free(address)
            self._placed = None
        if self.reporting is not None:
            self.reporting.unload()
