"""initcheck and racecheck of accesses to rows: they find what checks of the address of each lane find.

Random programs access shared and global memory at indices that grow from lane to lane by a constant: in a row,
backward, every second or third element, the same element, past the ends of arrays, in loops with a stride. Some of
the memory is uninitialized, and some accesses race.
"""

from __future__ import annotations

import ctypes
import random
import re
import struct
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kcheck.cpu.cache import ObjectCache
from kcheck.cpu.executor import Executor, KernelLaunch
from kcheck.cpu.memory import Memory, MemoryKind
from kcheck.model import Finding
from kcheck.ptx.abi import Checks
from kcheck.ptx.compile import lower
from kcheck.ptx.sanitizers.init.sanitizer import Initcheck
from kcheck.ptx.sanitizers.race.hooks import Racecheck
from kcheck.ptx.syntax.parser import parse

WORDS = 512
HEAD = """// kcheck-file: /program.ptx
.version 8.0
.target sm_80
.address_size 64
.visible .entry program(.param .u64 x, .param .u64 out, .param .u32 count, .param .u32 bias)
{
    .reg .b32 %t, %n, %b, %i<10>, %j, %v, %w, %y; .reg .b64 %x, %o, %s, %a<10>, %d<10>, %o<10>;
    .reg .pred %p, %q;
    .shared .align 16 .b8 tile[2048];
    ld.param.u64 %x, [x]; ld.param.u64 %o, [out]; ld.param.u32 %n, [count]; ld.param.u32 %b, [bias];
    mov.u32 %t, %tid.x; mov.u32 %y, %tid.y; mov.u32 %v, 7; mov.u32 %w, 0; mov.u64 %s, tile;
"""
INSIDE = (
    "mov.u32 %i{n}, %t;",
    "add.u32 %i{n}, %t, {k};",
    "shl.b32 %i{n}, %t, 1;",
    "mul.lo.u32 %i{n}, %t, 3;",
    "mov.u32 %i{n}, {k};",
    "mad.lo.u32 %i{n}, %y, 20, %t;",
    "xor.b32 %i{n}, %t, 5;",
)
INDICES = (*INSIDE, "add.u32 %i{n}, %t, %b;", "sub.u32 %i{n}, {k}, %t;")
LOOP = (
    "mov.u32 %i{n}, %t; L{n}: mul.wide.s32 %d{n}, %i{n}, 4; add.u64 %a{n}, %x, %d{n}; ld.global.u32 %j, [%a{n}]; "
    "add.u32 %w, %w, %j; {store} add.s32 %i{n}, %i{n}, {stride}; setp.lt.s32 %p, %i{n}, {end}; @%p bra L{n};"
)
IN_LOOPS = (
    "",
    "add.u64 %o{n}, %o, %d{n}; st.global.u32 [%o{n}], %i{n};",
    "st.global.u32 [%a{n}], %j;",
    "add.u64 %o{n}, %s, %d{n}; ld.shared.u32 %j, [%o{n}]; add.u32 %w, %w, %j;",
)
CONDITIONS = (
    "setp.lt.u32 %q, %t, {k};",
    "setp.ne.u32 %q, %t, 9;",
    "setp.ne.u32 %q, %t, 0;",
    "setp.lt.u32 %q, %v, 99;",
)


def _access(draw: random.Random, strays: bool) -> str:
    """A load into %v, or a store of %t, %v or %w, perhaps in a branch; out of bounds only if it ``strays``."""
    space = draw.choice(("shared", "global"))
    base, wide = draw.choice(("%x", "%x", "%o")) if space == "global" else "%s", draw.choice(("s32", "u32"))
    index, offset = (
        draw.choice(INDICES if strays else INSIDE),
        draw.choice(("", "", "+4", "-8" if strays else "+8")),
    )
    place = f"{index} mul.wide.{wide} %d{{n}}, %i{{n}}, 4; add.u64 %a{{n}}, {base}, %d{{n}};"
    at, value = f"[%a{{n}}{offset}]", draw.choice(("%t", "%t", "%v", "%w"))
    accesses = [f"st.{space}.u32 {at}, {value};", f"ld.{space}.u32 %v, {at}; add.u32 %w, %w, %v;"]
    if draw.random() < 0.15:  # narrower elements
        accesses = [f"st.{space}.u8 {at}, {value};", f"ld.{space}.u16 %v, {at};"]
    access = draw.choice(accesses)
    if draw.random() < 0.4:
        return f"{place} {draw.choice(CONDITIONS)} @!%q bra S{{n}}; {access} S{{n}}:"
    return f"{place} {access}"


def program(seed: int, *, strays: bool = True) -> str:
    """A kernel, one statement in each line; without accesses out of bounds unless it ``strays``."""
    draw = random.Random(seed)
    lines = []
    for n in range(draw.randint(4, 9)):
        kind, k = draw.random(), draw.choice((0, 1, 16, 33, 40, 70))
        if kind < 0.2:
            lines.append("bar.sync 0;")
        elif kind < 0.35:
            store = draw.choice(IN_LOOPS).format(n=n)
            lines.append(
                LOOP.format(n=n, store=store, stride=draw.choice((64, 32, 7)), end=draw.choice((200, 300)))
            )
        else:
            lines.append(_access(draw, strays).format(n=n, k=k))
    lines.append("mul.wide.u32 %d9, %t, 4; add.u64 %a9, %o, %d9; st.global.u32 [%a9], %w;")
    return HEAD + "\n".join(lines) + "\n    ret;\n}\n"


