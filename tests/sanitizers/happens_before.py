"""Random small programs, as PTX and as a list of what each thread does, and which of its accesses race.

The judge here knows nothing of stamps and records: each access has a vector clock of all threads, which barriers
and the synchronization of warps join, and each pair of accesses of one byte is looked at.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from itertools import combinations

HEAD = ".version 8.7\n.target sm_80\n.address_size 64\n"


@dataclass(frozen=True)
class Step:
    """What every thread of a mask does at one line of the program.

    Attributes:
        what: ``read``, ``write``, ``atomic``, ``barrier``, ``warp`` (a barrier of the warp), or ``vote``, which
            orders nothing.
        space: ``global`` or ``shared``, of an access.
        width: of an access, in bytes.
        first, stride: thread t accesses the element (first + stride * t) % elements.
        span: the bytes of these elements.
        warps: which warps take part (in a barrier: all).
        lanes: which lanes, as bits.
        blocks: which blocks, as bits.
        value: of each byte that a write stores; None: another value for each thread.
    """

    what: str
    space: str = ""
    width: int = 4
    first: int = 0
    stride: int = 0
    warps: int = 3
    lanes: int = 0xFFFFFFFF
    blocks: int = 3
    value: int | None = None
    span: int = 32


BYTES = 256
THREADS = 64
BLOCKS = 2

_SCATTERED = (0, 1, 2, 3, 5, 7, 11, 13, 31, 61)
"""Strides of scattered lanes: odd ones take all elements to different places."""

WARP_STEPS = ("warp", "vote")
"""Steps of the lanes of a warp together, which access no memory."""

_MASKS = (0xFFFFFFFF, 0xFFFFFFFF, 1, 2, 0x80000000, 0xFFFF, 0x00010001)


def draw(seed: int, *, is_one_place: bool = False, has_partial: bool = False) -> list[Step]:
    """A program of 3 to 9 steps; of some seeds without atomics, or without synchronization of warps.

    Args:
        is_one_place: every access is of the same element.
        has_partial: parts of a warp synchronize.
    """
    rng = random.Random(seed)
    kinds = ["read", "write", "read", "write", "barrier"]
    kinds += rng.choices(("warp", "warp", "vote"), k=rng.randint(0, 2)) + ["atomic"] * rng.randint(0, 2)
    widths = [4] if is_one_place else rng.choice(([4], [4], [4, 8], [1, 4], [2, 8]))
    spaces = rng.choice((["shared"], ["global"], ["shared", "global"]))[: 1 if is_one_place else 2]
    steps = []
    for _ in range(rng.randint(3, 9)):
        what = rng.choice(kinds)
        if what == "barrier":
            steps.append(Step(what))
        elif what in WARP_STEPS:
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


def draw_scattered(seed: int) -> list[Step]:
    """A program whose lanes are scattered over more memory, some of them in the same place."""
    rng = random.Random(seed)
    return [
        step if step.what in (*WARP_STEPS, "barrier") else replace(step, stride=rng.choice(_SCATTERED), span=BYTES)
        for step in draw(seed)
    ]


def draw_values(seed: int) -> list[Step]:
    """A program of reads, writes and barriers; each write stores one of two values into zeroed memory."""
    rng = random.Random(seed)
    steps = []
    for step in draw(seed):
        if step.what in (*WARP_STEPS, "atomic"):
            continue
        if step.what == "write":
            step = replace(step, value=rng.choice((0, 0, 0, 1)))
        width = min(step.width, 4)
        steps.append(replace(step, width=width, first=step.first if step.stride else rng.randrange(2)))
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
        elif step.what == "vote":
            body.append(f"    vote.sync.any.pred %p, %p, {step.lanes};")
        else:
            count = step.span // step.width
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
                if step.value is not None:
                    body.append(f"    mov.u32 %c, {step.value * 0x01010101};")
                source = "%c" if step.value is not None else "%big" if step.width == 8 else "%id"
                body.append(f"    st.{step.space}.u{bits} [%a], {source};")
            else:
                body.append(f"    red.{step.space}.add.u32 [%a], 1;")
        body.append(f"{label}:")
    text = "\n".join(body)
    return f"""{HEAD}
.file 1 "program.py"
.visible .entry program(.param .u64 memory)
{{
    .reg .pred %p; .reg .b32 %m, %w, %t, %warp, %lane, %cta, %e, %v, %id, %c;
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
    value: int | None = None


def racing(steps: list[Step]) -> dict[Byte, set[tuple[int, int]]]:
    """By byte, the pairs of steps, smaller first, that race there."""
    return {
        place: pairs
        for place, accesses in _touched(steps).items()
        if (pairs := {_pair(x, y) for x, y in combinations(accesses, 2) if _races(x, y)})
    }


def is_error(steps: list[Step]) -> bool:
    """Whether some race can be seen: two writes of other values, or a read beside a write that may change it."""
    for (space, _, _), accesses in _touched(steps).items():
        writes = [done for done in accesses if done.kind == "write"]
        changing = _changing(writes, {0} if space == "global" else {None})
        for x, y in combinations(accesses, 2):
            if not _races(x, y):
                continue
            if x.kind == y.kind:
                if x.value != y.value:
                    return True
            elif any(write in (x, y) for write in changing):
                return True
    return False


def _changing(writes: list[_Done], first: set[int | None]) -> list[_Done]:
    """The writes that change the value in some order that the barriers allow.

    Args:
        first: what is there before; None is undefined.
    """
    changing: list[_Done] = []
    for write in writes:
        before = [other for other in writes if other is not write and _is_before(other, write)]
        last = [x for x in before if not any(x is not y and _is_before(x, y) for y in before)]
        beside = [other for other in writes if _races(other, write)]
        values = {other.value for other in (*last, *beside)} | (set() if before else first)
        if values != {write.value}:
            changing.append(write)
    while more := [w for w in writes if w not in changing and any(_races(w, other) for other in changing)]:
        changing += more
    return changing


def _touched(steps: list[Step]) -> dict[Byte, list[_Done]]:
    """By byte, what accesses it."""
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
            if step.what == "vote":
                continue
            if step.what == "warp":
                for warp in (0, 1):
                    group = [t for t in taking_part if t[1] // 32 == warp]
                    if group:
                        join(group)
                continue
            count = step.span // step.width
            for thread in taking_part:
                clocks[thread][thread] += 1
                element = (step.first + step.stride * thread[1]) % count
                clock = clocks[thread]
                done = _Done(n, thread, step.what, dict(clock), clock[thread], step.value)
                for byte in range(element * step.width, (element + 1) * step.width):
                    place = (step.space, block if step.space == "shared" else 0, byte)
                    touched.setdefault(place, []).append(done)
    return touched


def _pair(x: _Done, y: _Done) -> tuple[int, int]:
    return (min(x.step, y.step), max(x.step, y.step))


def _races(x: _Done, y: _Done) -> bool:
    if x.thread == y.thread or x.kind == y.kind == "read" or x.kind == y.kind == "atomic":
        return False
    return not (_is_before(x, y) or _is_before(y, x))


def _is_before(x: _Done, y: _Done) -> bool:
    """Whether a step is done before another, in every order."""
    return y.clock.get(x.thread, 0) >= x.number and x is not y and (x.thread != y.thread or x.number < y.number)
