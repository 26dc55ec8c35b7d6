"""Modifiers in any order that ptxas accepts are read as those in the order of the PTX ISA."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from kcheck.ptx.syntax.ast import Instruction
from kcheck.ptx.syntax.modifier_order import in_order
from kcheck.ptx.syntax.opcodes import ATOMICS
from kcheck.ptx.syntax.parser import parse
from kcheck.ptx.syntax.types import TYPES

LISTS = Path(__file__).parents[2] / "conformance" / "ptx_instructions"
STATEMENT = re.compile(r"^  (?:@!?%\w+ )?(\w+)((?:\.[\w:]+)+) ", re.MULTILINE)
REORDERED = (
    "ld.volatile.shared.u32",
    "ld.relaxed.gpu.global.u32",
    "ld.global.nc.L1::no_allocate.L2::128B.v4.f32",
    "st.global.cs.v2.f32",
    "atom.acq_rel.gpu.global.cas.b32",
    "red.relaxed.gpu.global.add.noftz.f16x2",
    "add.rn.ftz.sat.f32",
    "fma.rn.relu.f16x2",
    "min.ftz.NaN.xorsign.abs.f32",
    "ex2.approx.ftz.f32",
    "mad.lo.cc.u32",
    "setp.lt.and.ftz.f32",
    "set.lt.ftz.u32.f32",
    "cvt.rn.ftz.f16.f32",
    "shfl.sync.bfly.b32",
    "vote.sync.ballot.b32",
    "bfind.shiftamt.u32",
    "cp.async.cg.shared.global.L2::128B",
    "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16",
    "movmatrix.sync.aligned.m8n8.trans.b16",
    "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
    "mma.sync.aligned.m16n8k32.row.col.satfinite.s32.u8.s8.s32",
    "mma.sync.aligned.m8n8k128.row.col.s32.b1.b1.s32.xor.popc",
)


KEPT = ({*TYPES, "b1"}, {"row", "col"}, {"shared", "global"}, {"L1::no_allocate", "L2::128B"})
"""Modifiers of one kind keep their order, which says what each is for."""


def shuffled(modifiers: list[str], draw: random.Random) -> list[str]:
    """In another order, except those of one kind."""
    places = draw.sample(range(len(modifiers)), len(modifiers))
    for kind in KEPT:
        members = [k for k, m in enumerate(modifiers) if m in kind]
        for k, place in zip(members, sorted(places[k] for k in members), strict=True):
            places[k] = place
    return [m for _, m in sorted(zip(places, modifiers, strict=True))]


@pytest.mark.parametrize("statement", REORDERED)
def test_the_order_of_the_isa_is_restored(statement: str) -> None:
    opcode, *modifiers = statement.split(".")
    draw = random.Random(statement)
    for _ in range(30):
        assert in_order(opcode, tuple(shuffled(modifiers, draw))) == tuple(modifiers)


def test_the_statements_of_the_isa_stay_as_they_are() -> None:
    """Except atomics of vectors, whose examples in the ISA are in another order than their syntax."""
    found = [
        m for path in sorted(LISTS.glob("*.txt")) for m in STATEMENT.findall(path.read_text(encoding="utf-8"))
    ]
    assert len(found) > 250
    for opcode, text in found:
        modifiers = tuple(text[1:].split("."))
        if opcode not in ATOMICS or not {"v2", "v4", "v8"}.intersection(modifiers):
            assert in_order(opcode, modifiers) == modifiers


def test_what_is_not_known_stays_as_it_is() -> None:
    """So that messages show what is in the file."""
    assert in_order("ld", ("f32", "nowhere")) == ("f32", "nowhere")
    assert in_order("tex", ("f32", "2d", "v4")) == ("f32", "2d", "v4")


def test_a_kernel_is_read_with_the_modifiers_in_order() -> None:
    """This is CUTLASS's ``ldmatrix``."""
    text = """.version 8.0
    .target sm_80
    .address_size 64
    .entry k() {
        .reg .b32 %a, %b, %c, %d, %s;
        .shared .align 16 .b8 tile[512];
        mov.u32 %s, tile;
        ldmatrix.sync.aligned.x4.m8n8.shared.b16 {%a, %b, %c, %d}, [%s];
        ret;
    }
    """
    body = parse(text, "t.ptx").functions["k"].body
    (loaded,) = (o for o in body if isinstance(o, Instruction) and o.opcode == "ldmatrix")
    assert loaded.modifiers == ("sync", "aligned", "m8n8", "x4", "shared", "b16")
