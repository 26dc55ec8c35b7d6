"""Makes numba-cuda compile a kernel with NVVM only once.

numba-cuda compiles a kernel to LTO-IR, from which the linker makes the code that runs. Before that, it also
compiles the kernel to PTX, only to search the PTX for functions that it must link: those of its runtime, and of
``reshape``. PTX cannot call a function that the LLVM IR does not mention, so if the IR mentions none of these, PTX
is not needed.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any

_wanted: ContextVar[Sequence[str]] = ContextVar("kcheck_wanted", default=())
"""The functions to search for in the PTX of the kernel that is being compiled; empty if the PTX itself is used."""


def patch_assembly(codegen: Any) -> None:
    """Change ``numba.cuda.codegen.CUDACodeLibrary``: do not make PTX in which a search cannot find anything."""
    library = codegen.CUDACodeLibrary
    plain = library.get_asm_str

    @functools.wraps(plain)
    def get_asm_str(self: Any, cc: Any = None) -> Any:
        wanted = () if codegen.config.DUMP_ASSEMBLY else _wanted.get()
        if wanted and self._lto and not any(name in text for text in self.llvm_strs for name in wanted):
            return ""
        return plain(self, cc)

    library.get_asm_str = get_asm_str


def patch_kernels(dispatcher: Any) -> None:
    """Change ``numba.cuda.dispatcher._Kernel``: record the functions that it searches its PTX for."""
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
