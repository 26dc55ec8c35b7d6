"""``wmma``: matrix products of a warp, with fragments whose layout is opaque to the program.

Source: PTX ISA, "Warp Level Matrix Multiply-Accumulate Instructions: wmma". Here the elements of a fragment have
the layout of ``mma.sync`` (:mod:`kcheck.ptx.isa.fragments`), one product of 8 columns after another: 16 x 16 is
two products side by side, 32 x 8 is two, one above the other, and 8 x 32 is 32 x 8 transposed. The numbers of
registers are those of the ISA; f16 fragments with more registers than they need hold their elements twice or four
times.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise

from kcheck.dataclass import dataclass
from kcheck.ptx.ir.builder import Value, integer_of
from kcheck.ptx.isa import dot, mma
from kcheck.ptx.isa.access_form import AccessForm
from kcheck.ptx.isa.effects import effect
from kcheck.ptx.isa.events import Access, Companion
from kcheck.ptx.isa.fragments import MatrixShape
from kcheck.ptx.isa.loadstore import load_values, store_values
from kcheck.ptx.isa.surroundings import Surroundings
from kcheck.ptx.isa.warp import whole_warp
from kcheck.ptx.syntax.ast import Instruction, Operand
from kcheck.ptx.syntax.types import TYPES

_SHAPES = re.compile(r"m(\d+)n(\d+)k(\d+)")
_BITS = {
    **dict.fromkeys(("tf32", "f32", "s32"), 32),
    **dict.fromkeys(("f16", "bf16"), 16),
    **dict.fromkeys(("s8", "u8"), 8),
    **dict.fromkeys(("s4", "u4"), 4),
    "f64": 64,
    "b1": 1,
}
_WIDE = ("m16n16k16", "m32n8k16", "m8n32k16")
_TYPES_OF: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("f16", "bf16", "s8", "u8"), _WIDE),
    "tf32": ("m16n16k8",),
    "f64": ("m8n8k4",),
    **dict.fromkeys(("s4", "u4"), ("m8n8k32",)),
    "b1": ("m8n8k128",),
}
"""The shapes of each type of A and B."""

_RESULTS = {"f16": ("f16", "f32"), "f64": ("f64",), **dict.fromkeys(("bf16", "tf32"), ("f32",))}
"""Types of C and D by the type of A; s32 for integers."""

_REPLICATED = 8
"""Registers of an f16 fragment of A or B, whatever its shape."""

Coordinate = tuple[int, int, int]
"""A row or column as a linear function of the lane: the coefficients of group and of rank, and a constant."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where an element of a fragment is in its matrix, as a function of the lane ``4 * group + rank``."""

    row: Coordinate
    column: Coordinate

    @property
    def swapped(self) -> Place:
        """The place in the transposed matrix."""
        return Place(self.column, self.row)

    def follows(self, other: Place, by_rows: bool) -> bool:
        """Whether it directly follows another in memory."""
        here, there = (self, other) if by_rows else (self.swapped, other.swapped)
        return here.row == there.row and here.column == (*there.column[:2], there.column[2] + 1)


