"""``mma.sync``: D = A * B + C for one warp, with the matrices distributed over the registers of 32 lanes.

Source: PTX ISA, "Multiply-and-Accumulate Instruction: mma". Fragments: :mod:`kcheck.ptx.isa.fragments`; how floats
are accumulated: :mod:`kcheck.ptx.isa.dot`. Each form is one function, because inlined code would be a thousand
instructions for each copy of an ``mma`` in an unrolled loop.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from kcheck.dataclass import dataclass
from kcheck.ptx.abi import FaultKind
from kcheck.ptx.ir.builder import Builder, Value, vector_type
from kcheck.ptx.ir.calls import call, group, members
from kcheck.ptx.ir.flow import UNLIKELY
from kcheck.ptx.ir.function import FunctionBuilder
from kcheck.ptx.ir.signature import Definition, Signature
from kcheck.ptx.isa import dot, mma_in_range
from kcheck.ptx.isa.effects import ordered
from kcheck.ptx.isa.fragments import LANES, MatrixShape, column_sources, row_sources
from kcheck.ptx.isa.missing_lanes import report
from kcheck.ptx.isa.surroundings import Surroundings
from kcheck.ptx.isa.warp import shuffled, whole_warp
from kcheck.ptx.syntax.ast import Instruction, Operand, Vector
from kcheck.ptx.syntax.types import TYPES, PtxType

_SHAPES = re.compile(r"m(\d+)n(\d+)k(\d+)")
_INTEGERS = {"s8": 8, "u8": 8, "s4": 4, "u4": 4}
_KS: dict[str, tuple[str, ...]] = {
    "f16": ("m16n8k8", "m16n8k16"),
    "bf16": ("m16n8k8", "m16n8k16"),
    "tf32": ("m16n8k4", "m16n8k8"),
    "f64": ("m8n8k4", "m16n8k4", "m16n8k8", "m16n8k16"),
    "8": ("m8n8k16", "m16n8k16", "m16n8k32"),
    "4": ("m8n8k32", "m16n8k32", "m16n8k64"),
    "b1": ("m8n8k128", "m16n8k128", "m16n8k256"),
    "e4m3": ("m16n8k16", "m16n8k32"),
    "e5m2": ("m16n8k16", "m16n8k32"),
}
"""The supported shapes, by type of A (integers by their bits)."""


@dataclass(frozen=True, slots=True)
class MmaForm:
    """What the modifiers of an ``mma`` specify.

    Attributes:
        a, b, c, d: types of the elements.
        saturate: integer sums are clamped to the range of s32.
        bits: for b1, how bits are multiplied: ``xor`` or ``and``.
        most: the largest K of the machine instruction, if it is executed in several.
    """

    name: str
    shape: MatrixShape
    d: str
    a: str
    b: str
    c: str
    saturate: bool = False
    bits: str = ""
    most: int = 32

    @property
    def registers(self) -> tuple[int, int, int, int]:
        """The numbers of registers of D, A, B and C in each lane."""
        s = self.shape
        per = {"f16": 2}
        return s.results // per.get(self.d, 1), s.a_registers, s.b_registers, s.results // per.get(self.c, 1)

    @property
    def register(self) -> PtxType:
        """The type of a register."""
        return TYPES["b64" if self.a == "f64" else "b32"]


def form(fn: Surroundings, i: Instruction) -> MmaForm:
    """The form that the modifiers of an ``mma`` specify.

    Raises:
        PtxError: an unsupported form.
    """
    words = [m for m in i.modifiers if m not in ("sync", "aligned")]
    saturate = "satfinite" in words
    words = [w for w in words if w != "satfinite"]
    shape = _SHAPES.fullmatch(words[0]) if words else None
    if shape is None or len(words) < 7 or words[1:3] != ["row", "col"]:
        raise fn.fail(i, "unsupported")
    d, a, b, c, *rest = words[3:]
    family = str(_INTEGERS[a]) if a in _INTEGERS else a
    same = _INTEGERS.get(a) == _INTEGERS.get(b) if a in _INTEGERS else {a, b} <= {"e4m3", "e5m2"} or a == b
    results = {"f64": ("f64",), "f16": ("f16", "f32"), "e4m3": ("f16", "f32"), "e5m2": ("f16", "f32")}
    allowed = results.get(a, ("f32",) if a in ("bf16", "tf32") else ("s32",))
    tails: tuple[list[str], ...] = (["xor", "popc"], ["and", "popc"]) if a == "b1" else ([],)
    if not same or words[0] not in _KS.get(family, ()) or d not in allowed or c != d or rest not in tails:
        raise fn.fail(i, "unsupported")
    if saturate and a not in _INTEGERS:
        raise fn.fail(i, ".satfinite is only for integers")
    m, n, k = map(int, shape.groups())
    size = _INTEGERS.get(a) or {"b1": 1, "f64": 64, "tf32": 32, "e4m3": 8, "e5m2": 8}.get(a, 16)
    name = ".".join(m for m in i.modifiers if m not in ("sync", "aligned", "row", "col"))
    return MmaForm(name, MatrixShape(m, n, k, size), d, a, b, c, saturate, "".join(rest[:1]))


def mma(fn: Surroundings, i: Instruction) -> None:
    """``mma.sync.aligned.shape.row.col{.satfinite}.d.a.b.c d, a, b, c``."""
    whole_warp(fn, i)
    ordered(fn, i, 4)
    f = form(fn, i)
    all_lanes(fn, i)
    registers = [elements(fn, i, o, n) for o, n in zip(i.operands, f.registers, strict=True)]
    values = products(fn, i, f, registers)
    for observer in fn.observers:
        observer.multiplies(i, f.shape, f.register, registers)
    for target, value in zip(registers[0], values, strict=True):
        fn.write(i, target, f.register, value, False)


def products(fn: Surroundings, i: Instruction, f: MmaForm, registers: Sequence[Sequence[Operand]]) -> list[Value]:
    """The registers of D, from those of A, B and C; ``registers`` begins with those of D."""
    b, kind = fn.b, f.register
    sources = [b.splat(fn.read(i, r, kind)) for operand in registers[1:] for r in operand]
    function = _function(fn, f)
    whole = call(b, function, **dict(zip(function.parameters, sources, strict=True)))
    return members(b, whole, [sources[0]] * f.registers[0])


def all_lanes(fn: Surroundings, i: Instruction) -> None:
    """Report lanes of the warp that do not execute the instruction. PTX ISA: the behavior of an ``.aligned``
    instruction is undefined unless all threads of the warp execute it, and none has exited."""
    b = fn.b
    missing = b.invert(fn.active_bits())
    kind = b.const("i32", int(FaultKind.WARP_ALIGNED))
    report(fn, fn.unit.site(i, ""), missing, lambda: (kind, missing))


def elements(fn: Surroundings, i: Instruction, operand: Operand, count: int) -> tuple[Operand, ...]:
    """The registers of an operand that is a vector of ``count``, or one register.

    Raises:
        PtxError: it is not.
    """
    if isinstance(operand, Vector) and len(operand.elements) == count:
        return operand.elements
    if count == 1 and not isinstance(operand, Vector):
        return (operand,)
    raise fn.fail(i, f"expected a vector of {count} registers")


# --- the function of a form


def _function(fn: Surroundings, f: MmaForm) -> Signature:
    """The function that computes a form from the registers of A, B and C, defined once for a module."""
    unit = fn.unit
    wide = vector_type(f.register.llvm, LANES)
    results, *sources = f.registers
    function = Signature(
        f"@kcheck.mma.{f.name}",
        group([Value("", f.register.llvm, LANES)] * results),
        {f"x{n}": wide for n in range(sum(sources))},
    )
    if function.name not in unit.definitions:
        target = capability(unit.module.target)
        general = function
        if f.a in dot.FORMATS and mma_in_range.applies(_rule(f, target), f.a, f.c):
            general = Signature(f"{function.name}.any", function.result, function.parameters)
            b = FunctionBuilder(function, "noinline", LANES, unit.declarations)
            unit.definitions[function.name] = _in_range(b, f, target, general)
        attributes = "" if general is function else "cold"
        b = FunctionBuilder(general, "noinline", LANES, unit.declarations, attributes=attributes)
        unit.definitions[general.name] = _definition(b, f, target)
    return function


def _in_range(b: FunctionBuilder, f: MmaForm, capability: int, general: Signature) -> Definition:
    """The fast version of the function, which calls ``general`` if a number is out of range."""
    found = mma_in_range.sums(b, f.shape, _rule(f, capability), _operands(b, f))
    with b.if_(found.leaves, UNLIKELY):
        whole = b.run(general, **{name: b.argument(name) for name in b.signature.parameters})
        b.end(f"ret {whole.type} {whole.text}")
    b.ret_group(found.results)
    return b.definition()


def _operands(b: FunctionBuilder, f: MmaForm) -> tuple[list[Value], list[Value], list[Value]]:
    """The registers of A, B and C, which are the arguments."""
    counts = f.registers
    values: list[Value] = [b.argument(name) for name in b.signature.parameters]
    a, rest = values[: counts[1]], values[counts[1] :]
    return a, rest[: counts[2]], rest[counts[2] :]


def capability(target: Sequence[str]) -> int:
    """The compute capability of a module's target: 80 for sm_80, and if it names none."""
    found = re.search(r"sm_(\d+)", " ".join(target))
    return int(found[1]) if found else 80