_ADDRESS = re.compile(r"0x[0-9a-f]+|allocation \d+")
"""What a message says of the place of memory in the process."""


class Bench:
    """An executor, and what it found."""

    def __init__(self, folder: Path) -> None:
        self.found: list[Finding] = []
        self.memory = Memory(8 << 20)
        self.executor = Executor(
            self.memory, 1, ObjectCache(folder), time.monotonic, self.found.append, lambda _: None
        )

    def run(
        self, text: str, checks: Checks, width: int, block: tuple[int, int, int], *, quick: bool, bias: int
    ) -> tuple[bytes, list[Finding]]:
        """What two blocks leave in memory, and the findings."""
        self.found.clear()
        self.executor.width, self.executor.checks, self.executor.kernels.quick = width, checks, quick
        module = self.executor.load(text)
        x, out = (self.memory.allocate(4 * WORDS, MemoryKind.DEVICE) for _ in range(2))
        for n, place in enumerate((x, out)):
            numbers = struct.pack(f"<{WORDS}I", *(n * 1000 + k % 60 for k in range(WORDS)))
            ctypes.memmove(place, numbers, len(numbers))
        self.memory.define(x, 4 * 100)  # elements 100 to 119 are uninitialized, and the end
        self.memory.define(x + 4 * 120, 4 * 200)
        self.memory.define(out, 4 * 64)
        content = struct.pack("<QQII", x + 4 * 8, out + 4 * 8, WORDS, bias & 0xFFFFFFFF)
        launch = KernelLaunch(module, "program", content, (2, 1, 1), block, 0, False)
        ending = self.executor.launch(launch)
        left = ctypes.string_at(x, 4 * WORDS) + ctypes.string_at(out, 4 * WORDS)
        self.memory.free(x)
        self.memory.free(out)
        findings = [replace(f, message=_ADDRESS.sub("", f.message)) for f in self.found]
        return str(ending).encode() + left, findings


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """One for all programs."""
    return Bench(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def lane_by_lane(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """With compiled code of its own."""
    return Bench(tmp_path_factory.mktemp("cache"))


CHECKS = {"initcheck": Checks(init=True), "racecheck": Checks(race=True), "both": Checks(race=True, init=True)}
SEEDS = [*range(6), *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(6, 120))]


def launches(seed: int) -> Iterator[tuple[str, int, tuple[int, int, int], int, bool]]:
    """The text of a program, what it adds to some indices, its block, the lanes, and whether code is quick."""
    draw = random.Random(seed)
    text, bias = program(seed), draw.choice((0, 3, -2))
    block = draw.choice(((64, 1, 1), (48, 1, 1), (16, 4, 1), (20, 2, 1), (32, 2, 1)))
    for width, quick in ((4, False), (16, True)) if seed % 2 else ((8, True), (32, False)):
        yield text, bias, block, width, quick


@pytest.mark.parametrize("checks", CHECKS)
@pytest.mark.parametrize("seed", SEEDS)
def test_rows_have_the_findings_of_their_elements(
    bench: Bench, lane_by_lane: Bench, seed: int, checks: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same findings, from the same threads, and the same bytes as with checks of the address of each lane."""
    for text, bias, block, width, quick in launches(seed):
        found = bench.run(text, CHECKS[checks], width, block, quick=quick, bias=bias)
        with monkeypatch.context() as patch:
            for sanitizer in (Initcheck, Racecheck):
                patch.setattr(sanitizer, "sees_rows", False)
            expected = lane_by_lane.run(text, CHECKS[checks], width, block, quick=quick, bias=bias)
        assert found == expected, (width, text)


@pytest.mark.parametrize("seed", SEEDS)
def test_rows_have_the_lines_of_single_lanes(bench: Bench, seed: int) -> None:
    """initcheck reports the same lines with one lane at a time. Each statement ends with a barrier: otherwise the
    order of the lanes decides whether one reads what another has not stored yet."""
    head, body = program(seed, strays=False).split(HEAD, 1)
    text, lines = head + HEAD + body.replace("\n", " bar.sync 0;\n", body.count("\n") - 2), []
    for _, bias, _, width, quick in [*launches(seed), ("", 0, (32, 2, 1), 1, True)]:
        _, findings = bench.run(text, CHECKS["initcheck"], width, (32, 2, 1), quick=quick, bias=bias)
        lines.append({(f.rule, f.place.line) for f in findings if f.place is not None})
    assert lines == [lines[0]] * len(lines), text


def test_programs_have_rows_and_something_to_find(bench: Bench) -> None:
    """Most programs have a row whose shadow is loaded or stored, one that racecheck checks, and findings."""
    rows = races = 0
    rules: list[str] = []
    for seed in range(6):
        text, bias, block, *_ = next(launches(seed))
        ir = lower(parse(text, "t.ptx"), "program", 8, CHECKS["both"], row=16).ir.text
        rows += ".row8" in ir and ".init(" in ir
        races += re.search(r"@kcheck\.race\.\w+\.\w+\.\d\.row8", ir) is not None
        rules += [f.rule for f in bench.run(text, CHECKS["both"], 8, block, quick=True, bias=bias)[1]]
    assert min(rows, races) >= 4
    assert {"initcheck", "racecheck", "memcheck"} <= set(rules)
