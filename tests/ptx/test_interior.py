"""Interior blocks run without guards and checks, and leave the same bits and the same findings as all others."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from ptx_machine import HEAD, compiled, launch

from kcheck.ptx.analysis import cfg as control
from kcheck.ptx.compile import lower
from kcheck.ptx.ir.signature import Definition
from kcheck.ptx.lowering import interior, interior_version
from kcheck.ptx.lowering.interior import Interior
from kcheck.ptx.runtime import block_scheduler
from kcheck.ptx.syntax.parser import parse

AXES = "xyz"
SIZES = {"u8": 1, "u16": 2, "u32": 4, "u64": 8}
PARAMS = ".param .u64 a, .param .u64 out, .param .u32 columns, .param .u32 rows, .param .u64 shift"
REGISTERS = """
.reg .u32 %t<9>, %b<9>, %n<9>, %i<9>, %w, %h, %r<40>; .reg .u64 %a, %o, %s, %m<9>, %l<9>, %d<60>;
.reg .u16 %v<9>; .reg .pred %p<20>;
ld.param.u64 %a, [a]; ld.param.u64 %o, [out]; ld.param.u32 %w, [columns]; ld.param.u32 %h, [rows];
ld.param.u64 %s, [shift]; cvt.s64.s32 %m1, %w; cvt.s64.s32 %m2, %h;
"""


def index(k: int, axis: str, style: str) -> str:
    """%l{k}: the index of a thread in the grid along an axis, in 64 bits, as compilers write it."""
    begin = f"mov.u32 %t{k}, %tid.{axis}; mov.u32 %b{k}, %ctaid.{axis}; mov.u32 %n{k}, %ntid.{axis};"
    if style == "wide":
        more = f"cvt.s64.s32 %d{k}, %t{k}; mul.wide.s32 %d{k + 3}, %n{k}, %b{k}; add.s64 %l{k}, %d{k + 3}, %d{k};"
    else:
        sign = "s" if style == "signed" else "u"
        more = f"mad.lo.s32 %i{k}, %b{k}, %n{k}, %t{k}; cvt.{sign}64.{sign}32 %l{k}, %i{k};"
    return begin + "\n" + more + "\n"


def module(body: str) -> str:
    return f"{HEAD}.visible .entry k({PARAMS})\n{{{REGISTERS}{body}\nE: ret;\n}}"


def guarded(style: str, kind: str, guard: str, more: str, taps: tuple[str, ...], axes: str = "xy") -> str:
    """out[row, column] = the sum of a[row, column] and others, where a guard does not hold."""
    size = SIZES[kind]
    loads = "".join(
        f"ld.global.{kind} %{register(kind)}{k + 2}, [%d30{tap}]; add.{kind} %{register(kind)}1, "
        f"%{register(kind)}1, %{register(kind)}{k + 2};\n"
        for k, tap in enumerate(taps)
    )
    if kind == "u8":  # a byte is loaded into a register of 16 bits
        loads = loads.replace("add.u8", "add.u16")
    return module(
        index(1, axes[0], style)
        + index(2, axes[1], style)
        + guard
        + "mad.lo.s64 %d20, %l2, %m1, %l1;\n"
        + f"mul.lo.s64 %d21, %d20, {size}; add.s64 %d30, %a, %d21;\n"
        + "add.s64 %d32, %o, %d21; add.s64 %d31, %d32, %s;\n"
        + f"ld.global.{kind} %{register(kind)}1, [%d30];\n"
        + loads
        + more.replace("V", f"%{register(kind)}1").replace("KIND", "u16" if kind == "u8" else kind)
        + f"st.global.{kind} [%d31], %{register(kind)}1;"
    )


def register(kind: str) -> str:
    return {"u8": "v", "u16": "v", "u32": "r", "u64": "d4"}[kind]


BORDER = """
setp.lt.s64 %p1, %l1, 1; add.s64 %d10, %m1, -1; setp.ge.s64 %p2, %l1, %d10; or.pred %p3, %p1, %p2;
setp.lt.s64 %p4, %l2, 1; or.pred %p5, %p4, %p3; add.s64 %d11, %m2, -1; setp.ge.s64 %p6, %l2, %d11;
or.pred %p7, %p6, %p5; @%p7 bra E;
"""
INSIDE = "setp.lt.s64 %p1, %l1, %m1; setp.lt.s64 %p2, %l2, %m2; and.pred %p3, %p1, %p2; @!%p3 bra E;\n"
UNSIGNED = "setp.hs.u64 %p1, %l1, %m1; @%p1 bra E; setp.ge.u64 %p2, %l2, %m2; @%p2 bra E;\n"
GUARDS = {"border": BORDER, "inside": INSIDE, "unsigned": UNSIGNED, "none": ""}
MORE = {
    "nothing": "",
    "a branch on data": "and.b32 %r30, %i7, 1;\n".replace("%i7", "%t1")
    + "setp.eq.u32 %p10, %r30, 0; @%p10 bra J; add.KIND V, V, 3; J:\n",
    "some do not store": "cvt.u32.KIND %r31, V; and.b32 %r31, %r31, 1; setp.eq.u32 %p11, %r31, 0; @%p11 bra E;\n",
    "the index": "cvt.KIND.u64 %q0, %l1; add.KIND V, V, %q0;\n",
    "the block": "add.u32 %r32, %t1, %b1; cvt.KIND.u32 %q0, %r32; add.KIND V, V, %q0;\n",
}


def text_of(style: str, kind: str, guard: str, more: str, taps: tuple[str, ...], axes: str = "xy") -> str:
    temporary = {"u8": "%v8", "u16": "%v8", "u32": "%r38", "u64": "%d58"}[kind]
    return guarded(style, kind, GUARDS[guard], MORE[more].replace("%q0", temporary), taps, axes)


def found(text: str, axis: str = "x", width: int = 8) -> Interior | None:
    """What the second version of a kernel rests on."""
    kept: list[Interior | None] = []
    search = interior.find

    def keep(*given: object) -> Interior | None:
        kept.append(search(*given))  # type: ignore[arg-type]
        return kept[-1]

    tree = parse(text, "test.ptx")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(interior, "find", keep)
        lower(tree, "k", width, row=width, axis=axis)
    return kept[0] if kept else None


@pytest.mark.parametrize("style", ["wide", "signed", "unsigned"])
@pytest.mark.parametrize("guard", GUARDS)
def test_guards_and_accesses_are_known_for_a_block(style: str, guard: str) -> None:
    text = text_of(style, "u32", guard, "nothing", ("+4", "+-4"))
    known = found(text)
    assert known is not None
    assert len(known.accesses) == 4
    assert known.joins
    left = [o for n in known.cfg.order for o in known.cfg.blocks[n].operations if id(o) not in known.skipped]
    assert {o.opcode for o in left if not isinstance(o, control.Call)} <= {"ld", "st", "add", "ret", "mov", "cvt"}
    assert sum(o.opcode == "add" for o in left if not isinstance(o, control.Call)) == 2  # of what was loaded


@pytest.mark.parametrize(
    ("line", "joins"),
    [
        ("", True),
        ("add.u32 %r1, %r1, %t2;", True),
        ("add.u32 %r1, %r1, %t1;", True),  # which the test of a strip finds out
        ("mov.u32 %r9, %laneid; add.u32 %r1, %r1, %r9;", False),
        ("atom.global.add.u32 %r9, [%o], 1;", False),
        ("red.global.add.u32 [%o], 1;", False),
        ("div.u32 %r9, %r1, %w;", False),
        ("ld.volatile.global.u32 %r9, [%d30];", False),
        ("cvt.u64.u32 %d50, %r1; add.u64 %d51, %a, %d50; ld.global.u8 %v1, [%d51];", False),
    ],
)
def test_only_blocks_that_nobody_sees_are_joined(line: str, joins: bool) -> None:
    """What else touches memory, or names the block or the lane, keeps blocks apart."""
    text = guarded("wide", "u32", INSIDE, line, ())
    known = found(text)
    assert known is not None
    assert known.joins is joins


@pytest.mark.parametrize(
    "line",
    [
        "vote.sync.any.pred %p15, %p1, -1;",
        "bar.sync 0;",
        "L: add.u32 %r1, %r1, 1; setp.lt.u32 %p15, %r1, 1000; @%p15 bra L;",
    ],
)
def test_kernels_without_such_a_version(line: str) -> None:
    assert found(guarded("wide", "u32", INSIDE, line, ())) is None


def run(
    text: str, shape: tuple[int, int], block: tuple[int, ...], kind: str, width: int, **how: object
) -> tuple[bytes, object]:
    """What a launch on a matrix leaves in memory around its arrays, and what it reports.

    The arrays lie next to each other, between others that a wrong address would hit.
    """
    rows, columns = shape
    size = rows * columns * SIZES[kind]
    axis, shift, short = (how.get(name, default) for name, default in (("axis", "x"), ("shift", 0), ("short", 0)))
    memory = run.memory  # type: ignore[attr-defined]
    memory[:] = np.random.default_rng(7).integers(0, 256, len(memory), np.uint8)
    begin = -memory.ctypes.data % 64 + 64
    a, out = memory[begin : begin + size - int(short)], memory[begin + size : begin + 2 * size]  # type: ignore[call-overload]
    grid = [-(-n // b) for n, b in zip((columns, rows), block, strict=False)]
    if axis == "y":
        grid = [-(-rows // block[0]), -(-columns // block[1])]
    ended = launch(
        text,
        [a, out, columns, rows, int(shift)],  # type: ignore[call-overload]
        width,
        tuple(grid),
        block,
        axis=str(axis),
        interiors=bool(how.get("interiors", True)),
    )
    return memory.tobytes(), (ended.status, ended.faults, ended.places)


run.memory = np.zeros(1 << 20, np.uint8)  # type: ignore[attr-defined]

SHAPES = [(64, 96), (61, 97), (16, 128), (1, 130), (70, 33), (130, 16)]
BLOCKS = [(16, 16), (32, 4), (8, 8), (16, 2), (64, 1), (48, 2)]


@pytest.mark.parametrize("width", [2, 8, 16, 32])
@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(2, 6))])
def test_the_same_bits_and_findings(width: int, seed: int) -> None:
    """Blocks inside and on the border of arrays, odd sizes, elements of every size, arrays that end too early, and
    stores that are shifted outside or by part of an element."""
    chance = random.Random(f"interior {seed}")
    for _ in range(4):
        kind = chance.choice(list(SIZES))
        taps = tuple(f"+{chance.choice((-1, 1, 2, -2)) * SIZES[kind]}" for _ in range(chance.randrange(3)))
        axes, axis = chance.choice((("xy", "x"), ("yx", "y"), ("xy", "x")))
        text = text_of(
            chance.choice(("wide", "signed", "unsigned")),
            kind,
            chance.choice(("border", "inside", "unsigned")),
            chance.choice(list(MORE)),
            taps,
            axes,
        )
        shape, block = chance.choice(SHAPES), chance.choice(BLOCKS)
        if axis == "y":
            block = block[::-1]
        how = {
            "axis": axis,
            "shift": chance.choice((0, 0, 0, 1, -SIZES[kind], -40 * shape[1] * SIZES[kind], 4 * SIZES[kind])),
            "short": chance.choice((0, 0, SIZES[kind], 3)),
        }
        plain = run(text, shape, block, kind, width, **how, interiors=False)
        assert run(text, shape, block, kind, width, **how) == plain
        if not plain[1][1]:  # type: ignore[index]
            assert run(text, shape, block, kind, 1, **how, interiors=False)[0] == plain[0]


PITCHED = module(
    index(1, "x", "signed")
    + index(2, "y", "signed")
    + "setp.ge.s64 %p1, %l1, 96; @%p1 bra E; shl.b64 %d20, %l1, 2; mad.lo.s64 %d21, %l2, %m1, %d20;"
    + "add.s64 %d22, %o, %s; add.s64 %d23, %d22, %d21; cvt.u32.u64 %r1, %l2; st.global.u32 [%d23], %r1;"
)


@pytest.mark.parametrize("width", [4, 16])
@pytest.mark.parametrize("block", [(16, 5), (16, 2)])
@pytest.mark.parametrize("shift", [0, 4000, 20000])
def test_rows_of_any_pitch(shift: int, block: tuple[int, int], width: int) -> None:
    """Rows that go backward, out of the array and into the one before it; rows that are not aligned, although the
    first and the last of a block are."""
    for pitch in (384, 385, 386, 400, 0, -384, -385, -388, 1 << 30, -(1 << 31)):
        memory = np.zeros(1 << 14, np.uint32)
        before, out = memory[:4096], memory[4096:12288]
        seen = []
        for interiors in (False, True):
            memory[:] = 7
            arguments = [before, out, pitch & 0xFFFFFFFF, 0, shift]
            ended = launch(PITCHED, arguments, width, (7, 6), block, interiors=interiors)
            seen.append((memory.tobytes(), ended))
        assert seen[0] == seen[1]


@pytest.mark.parametrize("threads", [50, 48, 64])
@pytest.mark.parametrize("blocks", range(1, 6))
def test_no_thread_is_left_out(blocks: int, threads: int) -> None:
    """Also the threads behind the last whole vector, of blocks that may be the last two of a grid."""
    text, shape, block = text_of("wide", "u32", "none", "nothing", ()), (1, blocks * threads), (threads, 1)
    assert run(text, shape, block, "u32", 16) == run(text, shape, block, "u32", 16, interiors=False)


@pytest.mark.parametrize(("block", "shape"), [((16, 16), (64, 96)), ((64, 1), (1, 1024)), ((100, 1), (1, 1000))])
def test_interior_blocks_run_the_version(
    block: tuple[int, int], shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A version without its stores shows which elements it writes: all but those of the first block, which finds
    out where the arrays are, of the block on the border, and of the threads behind the last whole vector."""
    text = text_of("wide", "u32", "inside", "nothing", ())
    expected = np.frombuffer(run(text, shape, block, "u32", 16)[0], np.uint32)
    compiled.cache_clear()
    whole = interior_version.InteriorVersion.definition
    monkeypatch.setattr(
        interior_version.InteriorVersion, "definition", lambda self, name: _without_stores(whole(self, name))
    )
    left = np.frombuffer(run(text, shape, block, "u32", 16)[0], np.uint32)
    compiled.cache_clear()
    threads = block[0] * block[1]
    unwritten = int((left != expected).sum())
    blocks = -(-shape[0] // block[1]) * -(-shape[1] // block[0])
    assert (blocks - 2) * (threads & -16) <= unwritten <= (blocks - 1) * (threads & -16)


def _without_stores(function: Definition) -> Definition:
    """A function without its stores to the memory of the kernel."""
    kept = (line for line in function.lines if "align 4" not in line or "store <" not in line)
    return replace(function, lines=tuple(kept))


def test_a_launch_that_is_stopped_runs_no_strip() -> None:
    text = text_of("wide", "u32", "none", "nothing", ())
    memory = np.zeros(4096, np.uint32)
    ended = launch(text, [memory[:2048], memory[2048:], 2048, 1, 0], 16, (32, 1), (64, 1), stop=1)
    assert ended.status != 0
    assert not memory.any()


def test_the_numbers_of_strips_differ() -> None:
    assert block_scheduler.NO_STRIP > block_scheduler.MOST_BLOCKS
