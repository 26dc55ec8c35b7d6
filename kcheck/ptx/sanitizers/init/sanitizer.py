"""initcheck of one kernel: what is uninitialized before it runs, and the observers of its functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from kcheck.ptx.analysis.cfg import Cfg
from kcheck.ptx.isa.events import Observer
from kcheck.ptx.lowering.function import FunctionLowering
from kcheck.ptx.lowering.module import ModuleLowering
from kcheck.ptx.lowering.sanitizer import Sanitizer
from kcheck.ptx.runtime.block_scheduler import Fresh
from kcheck.ptx.runtime.copies import CopyWatcher
from kcheck.ptx.runtime.copy_queue import CopyQueue
from kcheck.ptx.sanitizers.init import definedness
from kcheck.ptx.sanitizers.init.copies import CopiedShadows
from kcheck.ptx.sanitizers.init.observer import COLUMNS, ShadowObserver
from kcheck.ptx.sanitizers.init.registers import places
from kcheck.ptx.sanitizers.origins import OriginLog
from kcheck.ptx.syntax.ast import Function


class Initcheck(Sanitizer):
    """Finds uses of uninitialized memory.

    Args:
        defined: finds the accesses (by ``id``) of a kernel, the first of the functions, that read initialized
            memory.
    """

    sees_rows = True

    def __init__(self, origins: OriginLog, defined: Callable[[Sequence[Function]], frozenset[int]]) -> None:
        self._origins = origins
        self._find = defined
        self._defined: frozenset[int] = frozenset()

    def begin(self, unit: ModuleLowering, functions: Sequence[Function]) -> None:
        """Ask for shadows in memory, and for columns in what lanes post."""
        self._defined = self._find(functions)
        unit.companion_memory = places
        unit.observer_columns += COLUMNS

    def observe(self, fn: FunctionLowering, cfg: Cfg) -> Observer:
        """Every function is watched: even one without undefined registers reads and writes memory."""
        found = definedness.analyze(cfg, fn.param_offsets.__contains__, fn.constants, self._defined)
        return ShadowObserver(fn, found, self._origins, self._defined)

    def watch_copies(self, unit: ModuleLowering, queue: CopyQueue) -> CopyWatcher:
        """The destination of a copy is uninitialized until the copy is complete."""
        return CopiedShadows(places(unit))

    def finish(self, unit: ModuleLowering, fresh: Fresh) -> Fresh:
        """When a vector begins, its local memory is uninitialized."""
        local = unit.local
        if not local.init:
            return fresh
        return replace(fresh, unwritten=(local.offset + local.init, local.stride * unit.width))
