"""``mma.m8n8k4`` of f16, four products of 8 x 4 by 4 x 8: every form against a model in integers, bit by bit."""

from __future__ import annotations

import itertools
import math
import random
import struct
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from tests.isa.machines import Cpu, Gpu, Launch, Machine
from tests.isa.model.tensor import fused

WARPS = 3
FORMS = [
    (a, b, d, c)
    for a, b in itertools.product(("row", "col"), repeat=2)
    for d, c in (("f32", "f32"), ("f32", "f16"), ("f16", "f16"))
]


def place_of_a(layout: str, lane: int, i: int) -> tuple[int, int]:
    """PTX ISA: row and column of a_i."""
    if layout == "row":
        return (lane % 4 if lane < 16 else lane % 4 + 4), i
    return (i % 4 if lane < 16 else i % 4 + 4), lane % 4


def place_of_b(layout: str, lane: int, i: int) -> tuple[int, int]:
    """PTX ISA: row and column of b_i."""
    if layout == "row":
        return lane % 4, (i if lane < 16 else i + 4)
    return i, (lane % 4 if lane < 16 else lane % 4 + 4)


def place_of_c(kind: str, lane: int, i: int) -> tuple[int, int]:
    """PTX ISA: row and column of c_i and d_i."""
    if kind == "f16":
        return (lane % 4 if lane < 16 else lane % 4 + 4), i
    x = (lane & 0b1) + (i & 0b10)
    return (x if lane < 16 else x + 4), (i & 0b100) + (lane & 0b10) + (i & 0b1)


def kernel(form: tuple[str, str, str, str], counts: dict[str, int], target: int) -> str:
    """Registers of A, B and C in columns of 32 lanes, one set for each block of one warp; D likewise."""
    a, b, d, c = form
    order = [f"%{name}{n}" for name in "abc" for n in range(counts[name])]
    loads = [f"ld.global.b32 {r}, [%in+{128 * n}];" for n, r in enumerate(order)]
    stores = [f"st.global.b32 [%out+{128 * n}], %d{n};" for n in range(counts["d"])]
    vectors = (f"{{{', '.join(f'%{name}{n}' for n in range(counts[name]))}}}" for name in "dabc")
    return f"""
.version 8.0
.target sm_{target}
.address_size 64
.visible .entry product(.param .u64 inputs, .param .u64 results) {{
.reg .b32 {", ".join(f"%{name}<{count}>" for name, count in counts.items())}, %t, %i;
.reg .b64 %in, %out;
mov.u32 %t, %tid.x;
mov.u32 %i, %ctaid.x;
ld.param.u64 %in, [inputs];
ld.param.u64 %out, [results];
mad.wide.u32 %in, %i, {len(order) * 128}, %in;
mad.wide.u32 %out, %i, {counts["d"] * 128}, %out;
mad.wide.u32 %in, %t, 4, %in;
mad.wide.u32 %out, %t, 4, %out;
{chr(10).join(loads)}
mma.sync.aligned.m8n8k4.{a}.{b}.{d}.f16.f16.{c} {", ".join(vectors)};
{chr(10).join(stores)}
ret;
}}
"""


def registers(codes: list[int], bits: int) -> list[int]:
    """Elements as registers of 32 bits."""
    if bits == 32:
        return codes
    return [low | high << 16 for low, high in zip(codes[::2], codes[1::2], strict=True)]


def element(kind: str, chance: random.Random, warp: int) -> int:
    """The bits of a number: near 1, of any size, or a special one."""
    pack, unpack = {"f16": ("<e", "<H"), "f32": ("<f", "<I")}[kind]
    if warp == 1:
        return chance.getrandbits(16 if kind == "f16" else 32)
    number = chance.choice([chance.gauss(0, 2), 0.0, -1.0, 3.0e-5]) if warp == 0 else chance.gauss(0, 1)
    return int(struct.unpack(unpack, struct.pack(pack, number))[0])


def expected(target: int, d: str, row: list[int], column: list[int], start: int) -> int:
    """The bits of an element of D, of which ``start`` are those of C."""
    if target < 80:
        return fused(row, column, start, ("f16", "f16", d), 24, 23)
    x, y = (np.array(codes, np.uint16).view(np.float16).astype(np.float32) for codes in (row, column))
    own = np.uint32(start).view(np.float32) if d == "f32" else np.float32(np.uint16(start).view(np.float16))
    with np.errstate(all="ignore"):
        if d == "f32":
            total = np.float32(0)
            for n in range(4):
                total = _fma(x[n], y[n], total)
            total = total + own
        else:
            total = (own + _fma(x[1], y[1], x[0] * y[0])) + _fma(x[3], y[3], x[2] * y[2])
        if np.isnan(total):
            return 0x7FFFFFFF if d == "f32" else 0x7FFF
        return int(total.view(np.uint32)) if d == "f32" else int(np.float16(total).view(np.uint16))


