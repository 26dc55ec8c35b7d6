"""What in a kernel's PTX is likely to be slow, or not meant: warnings, each with the line of Python and a mend."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TypeAlias

from kcheck.lint.families import computes_in_float64, divides, prints
from kcheck.lint.lanes import Access, accesses, conflicts, sectors
from kcheck.model import Finding, Span
from kcheck.model.compiled import CompiledKernel
from kcheck.ptx import cfg as control
from kcheck.ptx.ast import Call, Function, Instruction, Label, Module
from kcheck.ptx.types import TYPES

ADVICE = {
    "f64-in-f32": "arithmetic in float64 in a kernel whose arguments are narrower",
    "uncoalesced": "global memory read or written in more sectors than its bytes fill",
    "bank-conflict": "lanes that ask one bank of shared memory for different words",
    "division": "a division in a loop",
    "printf": "a kernel that prints",
    "spills": "registers that did not suffice",
    "local-array": "arrays in local memory, which lies off the chip",
}
"""Every rule of this module with what it is about."""

Place: TypeAlias = Callable[[Instruction | Call], Span]

_WASTE = 2  # sectors touched for each that is wanted: below, an unaligned start could explain it
_FLOATS = frozenset({"float16", "bfloat16", "float32", "complex64"})
_DOUBLES = frozenset({"float64", "complex128"})
_LEAST_LANES = 8


def advice(kernel: CompiledKernel, module: Module, entry: Function, lanes: int = 32) -> tuple[Finding, ...]:
    """The warnings about one specialisation, one for each rule and line.

    Args:
        module: the kernel's PTX; ``entry`` is the kernel in it.
        lanes: how many lanes of a warp are neighbours along x, in the blocks that it is launched with.

    Raises:
        PtxError: control flow that cannot be followed.
    """
    place = _places(kernel, module)
    found: dict[tuple[str, Span], Finding] = {}
    count: dict[tuple[str, Span], int] = {}
    for finding in _all(kernel, module, entry, lanes, place):
        assert finding.place is not None
        key = (finding.rule, finding.place)
        found.setdefault(key, finding)
        count[key] = count.get(key, 0) + finding.count
    order = list(ADVICE)
    rows = sorted(found.items(), key=lambda row: (order.index(row[0][0]), row[0][1].line))
    return tuple(_counted(finding, count[key]) for key, finding in rows)


def _counted(finding: Finding, count: int) -> Finding:
    return replace(finding, count=count)


def _all(kernel: CompiledKernel, module: Module, entry: Function, lanes: int, place: Place) -> Iterator[Finding]:
    def warn(rule: str, message: str, mend: str, at: Span) -> Finding:
        return Finding(rule, message, severity="warn", mend=mend, kernel=kernel.kernel, place=at)

    operations = [s for s in entry.body or () if not isinstance(s, Label)]
    dtypes = {part.dtype for part in kernel.signature}
    if dtypes & _FLOATS and not dtypes & _DOUBLES:
        for operation in operations:
            if computes_in_float64(operation):
                assert isinstance(operation, Instruction)
                yield warn(
                    "f64-in-f32",
                    f"computes in float64 ({operation.mnemonic}), although no argument is float64",
                    "write constants as np.float32(...): a Python float is a float64",
                    place(operation),
                )
    if lanes >= _LEAST_LANES:
        for access in accesses(module, entry):
            yield from _of_access(access, lanes, place, warn)
    for operation in _in_loops(entry, module.file):
        # What has the line of the kernel itself is Numba's own: the count of a range().
        if divides(operation) and place(operation) != kernel.place:
            assert isinstance(operation, Instruction)
            yield warn(
                "division",
                f"divides in a loop ({operation.mnemonic})",
                "multiply by the reciprocal, taken before the loop, where its rounding will do",
                place(operation),
            )
    for operation in operations:
        if prints(operation):
            yield warn("printf", "prints", "take print() out of what is shipped", place(operation))
    yield from _of_memory(kernel, entry, warn)


def _of_access(
    access: Access, lanes: int, place: Place, warn: Callable[[str, str, str, Span], Finding]
) -> Iterator[Finding]:
    at = place(access.instruction)
    apart = f"neighbouring lanes are {abs(access.stride):,} bytes apart in {access.space} memory"
    if access.space == "global":
        touched, wanted = sectors(access, lanes)
        if touched >= _WASTE * wanted:
            yield warn(
                "uncoalesced",
                f"{apart}: {touched} sectors of 32 bytes are moved for what fits in {wanted} "
                f"({access.instruction.mnemonic})",
                "let neighbouring threads take neighbouring elements, through shared memory if need be",
                at,
            )
    elif (times := conflicts(access, lanes)) > 1:
        yield warn(
            "bank-conflict",
            f"{apart}: a {times}-way bank conflict ({access.instruction.mnemonic})",
            "pad each row of the shared array by one element",
            at,
        )


def _of_memory(
    kernel: CompiledKernel, entry: Function, warn: Callable[[str, str, str, Span], Finding]
) -> Iterator[Finding]:
    spills = kernel.resources.spills if kernel.resources is not None else 0
    if spills:
        yield warn(
            "spills",
            f"{spills:,} bytes of registers are spilled to local memory",
            "keep fewer values alive at once, unroll less, or allow more registers",
            kernel.place,
        )
    local = local_bytes(entry)
    # What is printed lies in local memory, too: that is no array of the user's.
    if local and not any(prints(s) for s in entry.body or () if not isinstance(s, Label)):
        yield warn(
            "local-array",
            f"{local:,} bytes of local memory per thread: an array that a variable indexes lies off the chip",
            "index it by constants only (unrolled loops), or use shared memory",
            kernel.place,
        )


def local_bytes(entry: Function) -> int:
    """What the PTX of a kernel declares in local memory, per thread."""
    return sum(TYPES[v.type].bytes * (v.count or 0) for v in entry.variables.values() if v.space == "local")


def _in_loops(entry: Function, file: str) -> Iterable[Instruction | Call]:
    graph = control.build(entry, file)
    inside = {block for loop in graph.loops for block in loop.blocks}
    return [operation for block in sorted(inside) for operation in graph.blocks[block].operations]


def _places(kernel: CompiledKernel, module: Module) -> Place:
    """From an instruction to the line of the user's kernel: of what was inlined from another file, the call. Where
    the kernel is known from its PTX alone, that line of the PTX."""
    own = os.path.realpath(kernel.place.file)
    is_own = {number for number, path in module.files.items() if os.path.realpath(path) == own}

    def place(operation: Instruction | Call) -> Span:
        if not kernel.place.file.endswith(".py"):
            return Span(kernel.place.file, operation.line, 1)
        loc = operation.loc
        if loc is not None and loc.file in is_own:
            return Span(kernel.place.file, loc.line, 1)
        if loc is not None and loc.caller is not None and loc.caller[0] in is_own:
            return Span(kernel.place.file, loc.caller[1], 1)
        return kernel.place

    return place
