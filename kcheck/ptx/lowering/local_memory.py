"""The layout of a thread's local memory: the local variables of a kernel and its functions."""

from __future__ import annotations

from collections.abc import Iterator

from kcheck.alignment import align_up
from kcheck.ptx.program import SharedVariable
from kcheck.ptx.syntax.ast import Call, Function, Module, Symbol
from kcheck.ptx.syntax.types import TYPES

RECURSION_LOCAL_BYTES = 16384
"""Bytes of local memory of one thread for the frames of recursive functions (a GPU's default is 1024)."""


def local_align(functions: list[Function]) -> int:
    """The alignment of a thread's local memory and of each frame in it."""
    return max([16, *(v.align for f in functions for v in f.variables.values() if v.space == "local")])


def local_frame(function: Function, align: int) -> tuple[int, dict[str, int]]:
    """The size of a function's local variables, a multiple of ``align``, and the offset of each."""
    end = 0
    offsets: dict[str, int] = {}
    for variable in function.variables.values():
        if variable.space == "local":
            end = align_up(end, variable.align)
            offsets[variable.name] = end
            end += (variable.count or 0) * TYPES[variable.type].bytes
    return align_up(end, align), offsets


def local_variables(kernel: Function, offsets: dict[str, int]) -> Iterator[SharedVariable]:
    """The local variables of a kernel, with their offsets in a thread's local memory."""
    for name, offset in offsets.items():
        variable = kernel.variables[name]
        yield SharedVariable(name, offset, (variable.count or 0) * TYPES[variable.type].bytes)


def local_bytes(module: Module, functions: list[Function], frames: dict[str, tuple[int, dict[str, int]]]) -> int:
    """Bytes of local memory of one thread: the deepest chain of frames, or more if calls can be recursive."""
    callees: dict[str, set[str]] = {}
    for function in functions:
        found = callees.setdefault(function.name, set())
        for statement in function.body or ():
            if isinstance(statement, Call):
                if isinstance(statement.target, Symbol):
                    found.add(statement.target.name)
                else:
                    found.update(f.name for f in functions if not f.is_entry)
        found &= set(frames)
    deepest: dict[str, int] = {}
    left = {name: set(found) for name, found in callees.items()}
    while True:
        ready = [name for name, found in left.items() if found <= set(deepest)]
        if not ready:
            break
        for name in ready:
            deepest[name] = frames[name][0] + max((deepest[c] for c in callees[name]), default=0)
            del left[name]
    if not left:
        return deepest[functions[0].name]
    return sum(size for size, _ in frames.values()) + RECURSION_LOCAL_BYTES