def _fma(x: np.float32, y: np.float32, z: np.float32) -> np.float32:
    """Rounded once: in float64 to odd, which has enough bits to round again. The product is exact."""
    product, own = float(x) * float(y), float(z)
    total = product + own
    if math.isfinite(total):
        error = Fraction(product) + Fraction(own) - Fraction(total)
        if error and not int(np.float64(total).view(np.uint64)) & 1:
            total = math.nextafter(total, math.inf if error > 0 else -math.inf)
    return np.float32(total)


def complaints(form: tuple[str, str, str, str], machine: Machine, target: int) -> list[str]:
    """What differs from the model."""
    a_layout, b_layout, d, c = form
    chance = random.Random(str(form))
    counts = {"a": 2, "b": 2, "c": 4 if c == "f16" else 8, "d": 4 if d == "f16" else 8}
    content, matrices = b"", []
    for warp in range(WARPS):
        quads = []
        for _ in range(4):
            a = [[element("f16", chance, warp) for _ in range(4)] for _ in range(8)]
            b = [[element("f16", chance, warp) for _ in range(8)] for _ in range(4)]
            own = [[element(c, chance, warp) for _ in range(8)] for _ in range(8)]
            quads.append((a, b, own))
        columns = []
        for lane in range(32):
            a, b, own = quads[lane % 16 // 4]
            of_a = [a[row][k] for row, k in (place_of_a(a_layout, lane, i) for i in range(4))]
            of_b = [b[k][column] for k, column in (place_of_b(b_layout, lane, i) for i in range(4))]
            of_c = [own[row][column] for row, column in (place_of_c(c, lane, i) for i in range(8))]
            columns.append(
                [*registers(of_a, 16), *registers(of_b, 16), *registers(of_c, 16 if c == "f16" else 32)]
            )
        words = [columns[lane][n] for n in range(len(columns[0])) for lane in range(32)]
        content += struct.pack(f"<{len(words)}I", *words)
        matrices.append(quads)
    ran = machine.run(
        Launch(kernel(form, counts, target), "product", (content, bytes(WARPS * counts["d"] * 128)), WARPS, 32)
    )
    found = [f"reports {rule}" for rule in ran.found]
    results = struct.unpack(f"<{WARPS * counts['d'] * 32}I", ran.buffers[1])
    for warp, lane, i in itertools.product(range(WARPS), range(32), range(8)):
        a, b, own = matrices[warp][lane % 16 // 4]
        row, column = place_of_c(d, lane, i)
        start = own[row][column]
        if d == "f32" and c == "f16":  # exact: the accumulator is read as a number
            start = _widened(start)
        model = expected(target, d, a[row], [b[k][column] for k in range(4)], start)
        register = results[(warp * counts["d"] + (i // 2 if d == "f16" else i)) * 32 + lane]
        got = register >> (16 * (i % 2)) & 0xFFFF if d == "f16" else register
        if got != model:
            found.append(f"warp {warp}, lane {lane}, D[{row}, {column}]: {got:#x}, expected {model:#x}")
    return found


def _widened(bits: int) -> int:
    return int(struct.unpack("<I", struct.pack("<f", struct.unpack("<e", struct.pack("<H", bits))[0]))[0])


@pytest.mark.parametrize("target", [75, 80])
@pytest.mark.parametrize("form", FORMS, ids=".".join)
def test_a_product_of_quad_pairs_has_the_bits_of_the_model(
    form: tuple[str, str, str, str], target: int, cpu: Callable[[int], Cpu]
) -> None:
    """On sm_75 of a tensor core; on later ones of the f32 instructions to which it is compiled."""
    found = complaints(form, cpu(8), target)
    assert not found, "\n".join(found[:10])


@pytest.mark.gpu
@pytest.mark.parametrize("form", FORMS, ids=".".join)
def test_a_device_has_the_bits_of_the_model(form: tuple[str, str, str, str], gpu: Gpu) -> None:
    found = complaints(form, gpu, gpu.capability)
    assert not found, "\n".join(found[:10])
