"""Lanes of a warp that reach warp-level operations along different paths, in random programs: with one lane per
vector, where the scheduler decides, and in the whole warp, where lanes meet without it."""

from __future__ import annotations

import random
import re
import time
from pathlib import Path

import numpy as np
import ptx_machine
import pytest
from ptx_machine import HEAD, launch

from kcheck.cpu import jit
from kcheck.cpu.cache import ObjectCache
from kcheck.cpu.executor import Executor, KernelLaunch
from kcheck.cpu.memory import Memory, MemoryKind
from kcheck.model import Finding
from kcheck.ptx import abi
from kcheck.ptx.abi import Checks
from kcheck.ptx.compile import lower
from kcheck.ptx.lowering import meetings
from kcheck.ptx.syntax.parser import parse

WORDS = 256
BEGIN = """
.visible .entry k(.param .u64 out)
{
    .reg .b32 %t, %l, %h, %v<4>, %r, %i, %x; .reg .b64 %o, %d; .reg .pred %p, %q, %s, %e;
    .shared .align 4 .b8 tile[1024];
    ld.param.u64 %o, [out]; mov.u32 %t, %tid.x; mov.u32 %l, %laneid; mul.wide.u32 %d, %t, 16; add.u64 %o, %o, %d;
    mov.u32 %v0, %t; mad.lo.u32 %v1, %t, 7, 3; xor.b32 %v2, %t, 21; mov.u32 %v3, 5; mov.u32 %r, 0; mov.u32 %x, %l;
    setp.lt.u32 %s, %l, 16; selp.b32 %h, 0xFFFF, 0xFFFF0000, %s;
"""
END = "    st.global.v4.u32 [%o], {%v0, %v1, %v2, %v3};\n    ret;\n}\n"
OPERATIONS = (
    "shfl.sync.bfly.b32 %r, {v}, {k}, 31, {mask}; xor.b32 {v}, {v}, %r; add.u32 {v}, {v}, {n};",
    "shfl.sync.idx.b32 %r|%e, {v}, %x, 31, {mask}; selp.b32 {v}, %r, {v}, %e; add.u32 {v}, {v}, {n};",
    "setp.lt.u32 %p, {v}, 40; vote.sync.ballot.b32 %r, %p, {mask}; add.u32 {v}, {v}, %r;",
    "setp.ne.u32 %p, {v}, {n}; vote.sync.any.pred %e, %p, {mask}; selp.b32 {v}, {v}, {n}, %e;",
    "bar.warp.sync {mask}; add.u32 {v}, {v}, {n};",
    "match.any.sync.b32 %r, {v}, {mask}; xor.b32 {v}, {v}, %r;",
    "redux.sync.add.u32 %r, {v}, {mask}; add.u32 {v}, {v}, %r;",
)
CONDITIONS = (
    "and.b32 %i, %l, {k}; setp.eq.u32 %q, %i, 0;",
    "setp.lt.u32 %q, %l, {k};",
    "setp.eq.u32 %q, %l, {k};",
)


