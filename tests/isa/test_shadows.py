"""Shadows are sound: bits that initcheck calls defined are the same whatever undefined bits the operands have."""

from __future__ import annotations

import ctypes
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcheck.cpu.cache import ObjectCache
from kcheck.cpu.executor import Ending, Executor, KernelLaunch
from kcheck.cpu.memory import Memory, MemoryKind
from kcheck.ptx.abi import Checks
from kcheck.ptx.ir.builder import Value, integer_of
from kcheck.ptx.isa.events import Access
from kcheck.ptx.sanitizers.init.registers import Shadows
from tests.isa.catalogue import Batch, batches
from tests.isa.program import BLOCK, ENTRY, Program, build


class Shadowing:
    """kcheck's cpu with initcheck, its memory's shadow in the open: undefined bits, not only bytes."""

    def __init__(self, width: int, folder: Path) -> None:
        self._memory = Memory(512 << 20)
        self._executor = Executor(
            self._memory, 1, ObjectCache(folder), time.monotonic, lambda _: None, lambda _: None
        )
        self._executor.width = width
        self._executor.checks = Checks(init=True)

    def run(self, program: Program, inputs: bytes, undefined: bytes) -> tuple[bytes, bytes]:
        """The results, and their shadow, from inputs with a shadow."""
        contents = [inputs, bytes(program.size), program.buffers[2]]
        places = [self._memory.allocate(len(content), MemoryKind.DEVICE, fill=False) for content in contents]
        distance = self._memory.shadow[2]
        for place, content in zip(places, contents, strict=True):
            ctypes.memmove(place, content, len(content))
            self._memory.define(place, len(content))
        ctypes.memmove(places[0] + distance, undefined, len(undefined))
        module = self._executor.load(program.text)
        parameters = b"".join(place.to_bytes(8, "little") for place in places)
        launch = KernelLaunch(module, ENTRY, parameters, (program.blocks, 1, 1), (BLOCK, 1, 1), 0, False)
        assert self._executor.launch(launch) is Ending.FINISHED
        results = ctypes.string_at(places[1], program.size)
        shadow = ctypes.string_at(places[1] + distance, program.size)
        for place in places:
            self._memory.free(place)
        module.unload()
        return results, shadow


def _stored(shadows: Shadows, operation: object, source: object, access: Access, step: object = None) -> Value:
    """A store that reports nothing and lets the shadow through."""
    found = shadows.bits(source, access.kind)  # type: ignore[arg-type]
    return shadows.fn.b.const(integer_of(access.kind.llvm), 0) if found is None else found


@pytest.fixture(
    scope="module", params=[pytest.param(1, marks=pytest.mark.soak, id="1 lane"), pytest.param(8, id="8 lanes")]
)
def machine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shadowing]:
    """The device at some width."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Shadows, "stored", _stored)
        yield Shadowing(request.param, tmp_path_factory.mktemp("shadows"))


def _some_bits(chosen: random.Random, size: int) -> bytes:
    """Undefined bits of every kind: none, one, those of a byte, half of all, all; in runs of eight bytes."""
    words = []
    for _ in range(-(-size // 8)):
        kind = chosen.randrange(6)
        word = 0
        if kind == 1:
            word = 1 << chosen.randrange(64)
        elif kind == 2:
            word = 0xFF << 8 * chosen.randrange(8)
        elif kind == 3:
            word = chosen.getrandbits(64)
        elif kind == 4:
            word = (1 << 64) - 1
        words.append(word.to_bytes(8, "little"))
    return b"".join(words)[:size]


def _bits(data: bytes) -> int:
    return int.from_bytes(data, "little")


@pytest.mark.parametrize("batch", batches(), ids=str)
def test_defined_bits_do_not_depend_on_undefined_ones(batch: Batch, machine: Shadowing) -> None:
    """Every row of the table, run with undefined bits one way and another, agrees in the bits called defined."""
    program = build(batch.cases)

    @settings(max_examples=3, deadline=None, database=None)
    @given(st.integers(0, 1 << 64))
    def flip(seed: int) -> None:
        chosen = random.Random(seed)
        size = len(program.inputs)
        undefined = _some_bits(chosen, size)
        other = _bits(program.inputs) ^ (_bits(undefined) & chosen.getrandbits(8 * size))
        results, shadow = machine.run(program, program.inputs, undefined)
        flipped, _ = machine.run(program, other.to_bytes(size, "little"), undefined)
        wrong = (_bits(results) ^ _bits(flipped)) & ~_bits(shadow)
        if wrong:
            place = ((wrong & -wrong).bit_length() - 1) // 8
            found = [
                (str(case), program.rows[(place - offset) // width])
                for case, columns in zip(program.cases, program.results, strict=True)
                for offset, width in columns
                if offset <= place < offset + width * len(program.rows)
            ]
            raise AssertionError(f"called defined, and differs: {found}")

    flip()


EXACT = ("prmt.b32", "selp.b32", "shl.b32", "shr.u32", "and.b32", "or.b32", "bfe.u32", "bfi.b32", "cvt.u32.u16")


@pytest.mark.parametrize("name", EXACT)
def test_defined_operands_give_defined_results(name: str, machine: Shadowing) -> None:
    """Nothing is undefined that was made of what is defined; and one operand's undefined bits do show."""
    program = build([case for batch in batches() for case in batch.cases if str(case) == name][:1])
    size = len(program.inputs)
    assert not any(machine.run(program, program.inputs, bytes(size))[1])
    assert any(machine.run(program, program.inputs, b"\xff" * size)[1])
