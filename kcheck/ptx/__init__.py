"""PTX text to LLVM IR text.

::

    text -> lexer -> parser -> ast.Module -> verify -> cfg, liveness, uniformity -> lower (isa rows) -> Program

Nothing here imports LLVM: the result is text, and :mod:`kcheck.ptx.abi` documents how to call it. The package
itself imports nothing: a run whose machine code is in the cache needs only :mod:`kcheck.ptx.abi` and
:mod:`kcheck.ptx.program`.
"""
