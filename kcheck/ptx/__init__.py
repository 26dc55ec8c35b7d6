"""PTX text to LLVM IR text.

::

    text -> lexer -> parser -> ast.Module -> verify -> cfg, liveness, uniformity -> lower (isa rows) -> abi.Program

Nothing here imports LLVM: what comes out is text, and :mod:`kcheck.ptx.abi` says how it is called.
"""

from kcheck.ptx.lower import lower, param_slots, wants_whole_warp
from kcheck.ptx.parser import parse
from kcheck.ptx.unit import module_globals

__all__ = ["lower", "module_globals", "param_slots", "parse", "wants_whole_warp"]
