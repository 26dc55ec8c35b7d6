"""The model itself: its arithmetic against NumPy, what is legal against NVIDIA's assembler; that it says no."""

from __future__ import annotations

import re
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcheck.ptx.isa import EFFECTS
from tests.isa import (
    test_blocks_and_grids,
    test_copies,
    test_matrices,
    test_mbarrier,
    test_mma,
    test_stack,
    test_textures,
    test_warp,
    test_wmma,
)
from tests.isa.catalogue import Batch, batches, memory_batches, rows
from tests.isa.judging import complaints
from tests.isa.machines import Cpu, Launch, Ran
from tests.isa.model import Illegal, expectation, formats
from tests.isa.model.formats import F16, F32, F64, decode, encode, value
from tests.isa.program import build

bits32 = st.integers(0, (1 << 32) - 1)
bits64 = st.integers(0, (1 << 64) - 1)


def _double(bits: int) -> np.float64:
    return np.uint64(bits).view(np.float64)


def _bits(x: np.floating) -> int:
    return int.from_bytes(x.tobytes(), "little")


@given(bits64)
@settings(deadline=None)
def test_encode_rounds_as_numpy_does(bits: int) -> None:
    """A double rounded to nearest in f32 and f16 has NumPy's bits; in f64 it is itself."""
    if F64.is_nan(bits) or F64.is_infinite(bits):
        return
    with np.errstate(all="ignore"):
        assert encode(F64, decode(F64, bits), "rn") == bits
        assert encode(F32, decode(F64, bits), "rn") == _bits(np.float32(_double(bits)))
        assert encode(F16, decode(F64, bits), "rn") == _bits(np.float16(_double(bits)))


@given(bits64)
@settings(deadline=None)
def test_directed_roundings_bracket(bits: int) -> None:
    """rm and rp are neighbors around a number that is not exact, rz the one nearer to zero."""
    if F64.is_nan(bits) or F64.is_infinite(bits):
        return
    x = decode(F64, bits)
    down, up, cut = (encode(F32, x, mode) for mode in ("rm", "rp", "rz"))
    assert cut == (up if x.sign else down)
    true = value(F64, bits)
    assert F32.is_infinite(down) or value(F32, down) <= true
    assert F32.is_infinite(up) or value(F32, up) >= true
    if down != up:
        assert abs((down & 0x7FFFFFFF) - (up & 0x7FFFFFFF)) == 1 or {down, up} == {0x80000000, 0x00000000}


@given(bits32, bits32, bits32)
@settings(deadline=None)
def test_arithmetic_agrees_with_numpy(a: int, b: int, c: int) -> None:
    """Sum, product, quotient and root of f32 to nearest have NumPy's bits."""
    if any(F32.is_nan(x) or F32.is_infinite(x) for x in (a, b, c)):
        return
    x, y = (np.uint32(v).view(np.float32) for v in (a, b))
    dx, dy = decode(F32, a), decode(F32, b)
    with np.errstate(all="ignore"):
        assert encode(F32, formats.add(dx, dy, "rn"), "rn") == _bits(x + y)
        assert encode(F32, formats.multiply(dx, dy), "rn") == _bits(x * y)
        if dy.mantissa:
            assert encode(F32, formats.divide(dx, dy, 24), "rn") == _bits(x / y)
        if not dx.sign and dx.mantissa:
            assert encode(F32, formats.root(dx, 24), "rn") == _bits(np.sqrt(x))


def _opcodes(text: str) -> set[str]:
    return set(re.findall(r"^\s*(?:@!?%?\{?\w+\}?\s+)?([a-z]+\d?)[. ;\n]", text, re.MULTILINE))


def test_every_effect_has_a_case() -> None:
    """Each opcode that is lowered by hand stands in a case of these tests."""
    used = {line for batch in memory_batches() for case in batch.cases for line in case.lines}
    used |= {instruction.line for instruction in test_warp.instructions()}
    used |= {str(form) for form in test_mma.forms()}
    text = "\n".join(line + ";" for line in used) + test_blocks_and_grids.TEXTS
    text += test_matrices.loading(1, transposed=False, stride=16) + test_matrices.MOVE
    text += test_wmma.kernel(test_wmma.SHARED)
    text += test_mbarrier.kernel(test_mbarrier.ARRIVE)
    text += test_copies.kernel(f"{test_copies.COPY}\n{test_copies.POLICY}")
    text += test_stack.KERNEL
    text += "\n" + test_textures.TEXTS.replace("; ", ";\n")
    assert set(EFFECTS) <= _opcodes(text), "no expectation for these"


