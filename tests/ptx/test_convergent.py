"""Kernels whose threads all meet at each barrier: what is known about them, and that they compute the same.

With one lane per vector, every kernel is lowered without this knowledge, so W = 1 is what W > 1 is compared with.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence

import numpy as np
import pytest
from ptx_machine import HEAD, launch

from kcheck.ptx import abi
from kcheck.ptx.analysis import cfg as control
from kcheck.ptx.analysis import convergent
from kcheck.ptx.compile import lower
from kcheck.ptx.syntax.parser import parse

START = """.visible .entry k(.param .u64 data, .param .u32 count)
{
    .reg .b32 %r<20>; .reg .b64 %rd<8>; .reg .pred %p<8>; .local .align 4 .b8 mine[16];
    .shared .align 4 .b8 s[4096];
    ld.param.u64 %rd1, [data]; ld.param.u32 %r1, [count]; mov.u32 %r2, %tid.x; mov.u32 %r3, %ctaid.x;
"""


def graph(body: str) -> control.Cfg:
    """The control flow of a kernel with some instructions; %r1 is a parameter, %r2 the thread."""
    module = parse(HEAD + START + body + "\n}", "kernel.ptx")
    return control.build(module.functions["k"], "kernel.ptx")


def all_meet(body: str) -> bool:
    """Whether the threads of a block are known to meet at each barrier."""
    cfg = graph(body)
    barriers = [n for n in cfg.order if (end := cfg.blocks[n].terminator) is not None and control.is_barrier(end)]
    assert barriers
    return convergent.meets_at_all(cfg, barriers, convergent.analyze(cfg, lambda name: name == "mine"))


LOOP = "{make} L: bar.sync 0; shr.u32 %r4, %r4, 1; setp.ne.u32 %p1, %r4, 0; @%p1 bra L; ret;"


@pytest.mark.parametrize(
    ("body", "is_known"),
    [
        ("bar.sync 0; ret;", True),
        ("setp.lt.u32 %p1, %r2, 5; @%p1 bra S; add.u32 %r1, %r1, 1; S: bar.sync 0; ret;", True),
        ("setp.lt.u32 %p1, %r2, 5; @%p1 bra S; bar.sync 0; S: ret;", False),
        ("setp.lt.u32 %p1, %r1, 5; @%p1 bra S; bar.sync 0; S: ret;", True),
        (LOOP.format(make="mov.u32 %r4, %r1;"), True),
        (LOOP.format(make="mov.u32 %r4, %ntid.x;"), True),
        (LOOP.format(make="mov.u32 %r4, %r2;"), False),
        (LOOP.format(make="mov.u32 %r4, %warpid;"), False),  # differs between the warps of a block
        (LOOP.format(make="ld.global.u32 %r4, [%rd1];"), False),  # may be written between two vectors' loads
        (LOOP.format(make="ld.shared.u32 %r4, [s];"), False),
        (LOOP.format(make="mov.u32 %r4, %clock;"), False),
        (LOOP.format(make="mov.u64 %rd2, mine; cvt.u32.u64 %r4, %rd2;"), False),  # each thread has its own
        # A write in code that only some threads execute.
        (LOOP.format(make="mov.u32 %r4, 8; setp.lt.u32 %p2, %r2, 5; @%p2 bra L; mov.u32 %r4, 4;"), False),
        (LOOP.format(make="mov.u32 %r4, 8; setp.lt.u32 %p2, %r2, 5; @%p2 mov.u32 %r4, 4;"), False),
        (LOOP.format(make="mov.u32 %r4, 8; setp.lt.u32 %p2, %r1, 5; @%p2 bra L; mov.u32 %r4, 4;"), True),
        # Threads that exit before a barrier, or after all of them.
        ("setp.lt.u32 %p1, %r2, 5; @%p1 ret; bar.sync 0; ret;", False),
        ("setp.lt.u32 %p1, %r2, 5; @%p1 exit; bar.sync 0; ret;", False),
        ("setp.lt.u32 %p1, %r2, 5; @%p1 trap; bar.sync 0; ret;", False),
        ("setp.lt.u32 %p1, %r1, 5; @%p1 ret; bar.sync 0; ret;", True),
        ("bar.sync 0; setp.lt.u32 %p1, %r2, 5; @%p1 ret; st.global.u32 [%rd1], %r1; ret;", True),
        ("L: bar.sync 0; setp.lt.u32 %p1, %r2, 5; @%p1 ret; bra L;", False),
        # Some threads loop forever.
        ("setp.lt.u32 %p1, %r2, 5; @%p1 bra L; bar.sync 0; ret; L: add.u32 %r1, %r1, 1; bra L;", False),
        # A thread may have to wait for its warp.
        ("bar.warp.sync -1; bar.sync 0; ret;", False),
    ],
)
def test_whether_all_threads_meet(body: str, is_known: bool) -> None:
    assert all_meet(body) == is_known


@pytest.mark.parametrize("barrier", ["bar.sync 0, 64;", "bar.red.or.pred %p2, 0, %p1;", "@%p1 bar.sync 0;"])
def test_other_barriers_are_left_to_the_scheduler(barrier: str) -> None:
    """A count of threads, a result, a guard: the scheduler needs the records of the threads that wait."""
    text = HEAD + START + "setp.lt.u32 %p1, %r1, 5;" + barrier + " ret; }"
    kernel = lower(parse(text, "kernel.ptx"), "k", 8).ir.definitions["@kcheck.warp"]
    assert not any("%busy" in line for line in kernel.lines)
    plain = lower(parse(text.replace(barrier, "bar.sync 0;"), "kernel.ptx"), "k", 8).ir.definitions["@kcheck.warp"]
    assert any("%busy" in line for line in plain.lines)


@pytest.mark.parametrize(
    ("body", "falls"),
    [
        ("setp.lt.u32 %p1, %r2, %r1;", True),
        ("setp.le.s32 %p1, %r2, %r3;", True),
        ("setp.gt.u32 %p1, %r2, %r1;", False),
        ("setp.hs.u32 %p1, %r2, 7;", False),
        ("setp.gt.s32 %p1, %r1, %r2;", True),  # the index on the right
        ("setp.ls.u32 %p1, %r1, %r2;", False),
        ("cvt.u64.u32 %rd2, %r2; setp.lt.s64 %p1, %rd2, 9;", True),
        ("mov.u32 %r4, %r2; setp.lt.u32 %p1, %r4, %ntid.x;", True),
        ("setp.eq.u32 %p1, %r2, 0;", True),
        ("setp.ne.s32 %p1, %r2, 0;", False),
        ("setp.eq.u32 %p1, %r2, 1;", None),  # not in thread 0, but in the next
        ("setp.ne.u32 %p1, %r2, %r1;", None),
        ("and.b32 %r4, %r2, 31; setp.lt.u32 %p1, %r4, 4;", None),  # begins again in each warp
        ("mov.u32 %r4, %laneid; setp.lt.u32 %p1, %r4, 4;", None),
        ("mov.u32 %r4, %tid.y; setp.lt.u32 %p1, %r4, 4;", None),
        ("cvt.u16.u32 %r4, %r2; setp.lt.u32 %p1, %r4, 4;", None),
        ("ld.global.u32 %r4, [%rd1]; setp.lt.u32 %p1, %r2, %r4;", None),
        ("setp.lt.f32 %p1, %r2, %r1;", None),
        ("setp.lt.u32 %p1, %r2, %r1; setp.lt.u32 %p1, %r2, 5;", None),  # which of the two?
        ("setp.lt.u32 %p2, %r2, 3; @%p2 bra S; setp.lt.u32 %p1, %r2, 5; S:", None),  # 0 in threads that skip it
    ],
)
def test_conditions_that_hold_up_to_a_thread(body: str, falls: bool | None) -> None:
    cfg = graph(body + " ret;")
    assert convergent.falling(cfg, convergent.analyze(cfg, lambda name: False), "x").get("%p1") == falls


# --- random kernels

CONDITIONS = [
    "setp.lt.u32 {p}, {x}, {k};",
    "setp.ge.u32 {p}, {x}, {k};",
    "setp.gt.s32 {p}, {x}, {k};",
    "setp.le.s32 {p}, {k}, {x};",
    "setp.eq.u32 {p}, {x}, 0;",
    "setp.ne.u32 {p}, {x}, 0;",
    "setp.eq.u32 {p}, {x}, {k};",
    "and.b32 %r9, {x}, 5; setp.lt.u32 {p}, %r9, {k};",
    "cvt.u64.u32 %rd6, {x}; cvt.u64.u32 %rd7, {k}; setp.lt.s64 {p}, %rd6, %rd7;",
]
BLOCKS = [(1024,), (96,), (70,), (33,), (1,), (32, 4), (40, 3), (16, 5, 2), (4, 1, 9), (128, 2)]


SEEDS = 16


class RandomKernel:
    """Two buffers in shared memory: a thread reads any element of one, and writes its own in the other."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.labels = 0
        self.lines = [
            "ld.param.u64 %rd1, [data]; ld.param.u32 %r1, [count]; mov.u32 %r2, %tid.x; mov.u32 %r10, %tid.y;",
            "mov.u32 %r11, %tid.z; mov.u32 %r12, %ntid.x; mov.u32 %r13, %ntid.y;",
            "mad.lo.u32 %r10, %r11, %r13, %r10;",
            "mad.lo.u32 %r3, %r10, %r12, %r2; mul.wide.u32 %rd2, %r3, 4; add.u64 %rd1, %rd1, %rd2;",
            "ld.global.u32 %r4, [%rd1]; shl.b32 %r5, %r3, 2; mov.u32 %r6, s; add.u32 %r5, %r5, %r6;",
            "st.shared.u32 [%r5], %r4; st.shared.u32 [%r5+4096], %r4; mov.u32 %r7, 0; mov.u32 %r8, 1;",
        ]
        for _ in range(self.random.randint(2, 5)):
            self.random.choice([self.section, self.loop])()
        self.lines += ["bar.sync 0;", "add.u32 %r4, %r4, %r8; st.global.u32 [%rd1], %r4; ret;"]

    def label(self) -> str:
        self.labels += 1
        return f"L{self.labels}"

    def text(self) -> str:
        registers = ".reg .b32 %r<20>; .reg .b64 %rd<8>; .reg .pred %p<8>; .shared .align 4 .b8 s[8192];"
        entry = ".visible .entry k(.param .u64 data, .param .u32 count)"
        return HEAD + entry + "{\n" + "\n".join([registers, *self.lines]) + "\n}"

    def section(self, k: str = "") -> None:
        """Between two barriers: perhaps uniform arithmetic, a guarded body, or something that all threads do."""
        k = k or self.random.choice(["1", "8", "32", "33", "100", "%r1"])
        self.lines.append("bar.sync 0; xor.b32 %r7, %r7, 4096;")
        if self.random.random() < 0.5:
            self.lines.append(f"mad.lo.u32 %r8, %r8, 5, {k};")
        for _ in range(self.random.choice([1, 1, 2])):
            p, after = f"%p{self.random.randint(1, 3)}", self.label()
            x = self.random.choice(["%r2", "%r2", "%r3"])
            self.lines.append(self.random.choice(CONDITIONS).format(p=p, x=x, k=k))
            self.lines.append(f"@{self.random.choice(['', '!'])}{p} bra {after};")
            self.lines.append(f"add.u32 %r14, %r3, {k}; and.b32 %r14, %r14, 1023; shl.b32 %r14, %r14, 2;")
            self.lines.append("add.u32 %r14, %r14, %r6; add.u32 %r14, %r14, %r7; ld.shared.u32 %r15, [%r14];")
            self.lines.append("mad.lo.u32 %r4, %r4, 3, %r15; xor.b32 %r16, %r7, 4096; add.u32 %r16, %r16, %r5;")
            self.lines.append(f"st.shared.u32 [%r16], %r4; {after}:")
        if self.random.random() < 0.3:
            self.parting(k)
        if self.random.random() < 0.5:
            self.lines.append("mad.lo.u32 %r4, %r4, 7, %r2;")

    def parting(self, k: str) -> None:
        """A loop that threads leave one by one, some of them in its middle."""
        again, after = self.label(), self.label()
        self.lines.append(f"and.b32 %r19, %r3, 7; {again}: mad.lo.u32 %r4, %r4, 9, {k}; and.b32 %r14, %r4, 12;")
        self.lines.append(f"setp.eq.u32 %p4, %r14, 0; @%p4 bra {after}; add.u32 %r4, %r4, 1;")
        self.lines.append(f"sub.u32 %r19, %r19, 1; setp.gt.s32 %p5, %r19, 0; @%p5 bra {again}; {after}:")

    def loop(self) -> None:
        """A loop with a barrier, whose bound is the same for all threads."""
        k, again = self.random.choice(["%r17", "%r18"]), self.label()
        self.lines.append(f"mov.u32 {k}, {self.random.choice(['64', '%r1', '5'])}; {again}:")
        self.section(k)
        self.lines.append(f"shr.u32 {k}, {k}, 1; setp.ne.u32 %p7, {k}, 0; @%p7 bra {again};")


def launched(
    text: str, data: np.ndarray, width: int, block: tuple[int, ...], order: Sequence[int] = ()
) -> np.ndarray:
    out = data.copy()
    ended = launch(text, [out, 70], width, block=block, order=order)
    assert (ended.status, ended.faults) == (abi.FINISHED, ())
    return out


@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_kernels_compute_the_same(seed: int) -> None:
    text, chosen = RandomKernel(seed).text(), random.Random(seed)
    data = np.random.default_rng(seed).integers(0, 1 << 32, 1024, dtype=np.uint32)
    widths = chosen.sample([2, 4, 8, 16, 32], 3)
    for block in ((256,), *chosen.sample(BLOCKS, 3)):
        expected = launched(text, data, 1, block)
        for width in widths:
            vectors = -(-int(np.prod(block)) // width)
            shuffled = chosen.sample(range(vectors), vectors)
            for order in ((), shuffled):
                found = launched(text, data, width, block, order)
                np.testing.assert_array_equal(found, expected, f"{width} lanes, {block}, {order}")


def test_random_kernels_are_lowered_this_way() -> None:
    """Otherwise the test above compares nothing; and passes can end early in some of them."""
    early = 0
    for seed in range(SEEDS):
        module = parse(RandomKernel(seed).text(), "kernel.ptx")
        lines = lower(module, "k", 32, row=256).ir.definitions["@kcheck.warp"].lines
        assert any("%busy" in line for line in lines)
        early += any("ptr %busy" in line and "store i1 %v" in line for line in lines)
    assert early >= SEEDS // 4


SLOW = f"""{HEAD}
.visible .entry k(.param .u64 data, .param .u32 count)
{{
    .reg .b32 %r<9>; .reg .b64 %rd<5>; .reg .pred %p<3>;
    ld.param.u64 %rd1, [data]; ld.param.u32 %r1, [count]; mov.u32 %r2, %tid.x; mov.u32 %r3, 9;
    mul.wide.u32 %rd2, %r2, 4; add.u64 %rd1, %rd1, %rd2; mov.u32 %r4, 0; bar.sync 0;
L:  mad.lo.u32 %r3, %r3, %r3, %r4; add.u32 %r4, %r4, 1; setp.lt.u32 %p1, %r4, %r1; @%p1 bra L;
    CONDITION @%p2 bra S;
    st.global.u32 [%rd1], %r3;
S:  bar.sync 0; ret;
}}"""


@pytest.mark.parametrize("condition", ["setp.ge.u32 %p2, %r2, 1;", "setp.ne.u32 %p2, %r2, 0;"])
def test_vectors_past_a_limit_do_not_run(condition: str) -> None:
    """The loop is the same for all threads. Of 128 vectors, only the one that stores runs it.
    Where the last thread stores, all run it."""

    def seconds(text: str) -> float:
        times = []
        for _ in range(3):
            out = np.zeros(1024, np.uint32)
            begun = time.process_time()
            assert launch(text, [out, 20_000], 8, block=(1024,)).faults == ()
            times.append(time.process_time() - begun)
            assert np.count_nonzero(out) == 1
        return min(times)

    few = seconds(SLOW.replace("CONDITION", condition))
    every = seconds(SLOW.replace("CONDITION", "setp.ne.u32 %p2, %r2, 1023;"))
    assert 10 * few < every


# --- findings

TREE = f"""{HEAD}
.visible .entry k(.param .u64 data, .param .u32 count)
{{
    .reg .b32 %r<9>; .reg .b64 %rd<5>; .reg .pred %p<3>; .reg .f32 %f<4>;
    ld.param.u64 %rd1, [data]; ld.param.u32 %r1, [count]; mov.u32 %r2, %tid.x;
    mul.wide.u32 %rd2, %r2, 4; add.u64 %rd1, %rd1, %rd2;
L:  setp.ge.u32 %p1, %r2, %r1; @%p1 bra S;
    mul.wide.u32 %rd2, %r1, 4; add.u64 %rd3, %rd1, %rd2;
    ld.global.f32 %f1, [%rd1]; ld.global.f32 %f2, [%rd3]; add.f32 %f1, %f1, %f2; st.global.f32 [%rd1], %f1;
S:  bar.sync 0; shr.u32 %r1, %r1, 1; setp.ne.u32 %p2, %r1, 0; @%p2 bra L;
    ret;
}}"""


SHORT = [(64, missing) for missing in (0, 1, 15, 16, 17, 31, 32, 33, 40)] + [
    (256, missing) for missing in (1, 31, 33)
]


@pytest.mark.parametrize(("threads", "missing"), SHORT)
@pytest.mark.parametrize("width", [4, 16, 32])
def test_faults_are_those_of_single_lanes(threads: int, missing: int, width: int) -> None:
    """A sum whose array ends too early: the same instructions, threads and addresses, few enough to record."""

    def run(lanes: int) -> tuple[list[tuple[object, ...]], np.ndarray]:
        data = np.arange(threads - missing, dtype=np.float32)
        ended = launch(TREE, [data, threads // 2], lanes, block=(threads,))
        places = [(address - data.ctypes.data, *where) for address, *where in ended.places]
        return sorted(zip(ended.faults, places, strict=True)), data

    faults, expected = run(1)
    found, data = run(width)
    assert found == faults
    assert bool(faults) == (missing > 0)
    assert len(faults) < 64
    np.testing.assert_array_equal(data, expected)
