"""Loads of lanes that each read their own row of an array, word after word: a thread per row.

Such lanes are far apart, so every load is a gather, which is the slowest load of a processor. A *stream* remembers
the addresses of the last load. If all active lanes now access the word after their last one, 16 bytes of each row
are loaded at once and transposed in registers; the three loads after that find their words there, if their lanes
access the next words. Each word is checked when it is loaded, as part of 16 bytes.

The words are loaded up to three loads early, so a stream exists only in a loop that does not write memory and does
not wait (:mod:`kcheck.ptx.lowering.streams`), and is empty when the loop begins.
"""

from __future__ import annotations

from collections.abc import Sequence

from kcheck.ptx.ir.builder import Value
from kcheck.ptx.ir.flow import LIKELY
from kcheck.ptx.ir.function import FunctionBuilder, Term
from kcheck.ptx.ir.signature import Definition, Signature
from kcheck.ptx.runtime.access import AccessKind, slow_signature
from kcheck.ptx.runtime.lookup import context
from kcheck.ptx.runtime.windows import is_inside, none_of, site_window

WORD, WORDS = 4, 4
"""Bytes of an element in a stream, and how many of each row are loaded at once."""

_PIECE = 16
"""Lanes that are transposed together: 4 x 4 words in each part of 128 bits of 4 vectors."""


def room_bytes(width: int) -> int:
    """The size of a stream in memory, which must be aligned to 64 bytes.

    It has the addresses of the last load, the words for the next three loads (each a vector), the lanes that made
    the last load (as bits of an i32; 0: the stream is empty), and the number of words left (i32).
    """
    return lanes_offset(width) + 8


def lanes_offset(width: int) -> int:
    """The offset of the lanes that made the last load."""
    return 8 * width + (WORDS - 1) * WORD * width


def signature(access: AccessKind) -> Signature:
    """The signature of the function: like that of the slow path, with a pointer to the stream."""
    slow = slow_signature(access)
    return Signature(slow.name.removesuffix(".slow") + ".stream", slow.result, {**slow.parameters, "room": "ptr"})


def stream_ir(access: AccessKind, declarations: dict[str, str]) -> Definition:
    """The function that loads words by a stream, or by the slow path of the access."""
    f, W = FunctionBuilder(signature(access), "noinline", access.width, declarations), access.width
    addresses, mask, room = f.argument("a"), f.argument("m"), f.argument("room")
    lanes_at, left_at = (f.offset(room, lanes_offset(W) + 4 * n) for n in range(2))
    bits = f.term(f.mask_bits(mask)).to("i32")
    next_words = f.load("i64", room, 64, W) + f.splat(f.const("i64", WORD), W)
    known = (bits & ~f.load("i32", lanes_at)).eq(0)
    follows = known & none_of(f, next_words.ne(addresses), mask)
    f.store(addresses, room, 64)
    f.store(bits, lanes_at)
    with f.if_(follows):
        left = f.load("i32", left_at)
        with f.if_(left.ne(0), LIKELY):
            f.store(left - 1, left_at)
            number = (f.term(f.const("i32", WORDS - 1)) - left).to("i64")
            place = f.offset(room, number * (WORD * W) + 8 * W)
            f.ret(f.load(access.element, place, WORD * W, W))
        with f.if_(_rows_are_inside(f, access) & bits.ne(0)):
            first, *rest = _transposed(f, _rows(f, access, bits), W)
            for n, words in enumerate(rest):
                f.store(words, f.offset(room, 8 * W + n * WORD * W), WORD * W)
            f.store(f.const("i32", WORDS - 1), left_at)
            f.ret(f.bitcast(first, access.element))
    f.store(f.const("i32", 0), left_at)
    f.ret(f.run(slow_signature(access), a=addresses, m=mask, **context(f)))
    return f.definition()


def _rows_are_inside(f: FunctionBuilder, access: AccessKind) -> Term:
    """Whether each active lane may access all bytes of a row that are loaded at once."""
    W, addresses = access.width, f.argument("a")
    window = site_window(f)
    limit = f.saturating_sub(window.limit, WORD * (WORDS - 1))
    inside = is_inside(addresses - f.splat(window.base, W), f.splat(limit, W))
    aligned = (addresses & f.splat(f.const("i64", WORD - 1), W)).eq(0)
    return none_of(f, ~(inside & aligned), f.argument("m"))


def _rows(f: FunctionBuilder, access: AccessKind, bits: Term) -> list[Value]:
    """Four words of the row of each lane. Inactive lanes load those of the first active lane."""
    W, addresses = access.width, f.argument("a")
    first = f.extract(addresses, (f.trailing_zeros(bits) & (W - 1)).to("i64"))
    safe = f.select(f.argument("m"), addresses, f.splat(first, W))
    room = Value(f.local(f"<{W} x i64>", 64), "ptr")
    f.store(safe, room, 64)
    places = f.array(room, "i64")
    return [f.load("i32", places[lane].to("ptr"), WORD, WORDS) for lane in range(W)]


def _transposed(f: FunctionBuilder, rows: Sequence[Value], width: int) -> list[Value]:
    """Four vectors of a word of each lane, from vectors of four words of a lane."""
    pieces = [_piece(f, rows[at : at + _PIECE]) for at in range(0, width, _PIECE)]
    return [_joined(f, [piece[n] for piece in pieces]) for n in range(WORDS)]


def _piece(f: FunctionBuilder, rows: Sequence[Value]) -> list[Value]:
    """The words of up to 16 lanes. Part j of the vector r below is the row of lane 4 * j + r."""
    count = len(rows)
    by_rest = [_joined(f, rows[r::WORDS]) for r in range(WORDS)]

    def paired(x: Value, y: Value, places: Sequence[int]) -> Value:
        """Four elements of ``x`` and ``y`` in each part: those of ``y`` have the numbers from 4 on."""
        return f.shuffle(
            x, y, [4 * j + p if p < 4 else count + 4 * j + p - 4 for j in range(count // 4) for p in places]
        )

    low, high = (0, 4, 1, 5), (2, 6, 3, 7)
    halves = [[paired(by_rest[n], by_rest[n + 1], order) for n in (0, 2)] for order in (low, high)]
    return [paired(x, y, order) for x, y in halves for order in ((0, 1, 4, 5), (2, 3, 6, 7))]


def _joined(f: FunctionBuilder, parts: Sequence[Value]) -> Value:
    """One vector of 1, 2 or 4 vectors."""
    joined = list(parts)
    while len(joined) > 1:
        joined = [f.shuffle(x, y, range(2 * x.lanes)) for x, y in zip(joined[::2], joined[1::2], strict=True)]
    return joined[0]