def _definition(b: FunctionBuilder, f: MmaForm, capability: int) -> Definition:
    a, right, c = _operands(b, f)
    if f.a == "f64":
        results = _doubles(b, f, a, right, c)
    elif f.a in dot.FORMATS:
        results = _floats(b, f, _rule(f, capability), (a, right, c))
    else:
        results = _integers(b, f, a, right, c)
    b.ret_group(results)
    return b.definition()


class _Moved:
    """Moves values of A and B to the lanes that multiply them, each only once."""

    def __init__(self, b: Builder, shape: MatrixShape) -> None:
        self.b = b
        self.shape = shape
        self._done: dict[tuple[int, ...], Value] = {}

    def of_a(self, key: int, values: Sequence[Value], half: int, k: int) -> tuple[Value, int]:
        """The moved register of A with element k of the rows of block ``half``, and which of its elements that is.

        Args:
            key: distinguishes the lists of ``values``.
            values: the registers of A, or values computed from each.
        """
        block, rank, element = self.shape.along_k(k)
        register = half + self.shape.halves * block
        place = (0, key, register, rank)
        if place not in self._done:
            self._done[place] = shuffled(self.b, values[register], row_sources(rank))
        return self._done[place], element

    def of_b(self, key: int, values: Sequence[Value], parity: int, k: int) -> tuple[Value, int]:
        """The same for B, for the columns of a parity."""
        block, rank, element = self.shape.along_k(k)
        place = (1, key, block, rank, parity)
        if place not in self._done:
            self._done[place] = shuffled(self.b, values[block], column_sources(rank, parity))
        return self._done[place], element


