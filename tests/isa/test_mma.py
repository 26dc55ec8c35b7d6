"""``mma.sync``: every form against a model in integers, bit by bit."""

from __future__ import annotations

import math
import random
import re
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from kcheck.cpu.cache import ObjectCache
from kcheck.cpu.executor import Executor, KernelLaunch
from kcheck.cpu.memory import Memory, MemoryKind
from kcheck.model import Finding
from kcheck.ptx.abi import Checks
from tests.isa.machines import Cpu, Gpu, Launch, Machine
from tests.isa.model.tensor import FORMATS, LAYOUTS, Format, c_place, fused

WARPS = 6
_BITS = {
    "f64": 64,
    "tf32": 32,
    "f16": 16,
    "bf16": 16,
    "e4m3": 8,
    "e5m2": 8,
    "s8": 8,
    "u8": 8,
    "s4": 4,
    "u4": 4,
    "b1": 1,
}


@dataclass(frozen=True, slots=True)
class Form:
    """One instruction; ``tail`` is what follows the types, ``most`` the largest K of the machine instruction."""

    shape: str
    d: str
    a: str
    b: str
    c: str
    target: int = 80
    saturate: bool = False
    tail: str = ""
    most: int = 32

    def __str__(self) -> str:
        middle = ".satfinite" if self.saturate else ""
        return f"mma.sync.aligned.{self.shape}.row.col{middle}.{self.d}.{self.a}.{self.b}.{self.c}{self.tail}"


def forms() -> Iterator[Form]:
    """Every form up to sm_89, and those of f64 and wider accumulation that sm_90 adds."""
    for target in (80, 90):
        for shape in ("m16n8k8", "m16n8k16"):
            for c in ("f32", "f16"):
                yield Form(shape, c, "f16", "f16", c, target)
            yield Form(shape, "f32", "bf16", "bf16", "f32", target)
        for shape in ("m16n8k4", "m16n8k8"):
            yield Form(shape, "f32", "tf32", "tf32", "f32", target)
    for shape in ("m16n8k16", "m16n8k32"):
        for a, b in (("e4m3", "e4m3"), ("e5m2", "e4m3"), ("e4m3", "e5m2"), ("e5m2", "e5m2")):
            for c in ("f32", "f16"):
                yield Form(shape, c, a, b, c, 89)
                yield Form(shape, c, a, b, c, 90)
    yield Form("m8n8k4", "f64", "f64", "f64", "f64")
    yield Form("m16n8k4", "f64", "f64", "f64", "f64", 90)
    for signs, shapes in (("s8 u8", "m8n8k16 m16n8k16 m16n8k32"), ("s4 u4", "m8n8k32 m16n8k32 m16n8k64")):
        for shape in shapes.split():
            for a in signs.split():
                for b in signs.split():
                    for saturate in (False, True):
                        yield Form(shape, "s32", a, b, "s32", saturate=saturate)
    for shape in ("m8n8k128", "m16n8k128", "m16n8k256"):
        for operation in ("xor", "and"):
            yield Form(shape, "s32", "b1", "b1", "s32", tail=f".{operation}.popc")


def elements(form: Form, kind: str, count: int, chance: random.Random, warp: int) -> list[int]:
    """The bits of elements of A, B or C: in turn of similar size, of any size, few values, edges; then many and
    few zeros, with no very large or small number."""
    bits = {"f32": 32, "s32": 32}.get(kind) or _BITS[kind]
    if kind == "f64":
        return [struct.unpack("<Q", struct.pack("<d", chance.gauss(0, 1)))[0] for _ in range(count)]
    if kind not in FORMATS:
        extremes = [0, 1, (1 << bits) - 1, 1 << (bits - 1), (1 << (bits - 1)) - 1]
        return [chance.choice(extremes) if warp % 3 == 2 else chance.getrandbits(bits) for _ in range(count)]
    f = FORMATS[kind]
    sign = 1 << (f.exponent + f.fraction)
    found = []
    for _ in range(count):
        code = chance.getrandbits(1 + f.exponent + f.fraction)
        if warp >= 4:
            found.append(_in_range(f, 0.9 if warp == 4 else 0.1, chance))
            continue
        if warp % 4 == 0:  # near 1
            code = chance.choice((0, sign)) | (f.bias + chance.randint(-2, 2)) << f.fraction
            code |= chance.getrandbits(f.fraction)
        elif warp % 4 == 1:  # sums that cancel, zeros, small numbers
            code = chance.choice([0, sign, f.bias << f.fraction, sign | f.bias << f.fraction, 1, code])
        if warp != 3 and isinstance(f.split(code), str):
            code = f.bias << f.fraction
        if warp == 3 and chance.random() < 0.7:
            code = f.bias << f.fraction
        found.append(code)
    return found


