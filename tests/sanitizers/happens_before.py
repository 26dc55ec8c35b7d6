"""Random small programs, as PTX and as a list of what each thread does, and which of its accesses race.

The judge here knows nothing of stamps and records: each access has a vector clock of all threads, which barriers
and the synchronization of warps join, and each pair of accesses of one byte is looked at.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import combinations

HEAD = ".version 8.7\n.target sm_80\n.address_size 64\n"


@dataclass(frozen=True)
class Step:
    """What every thread of a mask does at one line of the program.

    Attributes:
        what: ``read``, ``write``, ``atomic``, ``barrier``, ``warp``.
        space: ``global`` or ``shared``, of an access.
        width: of an access, in bytes.
        first, stride: thread t accesses the element (first + stride * t) % elements.
        warps: which warps take part (in a barrier: all).
        lanes: which lanes, as bits.
        blocks: which blocks, as bits.
    """

    what: str
    space: str = ""
    width: int = 4
    first: int = 0
    stride: int = 0
    warps: int = 3
    lanes: int = 0xFFFFFFFF
    blocks: int = 3


BYTES = 32
THREADS = 64
BLOCKS = 2

_MASKS = (0xFFFFFFFF, 0xFFFFFFFF, 1, 2, 0x80000000, 0xFFFF, 0x00010001)


def draw(seed: int, *, is_one_place: bool = False, has_partial: bool = False) -> list[Step]:
    """A program of 3 to 9 steps; of some seeds without atomics, or without synchronization of warps.

    Args:
        is_one_place: every access is of the same element.
        has_partial: parts of a warp synchronize.
    """
    rng = random.Random(seed)
    kinds = ["read", "write", "read", "write", "barrier"]
    kinds += ["warp"] * rng.randint(0, 2) + ["atomic"] * rng.randint(0, 2)
    widths = [4] if is_one_place else rng.choice(([4], [4], [4, 8], [1, 4], [2, 8]))
    spaces = rng.choice((["shared"], ["global"], ["shared", "global"]))[: 1 if is_one_place else 2]
    steps = []
    for _ in range(rng.randint(3, 9)):
        what = rng.choice(kinds)
        if what == "barrier":
            steps.append(Step(what))
        elif what == "warp":
            lanes = rng.choice(_MASKS) if has_partial else 0xFFFFFFFF
            steps.append(Step(what, warps=rng.choice((1, 2, 3, 3)), lanes=lanes))
        else:
            width = 4 if what == "atomic" else rng.choice(widths)
            steps.append(
                Step(
                    what,
                    rng.choice(spaces),
                    width,
                    0 if is_one_place else rng.randrange(4),
                    0 if is_one_place else rng.choice((0, 0, 1, 1, 2, 3)),
                    rng.choice((1, 2, 3, 3)),
                    rng.choice(_MASKS),
                    rng.choice((1, 2, 3, 3, 3)),
                )
            )
    return steps


def ptx(steps: list[Step]) -> str:
    """The program, step n in line n + 1 of its source; each thread writes another value."""
    body = []
    for n, step in enumerate(steps):
        label = f"S{n}"
        if step.what == "barrier":
            body.append("    bar.sync 0;")
            continue
        body.append(f"""    .loc 1 {n + 1} 0
    mov.u32 %m, {step.lanes};
    shr.u32 %m, %m, %lane;
    and.b32 %m, %m, 1;
    mov.u32 %w, {step.warps};
    shr.u32 %w, %w, %warp;
    and.b32 %m, %m, %w;
    mov.u32 %w, {step.blocks};
    shr.u32 %w, %w, %cta;
    and.b32 %m, %m, %w;
    setp.eq.u32 %p, %m, 0;
    @%p bra {label};""")
        if step.what == "warp":
            body.append(f"    bar.warp.sync {step.lanes};")
        else:
            count = BYTES // step.width
            base = "%shared" if step.space == "shared" else "%global"
            body.append(f"""    mad.lo.u32 %e, %t, {step.stride}, {step.first};
    and.b32 %e, %e, {count - 1};
    mul.wide.u32 %a, %e, {step.width};
    add.s64 %a, %a, {base};""")
            register = "%d" if step.width == 8 else "%v"
            bits = 8 * step.width
            if step.what == "read":
                body.append(f"    ld.{step.space}.u{bits} {register}, [%a];")
            elif step.what == "write":
                body.append(f"    st.{step.space}.u{bits} [%a], {'%big' if step.width == 8 else '%id'};")
            else:
                body.append(f"    red.{step.space}.add.u32 [%a], 1;")
        body.append(f"{label}:")
    text = "\n".join(body)
    return f"""{HEAD}