class Flipped:
    """A machine whose results have one bit wrong."""

    def __init__(self, cpu: Cpu, bit: int) -> None:
        self.name = "a liar"
        self._cpu = cpu
        self._bit = bit

    def run(self, launch: Launch) -> Ran:
        ran = self._cpu.run(launch)
        results = bytearray(ran.buffers[1])
        results[self._bit // 8] ^= 1 << self._bit % 8
        return Ran((ran.buffers[0], bytes(results), *ran.buffers[2:]))


def test_a_wrong_bit_is_told(cpu: Callable[[int], Cpu]) -> None:
    """One wrong bit of one result of one case is a complaint that names the case and the bits."""
    batch = next(b for b in batches() if b.name == "u32 u32 0")
    program = build(batch.cases)
    offset, _ = program.results[3][0]
    found = complaints(program, [Flipped(cpu(8), offset * 8 + 5)])
    assert len(found) == 1
    assert found[0].startswith(str(batch.cases[3]))
    assert "expected" in found[0]


def test_the_device_path_runs() -> None:
    """What runs the tests on a CUDA device runs them on kcheck's own driver too: so it does not rot."""
    script = (
        "from tests.isa import machines, test_blocks_and_grids as t; "
        "t.check_parameters(machines.Gpu()); print('agreed')"
    )
    command = [sys.executable, "-m", "kcheck", "exec", "--", sys.executable, "-c", script]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=Path(__file__).parents[2])
    assert ended.stdout.endswith("agreed\n"), ended.stderr


def _assembler() -> Callable[[str], str]:
    """NVIDIA's own: what it has against a text."""
    try:
        from cuda.core import Linker, LinkerOptions, ObjectCode

        options = LinkerOptions(arch="sm_100")
        Linker(ObjectCode.from_ptx(b".version 8.0\n.target sm_80\n.address_size 64\n"), options=options)
    except Exception as fault:
        pytest.skip(f"no nvJitLink: {fault}")

    def refusal(text: str) -> str:
        try:
            Linker(ObjectCode.from_ptx(text.encode()), options=options).link("cubin")
        except Exception as fault:
            return str(fault)
        return ""

    return refusal


@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))
def test_the_assembler_takes_every_form(part: int) -> None:
    """What the model calls legal, NVIDIA's assembler takes: every batch of these tests is PTX."""
    refusal = _assembler()
    every: list[Batch] = batches() + batches(further=True) + memory_batches()
    for batch in every[part::8]:
        assert not refusal(build(batch.cases, 100).text), str(batch)


def _illegal() -> Iterator[str]:
    """Every variant that the model calls illegal, with registers as its row asks for."""
    registers = {1: "%p", 8: "%h", 16: "%h", 32: "%r", 64: "%d"}
    for row, sources in rows():
        for modifiers in row.variants():
            try:
                expectation(row.opcode, modifiers, sources)
            except Illegal:
                mods = row.match(modifiers)
                assert mods is not None
                kinds = [slot.resolve(mods) for slot in row.slots]
                operands = ", ".join("%p" if k.name == "pred" else registers[k.bits] for k in kinds)
                yield f"{'.'.join((row.opcode, *modifiers))} {operands};"


_LENIENT = {"cvt.bf16.f16", "cvt.f16.bf16"}
"""Legal to the assembler, though the ISA wants a rounding where bits are lost."""


@pytest.mark.slow
def test_the_assembler_refuses_what_is_illegal() -> None:
    """What the model calls illegal, and so leaves untested, NVIDIA's assembler refuses."""
    refusal = _assembler()
    lines = list(dict.fromkeys(_illegal()))
    head = ".version 8.8\n.target sm_100\n.address_size 64\n.visible .entry k() {\n"
    head += ".reg .pred %p;\n.reg .b16 %h;\n.reg .b32 %r;\n.reg .b64 %d;\n"
    first = head.count("\n") + 1
    accepted = []
    for start in range(0, len(lines), 200):
        part = lines[start : start + 200]
        said = refusal(head + "\n".join(part) + "\nret;\n}\n")
        refused = {int(number) - first for number in re.findall(r"line (\d+);", said)}
        accepted += [line for n, line in enumerate(part) if n not in refused]
    assert {line.split()[0] for line in accepted} <= _LENIENT


def test_zero_and_largest_are_in_the_inputs() -> None:
    """The edges that a float type has stand among what its instructions are fed."""
    from tests.isa.inputs import edges

    held = {struct.unpack("<f", struct.pack("<I", bits))[0] for bits in edges("f32") if not F32.is_nan(bits)}
    assert {0.0, 1.0, float("inf"), float("-inf"), 2.0**-149, 2.0**-126, np.finfo(np.float32).max} <= held
    assert {0x80000000, 0x7FC00000, 0x7F800001, 0xFFFFFFFF} <= set(edges("f32"))
