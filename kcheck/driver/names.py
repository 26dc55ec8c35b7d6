"""Gives shared arrays symbols that contain variable, shape and dtype, so that findings can name their elements.

Numba's symbols are ``_cudapy_smem_1``, ``_cudapy_smem_2``. The IR that programs can inspect keeps them, and its
metadata contains the symbols that NVVM gets. NVVM, the linker and every cache preserve a symbol, and no
instruction depends on it.
"""

from __future__ import annotations

import functools
import re
import threading
from typing import Any

from kcheck.ptx.syntax.symbols import ITEMSIZES, ArraySymbol, array_symbol

_SHARED = 3  # the number of the shared address space in NVVM
_NAMES = "kcheck.arrays"  # named metadata: pairs of Numba's symbol and ours
_PAIR = re.compile(r'= !\{ *!"(_cudapy_smem_\d+)", *!"(_cudapy_smem_\d+__[^"]*)" *\}')
_here = threading.local()


def patch_lowering(lowering: Any) -> None:
    """Change ``numba.cuda.lowering``: record which assignment is being lowered."""
    plain = lowering.CUDALower.lower_assign

    @functools.wraps(plain)
    def lower_assign(self: Any, kind: Any, assignment: Any) -> Any:
        before = getattr(_here, "assignment", None)
        _here.assignment = (self, assignment)
        try:
            return plain(self, kind, assignment)
        finally:
            _here.assignment = before

    lowering.CUDALower.lower_assign = lower_assign


def patch_arrays(cudaimpl: Any) -> None:
    """Change ``numba.cuda.cudaimpl``: record the symbol of each shared array in the metadata of its module."""
    plain = cudaimpl._generic_array

    @functools.wraps(plain)
    def generic_array(
        context: Any, builder: Any, shape: Any, dtype: Any, symbol_name: str, addrspace: int, **options: Any
    ) -> Any:
        name = _variable()
        if addrspace == _SHARED and name:
            text = str(dtype)
            size = ITEMSIZES.get(text) or getattr(dtype, "size", 0)
            if size:
                array = ArraySymbol(name, tuple(map(int, shape)), text if text in ITEMSIZES else "", int(size))
                pair = builder.module.add_metadata([symbol_name, array_symbol(symbol_name, array)])
                builder.module.add_named_metadata(_NAMES, pair)
        return plain(context, builder, shape, dtype, symbol_name, addrspace, **options)

    cudaimpl._generic_array = generic_array


def patch_nvvm(nvvm: Any) -> None:
    """Change ``numba.cuda.cudadrv.nvvm``: rename the symbols of shared arrays in the IR that is compiled."""
    plain = nvvm.llvm_replace

    @functools.wraps(plain)
    def llvm_replace(text: str) -> Any:
        return plain(renamed(text))

    nvvm.llvm_replace = llvm_replace


def renamed(text: str) -> str:
    """The IR of a module with the symbols that its metadata contains, and without that metadata."""
    head = f"!{_NAMES} = "
    if head not in text:
        return text
    for plain, name in _PAIR.findall(text):
        text = text.replace(f'@"{plain}"', f'@"{name}"')
    return "\n".join(line for line in text.split("\n") if not line.startswith(head))


def _variable() -> str:
    """The variable of the assignment that is being lowered; empty if the value is not assigned to a variable."""
    if getattr(_here, "assignment", None) is None:
        return ""
    lower, assignment = _here.assignment
    target = assignment.target.name
    if target.startswith("$"):  # a temporary, which may be assigned to a variable
        values = [s for block in lower.blocks.values() for s in block.body if type(s) is type(assignment)]
        named = [s.target for s in values if type(s.value) is type(s.target) and s.value.name == target]
        target = next((var.name for var in named if not var.name.startswith("$")), "")
    return str(target).partition(".")[0]  # Numba numbers variables that are assigned more than once