.file 1 "program.py"
.visible .entry program(.param .u64 memory)
{{
    .reg .pred %p; .reg .b32 %m, %w, %t, %warp, %lane, %cta, %e, %v, %id;
    .reg .b64 %a, %d, %global, %shared, %big;
    .shared .align 16 .b8 tile[{BYTES}];
    ld.param.u64 %global, [memory];
    mov.u64 %shared, tile;
    mov.u32 %t, %tid.x;
    mov.u32 %cta, %ctaid.x;
    shr.u32 %warp, %t, 5;
    and.b32 %lane, %t, 31;
    mad.lo.u32 %id, %cta, {THREADS}, %t;
    add.u32 %id, %id, {0x01010101 - 1};
    mul.wide.u32 %big, %id, 0x1000001;
{text}
    ret;
}}
"""


Byte = tuple[str, int, int]
"""Space, block (0 for global memory), and the byte in it."""


@dataclass(frozen=True)
class _Done:
    """One access that happened: ``clock`` says of each thread how many of its steps came before it."""

    step: int
    thread: tuple[int, int]
    kind: str
    clock: dict[tuple[int, int], int]
    number: int


def racing(steps: list[Step]) -> dict[Byte, set[tuple[int, int]]]:
    """By byte, the pairs of steps, smaller first, that race there."""
    touched: dict[Byte, list[_Done]] = {}
    for block in range(BLOCKS):
        threads = [(block, t) for t in range(THREADS)]
        clocks: dict[tuple[int, int], dict[tuple[int, int], int]] = {t: {t: 0} for t in threads}

        def join(group: list[tuple[int, int]]) -> None:
            every: dict[tuple[int, int], int] = {}
            for one in group:
                for who, count in clocks[one].items():  # noqa: B023
                    every[who] = max(every.get(who, 0), count)
            for one in group:
                clocks[one] = dict(every)  # noqa: B023

        for n, step in enumerate(steps):
            if step.what == "barrier":
                join(threads)
                continue
            taking_part = [
                (block, t)
                for t in range(THREADS)
                if step.blocks >> block & 1 and step.warps >> t // 32 & 1 and step.lanes >> t % 32 & 1
            ]
            if step.what == "warp":
                for warp in (0, 1):
                    group = [t for t in taking_part if t[1] // 32 == warp]
                    if group:
                        join(group)
                continue
            count = BYTES // step.width
            for thread in taking_part:
                clocks[thread][thread] += 1
                element = (step.first + step.stride * thread[1]) % count
                done = _Done(n, thread, step.what, dict(clocks[thread]), clocks[thread][thread])
                for byte in range(element * step.width, (element + 1) * step.width):
                    place = (step.space, block if step.space == "shared" else 0, byte)
                    touched.setdefault(place, []).append(done)
    return {
        place: pairs
        for place, accesses in touched.items()
        if (pairs := {_pair(x, y) for x, y in combinations(accesses, 2) if _races(x, y)})
    }


def _pair(x: _Done, y: _Done) -> tuple[int, int]:
    return (min(x.step, y.step), max(x.step, y.step))


def _races(x: _Done, y: _Done) -> bool:
    if x.thread == y.thread or x.kind == y.kind == "read" or x.kind == y.kind == "atomic":
        return False
    before = y.clock.get(x.thread, 0) >= x.number
    after = x.clock.get(y.thread, 0) >= y.number
    return not (before or after)
