"""8 x 8 matrices of 16-bit elements: ``ldmatrix`` loads them from shared memory into a warp's registers,
``movmatrix`` transposes one in registers.

Source: PTX ISA, "Warp-level matrix load instruction: ldmatrix", "... transpose instruction: movmatrix". A lane's
number is ``4 * group + rank``. It holds elements ``2 * rank`` and ``2 * rank + 1`` of row ``group``, or with
``.trans`` of column ``group``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from kcheck.ptx.ir.builder import Builder, Value
from kcheck.ptx.isa.access_form import AccessForm, elements
from kcheck.ptx.isa.effects import effect, ordered
from kcheck.ptx.isa.events import Companion
from kcheck.ptx.isa.fragments import LANES, RANKS
from kcheck.ptx.isa.loadstore import load_values
from kcheck.ptx.isa.mma import all_lanes
from kcheck.ptx.isa.surroundings import Rows, Surroundings
from kcheck.ptx.isa.warp import whole_warp
from kcheck.ptx.syntax.ast import Instruction
from kcheck.ptx.syntax.types import TYPES

WORDS = 4
"""32-bit words of a row: 8 elements of 16 bits."""

_B32 = TYPES["b32"]
_SIZE = 8


def matrices(fn: Surroundings, i: Instruction) -> int:
    """How many matrices an ``ldmatrix`` loads.

    Raises:
        PtxError: an unsupported form.
    """
    words = [m for m in i.modifiers if m not in ("sync", "aligned", "trans", "shared", "shared::cta")]
    if len(words) != 3 or words[0] != "m8n8" or words[1] not in ("x1", "x2", "x4") or words[2] != "b16":
        raise fn.fail(i, "unsupported")
    return int(words[1][1:])


def load_rows(fn: Surroundings, i: Instruction) -> Rows:
    """The row at each lane's address, in the lanes whose addresses the instruction uses: 8 lanes for each
    matrix."""
    b = fn.b
    ordered(fn, i, 2)
    space = "shared" if any(m.startswith("shared") for m in i.modifiers) else "generic"
    before = fn.active
    lane = b.add(b.value("and i32 %t0, 31", "i32"), fn.lane_numbers())
    used = b.compare("ult", lane, _SIZE * matrices(fn, i))
    fn.active = b.land(before, used)
    companions: list[Companion] = []
    words = load_values(
        fn, i, fn.address(i, i.operands[1], space), AccessForm(space, _B32, WORDS), None, companions
    )
    fn.active = before
    return Rows(tuple(words), tuple(companions))


@effect("ldmatrix")
def ldmatrix(fn: Surroundings, i: Instruction) -> None:
    """``ldmatrix.sync.aligned.m8n8.num{.trans}{.shared}.b16 r, [p]``."""
    whole_warp(fn, i)
    count = matrices(fn, i)
    all_lanes(fn, i)
    rows = load_rows(fn, i) if fn.rows is None else fn.rows
    move = _transposed if "trans" in i.modifiers else _in_place
    for number, target in enumerate(elements(fn, i, i.operands[0], count)):
        fn.write(i, target, _B32, move(fn.b, rows.words, number), False)
        if fn.carrier is not None:
            brought = [companion.value for companion in rows.companions]
            moved = Companion(move(fn.b, brought, number)) if brought else None
            fn.carrier.arrives(i, target, moved, False)


@effect("movmatrix")
def movmatrix(fn: Surroundings, i: Instruction) -> None:
    """``movmatrix.sync.aligned.m8n8.trans.b16 d, a``."""
    whole_warp(fn, i)
    ordered(fn, i, 2)
    if i.modifiers != ("sync", "aligned", "m8n8", "trans", "b16"):
        raise fn.fail(i, "unsupported")
    all_lanes(fn, i)
    b, source = fn.b, i.operands[1]
    value = _exchanged(b, b.splat(fn.read(i, source, _B32)))
    for observer in fn.observers:
        observer.exchanges(i, partial(_exchanged, b))
    fn.write(i, i.operands[0], _B32, value, False)


def _in_place(b: Builder, words: Sequence[Value], number: int) -> Value:
    """Word ``rank`` of row ``group`` of a matrix."""
    rows = [_SIZE * number + lane // RANKS for lane in range(LANES)]
    return _picked(b, words, [(lane % RANKS, row) for lane, row in enumerate(rows)])


def _transposed(b: Builder, words: Sequence[Value], number: int) -> Value:
    """Elements ``2 * rank`` and ``2 * rank + 1`` of column ``group`` of a matrix."""
    halves = [b.value(f"bitcast {b.typed(word)} to <{2 * LANES} x i16>", "i16", 2 * LANES) for word in words]
    places = []
    for half in range(2 * LANES):
        group, rank = divmod(half // 2, RANKS)
        row = _SIZE * number + 2 * rank + half % 2
        places.append((group // 2, 2 * row + group % 2))
    picked = _picked(b, halves, places)
    return b.value(f"bitcast {b.typed(picked)} to <{LANES} x i32>", "i32", LANES)


def _exchanged(b: Builder, value: Value) -> Value:
    """The transpose of the matrix that the lanes hold."""
    halves = b.value(f"bitcast {b.typed(value)} to <{2 * LANES} x i16>", "i16", 2 * LANES)
    places = []
    for half in range(2 * LANES):
        group, rank = divmod(half // 2, RANKS)
        lane = RANKS * (2 * rank + half % 2) + group // 2
        places.append(2 * lane + group % 2)
    moved = b.shuffle(halves, halves, places)
    return b.value(f"bitcast {b.typed(moved)} to <{LANES} x i32>", "i32", LANES)


def _picked(b: Builder, vectors: Sequence[Value], places: Sequence[tuple[int, int]]) -> Value:
    """A vector of the elements at (number of one of four vectors, place in it)."""
    lanes = len(places)
    order = [v % 2 * lanes + place for v, place in places]
    low, high = (b.shuffle(vectors[n], vectors[n + 1], order) for n in (0, 2))
    return b.shuffle(low, high, [n if v < 2 else lanes + n for n, (v, _) in enumerate(places)])
