"""``wmma``: matrices loaded in either layout, multiplied and stored have the bits of the model of ``mma``."""

from __future__ import annotations

import random
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from kcheck.cpu.cache import ObjectCache
from kcheck.cpu.executor import Executor, KernelLaunch
from kcheck.cpu.memory import Memory, MemoryKind
from kcheck.model import Finding
from kcheck.ptx.abi import Checks
from tests.isa.machines import Cpu, Gpu, Launch, Machine
from tests.isa.test_mma import Form, element, elements

PAD = 16  # elements between rows
BITS = {"f16": 16, "f32": 32, "s32": 32, "f64": 64, "bf16": 16, "tf32": 32}
BITS |= {"s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 1}
COUNTS = {
    ("m16n16k16", "f16"): (8, 8),
    ("m32n8k16", "f16"): (8, 8),
    ("m8n32k16", "f16"): (8, 8),
    ("m16n16k16", "bf16"): (4, 4),
    ("m32n8k16", "bf16"): (8, 2),
    ("m8n32k16", "bf16"): (2, 8),
    ("m16n16k8", "tf32"): (4, 4),
    ("m8n8k4", "f64"): (1, 1),
    ("m16n16k16", "s8"): (2, 2),
    ("m32n8k16", "s8"): (4, 1),
    ("m8n32k16", "s8"): (1, 4),
    ("m8n8k32", "s4"): (1, 1),
    ("m8n8k128", "b1"): (1, 1),
}
"""Registers of A and B: PTX ISA, "Matrix Fragments for WMMA"."""


@dataclass(frozen=True, slots=True)
class Product:
    """A ``wmma.mma`` and how its matrices lie in memory.

    Attributes:
        layouts: of A, B, C and D: r(ow) or c(olumn).
    """

    shape: str
    a: str
    d: str
    c: str
    layouts: str
    space: str = ".global"
    tail: str = ""
    operation: str = ""

    def __str__(self) -> str:
        return f"{self.shape}.{self.d}.{self.a}.{self.c}{self.tail}{self.operation} {self.layouts}{self.space}"

    @property
    def sizes(self) -> tuple[int, int, int]:
        m, _, rest = self.shape[1:].partition("n")
        n, _, k = rest.partition("k")
        return int(m), int(n), int(k)


def products() -> Iterator[Product]:
    """Every shape and type, each with two layouts; all layouts of one."""
    for (shape, kind), _ in COUNTS.items():
        kinds = {"s8": ("s8", "u8"), "s4": ("s4", "u4")}.get(kind, (kind,))
        results = {"f16": ["f16f16", "f32f32", "f32f16", "f16f32"], "f64": ["f64f64"]}
        of_c = results.get(kind, ["f32f32"] if kind in ("bf16", "tf32") else ["s32s32"])
        only = kind in ("s4", "b1")
        for each in kinds:
            for pair in of_c:
                for layouts in ("rcrr", "rccc") if only else ("rcrr", "crcc"):
                    yield Product(
                        shape, each, pair[:3], pair[3:], layouts, operation=".xor" if kind == "b1" else ""
                    )
    yield Product("m8n8k128", "b1", "s32", "s32", "rcrr", operation=".and")
    yield Product("m16n16k16", "s8", "s32", "s32", "rcrr", tail=".satfinite")
    for layouts in ("rrrr", "rrcr", "ccrc", "crrc", "rccr"):
        yield Product("m16n16k16", "f16", "f32", "f32", layouts)
    for space in (".shared", ""):
        yield Product("m16n16k16", "f16", "f32", "f32", "rcrr", space)


def kernel(p: Product) -> str:
    """One warp; A, B, C and D one after another in global memory, or the first three copied to shared memory."""
    size = matrix_bytes(p)
    first = COUNTS[p.shape, {"u8": "s8", "u4": "s4"}.get(p.a, p.a)]
    per = 2 if "m8n8" in p.shape else 8
    counts = (*first, per // 2 if p.c == "f16" else per, per // 2 if p.d == "f16" else per)
    names = [[f"%{w}{n}" for n in range(count)] for w, count in zip("abcd", counts, strict=True)]
    kinds = ["f64" if p.a == "f64" else "b32"] * 2 + [{"f16": "b32"}.get(kind, kind) for kind in (p.c, p.d)]
    declared = "\n".join(
        f".reg .{kind} {', '.join(registers)};" for kind, registers in zip(kinds, names, strict=True)
    )
    vectors = [f"{{{', '.join(registers)}}}" for registers in names]
    offsets = [sum(size[:n]) for n in range(4)]
    strides = [stride(p, n) for n in range(4)]
    words = {"r": "row", "c": "col"}
    base = "%in"
    stage = ""
    if p.space == ".shared":
        base = "%sh"
        stage = "\n".join(
            f"ld.global.b32 %w, [%cell+{128 * n}];\nst.shared.b32 [%mine+{128 * n}], %w;"
            for n in range(-(-sum(size[:3]) // 128))
        )
    loads = "\n".join(
        f"wmma.load.{w}.sync.aligned.{words[p.layouts[n]]}.{p.shape}{p.space}.{kind} {vectors[n]}, "
        f"[{base}+{offsets[n]}], {strides[n]};"
        for n, (w, kind) in enumerate((("a", p.a), ("b", p.a), ("c", p.c)))
    )
    types = f"{p.d}.{p.c}" if p.a == "f16" else f"{p.d}.{p.a}.{p.a}.{p.c}"
    types = f"rn.{types}" if p.a == "f64" else types
    operation = f"{p.operation}.popc" if p.operation else ""
    layouts = f"{words[p.layouts[0]]}.{words[p.layouts[1]]}"
    multiply = f"wmma.mma{operation}.sync.aligned.{layouts}.{p.shape}.{types}{p.tail} "
    multiply += f"{vectors[3]}, {vectors[0]}, {vectors[1]}, {vectors[2]};"
    space = ".global" if p.space else ""
    store = f"wmma.store.d.sync.aligned.{words[p.layouts[3]]}.{p.shape}{space}.{p.d} "
    store += f"[%out], {vectors[3]}, {strides[3]};"
    return f"""
.version 8.7
.target sm_80
.address_size 64
.visible .entry product(.param .u64 in, .param .u64 out) {{
.shared .align 32 .b8 tile[{sum(size) + 128}];
.reg .b32 %t, %w;
.reg .b64 %in, %out, %sh, %cell, %mine;
{declared}
ld.param.u64 %in, [in];
ld.param.u64 %out, [out];
mov.u32 %t, %tid.x;
mov.u64 %sh, tile;
mad.wide.u32 %cell, %t, 4, %in;
mad.wide.u32 %mine, %t, 4, %sh;
{stage}
bar.sync 0;
{loads}
{multiply}
{store}
ret;
}}
"""


def extents(p: Product) -> list[tuple[int, int, str]]:
    """Rows, columns and type of A, B, C and D."""
    m, n, k = p.sizes
    return [(m, k, p.a), (k, n, p.a), (m, n, p.c), (m, n, p.d)]


def stride(p: Product, number: int) -> int:
    """Elements from one row (or column) to the next."""
    rows, columns, kind = extents(p)[number]
    pad = PAD if BITS[kind] >= 8 else 32 // BITS[kind] * 4
    return (columns if p.layouts[number] == "r" else rows) + pad


def matrix_bytes(p: Product) -> list[int]:
    """Bytes of each matrix, a multiple of 128."""
    found = []
    for number, (rows, columns, kind) in enumerate(extents(p)):
        lines = rows if p.layouts[number] == "r" else columns
        found.append(-(-lines * stride(p, number) * BITS[kind] // 8 // 128) * 128)
    return found


def place(p: Product, number: int, row: int, column: int) -> int:
    """The number of an element in memory."""
    major, minor = (row, column) if p.layouts[number] == "r" else (column, row)
    return major * stride(p, number) + minor


def put(p: Product, number: int, matrix: list[list[int]]) -> bytes:
    """A matrix in memory."""
    bits = BITS[extents(p)[number][2]]
    whole = 0
    for row, line in enumerate(matrix):
        for column, code in enumerate(line):
            whole |= code << bits * place(p, number, row, column)
    return whole.to_bytes(matrix_bytes(p)[number], "little")


def expected(
    p: Product, target: int, a: list[list[int]], b: list[list[int]], c: list[list[int]]
) -> list[list[int]]:
    """The bits of D: as ``mma`` adds up; f32 are rounded to f16 at the end."""
    form = Form(p.shape, "", p.a, p.a, p.c, target, bool(p.tail), p.operation, 4 if p.a == "tf32" else 32)
    widened = p.a == "f16" and "f32" in (p.c, p.d)
    found = []
    for row, own in zip(a, c, strict=True):
        line = []
        for n, add in enumerate(own):
            if widened and p.c == "f16":
                add = struct.unpack("<I", struct.pack("<f", struct.unpack("<e", struct.pack("<H", add))[0]))[0]
            bits = element(replace(form, c="f32") if widened else form, row, [r[n] for r in b], add)
            if widened and p.d == "f16":
                bits = _half(bits)
            line.append(bits)
        found.append(line)
    return found


def _half(bits: int) -> int:
    number = struct.unpack("<f", struct.pack("<I", bits))[0]
    try:
        return struct.unpack("<H", struct.pack("<e", number))[0]
    except OverflowError:
        return 0x7C00 | bits >> 16 & 0x8000


def cases() -> Iterator[object]:
    """One product of each shape and type is for every day, and every layout of one of them."""
    seen = set()
    for number, p in enumerate(products()):
        family = (p.shape, p.a)
        daily = family not in seen or p.layouts not in ("rcrr", "crcc", "rccc") or bool(p.tail)
        seen.add(family)
        width = 8 if number % 2 else 1
        yield pytest.param(p, width, marks=() if daily else (pytest.mark.soak,), id=f"{p} {width}")


@pytest.mark.parametrize(("product", "width"), list(cases()))
def test_a_product_has_the_bits_of_the_model(product: Product, width: int, cpu: Callable[[int], Cpu]) -> None:
    """For numbers near 1; nothing is written beside D."""
    wrong = complaints(product, cpu(width))
    assert not wrong, "\n".join(wrong[:10])


@pytest.mark.gpu
@pytest.mark.parametrize("product", list(products()), ids=str)
def test_a_device_has_the_bits_of_the_model(product: Product, gpu: Gpu) -> None:
    """A CUDA device gives what the model says of its target."""
    wrong = complaints(product, gpu, gpu.capability)
    assert not wrong, "\n".join(wrong[:10])


def complaints(product: Product, machine: Machine, target: int = 80) -> list[str]:
    """What differs from the model, and what is written beside D."""
    chance = random.Random(str(product))
    given = []
    form = Form(product.shape, "", product.a, product.a, product.c, tail=product.operation)
    for rows, columns, kind in extents(product)[:3]:
        given.append([elements(form, kind, columns, chance, 0) for _ in range(rows)])
    content = b"".join(put(product, n, matrix) for n, matrix in enumerate(given))
    room = bytes([0xA5]) * matrix_bytes(product)[3]
    ran = machine.run(Launch(kernel(product), "product", (content, room), 1, 32))
    wrong = [f"reports {rule}" for rule in ran.found]
    model = expected(product, target, *given)
    bits = BITS[product.d]
    after = int.from_bytes(ran.buffers[1], "little")
    untouched = int.from_bytes(room, "little")
    for row, line in enumerate(model):
        for column, code in enumerate(line):
            at = bits * place(product, 3, row, column)
            got = after >> at & ((1 << bits) - 1)
            if got != code:
                wrong.append(f"D[{row}, {column}]: {got:#x}, expected {code:#x}")
            after ^= (got << at) ^ (untouched & (((1 << bits) - 1) << at))
    if after != untouched:
        wrong.append("wrote beside D")
    return wrong


SHARED = Product("m16n16k16", "f16", "f32", "f32", "rcrr", ".shared")


def told(text: str, width: int, checks: Checks, folder: Path, defined: int | None = None) -> list[Finding]:
    """What a launch of SHARED reports; the first bytes of its input are initialized."""
    found: list[Finding] = []
    memory = Memory(64 << 20)
    executor = Executor(memory, 1, ObjectCache(folder), time.monotonic, found.append, lambda _: None)
    executor.width = width
    executor.checks = checks
    size = matrix_bytes(SHARED)
    given, taken = memory.allocate(sum(size), MemoryKind.DEVICE), memory.allocate(size[3], MemoryKind.DEVICE)
    if checks.init:
        memory.undefine(given, sum(size))
        memory.define(given, sum(size) if defined is None else defined)
    module = executor.load(text)
    params = struct.pack("<QQ", given, taken)
    executor.launch(KernelLaunch(module, "product", params, (1, 1, 1), (32, 1, 1), 0, False))
    return found


@pytest.mark.parametrize("width", [1, 32])
def test_checks_see_loads_and_stores(tmp_path: Path, width: int) -> None:
    """A missing barrier before a load is a race; an uninitialized element of A reaches D; memory is checked."""
    text = kernel(SHARED)
    assert told(text, width, Checks(race=True, init=True), tmp_path) == []
    racing = told(text.replace("bar.sync 0;", ""), width, Checks(race=True), tmp_path)
    assert {f.rule for f in racing} == {"racecheck"}
    first = matrix_bytes(SHARED)[0]
    uninitialized = told(text, width, Checks(init=True), tmp_path, first)
    assert {f.rule for f in uninitialized} == {"initcheck"}
    beyond = text.replace("[%out]", "[%out+256]")
    assert {f.rule for f in told(beyond, width, Checks(), tmp_path)} == {"memcheck"}
