"""Instructions in which the lanes of a warp work together, with whole and diverged warps."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from tests.isa.machines import Cpu, Gpu, Launch, Machine
from tests.isa.model import admits, show, warp
from tests.isa.model.warp import LANES, Model, Warp

POISON = 0xA5A5A5A5
WARPS_OF_A_BLOCK = 3


@dataclass(frozen=True, slots=True)
class Together:
    """An instruction of the warp.

    Attributes:
        line: ``{d0}`` and ``{d1}`` are its results, ``{a}``, ``{wide}``, ``{b}``, ``{c}``, ``{p}`` and ``{m}`` its
            sources, as :class:`Warp` names them.
        results: bits of each; 1 is a predicate.
        cc: the least compute capability, times ten.
    """

    line: str
    results: tuple[int, ...]
    model: Model
    cc: int = 80

    def __str__(self) -> str:
        return self.line


def instructions() -> Iterator[Together]:
    """Every mode and type; of ``shfl`` with registers and with constants."""
    for mode in ("up", "down", "bfly", "idx"):
        yield Together(
            f"shfl.sync.{mode}.b32 {{d0}}|{{d1}}, {{a}}, {{b}}, {{c}}, {{m}}", (32, 1), warp.shuffle(mode)
        )
        for offset, c in ((1, 0 if mode == "up" else 31), (16, 31), (5, 0x1C03), (0, 0x0F1F), (35, 0)):
            yield Together(
                f"shfl.sync.{mode}.b32 {{d0}}|{{d1}}, {{a}}, {offset}, {c}, {{m}}",
                (32, 1),
                warp.shuffle(mode, offset, c),
            )
    yield Together(
        "shfl.sync.idx.b32 {d0}, {a}, 3, 31, {m}", (32,), lambda w, lane: warp.shuffle("idx", 3, 31)(w, lane)[:1]
    )
    for mode in ("all", "any", "uni"):
        yield Together(f"vote.sync.{mode}.pred {{d0}}, {{p}}, {{m}}", (1,), warp.vote(mode, False))
        yield Together(f"vote.sync.{mode}.pred {{d0}}, !{{p}}, {{m}}", (1,), warp.vote(mode, True))
    yield Together("vote.sync.ballot.b32 {d0}, {p}, {m}", (32,), warp.vote("ballot", False))
    yield Together("vote.sync.ballot.b32 {d0}, !{p}, {m}", (32,), warp.vote("ballot", True))
    for kind, source in (("b32", "a"), ("b64", "wide")):
        wide = kind == "b64"
        yield Together(f"match.any.sync.{kind} {{d0}}, {{{source}}}, {{m}}", (32,), warp.match("any", wide))
        yield Together(
            f"match.all.sync.{kind} {{d0}}|{{d1}}, {{{source}}}, {{m}}", (32, 1), warp.match("all", wide)
        )
    for kind, operations in (("u32", "add min max"), ("s32", "add min max"), ("b32", "and or xor")):
        for operation in operations.split():
            yield Together(
                f"redux.sync.{operation}.{kind} {{d0}}, {{a}}, {{m}}", (32,), warp.reduce(operation, kind)
            )
    yield Together("bar.warp.sync {m};\nmov.b32 {d0}, {a}", (32,), lambda w, lane: (w.a[lane],))
    for name, lanes in (
        ("laneid", lambda lane: lane),
        ("lanemask_eq", lambda lane: 1 << lane),
        ("lanemask_lt", lambda lane: (1 << lane) - 1),
        ("lanemask_le", lambda lane: (2 << lane) - 1),
        ("lanemask_gt", lambda lane: 0xFFFFFFFF & -(2 << lane)),
        ("lanemask_ge", lambda lane: 0xFFFFFFFF & -(1 << lane)),
    ):
        yield Together(f"mov.u32 {{d0}}, %{name}", (32,), lambda w, lane, of=lanes: (of(lane),))
    yield Together("activemask.b32 {d0}", (32,), warp.active)
    yield Together("elect.sync {d0}|{d1}, {m}", (32, 1), warp.elect, cc=90)


def warps(whole: bool) -> list[Warp]:
    """Warps of values, edges and noise; if not whole, with lanes missing."""
    chance = random.Random(f"kcheck warps {whole}")
    full = (1 << LANES) - 1
    masks = [1, 1 << 31, 0x55555555, 0xFFFF0000, 0x0000FFFF, 0x80000001, 0x00F00F00, full ^ 1, full ^ 1 << 31]
    masks += [chance.getrandbits(32) | 1 << chance.randrange(32) for _ in range(15)]
    if whole:
        masks = [full] * 24
    controls = [0x1F, 0, 0x1C1F, 0x1C00, 0x181F, 0x101F, 0x1E1F, 0x1F1F, 0x0013, 0x0F0A, 0x1807]
    found = []
    for number, mask in enumerate(masks):
        few = [chance.getrandbits(32) for _ in range(3)] + [0, 0xFFFFFFFF, 0x80000000]
        # some warps agree, some hold few values, some many
        kinds = (
            [few[0]] * LANES,
            [chance.choice(few) for _ in range(LANES)],
            [chance.getrandbits(32) for _ in range(LANES)],
        )
        a = kinds[number % 3]
        p = ([0] * LANES, [1] * LANES, [chance.getrandbits(1) for _ in range(LANES)])[number // 3 % 3]
        found.append(
            Warp(
                mask,
                tuple(a),
                tuple(v << 32 | v ^ chance.choice((0, 0, 1)) for v in a),
                tuple(chance.choice((chance.randrange(32), chance.randrange(32), 40)) for _ in range(LANES)),
                tuple(p),
                controls[number % len(controls)],
            )
        )
    return found


def _kernel(chosen: list[Together], threads: int, target: int, constant_mask: bool) -> tuple[str, list[int]]:
    """The text, and where the results of each instruction begin, in words.

    Columns of the input: a, b, c, p, mask, then the two words of ``wide``.
    """
    lines = []
    places = []
    word = 0
    for number, instruction in enumerate(chosen):
        names = {"a": "%a", "b": "%b", "c": "%c", "p": "%p", "wide": "%wide"}
        names["m"] = "0xffffffff" if constant_mask else "%mask"
        registers = [f"%q{number}" if bits == 1 else f"%d{number}" for bits in instruction.results]
        names |= {f"d{n}": register for n, register in enumerate(registers)}
        lines.append(f"{instruction.line.format_map(names)};")
        places.append(word)
        for register in registers:
            if register[1] == "q":
                lines.append(f"selp.u32 %t, 1, 0, {register};")
                register = "%t"
            lines.append(f"st.global.b32 [%out+{4 * word}], {register};")
            word += threads
    loads = [
        f"ld.global.b32 %{name}, [%in+{4 * threads * n}];"
        for n, name in enumerate(("a", "b", "c", "t", "mask", "low", "high"))
    ]
    text = f"""
