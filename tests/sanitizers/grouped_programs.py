"""Random programs that store to a tile of shared memory, and load from it as unrolled loops do: at constant
distances from the address of a row, of the thread's row, and of the tile.
"""

from __future__ import annotations

import random
import struct
import time
from pathlib import Path

from kcheck.cpu.cache import ObjectCache
from kcheck.cpu.executor import Ending, Executor, KernelLaunch
from kcheck.cpu.memory import Memory, MemoryKind
from kcheck.model import Finding
from kcheck.ptx.abi import Checks

WORDS = 512
HEAD = """// kcheck-file: /program.ptx
.version 8.0
.target sm_80
.address_size 64
.visible .entry program(.param .u64 out)
{
    .reg .b32 %t, %x, %c, %y, %n, %i, %v, %w; .reg .b64 %out, %o, %tile, %row, %own, %at, %d<4>; .reg .pred %p, %q;
    .shared .align 16 .b8 tile[2048];
    ld.param.u64 %o, [out]; mov.u32 %t, %tid.x; mov.u32 %y, %tid.y; mov.u32 %w, 0; mov.u32 %i, 0;
    mov.u32 %x, %ntid.x; mad.lo.u32 %n, %y, %x, %t; mov.u64 %tile, tile;
    mul.wide.u32 %d0, %t, 4; add.u64 %row, %tile, %d0; mul.wide.u32 %d1, %y, 64; add.u64 %own, %tile, %d1;
    mul.wide.u32 %d2, %n, 4; add.u64 %at, %tile, %d2;
    mov.u32 %c, %ctaid.x; mad.lo.u32 %c, %c, 64, %n; mul.wide.u32 %d3, %c, 4; add.u64 %out, %o, %d3;
"""
BASES = ("%row", "%own", "%tile")
CONDITIONS = (
    "setp.lt.u32 %p, %t, 11;",
    "setp.ne.u32 %p, %t, 0;",
    "setp.eq.u32 %p, %y, 1;",
    "setp.gt.u32 %p, %n, 40;",
)
KINDS = ("u32", "u32", "s32")
BLOCKS = ((16, 4, 1), (32, 2, 1), (64, 1, 1), (20, 3, 1))


def _loads(draw: random.Random, *, apart: bool) -> list[str]:
    """Loads in rows of a tile or next to each other. ``apart``: by one register, and none of an element of
    another; a store separates them from loads before them. Otherwise by up to three registers."""
    bases = draw.sample(BASES, 1 if apart else draw.choice((1, 2, 2, 3)))
    step, start = draw.choice((4, 4, 64, 12)), draw.randrange(3)
    lines = ["st.global.u32 [%out], %w;"] if apart else []
    for k in range(draw.randint(6, 7) if apart else draw.randint(4, 16)):
        for base in bases:
            far = 256 if apart else 64 if draw.random() < 0.9 else 4
            place = 4 * start + k * (far if base == "%row" else step)
            lines.append(f"ld.shared.{draw.choice(KINDS)} %v, [{base}+{place}]; add.u32 %w, %w, %v;")
    if draw.random() < 0.2:
        lines[apart:] = draw.sample(lines[apart:], len(lines) - apart)
    return lines


def _others(draw: random.Random) -> list[str]:
    """What programs do besides loads and barriers; of one seed, always the same kinds."""
    kinds = ["st.shared.u32 [%at], %w;"] * 2
    if draw.random() < 0.5:
        kinds += ["st.shared.u32 [{base}+{place}], %n;"] * 2
    if draw.random() < 0.3:
        kinds.append("bar.warp.sync 0xffffffff;")
    if draw.random() < 0.3:
        kinds.append("atom.shared.add.u32 %v, [{base}+{place}], 1;")
    if draw.random() < 0.3:
        kinds.append("cp.async.ca.shared.global [%at], [%out], 4; cp.async.wait_all;")
        kinds.append("cp.async.ca.shared.global [%at], [%out], 4;")
    return kinds


def program(seed: int, *, apart: bool = False) -> str:
    """A kernel, one statement in each line. ``apart``: of its loads."""
    draw = random.Random(seed)
    others, lines = _others(draw), list[str]()
    barriers = draw.choice((0.2, 0.6, 1.0, 1.0))
    for n in range(draw.randint(2, 6)):
        if draw.random() < 0.5:
            part = _loads(draw, apart=apart)
        else:
            text = draw.choice(others).format(base=draw.choice(BASES), place=4 * draw.randrange(90))
            part = [text]
        if draw.random() < 0.3 and "bar" not in part[0]:
            part = [draw.choice(CONDITIONS), f"@!%p bra S{n};", *part, f"S{n}:"]
        lines += part
        if draw.random() < barriers:
            lines.append("bar.sync 0;")
    lines += _loads(draw, apart=apart)
    if draw.random() < 0.1:
        lines.append("ld.shared.u16 %v, [%at];")  # no load is of one granule then
    if draw.random() < 0.5:
        lines = [
            "L:",
            *lines,
            "bar.sync 0;" if barriers == 1 else "",
            "add.u32 %i, %i, 1; setp.lt.u32 %q, %i, 2; @%q bra L;",
        ]
    return HEAD + "\n".join(lines) + "\nst.global.u32 [%out], %w;\nret;\n}\n"


class Bench:
    """An executor with a sanitizer."""

    def __init__(self, folder: Path, checks: Checks) -> None:
        self.found: list[Finding] = []
        self.memory = Memory(8 << 20)
        self.executor = Executor(
            self.memory, 1, ObjectCache(folder), time.monotonic, self.found.append, lambda _: None
        )
        self.executor.checks, self.executor.kernels.quick = checks, False

    def run(self, text: str, width: int, block: tuple[int, int, int]) -> list[Finding]:
        """The findings of two blocks."""
        self.found.clear()
        self.executor.width = width
        out = self.memory.allocate(4 * WORDS, MemoryKind.DEVICE)
        module = self.executor.load(text)
        launch = KernelLaunch(module, "program", struct.pack("<Q", out), (2, 1, 1), block, 0, False)
        assert self.executor.launch(launch) is Ending.FINISHED, self.found
        self.memory.free(out)
        return list(self.found)