class _Writer:
    """Writes one program."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.labels = 0

    def operation(self, kind: int, mask: str) -> str:
        """An operation of a kind on any register."""
        draw = self.draw
        given = {"v": f"%v{draw.randrange(4)}", "k": draw.choice((1, 2, 8)), "n": draw.randrange(50)}
        return OPERATIONS[kind].format(mask=mask, **given)

    def other(self) -> str:
        """Something between the operations: arithmetic, or an access to a lane's own word of shared memory."""
        draw = self.draw
        v, w = (f"%v{draw.randrange(4)}" for _ in range(2))
        if draw.random() < 0.3:
            return f"mul.wide.u32 %d, %t, 4; mov.u64 %o, tile; add.u64 %d, %o, %d; st.shared.u32 [%d], {v};"
        return draw.choice((f"mad.lo.u32 {v}, {w}, 3, {v};", f"add.u32 {v}, {v}, {w};", ""))

    def arm(self, kinds: list[int], mask: str, depth: int) -> str:
        """Operations of these kinds, perhaps in a loop or split between further arms."""
        draw, lines = self.draw, []
        if depth and draw.random() < 0.3:
            return self.arms(kinds, mask, depth - 1)
        if len(set(kinds)) == 1 and len(kinds) > 1 and draw.random() < 0.6:  # the same again and again
            self.labels += 1
            label, count = f"M{self.labels}", f"%c{self.labels}"
            body = f"{self.operation(kinds[0], mask)} {self.other()}"
            return f"{{ .reg .b32 {count}; .reg .pred %u; mov.u32 {count}, {len(kinds)};\n{label}: {body}" + (
                f" sub.u32 {count}, {count}, 1; setp.ne.u32 %u, {count}, 0; @%u bra {label}; }}"
            )
        for kind in kinds:
            lines += [self.operation(kind, mask), self.other()]
        return "\n".join(lines)

    def arms(self, kinds: list[int], mask: str, depth: int) -> str:
        """A branch with operations of the same kinds on both sides."""
        draw = self.draw
        self.labels += 1
        n, condition = self.labels, draw.choice(CONDITIONS).format(k=draw.choice((1, 4, 8, 16, 31)))
        first, second = (self.arm(kinds, mask, depth) for _ in range(2))
        return f"{condition} @%q bra A{n};\n{first}\nbra J{n};\nA{n}:\n{second}\nJ{n}:"

    def program(self, wrong: bool) -> str:
        """A kernel; ``wrong``: some lanes exit, or execute more operations than others."""
        draw, parts = self.draw, []
        for _ in range(draw.randint(1, 3)):
            mask = "-1" if wrong else draw.choice(("-1", "0xFFFFFFFF", "%h"))
            kinds = [draw.randrange(len(OPERATIONS)) for _ in range(draw.randint(1, 3))]
            if draw.random() < 0.4:
                kinds = [kinds[0]] * draw.randint(2, 4)
            parts.append(self.arms(kinds, mask, 2))
            if draw.random() < 0.3:
                parts.append("bar.sync 0;")
            if wrong and draw.random() < 0.5:
                condition = draw.choice(CONDITIONS).format(k=draw.choice((1, 4, 31)))
                self.labels += 1
                extra = draw.choice(("ret;", self.operation(kinds[0], mask)))
                parts.append(f"{condition} @%q bra X{self.labels};\n{extra}\nX{self.labels}:")
        store = "mul.wide.u32 %d, %t, 16; ld.param.u64 %o, [out]; add.u64 %o, %o, %d;\n"
        return HEAD + BEGIN + "\n".join(parts) + "\n" + store + END


def run(text: str, width: int, threads: int) -> tuple[bytes, int, list[tuple[tuple[str, int, int, int], object]]]:
    """What a launch of two blocks leaves, how it ended, and its faults."""
    out = np.zeros(4 * WORDS, np.uint32)
    ended = launch(text, [out], width, (2,), (threads,))
    return out.tobytes(), ended.status, sorted(zip(ended.faults, ended.places, strict=True))


def kinds(faults: list[tuple[tuple[str, int, int, int], object]]) -> list[str]:
    """The kind of each fault."""
    return sorted(kind for (kind, *_), _ in faults)


def errors(faults: list[tuple[tuple[str, int, int, int], object]]) -> bool:
    """Whether lanes that have not exited are missing."""
    return "WARP_MASK" in kinds(faults)


SEEDS = [*range(12), *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(12, 300))]


@pytest.mark.parametrize("seed", SEEDS)
def test_lanes_that_meet_compute_what_the_scheduler_makes_of_them(seed: int) -> None:
    """The same bytes as one lane at a time, and no fault; in a whole and in a partial warp."""
    text = _Writer(seed).program(wrong=False)
    for threads in (64, 32):
        expected = run(text, 1, threads)
        assert expected[1:] == (abi.FINISHED, []), text
        assert run(text, 32, threads) == expected, text


