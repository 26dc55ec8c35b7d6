"""Blocks on the border of an array run the threads that pass the guards, with the same bits and findings."""

from __future__ import annotations

import mmap
import random
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from ptx_machine import HEAD, Ended, compiled, launch

from kcheck.cpu.native import _protect
from kcheck.ptx.ir.signature import Definition
from kcheck.ptx.lowering.interior_version import InteriorVersion, renamed

PARAMS = ".param .u64 a, .param .u64 out, .param .u64 p1, .param .u64 p2" + "".join(
    f", .param .u64 {side}{k}" for k in (1, 2, 3) for side in ("low", "high")
)
REGISTERS = """
.reg .u32 %t<9>, %b<9>, %n<9>, %r<40>; .reg .u64 %a, %o, %p<9>, %l<9>, %d<60>, %low<9>, %high<9>;
.reg .pred %q<40>;
ld.param.u64 %a, [a]; ld.param.u64 %o, [out]; ld.param.u64 %p1, [p1]; ld.param.u64 %p2, [p2];
""" + "".join(f"ld.param.u64 %{side}{k}, [{side}{k}];\n" for k in (1, 2, 3) for side in ("low", "high"))


def index(k: int, axis: str) -> str:
    """%l{k}: the index of a thread in the grid along an axis, in 64 bits."""
    return (
        f"mov.u32 %t{k}, %tid.{axis}; mov.u32 %b{k}, %ctaid.{axis}; mov.u32 %n{k}, %ntid.{axis};\n"
        f"cvt.s64.s32 %d{k}, %t{k}; mul.wide.s32 %d{k + 3}, %n{k}, %b{k}; add.s64 %l{k}, %d{k + 3}, %d{k};\n"
    )


def kernel(guard: str, taps: tuple[str, ...], axes: str, more: str = "") -> str:
    """out[x, y, z] = the sum of a[x, y, z] and neighbors, where no guard holds. ``axes``: the fastest first."""
    loads = "".join(
        f"ld.global.u32 %r{k + 2}, [{tap}]; add.u32 %r1, %r1, %r{k + 2};\n" for k, tap in enumerate(taps)
    )
    body = (
        "".join(index(k, axis) for k, axis in enumerate(axes, 1))
        + guard
        + "shl.b64 %d20, %l1, 2; mad.lo.s64 %d21, %l2, %p1, %d20; mad.lo.s64 %d22, %l3, %p2, %d21;\n"
        + "add.s64 %d30, %a, %d22; add.s64 %d31, %o, %d22; sub.s64 %d33, %d30, %p1; add.s64 %d34, %d30, %p2;\n"
        + "ld.global.u32 %r1, [%d30];\n"
        + loads
        + more
        + "st.global.u32 [%d31], %r1;"
    )
    return f"{HEAD}.visible .entry k({PARAMS})\n{{{REGISTERS}{body}\nE: ret;\n}}"


def comparisons(chance: random.Random) -> list[str]:
    """For each axis, when a thread is outside: below its low bound, or not below its high bound."""
    found = []
    for k in (1, 2, 3):
        kind = chance.choice(("s64", "s64", "u64"))
        found += [
            chance.choice((f"lt.{kind} Q, %l{k}, %low{k}", f"gt.{kind} Q, %low{k}, %l{k}")),
            chance.choice((f"ge.{kind} Q, %l{k}, %high{k}", f"le.{kind} Q, %high{k}, %l{k}")),
        ]
    return chance.sample(found, chance.randrange(3, 7))


def guards(chance: random.Random) -> str:
    """Comparisons joined to one guard, or to several."""
    asked = comparisons(chance)
    made = [f"setp.{text.replace('Q', f'%q{k}')};" for k, text in enumerate(asked)]
    if chance.random() < 0.4:
        return "\n".join(f"{line} @%q{k} bra E;" for k, line in enumerate(made))
    made.append("mov.pred %q20, %q0;" if len(asked) == 1 else "or.pred %q20, %q0, %q1;")
    made += [f"or.pred %q{19 + k}, %q{18 + k}, %q{k};" for k in range(2, len(asked))]
    last = 18 + max(len(asked), 2)
    if chance.random() < 0.3:
        return "\n".join(made) + f"not.pred %q39, %q{last}; @!%q39 bra E;"
    return "\n".join(made) + f"@%q{last} bra E;"