@dataclass(frozen=True, slots=True)
class Tiling:
    """How a ``wmma`` shape is divided into products of ``mma.sync``.

    Attributes:
        m, n, k: A is m x k, B is k x n.
        bits: of an element of A and B.
    """

    m: int
    n: int
    k: int
    bits: int

    @property
    def transposed(self) -> bool:
        """Whether the products are those of the transposed matrices."""
        return self.n > 16

    @property
    def steps(self) -> tuple[int, int]:
        """Products one above the other, and side by side."""
        m, n = (self.n, self.m) if self.transposed else (self.m, self.n)
        return max(m // 16, 1), n // 8

    @property
    def shape(self) -> MatrixShape:
        """The shape of one product."""
        m = self.n if self.transposed else self.m
        return MatrixShape(min(m, 16), 8, self.k, self.bits)

    def fragment(self, which: str, kind: str) -> list[list[Place]]:
        """The elements of each register of the fragment of A, B, C or D, lowest first."""
        found = self._upright({"a": "b", "b": "a"}.get(which, which) if self.transposed else which, kind)
        if self.transposed:
            found = [[place.swapped for place in register] for register in found]
        if which in "ab" and kind == "f16":
            found = found * (_REPLICATED // len(found))
        return found

    def _upright(self, which: str, kind: str) -> list[list[Place]]:
        s, pack = self.shape, self.shape.pack
        down, across = self.steps
        elements = range(pack)
        if which == "a":
            return [
                [
                    Place((1, 0, 16 * t + 8 * (r % s.halves)), (0, pack, e + 4 * pack * (r // s.halves)))
                    for e in elements
                ]
                for t in range(down)
                for r in range(s.a_registers)
            ]
        if which == "b":
            return [
                [Place((0, pack, e + 4 * pack * r), (1, 0, 8 * t)) for e in elements]
                for t in range(across)
                for r in range(s.b_registers)
            ]
        each = [
            Place((1, 0, 16 * t + 8 * (i // 2)), (0, 2, 8 * u + i % 2))
            for t in range(down)
            for u in range(across)
            for i in range(s.results)
        ]
        size = 2 if kind == "f16" else 1
        return [each[i : i + size] for i in range(0, len(each), size)]


def tiling(fn: Surroundings, i: Instruction, shape: str, kind: str) -> Tiling:
    """The tiling of a shape for a type of A.

    Raises:
        PtxError: there is no such shape for the type.
    """
    found = _SHAPES.fullmatch(shape)
    if found is None or shape not in _TYPES_OF.get(kind, ()):
        raise fn.fail(i, "not supported")
    m, n, k = map(int, found.groups())
    return Tiling(m, n, k, _BITS[kind])


@effect("wmma")
def wmma(fn: Surroundings, i: Instruction) -> None:
    """``wmma.load``, ``wmma.store`` and ``wmma.mma``."""
    what = i.modifiers[0] if i.modifiers else ""
    if what == "mma":
        _multiply(fn, i)
    elif what in ("load", "store"):
        _transfer(fn, i, is_load=what == "load")
    else:
        raise fn.fail(i, "not supported")


# --- memory


def _transfer(fn: Surroundings, i: Instruction, is_load: bool) -> None:
    """``wmma.load.{a,b,c}.sync.aligned.layout.shape{.ss}.type r, [p]{, stride}``; ``wmma.store.d`` likewise."""
    words = [m for m in i.modifiers[1:] if m not in ("sync", "aligned")]
    space = "generic"
    if len(words) == 5:
        space = words.pop(3).removesuffix("::cta")
    whiches = ("a", "b", "c") if is_load else ("d",)
    if len(words) != 4 or words[0] not in whiches or words[1] not in ("row", "col"):
        raise fn.fail(i, "not supported")
    if space not in ("generic", "global", "shared") or len(i.operands) not in (2, 3):
        raise fn.fail(i, "not supported")
    which, layout, shape, kind = words
    tiles = tiling(fn, i, shape, kind if which in "ab" else _factor_of(shape, kind))
    fragment = tiles.fragment(which, kind)
    vector, address = (i.operands[0], i.operands[1]) if is_load else (i.operands[1], i.operands[0])
    registers = mma.elements(fn, i, vector, len(fragment))
    if fn.width == 32:
        mma.all_lanes(fn, i)
    base = fn.address(i, address, space)
    stride = _stride(fn, i, tiles, which, layout == "row")
    at = partial(_addresses, fn, base, stride, _BITS[kind], layout == "row")
    if is_load:
        for places, register in zip(fragment, registers, strict=True):
            _load(fn, i, register, [at(p) for p in _pieces(places, layout)], _piece(kind, places, layout, space))
        return
    for places, register in zip(fragment, registers, strict=True):
        _store(fn, i, register, [at(p) for p in _pieces(places, layout)], _piece(kind, places, layout, space))


def _factor_of(shape: str, kind: str) -> str:
    """A type of A and B that a shape supports. The layout of C and D is the same for all such types."""
    return {"m16n16k8": "tf32", "m8n8k4": "f64", "m8n8k32": "s4", "m8n8k128": "b1"}.get(shape, "f16")


def _stride(fn: Surroundings, i: Instruction, tiles: Tiling, which: str, by_rows: bool) -> Value:
    """Elements from one row (or column) to the next, i64."""
    if len(i.operands) == 3:
        return fn.b.resize(fn.read(i, i.operands[2], TYPES["u32"]), "i64")
    rows, columns = {"a": (tiles.m, tiles.k), "b": (tiles.k, tiles.n)}.get(which, (tiles.m, tiles.n))
    return fn.b.const("i64", columns if by_rows else rows)


def _is_packed(places: Sequence[Place], layout: str) -> bool:
    """Whether the elements of a register follow one another in memory."""
    return all(b.follows(a, layout == "row") for a, b in pairwise(places))


def _pieces(places: list[Place], layout: str) -> list[Place]:
    """The first element of each access."""
    return places[:1] if _is_packed(places, layout) else places


def _piece(kind: str, places: list[Place], layout: str, space: str) -> AccessForm:
    bits = _BITS[kind] * (len(places) if _is_packed(places, layout) else 1)
    return AccessForm(space, TYPES[f"b{bits}"], 1)


def _addresses(fn: Surroundings, base: Value, stride: Value, bits: int, by_rows: bool, place: Place) -> Value:
    """The address of each lane's element."""
    b = fn.b
    if fn.width == 32:
        lane = b.lanes_const("i64", range(32))
    else:
        first = b.value("and i32 %t0, 31", "i32")
        lane = b.resize(b.add(first, fn.lane_numbers()), "i64")
    group, rank = b.shift("lshr", lane, 2), b.land(lane, 3)

    def number(of: Coordinate) -> Value:
        return b.add(b.add(b.mul(group, of[0]), b.mul(rank, of[1])), of[2])

    major, minor = number(place.row), number(place.column)
    if not by_rows:
        major, minor = minor, major
    element = b.add(b.mul(major, stride), minor)
    return b.add(base, b.shift("lshr", b.mul(element, bits), 3))


def _load(fn: Surroundings, i: Instruction, target: Operand, addresses: list[Value], f: AccessForm) -> None:
    whole = TYPES["b64" if f.kind.bits == 64 else "b32"]
    value: Value | None = None
    companion: Value | None = None
    for n, address in enumerate(addresses):
        companions: list[Companion] = []
        (piece,) = load_values(fn, i, address, f, None, companions)
        value = _joined(fn, value, piece, n * f.kind.bits, whole.llvm)
        if companions:
            companion = _joined(fn, companion, companions[0].value, n * f.kind.bits, whole.llvm)
    assert value is not None
    if fn.carrier is not None:
        fn.carrier.arrives(i, target, None if companion is None else Companion(companion), False)
    fn.write(i, target, whole, value, False)


def _joined(fn: Surroundings, low: Value | None, piece: Value, shift: int, whole: str) -> Value:
    b = fn.b
    placed = b.resize(piece, whole)
    return placed if low is None else b.lor(low, b.shift("shl", placed, shift))


def _store(fn: Surroundings, i: Instruction, source: Operand, addresses: list[Value], f: AccessForm) -> None:
    b = fn.b
    whole = TYPES["b64" if f.kind.bits == 64 else "b32"]
    value = fn.read(i, source, whole)
    for n, address in enumerate(addresses):
        piece = b.resize(b.shift("lshr", value, n * f.kind.bits), f.kind.llvm)
        companions = []
        if fn.carrier is not None:
            companion = fn.carrier.stored(i, source, Access(address, f.space, whole, fn.unit.site(i, f.space)))
            companions.append(b.resize(b.shift("lshr", companion, n * f.kind.bits), integer_of(f.kind.llvm)))
        store_values(fn, i, address, f, [piece], companions)


# --- products


def _multiply(fn: Surroundings, i: Instruction) -> None:
    """``wmma.mma{.op.popc}.sync.aligned.alayout.blayout.shape{.rnd}.d{.a.b}.c{.satfinite} d, a, b, c``."""
    whole_warp(fn, i)
    words = [m for m in i.modifiers[1:] if m not in ("sync", "aligned", "popc", "rn")]
    saturate = "satfinite" in words
    operation = next((w for w in words if w in ("xor", "and")), "")
    words = [w for w in words if w not in ("satfinite", operation)]
    if len(words) == 5:  # for f16, only the types of C and D are written
        words[4:4] = ["f16", "f16"]
    if len(words) != 7 or not {"row", "col"}.issuperset(words[:2]) or len(i.operands) != 4:
        raise fn.fail(i, "not supported")
    _, _, shape, d, a, b, c = words
    results = _RESULTS.get(a, ("s32",))
    tiles = tiling(fn, i, shape, a)
    if a != b or d not in results or c not in results or (a == "b1") != bool(operation):
        raise fn.fail(i, "not supported")
    mma.all_lanes(fn, i)
    if tiles.transposed:
        a, b = b, a
    sizes = [len(tiles.fragment(which, kind)) for which, kind in (("d", d), ("a", a), ("b", b), ("c", c))]
    targets, left, right, adds = (mma.elements(fn, i, o, n) for o, n in zip(i.operands, sizes, strict=True))
    if tiles.transposed:
        left, right = right, left
    down, across = tiles.steps
    narrows = (d, c) == ("f16", "f32")  # rounded once, after all terms are added
    most = dot.WMMA_TF32_K if a == "tf32" else 32
    form = mma.MmaForm("", tiles.shape, c if narrows else d, a, b, c, saturate, operation, most)
    form = replace(form, name=f"wmma.{shape}.{form.d}.{a}.{b}.{c}.{saturate}{operation}")
    done = []
    for t in range(down):
        for u in range(across):
            part = t * across + u
            own = [_part(targets, part, down * across), _part(adds, part, down * across)]
            s = tiles.shape
            operands = (
                own[0],
                left[t * s.a_registers : (t + 1) * s.a_registers],
                right[u * s.b_registers : (u + 1) * s.b_registers],
                own[1],
            )
            values = mma.products(fn, i, form, operands)
            if narrows:
                values = dot.halves_of(fn.b, [fn.b.bitcast(v, "float") for v in values])
            done.append((operands, values))
    for operands, values in done:
        for observer in fn.observers:
            observer.multiplies(i, form.shape, form.register, operands)
        for target, value in zip(operands[0], values, strict=True):
            fn.write(i, target, form.register, value, False)


def _part(registers: Sequence[Operand], number: int, parts: int) -> tuple[Operand, ...]:
    size = len(registers) // parts
    return tuple(registers[number * size : (number + 1) * size])
