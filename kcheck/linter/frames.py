"""Which lines of the user's source an instruction was compiled from."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeAlias

from kcheck.model import Span
from kcheck.model.compiled import CompiledKernel
from kcheck.ptx.syntax.ast import Call, Instruction, Module
from kcheck.span import as_typed, is_users

Frames: TypeAlias = Callable[[Instruction | Call], tuple[Span, ...]]
"""Maps an instruction to the user's lines: its own, then the calls that led there. Never empty."""


def frames_of(kernel: CompiledKernel, module: Module) -> Frames:
    """The frames of a kernel's instructions, without those in libraries. The lines of a PTX file are its own.

    Args:
        module: the kernel's PTX.
    """
    own = os.path.realpath(kernel.place.file)
    names = {
        number: kernel.place.file if os.path.realpath(path) == own else as_typed(path)
        for number, path in module.files.items()
        if is_users(path)
    }

    def frames(operation: Instruction | Call) -> tuple[Span, ...]:
        if kernel.place.file.endswith(".ptx"):
            return (Span(kernel.place.file, operation.line, 1),)
        chain = operation.loc.chain if operation.loc is not None else ()
        return tuple(Span(names[loc.file], loc.line, 1) for loc in chain if loc.file in names) or (kernel.place,)

    return frames