class Pages:
    """Two arrays, each between pages that cannot be accessed."""

    def __init__(self) -> None:
        self.size = 1 << 18
        self.pages = mmap.mmap(-1, 2 * self.size + 3 * mmap.PAGESIZE)
        self.bytes = np.frombuffer(self.pages, np.uint8)
        for n in range(3):
            _protect(self.bytes.ctypes.data + n * (self.size + mmap.PAGESIZE), mmap.PAGESIZE)

    def arrays(self, size: int, *, at_end: bool) -> tuple[np.ndarray, np.ndarray]:
        """Arrays of ``size`` bytes right before or right behind such a page."""
        found = []
        for n in range(2):
            start = n * (self.size + mmap.PAGESIZE) + mmap.PAGESIZE
            place = start + self.size - size if at_end else start
            found.append(self.bytes[place : place + size])
        return found[0], found[1]


PAGES = Pages()


def run(
    text: str, shape: tuple[int, int, int], bounds: list[int], width: int, **how: object
) -> tuple[bytes, Ended]:
    """What a launch leaves in the output, and how it ends. Shape, block and bounds: the fastest axis first."""
    axes, block = str(how["axes"]), how["block"]
    assert isinstance(block, tuple)
    a, out = PAGES.arrays(4 * int(np.prod(shape)), at_end=bool(how.get("at_end")))
    a[:] = np.random.default_rng(7).integers(0, 256, len(a), np.uint8)
    out[:] = 7
    places = [axes.index(axis) for axis in "xyz"]
    grid = tuple(-(-shape[k] // block[k]) for k in places)
    ended = launch(
        text,
        [a, out, 4 * shape[0], 4 * shape[0] * shape[1], *bounds],
        width,
        grid,
        tuple(block[k] for k in places),
        axis=axes[0],
        interiors=bool(how.get("interiors", True)),
    )
    return out.tobytes(), ended


BLOCKS = ((8, 8, 4), (8, 4, 2), (16, 4, 4), (32, 2, 2), (16, 16, 1))
AXES = ("xyz", "zyx", "yxz")
FAR = (0, 1, -1, 2, 5, 100, 1 << 31, -1 << 31, 1 << 40, 1 << 61, -1 << 61, 1 << 62, (1 << 63) - 1, -1 << 63)


def drawn(chance: random.Random, shape: tuple[int, int, int]) -> list[int]:
    """Bounds: mostly those that keep neighbors inside, some that do not, and some that no thread passes."""
    bounds = []
    for size in shape:
        low, high = chance.choice((1, 1, 2, 0, 3)), size - chance.choice((1, 1, 2, 5, 0))
        bounds += [low, high]
    if chance.random() < 0.4:
        bounds[chance.randrange(6)] = chance.choice(FAR)
    return bounds


@pytest.mark.parametrize("width", [2, 4, 8, 16])
@pytest.mark.parametrize("seed", range(5))
def test_the_same_bits_and_findings(width: int, seed: int) -> None:
    """With bounds that protect all accesses, or some, or none, next to pages that cannot be accessed."""
    chance = random.Random(f"box {width} {seed}")
    clean = 0
    for _ in range(3):
        axes = chance.choice(AXES)
        taps = tuple(chance.sample(("%d30+4", "%d30+-4", "%d33", "%d34"), chance.randrange(5)))
        text = kernel(guards(chance), taps, axes, chance.choice(("", "add.u32 %r1, %r1, %t1;")))
        block = chance.choice([block for block in BLOCKS if block[0] >= width])
        for at_end in (False, True):
            shape = (chance.choice((33, 40, 64, 7)), chance.choice((9, 16, 13)), chance.choice((8, 5, 6)))
            bounds = drawn(chance, shape)
            how = {"axes": axes, "block": block, "at_end": at_end}
            plain = run(text, shape, bounds, width, **how, interiors=False)
            assert run(text, shape, bounds, width, **how) == plain, (text, shape, bounds, how)
            if not plain[1].faults:
                clean += 1
                assert run(text, shape, bounds, 1, **how, interiors=False)[0] == plain[0]
    assert clean


INSIDE = "".join(
    f"setp.lt.s64 %q{2 * k}, %l{k}, %low{k}; @%q{2 * k} bra E; setp.ge.s64 %q{2 * k + 1}, %l{k}, %high{k}; "
    f"@%q{2 * k + 1} bra E;\n"
    for k in (1, 2, 3)
)
STEPS = (
    "shl.b64 %d40, %l1, 1; setp.ge.s64 %q0, %d40, %high1; @%q0 bra E;",  # every other position
    "sub.s64 %d40, %high1, %l1; setp.lt.s64 %q0, %d40, 1; @%q0 bra E;",  # backward
    "cvt.s64.s32 %d40, %t1; setp.lt.s64 %q0, %d40, %high1; @!%q0 bra E;",  # in each block
    "cvt.s64.s32 %d40, %b1; setp.lt.s64 %q0, %d40, %high1; @!%q0 bra E;",  # some blocks
    "add.s64 %d40, %l1, %l2; setp.ge.s64 %q0, %d40, %high1; @%q0 bra E;",  # a triangle
    "setp.eq.s64 %q0, %l1, %low1; @%q0 bra E;",
    "setp.lt.s64 %q0, %l1, %high1; setp.lt.s64 %q1, %l2, %high2; xor.pred %q2, %q0, %q1; @%q2 bra E;",
    "setp.lt.s64 %q0, %l1, %high1; setp.lt.s64 %q1, %l2, %high2; and.pred %q2, %q0, %q1; @!%q2 bra E;",
    "setp.lt.s64 %q0, %l1, %high1; setp.lt.s64 %q1, %l2, %high2; and.pred %q2, %q0, %q1; @%q2 bra E;",
    "setp.lt.s32 %q0, %t1, 5; @%q0 bra E;",
    "mad.lo.s32 %r9, %b1, %n1, %t1; cvt.u32.u64 %r8, %high1; setp.ge.u32 %q0, %r9, %r8; @%q0 bra E;",
    # after a store of every thread
    "shl.b64 %d41, %l1, 2; mad.lo.s64 %d42, %l2, %p1, %d41; mad.lo.s64 %d43, %l3, %p2, %d42;"
    "add.s64 %d44, %o, %d43; st.global.u32 [%d44], 5; setp.ge.s64 %q0, %l1, %high1; @%q0 bra E;",
    "setp.ge.s64 %q0, %l1, %high1; @%q0 bra F; bra G; F: st.global.u32 [%o], 6; bra E; G:",  # one outside
)


@pytest.mark.parametrize("guard", STEPS)
def test_guards_of_all_kinds(guard: str) -> None:
    """Those that cut no range out of an axis, too."""
    for width, high in product((4, 8), (0, 3, 9, 21, 64, 1 << 40)):
        for axes, block in (("xyz", (16, 4, 2)), ("zyx", (8, 8, 2))):
            text = kernel(guard, ("%d30",), axes)
            how = {"axes": axes, "block": block}
            bounds = [3, high, 0, 7, 0, 0]
            plain = run(text, (64, 16, 4), bounds, width, **how, interiors=False)
            assert run(text, (64, 16, 4), bounds, width, **how) == plain
            assert not plain[1].faults


@pytest.mark.parametrize("width", [4, 8, 16])
@pytest.mark.parametrize("at_end", [False, True])
def test_lanes_outside_do_not_load(at_end: bool, width: int) -> None:
    """The first and the last vector of the first and the last row have lanes before and behind the array."""
    for axes, block in (("xyz", (16, 2, 1)), ("zyx", (16, 2, 2))):
        shape, bounds = (37, 5, 2), [3, 37, 0, 5, 0, 2]
        text, how = kernel(INSIDE, ("%d30+-12",), axes), {"axes": axes, "block": block, "at_end": at_end}
        plain = run(text, shape, bounds, width, **how, interiors=False)
        assert run(text, shape, bounds, width, **how) == plain
        assert not plain[1].faults


STRIDED = f"""{HEAD}.visible .entry k(.param .u64 a, .param .u64 out, .param .u64 step, .param .u64 count)
{{
.reg .u32 %t<9>, %b<9>, %n<9>, %r<9>; .reg .u64 %a, %o, %s, %c, %l<9>, %d<20>; .reg .pred %q<9>; .reg .u16 %v;
ld.param.u64 %a, [a]; ld.param.u64 %o, [out]; ld.param.u64 %s, [step]; ld.param.u64 %c, [count];
{index(1, "x")}
setp.ge.s64 %q1, %l1, %c; @%q1 bra E;
mul.lo.s64 %d10, %l1, STEP; add.s64 %d11, %a, %d10; shl.b64 %d12, %l1, 3; add.s64 %d13, %o, %d12;
ld.global.KIND %VALUE, [%d11]; CVT st.global.u64 [%d13], %d14;
E: ret;
}}"""
KINDS = {
    "u8": (1, "v", "cvt.u64.u16 %d14, %v;"),
    "u16": (2, "v", "cvt.u64.u16 %d14, %v;"),
    "u32": (4, "r1", "cvt.u64.u32 %d14, %r1;"),
    "u64": (8, "d14", ""),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "width", [2, pytest.param(8, marks=pytest.mark.soak), 16, pytest.param(32, marks=pytest.mark.soak)]
)
def test_strided_loads(kind: str, width: int) -> None:
    """The colors of a pixel, for example. The first and the last element are next to pages that cannot be
    accessed."""
    size, value, convert = KINDS[kind]
    text = STRIDED.replace("KIND", kind).replace("VALUE", value).replace("CVT", convert)
    for times, is_known, at_end in product((0, 1, 2, 3, 4, 5, 12), (False, True), (False, True)):
        step, count, seen = times * size, 200, []
        a, _ = PAGES.arrays((count - 1) * step + size, at_end=at_end)
        _, out = PAGES.arrays(8 * count, at_end=True)
        a[:] = np.random.default_rng(7).integers(0, 256, len(a), np.uint8)
        known = text.replace("STEP", str(step) if is_known else "%s")
        for interiors, lanes in ((False, 1), (False, width), (True, width)):
            out[:] = 7
            ended = launch(known, [a, out, step, count], lanes, (5,), (64,), interiors=interiors)
            assert not ended.faults
            seen.append(out.tobytes())
        assert seen[0] == seen[1] == seen[2]


def test_the_border_runs_the_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """A version without its stores shows which elements it writes: all but those of the first block, which finds
    out where the arrays are."""
    shape, block = (64, 40, 24), (8, 8, 8)
    text, how = kernel(INSIDE, ("%d30+4", "%d30+-4", "%d33", "%d34"), "zyx"), {"axes": "zyx", "block": block}
    bounds = [side for size in shape for side in (1, size - 1)]
    expected, ended = run(text, shape, bounds, 8, **how)
    assert not ended.faults
    compiled.cache_clear()
    whole = InteriorVersion.definition
    monkeypatch.setattr(InteriorVersion, "definition", lambda self, name: _without_stores(whole(self, name)))
    left = run(text, shape, bounds, 8, **how)[0]
    compiled.cache_clear()
    written = np.frombuffer(left, np.uint32) != 0x07070707
    assert np.frombuffer(expected, np.uint32)[written].tolist() == np.frombuffer(left, np.uint32)[written].tolist()
    assert 0 < written.sum() <= np.prod(block)


def _without_stores(function: Definition) -> Definition:
    """A function without its stores to the memory of the kernel."""
    kept = (
        line
        for line in function.lines
        if "llvm.masked.store" not in line and ("align 4" not in line or "store <" not in line)
    )
    return replace(function, lines=tuple(kept))


def test_labels_are_renamed_with_their_uses() -> None:
    """Names that only begin like a label are not."""
    lines = ["C0:", "  br i1 %C01, label %C0, label %C0.x", "C0.x:", "  %v = phi i32 [ 0, %C0 ], [ 1, %C0.x ]"]
    assert renamed(lines, "b") == [
        "C0.b:",
        "  br i1 %C01, label %C0.b, label %C0.x.b",
        "C0.x.b:",
        "  %v = phi i32 [ 0, %C0.b ], [ 1, %C0.x.b ]",
    ]