def _doubles(b: Builder, f: MmaForm, a: list[Value], right: list[Value], c: list[Value]) -> list[Value]:
    """f64: a chain of fma, k ascending."""
    moved = _Moved(b, f.shape)
    results = []
    for n in range(f.shape.results):
        total = b.bitcast(c[n], "double")
        for k in range(f.shape.k):
            x = b.bitcast(moved.of_a(0, a, n // 2, k)[0], "double")
            y = b.bitcast(moved.of_b(0, right, n % 2, k)[0], "double")
            total = b.canonical(b.intrinsic("fma", x, y, total))
        results.append(b.bitcast(total, "i64"))
    return results


def _integers(b: Builder, f: MmaForm, a: list[Value], right: list[Value], c: list[Value]) -> list[Value]:
    """Integers of 8, 4 or 1 bits: exact, modulo 2**32 or saturated."""
    moved = _Moved(b, f.shape)
    shape = f.shape
    results = []
    for n in range(shape.results):
        total = b.resize(c[n], "i64", signed=True) if f.saturate else c[n]
        step = shape.pack
        for k in range(0, shape.k, step):
            x, _ = moved.of_a(0, a, n // 2, k)
            y, _ = moved.of_b(0, right, n % 2, k)
            if f.bits:
                part = b.intrinsic("ctpop", b.op(f.bits, x, y))
            else:
                part = b.const("i32", 0)
                for element in range(step):
                    factors = (_part(b, v, element, shape.bits, kind) for v, kind in ((x, f.a), (y, f.b)))
                    part = b.add(part, b.op("mul", *factors))
            total = b.add(total, b.resize(part, total.type, signed=True))
        if f.saturate:
            for bound, name in ((0x7FFFFFFF, "smin"), (-0x80000000, "smax")):
                total = b.intrinsic(name, total, b.const("i64", bound))
        results.append(b.resize(total, "i32"))
    return results


def _part(b: Builder, x: Value, element: int, bits: int, kind: str) -> Value:
    """One element of a register, extended to 32 bits."""
    top = b.shift("shl", x, 32 - bits * (element + 1))
    return b.shift("ashr" if kind[0] == "s" else "lshr", top, 32 - bits)


def _rule(f: MmaForm, capability: int) -> dot.Accumulation:
    x, y = dot.FORMATS[f.a], dot.FORMATS[f.b]
    sums = dot.tensor_sum(x.bits, f.shape.k, capability, f.most)
    last = x.bits == 8 and capability >= 90
    if last:  # converted to f16, so that fewer numbers are subnormal
        x, y = (replace(each, least=dot.FORMATS["f16"].least) for each in (x, y))
    return dot.Accumulation(x, y, sums.fraction, sums.terms, f.d == "f16", kept=sums.kept, adds_last=last)


def _floats(
    b: FunctionBuilder,
    f: MmaForm,
    rule: dot.Accumulation,
    operands: tuple[list[Value], list[Value], list[Value]],
) -> list[Value]:
    """Floats, as in :mod:`kcheck.ptx.isa.dot`; infinities and NaNs are handled in a separate branch."""
    a, right, c = operands
    moved = _Moved(b, f.shape)
    spots = _split(b, f.shape, a, rule.a), _split(b, f.shape, right, rule.b)

    def factors(n: int) -> list[tuple[dot.DotFactor, dot.DotFactor]]:
        found = []
        for k in rule.order(f.shape.k):
            element = f.shape.along_k(k)[2]
            terms = []
            for place, spot, half in ((moved.of_a, spots[0], n // 2), (moved.of_b, spots[1], n % 2)):
                parts = spot[element]
                terms.append(
                    dot.DotFactor(*(place(element * 4 + p, parts[p], half, k)[0] for p in range(len(parts))))
                )
            found.append((terms[0], terms[1]))
        return found

    adds = [_accumulators(b, f, c, n) for n in range(f.shape.results)]
    starts = [b.splat(b.const("float", 0.0))] * len(adds) if rule.adds_last else adds
    usual = [dot.accumulate(b, rule, start, factors(n)) for n, start in enumerate(starts)]
    wild = dot.any_special(b, [*(t for spot in spots for parts in spot for t in parts[0]), *adds])
    sums = [b.variable("float", last) for *_, last in usual]
    with b.if_(wild, UNLIKELY):
        for n, start in enumerate(starts):
            sums[n].value = dot.accumulate_any(b, rule, start, factors(n), usual[n])
    results: list[Value] = [total.value for total in sums]
    if rule.adds_last:
        results = [b.canonical(b.op("fadd", r, add)) for r, add in zip(results, adds, strict=True)]
    if f.d == "f32":
        return [b.as_integer(r) for r in results]
    return dot.halves_of(b, results)


def _accumulators(b: Builder, f: MmaForm, c: list[Value], n: int) -> Value:
    """Element n of C as f32."""
    if f.c == "f32":
        return b.bitcast(c[n], "float")
    bits = b.resize(b.shift("lshr", c[n // 2], 16 * (n % 2)), "i16")
    return b.cast("fpext", b.bitcast(bits, "half"), "float")


def _split(b: Builder, shape: MatrixShape, registers: list[Value], f: dot.Format) -> list[list[list[Value]]]:
    """The split factors of some registers: by element of a register, by part of the factor, by register."""
    spots = []
    for element in range(shape.pack):
        terms = [dot.split(b, _number(b, r, element, f), f) for r in registers]
        spots.append(
            [
                [t.number for t in terms],
                [t.significand for t in terms],
                [t.exponent for t in terms],
            ]
        )
    return spots


def _number(b: Builder, register: Value, element: int, f: dot.Format) -> Value:
    """An element of a register as f32."""
    if f.name == "tf32":
        return b.bitcast(b.land(register, 0xFFFFE000), "float")
    if f.name == "bf16":
        bits = b.land(register, 0xFFFF0000) if element else b.shift("shl", register, 16)
        return b.bitcast(bits, "float")
    if f.bits == 8:
        return _eight(b, b.land(b.shift("lshr", register, 8 * element), 0xFF), f)
    half = b.resize(b.shift("lshr", register, 16 * element), "i16")
    return b.cast("fpext", b.bitcast(half, "half"), "float")


def _eight(b: Builder, code: Value, f: dot.Format) -> Value:
    """An 8-bit float as f32: shifted into place in an f16, then scaled if its exponent has fewer bits."""
    size = b.land(code, 0x7F)
    sign = b.shift("shl", b.land(code, 0x80), 24)
    places, scale = (8, 1.0) if f.name == "e5m2" else (7, 256.0)
    half = b.bitcast(b.resize(b.shift("shl", size, places), "i16"), "half")
    number = b.op("fmul", b.cast("fpext", half, "float"), b.const("float", scale))
    if f.name == "e4m3":  # its only NaN; it has no infinity
        number = b.select(b.compare("eq", size, 0x7F), b.float_bits("float", 0x7FFFFFFF), number)
    return b.bitcast(b.lor(b.as_integer(number), sign), "float")