.version 8.8
.target sm_{target}
.address_size 64
.visible .entry together(.param .u64 inputs, .param .u64 results) {{
.reg .pred %p, %in_mask, %q<{len(chosen)}>;
.reg .b32 %i, %n, %t, %a, %b, %c, %mask, %low, %high, %lane, %d<{len(chosen)}>;
.reg .b64 %in, %out, %wide;
mov.u32 %i, %ctaid.x;
mov.u32 %n, %ntid.x;
mov.u32 %t, %tid.x;
mov.u32 %lane, %laneid;
mad.lo.u32 %i, %i, %n, %t;
ld.param.u64 %in, [inputs];
ld.param.u64 %out, [results];
mad.wide.u32 %in, %i, 4, %in;
mad.wide.u32 %out, %i, 4, %out;
{chr(10).join(loads[:4])}
setp.ne.u32 %p, %t, 0;
{chr(10).join(loads[4:])}
mov.b64 %wide, {{%low, %high}};
shr.u32 %t, %mask, %lane;
and.b32 %t, %t, 1;
setp.eq.u32 %in_mask, %t, 0;
@%in_mask bra SKIP;
{chr(10).join(lines)}
SKIP:
ret;
}}
"""
    return text, places


def _complaints(machine: Machine, whole: bool, constant_mask: bool, capability: int) -> list[str]:
    chosen = [i for i in instructions() if i.cc <= capability]
    given = warps(whole)
    threads = LANES * len(given)
    text, places = _kernel(chosen, threads, min(capability, 90), constant_mask)
    columns = [
        [v for w in given for v in w.a],
        [v for w in given for v in w.b],
        [w.c for w in given for _ in range(LANES)],
        [v for w in given for v in w.p],
        [w.mask for w in given for _ in range(LANES)],
        [v & 0xFFFFFFFF for w in given for v in w.wide],
        [v >> 32 for w in given for v in w.wide],
    ]
    content = b"".join(struct.pack(f"<{threads}I", *column) for column in columns)
    words = sum(len(i.results) for i in chosen) * threads
    block = LANES * WARPS_OF_A_BLOCK
    ran = machine.run(
        Launch(text, "together", (content, struct.pack("<I", POISON) * words), threads // block, block)
    )
    results = struct.unpack(f"<{words}I", ran.buffers[1])
    found = [f"reports {rule}" for rule in ran.found]
    for instruction, place in zip(chosen, places, strict=True):
        for number, held in enumerate(given):
            for lane in range(LANES):
                got = [
                    results[place + n * threads + number * LANES + lane] for n in range(len(instruction.results))
                ]
                takes_part = held.mask >> lane & 1
                expected = instruction.model(held, lane) if takes_part else (POISON,) * len(got)
                if not all(map(admits, expected, got)):
                    found.append(
                        f"{instruction}: lane {lane} of {held.mask:#x}, c {held.c:#x}, b {held.b[lane]}: "
                        f"expected {', '.join(map(show, expected))}, got {', '.join(map(hex, got))}"
                    )
    return found


@pytest.mark.parametrize("width", [1, 8])
@pytest.mark.parametrize(
    ("whole", "constant_mask"),
    [
        pytest.param(True, True, id="whole, constant mask"),
        (True, False),
        pytest.param(False, False, id="diverged"),
    ],
)
def test_lanes_together(width: int, whole: bool, constant_mask: bool, cpu: Callable[[int], Cpu]) -> None:
    """Shuffles, votes, matches and reductions give every lane what the ISA says, and the other lanes nothing."""
    found = _complaints(cpu(width), whole, constant_mask, 90)
    assert not found, "\n".join(found[:20])


@pytest.mark.gpu
@pytest.mark.parametrize("whole", [True, False], ids=["whole", "diverged"])
def test_lanes_together_on_a_device(whole: bool, gpu: Gpu) -> None:
    """A CUDA device gives the same."""
    found = _complaints(gpu, whole, False, gpu.capability)
    assert not found, "\n".join(found[:20])
