"""PTX text to LLVM IR text.

::

    text -> lexer -> parser -> ast.Module -> verify -> cfg, liveness, uniformity -> lower (isa rows) -> abi.Program

Nothing here imports LLVM: what comes out is text, and :mod:`kcheck.ptx.abi` says how it is called.
"""
