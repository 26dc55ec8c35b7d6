"""PTX text to LLVM IR text.

::

    text -> lexer -> parser -> ast.Module -> verify -> cfg, liveness, uniformity -> lower (isa rows) -> abi.Program

Nothing here imports LLVM: what comes out is text, and :mod:`kcheck.ptx.abi` says how it is called.
"""

from kcheck.ptx.lower import lower, param_slots
from kcheck.ptx.parser import parse
from kcheck.ptx.unit import module_variables
from kcheck.ptx.verify import verify

__all__ = ["lower", "module_variables", "param_slots", "parse", "verify"]