def _in_range(f: Format, zeros: float, chance: random.Random) -> int:
    """Zero, or a number of 2**-100 to 2**100; factors of bfloat16 of 2**-50 to 2**50."""
    if chance.random() < zeros:
        return 0
    most = {23: 100, 7: 50}.get(f.fraction, f.bias)
    exponent = chance.choice((chance.randint(-most, most - 1), -most, most - 1, 0, -1))
    number = max(exponent + f.bias, 0) << f.fraction | chance.getrandbits(f.fraction)
    return chance.getrandbits(1) << (f.exponent + f.fraction) | number


def expected(form: Form, a: list[list[int]], b: list[list[int]], c: list[list[int]]) -> list[list[int]]:
    """The bits of D, by row and column."""
    rows = []
    for row, own in zip(a, c, strict=True):
        rows.append([element(form, row, [r[n] for r in b], own[n]) for n in range(8)])
    return rows


def element(form: Form, row: list[int], column: list[int], own: int) -> int:
    """The bits of one element of D."""
    if form.a == "f64":
        total = _double(own)
        for x, y in zip(row, column, strict=True):
            total = _fma(_double(x), _double(y), total)
        return int(struct.unpack("<Q", struct.pack("<d", total))[0])
    if form.a in FORMATS:
        bits = _BITS[form.a]
        fraction, block, kept = 24, min(128 // bits, len(row)), 23
        if form.target >= 90:
            fraction, block = 25, min(form.most, len(row))
            if bits == 8:  # as f16, without C
                return _added(form, own, _halves_of_eight(form, row, column))
        elif bits == 8:
            fraction, kept = 13, 13
        mask = 0xFFFFE000 if form.a == "tf32" else 0xFFFFFFFF
        for k in range(0, len(row), block):
            x, y = ([v & mask for v in side[k : k + block]] for side in (row, column))
            own = fused(x, y, own, (form.a, form.b, form.c), fraction, kept)
        return own
    total = own - ((own & 0x80000000) << 1)
    for x, y in zip(row, column, strict=True):
        if form.a == "b1":
            total += x ^ y if "xor" in form.tail else x & y
        else:
            total += _integer(x, form.a) * _integer(y, form.b)
    if form.saturate:
        total = max(-(1 << 31), min((1 << 31) - 1, total))
    return total & 0xFFFFFFFF


def _halves_of_eight(form: Form, row: list[int], column: list[int]) -> int:
    """The sum of products of 8-bit floats: of the lower two elements of each register, then of the upper two."""
    total = 0
    for elements in ((0, 1), (2, 3)):
        x, y = (
            [_as_half(side[k], kind) for k in range(len(side)) if k % 4 in elements]
            for side, kind in ((row, form.a), (column, form.b))
        )
        total = fused(x, y, total, ("f16", "f16", form.c), 25, 23)
    return total


def _as_half(code: int, kind: str) -> int:
    """The bits of an 8-bit float as f16."""
    if kind == "e5m2":
        return code << 8
    parts = FORMATS[kind].split(code)
    value = math.nan if isinstance(parts, str) else math.ldexp(parts[0], parts[1] - FORMATS[kind].fraction)
    return struct.unpack("<H", struct.pack("<e", value))[0] | (code & 0x80) << 8


def _added(form: Form, x: int, y: int) -> int:
    """The sum of two numbers of the type of C, rounded to nearest even."""
    with np.errstate(all="ignore"):
        if form.c == "f16":
            halves = np.array([x, y], np.uint16).view(np.float16)
            total = halves[0] + halves[1]
            return 0x7FFF if np.isnan(total) else int(total.view(np.uint16))
        floats = np.array([x, y], np.uint32).view(np.float32)
        total = floats[0] + floats[1]
        return 0x7FFFFFFF if np.isnan(total) else int(total.view(np.uint32))


def _integer(code: int, kind: str) -> int:
    top = 1 << (_BITS[kind] - 1)
    return code - 2 * (code & top) if kind[0] == "s" else code


def _double(bits: int) -> float:
    return float(struct.unpack("<d", struct.pack("<Q", bits))[0])


def _fma(x: float, y: float, z: float) -> float:
    from fractions import Fraction

    exact = Fraction(x) * Fraction(y) + Fraction(z)
    return float(exact) if exact else math.copysign(0.0, 1.0)


def kernel(form: Form, counts: tuple[int, int, int, int]) -> str:
    """Registers of A, B and C in columns of 32 lanes, one set for each block of one warp; D likewise."""
    kind, size = ("b64", 8) if form.a == "f64" else ("b32", 4)
    names = dict(zip("dabc", counts, strict=True))

    def vector(name: str) -> str:
        registers = ", ".join(f"%{name}{n}" for n in range(names[name]))
        return f"{{{registers}}}"

    order = [f"%{name}{n}" for name in "abc" for n in range(names[name])]
    loads = [f"ld.global.{kind} {r}, [%in+{32 * size * n}];" for n, r in enumerate(order)]
    stores = [f"st.global.{kind} [%out+{32 * size * n}], %d{n};" for n in range(names["d"])]
    return f"""
.version 8.7
.target sm_{form.target}
.address_size 64
.visible .entry product(.param .u64 inputs, .param .u64 results) {{
.reg .{kind} {", ".join(f"%{name}<{count}>" for name, count in names.items())};
.reg .b32 %t, %i;
.reg .b64 %in, %out;
mov.u32 %t, %tid.x;
mov.u32 %i, %ctaid.x;
ld.param.u64 %in, [inputs];
ld.param.u64 %out, [results];
mad.wide.u32 %in, %i, {len(order) * 32 * size}, %in;
mad.wide.u32 %out, %i, {names["d"] * 32 * size}, %out;
mad.wide.u32 %in, %t, {size}, %in;
mad.wide.u32 %out, %t, {size}, %out;
{chr(10).join(loads)}
{form} {vector("d")}, {vector("a")}, {vector("b")}, {vector("c")};
{chr(10).join(stores)}
ret;
}}
"""


def packed(codes: list[int], bits: int, unit: int) -> list[int]:
    """Elements put together in registers of ``unit`` bits, the first lowest."""
    per = max(unit // bits, 1)
    return [
        sum(code << (bits * n) for n, code in enumerate(codes[k : k + per])) for k in range(0, len(codes), per)
    ]


def complaints(form: Form, machine: Machine) -> list[str]:
    """What differs from the model."""
    bits = _BITS[form.a]
    layout = LAYOUTS[form.shape, bits]
    unit = 64 if bits == 64 else 32
    of_c = {"f16": 16, "f64": 64}.get(form.c, 32)
    chance = random.Random(str(form) + str(form.target))
    content, matrices, counts = b"", [], (0, 0, 0, 0)
    for warp in range(WARPS):
        a = [elements(form, form.a, layout.k, chance, warp) for _ in range(layout.m)]
        b = [elements(form, form.b, 8, chance, warp) for _ in range(layout.k)]
        c = [elements(form, form.c, 8, chance, warp) for _ in range(layout.m)]
        columns: list[list[int]] = []
        for lane in range(32):
            group, rank = divmod(lane, 4)
            own = []
            for matrix, place, count, size in (
                (a, layout.a, layout.counts[0], bits),
                (b, layout.b, layout.counts[1], bits),
                (c, c_place, layout.counts[2], of_c),
            ):
                spots = [place(i, group, rank) for i in range(count)]
                own.append(packed([matrix[row][column] for row, column in spots], size, unit))
            counts = (len(own[2]), *map(len, own))  # type: ignore[assignment]
            columns.append([register for part in own for register in part])
        words = [columns[lane][n] for n in range(len(columns[0])) for lane in range(32)]
        content += struct.pack(f"<{len(words)}{'Q' if unit == 64 else 'I'}", *words)
        matrices.append((a, b, c))
    room = WARPS * counts[0] * 32 * unit // 8
    ran = machine.run(Launch(kernel(form, counts), "product", (content, bytes(room)), WARPS, 32))
    found = [f"reports {rule}" for rule in ran.found]
    results = struct.unpack(f"<{WARPS * counts[0] * 32}{'Q' if unit == 64 else 'I'}", ran.buffers[1])
    for warp, (a, b, c) in enumerate(matrices):
        model = expected(form, a, b, c)
        for lane in range(32):
            for i in range(layout.counts[2]):
                per = max(unit // of_c, 1)
                register = results[(warp * counts[0] + i // per) * 32 + lane]
                got = register >> (of_c * (i % per)) & ((1 << of_c) - 1)
                row, column = c_place(i, *divmod(lane, 4))
                if got != model[row][column]:
                    found.append(f"warp {warp}, D[{row}, {column}]: {got:#x}, expected {model[row][column]:#x}")
    return found


EVERY_DAY = {
    "m16n8k16.f32.f16.f16.f32",
    "m16n8k16.f16.f16.f16.f16",
    "m16n8k8.f32.bf16.bf16.f32",
    "m16n8k8.f32.tf32.tf32.f32",
    "m16n8k16.f32.e4m3.e5m2.f32",
    "m8n8k4.f64.f64.f64.f64",
    "m8n8k16.s32.s8.u8.s32",
    "m16n8k32.s32.s8.s8.s32",
    "m16n8k32.s32.u4.s4.s32",
    "m8n8k128.s32.b1.b1.s32",
}
"""Forms that between them take every way through the code; the others are the same with other numbers."""


def _cases() -> Iterator[object]:
    for form in forms():
        daily = f"{form.shape}.{form.d}.{form.a}.{form.b}.{form.c}" in EVERY_DAY and form.target < 90
        for width in (1, 8):
            marks = () if daily and (width == 8 or not form.saturate) else (pytest.mark.soak,)
            yield pytest.param(form, width, marks=marks, id=f"{form}-sm_{form.target}-{width}")


@pytest.mark.parametrize(("form", "width"), list(_cases()))
def test_a_product_has_the_bits_of_the_model(form: Form, width: int, cpu: Callable[[int], Cpu]) -> None:
    """Numbers near 1, any bits, sums that cancel, infinities and NaNs."""
    found = complaints(form, cpu(width))
    assert not found, "\n".join(found[:10])


@pytest.mark.gpu
@pytest.mark.parametrize("form", [f for f in forms() if f.target == 90 or f.a not in FORMATS], ids=str)
def test_a_device_has_the_bits_of_the_model(form: Form, gpu: Gpu) -> None:
    """A CUDA device of sm_90 or later gives what the model says of it."""
    if gpu.capability < 90:
        pytest.skip("the model is of other tensor cores")
    found = complaints(replace(form, target=gpu.capability), gpu)
    assert not found, "\n".join(found[:10])


@dataclass(frozen=True, slots=True)
class Launched:
    """What a launch of ``product`` under initcheck reports: rules, and messages."""

    rules: tuple[str, ...]
    messages: tuple[str, ...]


def launched(
    folder: Path, width: int, text: str, words: int, undefined: Sequence[int], block: int = 32
) -> Launched:
    """Launch one block whose input is ``words`` words, of which those of some indices are uninitialized."""
    findings: list[Finding] = []
    memory = Memory(64 << 20)
    executor = Executor(memory, 1, ObjectCache(folder), time.monotonic, findings.append, lambda _: None)
    executor.width = width
    executor.checks = Checks(init=True)
    given, taken = (memory.allocate(4 * n, MemoryKind.DEVICE) for n in (words, 4 * 64))
    memory.define(given, 4 * words)
    for word in undefined:
        memory.undefine(given + 4 * word, 4)
    module = executor.load(text)
    params = struct.pack("<QQ", given, taken)
    executor.launch(KernelLaunch(module, "product", params, (1, 1, 1), (block, 1, 1), 0, False))
    return Launched(tuple(f.rule for f in findings), tuple(f.message for f in findings))


HALF = Form("m16n8k16", "f32", "f16", "f16", "f32")
COUNTS = (4, 4, 2, 4)


def of_rows(rows: range) -> str:
    """The kernel of HALF, storing c0 and c1 of some rows of D only."""
    text = kernel(HALF, COUNTS)
    first = text.index("st.global")
    guard = f"shr.u32 %i, %t, 2;\nsub.u32 %i, %i, {rows.start};\nsetp.ge.u32 %p, %i, {len(rows)};\n@%p bra END;\n"
    text = text[:first] + guard + text[first:]
    text = re.sub(r"st\.global\.b32 \[%out\+\d+\], %d[23];\n", "", text)
    return text.replace(".reg .b32 %t", ".reg .pred %p;\n.reg .b32 %t").replace("ret;", "END:\nret;")


@pytest.mark.parametrize("width", [1, 8])
@pytest.mark.parametrize(
    ("name", "register", "lane", "reaches"),
    [
        ("A", 0, 4 * 5 + 2, "row 5"),
        ("C", 6, 4 * 5 + 2, "row 5"),
        ("B", 4, 4 * 3 + 1, "column 3"),
        ("A, row 13", 1, 4 * 5, ""),
    ],
)
def test_an_uninitialized_element_reaches_its_row_and_column(
    tmp_path: Path, width: int, name: str, register: int, lane: int, reaches: str
) -> None:
    """Storing what was computed with it is an initcheck error; storing other rows is clean."""
    undefined = [32 * register + lane]
    with_it, without = (
        launched(tmp_path, width, of_rows(rows), 10 * 32, undefined).rules for rows in (range(5, 6), range(4))
    )
    assert set(with_it) == ({"initcheck"} if reaches else set())
    assert set(without) == ({"initcheck"} if reaches.startswith("column") else set())


@pytest.mark.parametrize("width", [1, 8])
def test_a_warp_that_is_not_whole_is_an_error(tmp_path: Path, width: int) -> None:
    """A block of 20 threads: lanes 20 to 31 of its warp do not execute the mma."""
    found = launched(tmp_path, width, kernel(HALF, COUNTS), 10 * 32, [], block=20)
    assert set(found.rules) == {"synccheck"}
    assert found.messages[0] == "all lanes of a warp must execute this, and lanes 20-31 do not"
