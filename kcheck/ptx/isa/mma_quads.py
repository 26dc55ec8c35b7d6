"""``mma.m8n8k4`` of f16: four products of 8 x 4 by 4 x 8 at once, each by a *quad pair* of eight lanes.

Source: PTX ISA, "Matrix Fragments for mma.m8n8k4 with .f16 floating point type". Quad pair q has the lanes 4 q to
4 q + 3 (low) and 4 q + 16 to 4 q + 19 (high). Each lane holds four elements of A and of B, in two registers:

- A by rows: row ``rank + 4 * high``, column e. By columns: row ``e + 4 * high``, column rank.
- B by columns: row e, column ``rank + 4 * high``. By rows: row rank, column ``e + 4 * high``.
- C and D of f16: row ``rank + 4 * high``, column e. Of f32: row ``rank % 2 + (e & 2) + 4 * high``,
  column ``(e & 4) + (rank & 2) + e % 2``.

On sm_75, the products are accumulated as in the other shapes (:mod:`kcheck.ptx.isa.dot`), all four terms at once.
The tensor cores of sm_80 and later do not have this shape: ptxas calls a function that computes it in f32
(``__cuda_sm_8x_mma_...``, read with nvdisasm; compared with an H100).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kcheck.ptx.ir.builder import Builder, Value, vector_type
from kcheck.ptx.ir.calls import call, group, members
from kcheck.ptx.ir.flow import UNLIKELY
from kcheck.ptx.ir.function import FunctionBuilder
from kcheck.ptx.ir.signature import Definition, Signature
from kcheck.ptx.isa import dot, mma
from kcheck.ptx.isa.effects import effect, ordered
from kcheck.ptx.isa.events import Triple
from kcheck.ptx.isa.fragments import LANES
from kcheck.ptx.isa.surroundings import Surroundings
from kcheck.ptx.isa.warp import shuffled, whole_warp
from kcheck.ptx.syntax.ast import Instruction
from kcheck.ptx.syntax.types import TYPES

_TERMS = 4
_RESULTS = 8


@dataclass(frozen=True, slots=True)
class QuadForm:
    """One form of the instruction.

    Attributes:
        a_by_columns, b_by_rows: whether A, B has the layout in which a lane's elements are not along K.
        wide_d, wide_c: whether D, C is f32; otherwise it is f16.
    """

    a_by_columns: bool
    b_by_rows: bool
    wide_d: bool
    wide_c: bool

    @property
    def name(self) -> str:
        """The form in the name of its function."""
        layouts = ("row", "col")[self.a_by_columns], ("col", "row")[self.b_by_rows]
        types = ("f16", "f32")[self.wide_d], ("f16", "f32")[self.wide_c]
        return ".".join(("m8n8k4", *layouts, *types))

    def arrange(self, b: Builder, a: Sequence[Value], right: Sequence[Value], c: Sequence[Value]) -> list[Triple]:
        """For each element of D in a lane: four elements of its row of A, four of its column of B, and that of C.

        Args:
            a, right: the four elements of A and of B that a lane holds.
            c: the eight of C.
        """
        rows = _turned(b, a) if self.a_by_columns else list(a)
        columns = _turned(b, right) if self.b_by_rows else list(right)
        found = []
        for e in range(_RESULTS):
            places = [self._place(lane, e) for lane in range(LANES)]
            of_row = [_lane(lane, row) for lane, (row, _) in enumerate(places)]
            of_column = [_lane(lane, column) for lane, (_, column) in enumerate(places)]
            x = [shuffled(b, value, of_row) for value in rows]
            y = [shuffled(b, value, of_column) for value in columns]
            own = c[e]
            if self.wide_d and not self.wide_c:  # D and C are in different lanes
                near, far = (shuffled(b, c[n], of_row) for n in (places[0][1], places[2][1]))
                own = _by_lane(b, near, far, [column != places[0][1] for _, column in places])
            found.append((x, y, own))
        return found

    def _place(self, lane: int, e: int) -> tuple[int, int]:
        """Row and column of element e of D in a lane."""
        rank, high = lane % 4, lane // 16
        if self.wide_d:
            return rank % 2 + (e & 2) + 4 * high, (e & 4) + (rank & 2) + e % 2
        return rank + 4 * high, e


def _lane(lane: int, line: int) -> int:
    """The lane of the same quad pair that holds a row of A, or a column of B, along K."""
    return lane % 16 // 4 * 4 + line % 4 + 16 * (line // 4)


def _turned(b: Builder, values: Sequence[Value]) -> list[Value]:
    """Transposes four lanes by four elements, so that each lane has elements along K."""
    found = []
    for k in range(_TERMS):
        sources = [lane // 4 * 4 + k for lane in range(LANES)]
        moved = [shuffled(b, value, sources) for value in values]
        total = moved[0]
        for e in range(1, _TERMS):
            total = _by_lane(b, total, moved[e], [lane % 4 == e for lane in range(LANES)])
        found.append(total)
    return found


def _by_lane(b: Builder, x: Value, y: Value, takes_y: Sequence[bool]) -> Value:
    """In each lane, one of two values."""
    return b.shuffle(x, y, [lane + LANES * takes for lane, takes in enumerate(takes_y)])


@effect("mma")
def any_mma(fn: Surroundings, i: Instruction) -> None:
    """``mma.sync.aligned.shape.alayout.blayout.d.a.b.c d, a, b, c``: this form, or those of :mod:`.mma`."""
    words = [m for m in i.modifiers if m not in ("sync", "aligned")]
    if words[:1] != ["m8n8k4"] or "f64" in words:
        mma.mma(fn, i)
        return
    whole_warp(fn, i)
    ordered(fn, i, 4)
    layouts, types = words[1:3], words[3:]
    if len(types) != 4 or not set(layouts) <= {"row", "col"} or types[1:3] != ["f16", "f16"]:
        raise fn.fail(i, "unsupported")
    if types[0] not in ("f16", "f32") or types[3] not in ("f16", types[0]):
        raise fn.fail(i, "unsupported")
    form = QuadForm(layouts[0] == "col", layouts[1] == "row", types[0] == "f32", types[3] == "f32")
    mma.all_lanes(fn, i)
    counts = (8 if form.wide_d else 4, 2, 2, 8 if form.wide_c else 4)
    registers = [mma.elements(fn, i, o, n) for o, n in zip(i.operands, counts, strict=True)]
    kind = TYPES["b32"]
    sources = [fn.b.splat(fn.read(i, r, kind)) for operand in registers[1:] for r in operand]
    function = _function(fn, form)
    whole = call(fn.b, function, **dict(zip(function.parameters, sources, strict=True)))
    values = members(fn.b, whole, [sources[0]] * counts[0])
    for observer in fn.observers:
        observer.multiplies_quads(i, form.arrange, registers)
    for target, value in zip(registers[0], values, strict=True):
        fn.write(i, target, kind, value, False)


def _function(fn: Surroundings, form: QuadForm) -> Signature:
    """The function that computes a form from the registers of A, B and C, defined once for a module."""
    unit, wide = fn.unit, vector_type("i32", LANES)
    sources = 4 + (8 if form.wide_c else 4)
    results = [Value("", "i32", LANES)] * (8 if form.wide_d else 4)
    function = Signature(f"@kcheck.mma.{form.name}", group(results), {f"x{n}": wide for n in range(sources)})
    if function.name not in unit.definitions:
        b = FunctionBuilder(function, "noinline", LANES, unit.declarations)
        unit.definitions[function.name] = _definition(b, form, mma.capability(unit.module.target))
    return function


def _definition(b: FunctionBuilder, form: QuadForm, capability: int) -> Definition:
    values: list[Value] = [b.argument(name) for name in b.signature.parameters]
    c = [b.bitcast(v, "float") for v in values[4:]] if form.wide_c else _numbers(b, values[4:])
    terms = form.arrange(b, _numbers(b, values[:2]), _numbers(b, values[2:4]), c)
    if capability >= 80:
        results = [_in_f32(b, form, *term) for term in terms]
    else:
        results = _in_tensor_core(b, form, terms, capability)
    b.ret_group([b.as_integer(r) for r in results] if form.wide_d else dot.halves_of(b, results))
    return b.definition()


def _in_f32(b: Builder, form: QuadForm, row: Sequence[Value], column: Sequence[Value], own: Value) -> Value:
    """f32: a chain of fma from zero, then C. f16: C, the first two products, the other two; rounded to f16 at the
    end."""
    total = b.splat(b.const("float", 0.0))
    if form.wide_d:
        for x, y in zip(row, column, strict=True):
            total = b.intrinsic("fma", x, y, total)
        return b.canonical(b.op("fadd", total, own))
    total = own
    for n in (0, 2):
        first = b.op("fmul", row[n], column[n])
        total = b.op("fadd", total, b.intrinsic("fma", row[n + 1], column[n + 1], first))
    return b.canonical(total)


def _in_tensor_core(b: FunctionBuilder, form: QuadForm, terms: Sequence[Triple], capability: int) -> list[Value]:
    half = dot.FORMATS["f16"]
    sums = dot.tensor_sum(half.bits, _TERMS, capability)
    rule = dot.Accumulation(half, half, sums.fraction, sums.terms, not form.wide_d, kept=sums.kept)
    pairs = [
        [(dot.split(b, x, half), dot.split(b, y, half)) for x, y in zip(row, column, strict=True)]
        for row, column, _ in terms
    ]
    usual = [dot.accumulate(b, rule, own, pair) for (*_, own), pair in zip(terms, pairs, strict=True)]
    sums_of = [b.variable("float", last) for *_, last in usual]
    inputs = [value for row, column, own in terms for value in (*row, *column, own)]
    with b.if_(dot.any_special(b, inputs), UNLIKELY):
        for n, (*_, own) in enumerate(terms):
            sums_of[n].value = dot.accumulate_any(b, rule, own, pairs[n], usual[n])
    return [total.value for total in sums_of]


def _numbers(b: Builder, registers: Sequence[Value]) -> list[Value]:
    """The f16 elements of registers, two in each, as f32."""
    found = []
    for register in registers:
        for shift in (0, 16):
            bits = b.resize(b.shift("lshr", register, shift) if shift else register, "i16")
            found.append(b.cast("fpext", b.bitcast(bits, "half"), "float"))
    return found