@pytest.mark.parametrize("seed", SEEDS[:4])
def test_quick_code_that_leaves_values_in_memory_computes_the_same(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As that of a very large kernel does."""
    text = _Writer(seed).program(wrong=False)
    expected = run(text, 1, 64)
    monkeypatch.setattr(jit, "VERY_LARGE_MODULE", 0)
    ptx_machine.compiled.cache_clear()
    assert [run(text, width, 64) for width in (8, 32)] == [expected, expected], text
    ptx_machine.compiled.cache_clear()


@pytest.mark.parametrize("seed", SEEDS)
def test_lanes_that_never_meet_are_an_error(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lanes exit, or arrive alone: the same bytes and verdict as if the scheduler decided about all of them.

    Which of the lanes that wait in vain are reported first depends on who decides, and so what they compute then.
    The scheduler may also run the missing lanes to their exit before the others arrive; then it warns where lanes
    that meet report an error.
    """
    text = _Writer(seed).program(wrong=True)
    found = run(text, 32, 48)
    monkeypatch.setattr(meetings, "MOST_POINTS", 0)
    ptx_machine.compiled.cache_clear()
    expected = run(text, 32, 48)
    ptx_machine.compiled.cache_clear()
    assert (found[1], len(found[2])) == (expected[1], len(expected[2])), text
    assert errors(found[2]) or not errors(expected[2]), text
    if not errors(found[2]):
        assert kinds(found[2]) == kinds(expected[2]), text
        assert found[0] == expected[0], text


CHECKED = (
    BEGIN.replace("{", "{{").replace("}", "}}").replace("    setp", "{load}    setp")
    + """
    and.b32 %i, %l, 1; setp.eq.u32 %q, %i, 0; @%q bra A;
    shfl.sync.bfly.b32 %v1, %v0, 1, 31, -1; bra J;
A:  shfl.sync.bfly.b32 %v2, %v0, 1, 31, -1; mov.u32 %v1, %v2;
J:  {end}    add.u32 %v1, %v1, 1; st.global.u32 [%o], %v1;
    ret;
}}
"""
)
LOAD = "mul.wide.u32 %d, %t, 4; mov.u64 %o, tile; add.u64 %d, %o, %d; ld.shared.u32 %v0, [%d];"
STORE = LOAD.replace("ld.shared.u32 %v0, [%d]", "st.shared.u32 [%d], %v0")
NEIGHBOR = "xor.b32 %i, %t, 1; " + STORE.replace("%t", "%i")


@pytest.mark.parametrize("width", [1, 32])
def test_shadows_move_between_lanes_that_meet(tmp_path: Path, width: int) -> None:
    """A value that is uninitialized in its lane is found at the store of the lane that gets it."""
    place = "ld.param.u64 %o, [out]; mul.wide.u32 %d, %t, 16; add.u64 %o, %o, %d;"
    text = "// kcheck-file: /k.ptx\n" + HEAD + CHECKED
    found = findings(tmp_path, text.format(load=LOAD, end=place), Checks(init=True), width)
    line = 1 + text[: text.index("{end}")].count("\n")
    assert {(f.rule, f.place.line) for f in found if f.place} == {("initcheck", line)}
    assert {f.thread for f in found} == {(0, 0, 0)}
    assert findings(tmp_path, text.format(load=STORE, end=place), Checks(init=True), width) == []


@pytest.mark.parametrize("width", [1, 32])
def test_lanes_that_meet_are_synchronized(tmp_path: Path, width: int) -> None:
    """A store before a barrier of the warp and a neighbor's store after it do not race; a shuffle does not do."""
    place = "ld.param.u64 %o, [out]; mul.wide.u32 %d, %t, 16; add.u64 %o, %o, %d;"
    text = (HEAD + CHECKED).format(load=STORE, end=f"{NEIGHBOR} {place}")
    barrier = re.sub(r"shfl.sync.bfly.b32 (%v\d), %v0, 1, 31, -1;", r"mov.u32 \1, 3; bar.warp.sync -1;", text)
    assert barrier != text
    assert findings(tmp_path, barrier, Checks(race=True), width) == []
    alone = barrier.replace("bar.warp.sync -1;", "")
    for wrong in (text, alone):
        assert {f.rule for f in findings(tmp_path, wrong, Checks(race=True), width)} == {"racecheck"}


def findings(folder: Path, text: str, checks: Checks, width: int) -> list[Finding]:
    """Those of a launch of one warp."""
    found: list[Finding] = []
    memory = Memory(1 << 20)
    executor = Executor(memory, 1, ObjectCache(folder), time.perf_counter, found.append, lambda _: None)
    executor.checks, executor.width = checks, width
    out = memory.allocate(1024, MemoryKind.DEVICE)
    content = out.to_bytes(8, "little")
    executor.launch(KernelLaunch(executor.load(text), "k", content, (1, 1, 1), (32, 1, 1), 0, False))
    return found


def test_programs_have_lanes_that_meet() -> None:
    """The code of most programs has meetings."""
    programs = [_Writer(seed).program(wrong=False) for seed in range(12)]
    texts = [lower(parse(text, "t.ptx"), "k", 32).ir.text for text in programs]
    assert sum("\nmeet" in text for text in texts) >= 10


def test_a_shuffle_has_as_much_code_next_to_many_barriers() -> None:
    """The lanes that have exited wait nowhere: a function looks at all barriers, not the code of each shuffle."""
    shuffle = OPERATIONS[0].format(v="%v0", k=1, mask="-1", n=1)

    def code(barriers: int, shuffles: int) -> int:
        text = HEAD + BEGIN + "bar.sync 0;\n" * barriers + f"{shuffle}\n" * shuffles + END
        return len(lower(parse(text, "k.ptx"), "k", 32).ir.text)

    few, many = (code(barriers, 9) - code(barriers, 1) for barriers in (1, 20))
    assert many < 1.1 * few
