"""The interface between the lowering and a sanitizer. :mod:`kcheck.ptx.compile` registers the sanitizers."""

from __future__ import annotations

from collections.abc import Sequence

from kcheck.ptx.analysis.cfg import Cfg
from kcheck.ptx.isa.events import Observer
from kcheck.ptx.lowering.function import FunctionLowering
from kcheck.ptx.lowering.module import ModuleLowering
from kcheck.ptx.runtime.block_scheduler import Fresh
from kcheck.ptx.runtime.copies import CopyWatcher
from kcheck.ptx.runtime.copy_queue import CopyQueue
from kcheck.ptx.syntax.ast import Function


class Sanitizer:
    """A sanitizer while it checks one kernel; each method does nothing by default.

    Attributes:
        sees_rows: whether accesses may be of rows (``ModuleLowering.in_rows``), and registers without companions
            may be the first lane's value only.
        sees_versions: whether code may have second versions, of loops (:mod:`.affine_loops`) and of the kernel
            (:mod:`.interior`). Each operation has two sites then, and code takes longer to compile.
    """

    sees_rows = False
    sees_versions = False

    def begin(self, unit: ModuleLowering, functions: Sequence[Function]) -> None:
        """Called before a kernel (the first of the functions) and what it calls are lowered."""

    def observe(self, fn: FunctionLowering, cfg: Cfg) -> Observer | None:
        """The observer of a function; None if nothing in it needs to be observed."""
        return None

    def watch_copies(self, unit: ModuleLowering, queue: CopyQueue) -> CopyWatcher | None:
        """The watcher of the asynchronous copies of a kernel; called only for kernels that have them."""
        return None

    def finish(self, unit: ModuleLowering, fresh: Fresh) -> Fresh:
        """Called after all functions are lowered: add the functions that their code calls, and return what a block
        needs when it begins (``fresh``: what it needs so far)."""
        return fresh
