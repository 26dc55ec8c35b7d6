"""Along which axis of a block the lanes of a vector should be neighbors.

CUDA numbers threads along x first, and warps are runs of these numbers. Where nothing makes lanes or warps
visible, any threads of a block can be a vector. With ``i, j = cuda.grid(2)`` and ``a[i, j]``, neighbors along x
are a row of the array apart, and neighbors along y are one element apart: vectors along y load whole rows.

This module only chooses. That a register has a stride is shown by :mod:`kcheck.ptx.analysis.affine`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kcheck.ptx.abi import AXES
from kcheck.ptx.analysis import cfg as control
from kcheck.ptx.analysis import liveness, uniformity
from kcheck.ptx.analysis.cfg import Cfg
from kcheck.ptx.analysis.liveness import reads, writes
from kcheck.ptx.analysis.skips import deciding, parting
from kcheck.ptx.isa.rows import ROWS
from kcheck.ptx.syntax.ast import (
    Address,
    Call,
    Function,
    Instruction,
    Integer,
    Label,
    Operand,
    Operation,
    Register,
    Special,
    Symbol,
)
from kcheck.ptx.syntax.opcodes import BARRIERS, PLAIN_ACCESSES, PURE, RETURNS
from kcheck.ptx.syntax.types import TYPES

Strides = tuple[int | None, ...]
"""How much a register increases from one thread to the next along x, y and z; None: unknown."""

_NONE: Strides = (0, 0, 0)
_BLIND = PURE | RETURNS | {"ld", "st", "bra"}
"""Opcodes whose effect depends neither on warps nor, if there is no race, on the order of threads. That order
is visible in the results of atomic operations, in sums of floats, and in printed lines."""

_ORDERED = frozenset({"volatile", "relaxed", "acquire", "release", "mmio"})
"""Modifiers of accesses by which threads may wait for each other."""

_BLIND_SPECIALS = ("tid.", "ntid.", "ctaid.", "nctaid.")
_CONTIGUOUS, _NEAR, _FAR = 1, 4, 8
"""The cost of an access whose lanes access adjacent elements or the same one; are a known distance apart; are
anywhere."""

_DEEPEST = 3
_ROUNDS = 8
"""Each loop is assumed to run for this many iterations; loops nested deeper than _DEEPEST count as 1."""

_SIGN = 31
"""A right shift by at least this leaves the sign of an index, which decides whether to wrap it. It is rarely
different for neighbors."""

_WORTH = 2 / 3
"""An axis other than x is chosen only if it costs at most this fraction of x."""


def preferred_axis(functions: Sequence[Function], file: str) -> str:
    """The axis for a kernel (the first of the functions that it may reach): ``x``, unless another one is better
    and nothing makes visible which threads form a warp."""
    kernel, *others = functions
    operations = [s for s in kernel.body or () if not isinstance(s, Label)]
    read = {o.name for s in operations if isinstance(s, Instruction) for o in s.operands if isinstance(o, Special)}
    axes = [axis for axis in AXES[1:] if f"tid.{axis}" in read]
    if others or not axes or not all(map(_is_blind, operations)):
        return "x"
    cfg = control.build(kernel, file)
    cost = dict(zip(AXES, costs(cfg), strict=True))
    best = min(axes, key=cost.__getitem__)
    return best if cost[best] <= _WORTH * cost["x"] and _meets_whole(kernel, cfg) else "x"


def costs(cfg: Cfg) -> list[int]:
    """The estimated cost of the memory accesses of a kernel with vectors along each axis."""
    strides = _strides(cfg)
    total = [0, 0, 0]
    for n in cfg.order:
        weight = _ROUNDS ** min(sum(n in loop.blocks for loop in cfg.loops), _DEEPEST)
        for i in cfg.blocks[n].operations:
            if isinstance(i, Instruction) and i.opcode in PLAIN_ACCESSES and "param" not in i.modifiers:
                size = TYPES[i.modifiers[-1]].bytes
                for k, stride in enumerate(_of(i.operands[1 if i.opcode == "ld" else 0], strides)):
                    near = _FAR if stride is None else _CONTIGUOUS if stride in (0, size) else _NEAR
                    total[k] += weight * near
    return total


def _is_blind(operation: Operation) -> bool:
    """Whether an operation has the same effect no matter which threads form a warp."""
    if isinstance(operation, Call) or not _ORDERED.isdisjoint(operation.modifiers):
        return False
    if any(isinstance(o, Special) and not o.name.startswith(_BLIND_SPECIALS) for o in operation.operands):
        return False
    if operation.opcode in BARRIERS:
        return _is_plain_barrier(operation)
    return operation.opcode in _BLIND or (operation.opcode in ROWS and not control.is_collective(operation))


def _is_plain_barrier(i: Instruction) -> bool:
    """Whether all threads of the block wait there for each other, and for nothing else."""
    is_whole = len(i.operands) == 1 and isinstance(i.operands[0], Integer) and i.guard is None
    return is_whole and "sync" in i.modifiers and "warp" not in i.modifiers


def _meets_whole(kernel: Function, cfg: Cfg) -> bool:
    """Whether the threads of a block never diverge before a barrier. If they may, the axis must be x, because
    reports of such threads name their warps."""
    barriers = [n for n in cfg.order if (end := cfg.blocks[n].terminator) is not None and control.is_barrier(end)]
    if not barriers:
        return True

    def divergent(name: str) -> bool:
        variable = kernel.variables.get(name)
        return variable is not None and variable.space in ("local", "param")

    found = uniformity.analyze(cfg, liveness.analyze(cfg), divergent, frozenset(), 2)
    parts = parting(cfg, found.uniform)
    return not any(parts(n) for n in deciding(cfg, barriers))


# --- strides


def _strides(cfg: Cfg) -> Mapping[str, Strides]:
    """The strides of registers, from the instructions that write them; branches are ignored."""
    constants = liveness.constants(cfg)
    found: dict[str, Strides] = {}
    operations = [
        o for n in cfg.order for o in cfg.blocks[n].operations if isinstance(o, Instruction) and writes(o)
    ]
    again = True
    while again:
        again = False
        for i in operations:
            if any(r.name not in found for r in reads(i)):
                continue
            shape = _shape(i, found, constants)
            for register in writes(i):
                before = found.get(register.name, shape)
                both = tuple(a if a == b else None for a, b in zip(before, shape, strict=True))
                if found.get(register.name) != both:
                    found[register.name] = both
                    again = True
    return found


def _of(operand: Operand, strides: Mapping[str, Strides]) -> Strides:
    if isinstance(operand, Address):
        return _of(operand.base, strides)
    if isinstance(operand, Register):
        return strides.get(operand.name, (None,) * 3)
    if isinstance(operand, Special) and operand.name.startswith("tid."):
        return tuple(int(operand.name == f"tid.{axis}") for axis in AXES)
    return _NONE if isinstance(operand, Integer | Special | Symbol) else (0,) * 3


def _shape(i: Instruction, strides: Mapping[str, Strides], constants: Mapping[str, int]) -> Strides:
    """The strides of an instruction's result."""
    sources = [_of(operand, strides) for operand in i.operands[1:]]
    if i.opcode == "shr" and isinstance(i.operands[2], Integer) and i.operands[2].value >= _SIGN:
        return _NONE
    linear = _linear(i, constants) if len(i.operands) > 1 else None
    if linear is None:
        return tuple(0 if all(s[k] == 0 for s in sources) else None for k in range(3))
    made: list[int | None] = []
    for k in range(3):
        terms = [_scaled(s[k], factor) for s, factor in zip(sources, linear, strict=False)]
        known = [t for t in terms if t is not None]
        made.append(sum(known) if len(known) == len(terms) else None)
    if i.opcode == "selp" and sources[0] != sources[1]:
        return tuple(a if a == b else None for a, b in zip(sources[0], sources[1], strict=True))
    return tuple(made)


def _scaled(stride: int | None, factor: int | None) -> int | None:
    if stride == 0:
        return 0
    return None if stride is None or factor is None else stride * factor


def _linear(i: Instruction, constants: Mapping[str, int]) -> tuple[int | None, ...] | None:
    """By source, its factor in the result, None if unknown; or None: the result is not linear."""

    def constant(operand: Operand) -> int | None:
        if isinstance(operand, Integer):
            return operand.value
        return constants.get(operand.name) if isinstance(operand, Register) else None

    if "hi" in i.modifiers or any(m in ("f32", "f64", "f16", "bf16") for m in i.modifiers):
        return None
    match i.opcode:
        case "mov" | "cvta" | "cvt" | "selp":
            return (1,)
        case "add":
            return (1, 1)
        case "sub":
            return (1, -1)
        case "shl":
            by = constant(i.operands[2])
            return (1 << by if by is not None and 0 <= by < 32 else None, None)
        case "mul":
            return (constant(i.operands[2]), constant(i.operands[1]))
        case "mad":
            return (constant(i.operands[2]), constant(i.operands[1]), 1)
    return None
