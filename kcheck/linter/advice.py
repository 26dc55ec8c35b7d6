"""Warnings about a kernel's PTX: what is likely to be slow or unintended, with the source line and a fix."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeAlias

from kcheck.linter.divisions import divisions_in_loops
from kcheck.linter.doubles import Double, doubles
from kcheck.linter.families import prints
from kcheck.linter.frames import Frames, frames_of
from kcheck.linter.lanes import LaneAccess, accesses, conflicts, sectors
from kcheck.model import Finding, Span
from kcheck.model.compiled import CompiledKernel
from kcheck.ptx.syntax.ast import Call, Function, Instruction, Label, Module
from kcheck.ptx.syntax.types import TYPES
from kcheck.rules import ADVICE, rule
from kcheck.rules.language import Language, language_of

Place: TypeAlias = Callable[[Instruction | Call], Span]

_NUMBER = re.compile(r"[\d.e+-]+")
_WASTE = 2  # touched sectors per necessary sector; less could be due to an unaligned start
_FLOATS = frozenset({"float16", "bfloat16", "float32", "complex64"})
_DOUBLES = frozenset({"float64", "complex128"})
_LEAST_LANES = 8


def advice(kernel: CompiledKernel, module: Module, entry: Function, lanes: int = 32) -> tuple[Finding, ...]:
    """The warnings about one specialization, one for each rule and line.

    Args:
        module: the kernel's PTX; ``entry`` is the kernel in it.
        lanes: how many lanes of a warp are neighbors along x in the launched blocks.

    Raises:
        PtxError: the control flow cannot be analyzed.
    """
    frames = frames_of(kernel, module)
    found: dict[tuple[str, Span], Finding] = {}
    count: dict[tuple[str, Span], int] = {}
    for finding in _all(kernel, module, entry, lanes, frames):
        assert finding.place is not None
        key = (finding.rule, finding.place)
        found.setdefault(key, finding)
        count[key] = count.get(key, 0) + finding.count
    rows = sorted(found.items(), key=lambda row: (ADVICE.index(row[0][0]), row[0][1].line))
    return tuple(replace(finding, count=count[key]) for key, finding in rows)


def _all(kernel: CompiledKernel, module: Module, entry: Function, lanes: int, frames: Frames) -> Iterator[Finding]:
    def place(operation: Instruction | Call) -> Span:
        return frames(operation)[0]

    def words(at: Span) -> Language:
        return language_of(at, is_triton=module.replicates)

    def warn(name: str, message: str, at: Span, fix: str = "") -> Finding:
        fix = fix or rule(name).fix_in(words(at))
        return Finding(name, message, severity="warn", fix=fix, kernel=kernel.kernel, place=at)

    operations = [s for s in entry.body or () if not isinstance(s, Label)]
    dtypes = {part.dtype for part in kernel.signature}
    if dtypes & _FLOATS and not dtypes & _DOUBLES:
        for double in doubles(operations, frames):
            message, fix = _of_double(double, dtypes, words(double.place))
            yield replace(warn("f64-in-f32", message, double.place, fix), count=double.count)
    if lanes >= _LEAST_LANES:
        for access in accesses(module, entry):
            yield from _of_access(access, lanes, place, warn)
    for division in divisions_in_loops(entry, module.file):
        # Numba's own instructions, such as for the length of a range(), are at the line of the kernel itself.
        if place(division) != kernel.place:
            is_near = division.loc is not None and division.loc.is_near
            yield warn(
                "division",
                f"divides in a loop ({division.mnemonic}){', near this line' if is_near else ''}",
                place(division),
                _DIVIDE_FLOATS if "f" in division.mnemonic.rpartition(".")[2] else _DIVIDE_INTEGERS,
            )
    for operation in operations:
        if prints(operation):
            at = place(operation)
            prints_ = words(at).prints
            yield warn("printf", f"calls {prints_}", at, f"remove {prints_} from production code")
    yield from _of_memory(kernel, entry, warn)


_DIVIDE_FLOATS = "compute the reciprocal before the loop and multiply by it, if its rounding error is acceptable"
_DIVIDE_INTEGERS = (
    "integer divisions are slow: update the quotient from one iteration to the next, or divide int32 numbers"
)


def _of_double(double: Double, dtypes: set[str], words: Language) -> tuple[str, str]:
    """Message and fix."""
    narrow = sorted(dtypes & {"float16", "float32"})
    dtype = narrow[0] if len(narrow) == 1 else "float32"
    if double.constants:
        *rest, last = double.constants
        listed = f"{', '.join(rest)} and {last} are float64 constants" if rest else f"{last} is a float64 constant"
        message = f"{listed}, so the kernel computes in float64"
        fix = f"write np.{dtype}({double.constants[0]}): a Python float is a float64"
    else:
        message = "computes in float64"
        fix = f"write constants as np.{dtype}(...): a Python float is a float64"
        if double.rounds:
            fix = "use cuda.libdevice.rintf(): round() computes in float64"
        elif double.from_integer:
            fix = f"convert the integer, as in np.{dtype}(i): an int64 and a float32 make a float64"
    message += f" ({double.instruction}), although no argument is float64"
    if words.name == "cpp" and double.constants and _NUMBER.fullmatch(double.constants[0]):
        return message, f"write {double.constants[0]}f: without the f it is a double"
    return message, rule("f64-in-f32").fix_in(words, fix)


def _of_access(
    access: LaneAccess, lanes: int, place: Place, warn: Callable[[str, str, Span], Finding]
) -> Iterator[Finding]:
    at = place(access.instruction)
    apart = f"neighboring lanes are {abs(access.stride):,} bytes apart in {access.space} memory"
    if access.space == "global":
        touched, wanted = sectors(access, lanes)
        if touched >= _WASTE * wanted:
            yield warn(
                "uncoalesced",
                f"{apart}: {touched} sectors of 32 bytes are transferred where {wanted} would do "
                f"({access.instruction.mnemonic})",
                at,
            )
    elif (times := conflicts(access, lanes)) > 1:
        yield warn(
            "bank-conflict",
            f"{apart}: {_article(times)} {times}-way bank conflict ({access.instruction.mnemonic})",
            at,
        )


def _article(number: int) -> str:
    """As in "an 8-way conflict"; the numbers are at most 32."""
    return "an" if number in (8, 11, 18) else "a"


def _of_memory(
    kernel: CompiledKernel, entry: Function, warn: Callable[[str, str, Span], Finding]
) -> Iterator[Finding]:
    spills = kernel.resources.spills if kernel.resources is not None else 0
    if spills:
        yield warn(
            "spills",
            f"{spills:,} bytes of registers are spilled to local memory",
            kernel.place,
        )
    local = local_bytes(entry)
    # The arguments of print() are in local memory, too, in an array that is not the user's.
    if local and not any(prints(s) for s in entry.body or () if not isinstance(s, Label)):
        yield warn(
            "local-array",
            f"{local:,} bytes of local memory per thread: an array indexed by a variable is off-chip",
            kernel.place,
        )


def local_bytes(entry: Function) -> int:
    """Bytes of local memory that the PTX of a kernel declares, per thread."""
    return sum(TYPES[v.type].bytes * (v.count or 0) for v in entry.variables.values() if v.space == "local")
