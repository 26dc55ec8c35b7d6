"""A kernel of numba-cuda is compiled by NVVM once.

numba-cuda makes LTO-IR of a kernel, which it links to what runs. Before that it also makes PTX, only to look there
for the functions that it has to link: those of its runtime, and of ``reshape``. PTX cannot call a function that
the LLVM IR does not mention, so there is nothing to look for then.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any

_wanted: ContextVar[Sequence[str]] = ContextVar("kcheck_wanted", default=())
"""What is looked for in the PTX of the kernel that is being made; empty if PTX is required for itself."""


def patch_assembly(codegen: Any) -> None:
    """Change ``numba.cuda.codegen.CUDACodeLibrary``: no PTX if nothing can be found in it."""
    library = codegen.CUDACodeLibrary
    plain = library.get_asm_str

    @functools.wraps(plain)
    def get_asm_str(self: Any, cc: Any = None) -> Any:
        wanted = _wanted.get()
        if wanted and self._lto and not any(name in text for text in self.llvm_strs for name in wanted):
            return ""
        return plain(self, cc)

    library.get_asm_str = get_asm_str


def patch_kernels(dispatcher: Any) -> None:
    """Change ``numba.cuda.dispatcher._Kernel``: say what it looks for in its PTX."""
    kernel = dispatcher._Kernel
    plain = kernel.__init__
    names = (*dispatcher.reshape_funcs, *kernel.NRT_functions)

    @functools.wraps(plain)
    def start(self: Any, *arguments: Any, **options: Any) -> None:
        token = _wanted.set(names)
        try:
            plain(self, *arguments, **options)
        finally:
            _wanted.reset(token)

    kernel.__init__ = start
