"""Jumping ahead in xorshift128+, and drawing many words at once.

A step of the state, two words (a, b), is linear over GF(2), so 2**j steps are one 128 x 128 bit matrix. A long
draw is therefore split into lanes of 2**j consecutive words. Jumping gives the state at the start of each lane,
and NumPy steps all lanes together. The words have the same order as from the serial generator.

A matrix is stored as 16 tables, one per byte of the state: ``table[i, v]`` is what byte i contributes if its value
is v. To apply the matrix, XOR the 16 entries that the bytes select. States are (a, b) rows of little-endian
uint64.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from kcheck.alignment import ceil_div

Words: TypeAlias = npt.NDArray[np.uint64]

WORD = np.dtype("<u8")
_BYTES = np.arange(16)
_TILE = 32  # steps buffered before they are transposed into place, so that the buffer stays in the L2 cache
_LANE_LIMIT = 2048  # the lanes' working set stays in the L1 and L2 caches
_SHIFT_A, _SHIFT_B, _SHIFT_C = (np.array(shift, WORD) for shift in (23, 17, 26))


def step(a: int, b: int) -> tuple[int, int]:
    """One step of the generator on Python integers; the output is the sum of the new pair modulo 2**64."""
    a ^= (a << 23) & 0xFFFFFFFFFFFFFFFF
    return b, a ^ b ^ (a >> 17) ^ (b >> 26)


def _table(columns: Words) -> Words:
    """Lookup tables, shape (16, 256, 2), of a matrix with these 128 columns, shape (128, 2), each a state."""
    bits = columns.reshape(16, 8, 2)
    table = np.zeros((16, 256, 2), WORD)
    for bit in range(8):
        half = 1 << bit
        table[:, half : 2 * half] = table[:, :half] ^ bits[:, bit : bit + 1]
    return table


def _apply(table: Words, states: Words) -> Words:
    """Multiply the matrix by each of ``states``, shape (n, 2), C-contiguous; the result has the same shape."""
    parts = table[_BYTES, states.view(np.uint8).reshape(-1, 16)]
    applied: Words = np.bitwise_xor.reduce(parts, axis=1)
    return applied


@lru_cache(maxsize=64)
def _power(exponent: int) -> tuple[Words, Words]:
    """Columns and tables of the matrix of 2**exponent steps."""
    if exponent == 0:
        columns = np.empty((128, 2), WORD)
        for bit in range(128):
            unit = 1 << bit
            columns[bit] = step(unit & 0xFFFFFFFFFFFFFFFF, unit >> 64)
    else:
        below, table = _power(exponent - 1)
        columns = _apply(table, below)
    return columns, _table(columns)


def _lane_states(state: tuple[int, int], lanes: int, exponent: int) -> Words:
    """States at the start of ``lanes`` consecutive lanes of 2**exponent words; shape (lanes, 2).

    By doubling: lanes 2**k to 2**(k+1) - 1 are lanes 0 to 2**k - 1, jumped over 2**k lanes.
    """
    states = np.empty((lanes, 2), WORD)
    states[0] = state
    known, doubling = 1, exponent
    while known < lanes:
        more = min(known, lanes - known)
        states[known : known + more] = _apply(_power(doubling)[1], states[:more])
        known += more
        doubling += 1
    return states


def skip(state: tuple[int, int], n: int) -> tuple[int, int]:
    """The state ``n`` steps after ``state``, in a time that grows with the logarithm of ``n``."""
    states = np.array([state], WORD)
    for exponent in range(n.bit_length()):
        if n >> exponent & 1:
            states = _apply(_power(exponent)[1], states)
    return int(states[0, 0]), int(states[0, 1])


def draw(state: tuple[int, int], out: Words) -> tuple[int, int]:
    """Fill ``out`` with the next words after ``state`` in serial order.

    Args:
        state: the pair (a, b).
        out: 1-D, C-contiguous, at least one word.

    Returns:
        The state after ``out.size`` steps.
    """
    done = 0
    while done < out.size:
        count = min(out.size - done, _LANE_LIMIT * _LANE_LIMIT)
        state = _draw_chunk(state, out[done : done + count])
        done += count
    return state


def _draw_chunk(state: tuple[int, int], out: Words) -> tuple[int, int]:
    """Like ``draw``, for at most _LANE_LIMIT**2 words."""
    exponent = max(3, ((out.size - 1).bit_length() + 1) // 2)
    length = 1 << exponent
    lanes = ceil_div(out.size, length)
    whole = lanes - 1  # full lanes; the last one ends where the draw ends
    rest = out.size - whole * length
    target = out[: whole * length].reshape(whole, length)

    states = _lane_states(state, lanes, exponent)
    a, b = states[:, 0].copy(), states[:, 1].copy()
    new, shifted = np.empty_like(a), np.empty_like(a)
    tile = np.empty((min(_TILE, length), lanes), WORD)
    end = state
    for start in range(0, length, _TILE):
        steps = min(_TILE, length - start)
        for row in range(steps):
            np.left_shift(a, _SHIFT_A, new)
            np.bitwise_xor(new, a, new)
            np.right_shift(new, _SHIFT_B, shifted)
            np.bitwise_xor(new, shifted, new)
            np.right_shift(b, _SHIFT_C, shifted)
            np.bitwise_xor(new, shifted, new)
            np.bitwise_xor(new, b, new)
            a, b, new = b, new, a
            np.add(a, b, tile[row])
            if start + row + 1 == rest:
                end = int(a[-1]), int(b[-1])
        target[:, start : start + steps] = tile[:steps, :whole].T
        kept = min(rest - start, steps)
        if kept > 0:
            position = whole * length + start
            out[position : position + kept] = tile[:kept, whole]
    return end
