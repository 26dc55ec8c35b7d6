"""xorshift128+, as first published (S. Vigna, 2014: shifts 23, 17, 26), and values computed from its words.

Replay depends on how many words a value takes, and which. Every method documents that, and it never changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from kcheck.rng import jump, real
from kcheck.rng.derive import MASK64, splitmix64

T = TypeVar("T")

_SERIAL_LIMIT = 96  # below this many words, stepping Python integers is faster than setting up lanes
_LARGEST_EXPONENT = 1023.9999999999999  # log2 of the largest float64 rounds to 1024, which exp2 does not accept
_CHUNK = 1 << 15  # floats computed at a time, so that temporaries stay in the L2 cache


class Xorshift128Plus:
    """A stream of 64-bit words. The same seed gives the same words and values on every machine.

    Args:
        seed: in [0, 2**64); the initial state is splitmix64(seed) and splitmix64(seed + 1).
    """

    __slots__ = ("_state",)

    def __init__(self, seed: int) -> None:
        if not 0 <= seed <= MASK64:
            raise ValueError(f"a seed is an integer from 0 to 2**64 - 1, not {seed}")
        state = splitmix64(seed), splitmix64((seed + 1) & MASK64)
        self._state = state if any(state) else (1, 0)

    def __getattr__(self, name: str) -> Any:
        """Called for missing names: users try methods of NumPy's generators, so the message lists ours."""
        drawn = ", ".join(method for method in vars(type(self)) if not method.startswith("_"))
        raise AttributeError(f"kcheck's rng has no {name!r}; it has {drawn}")

    def word(self) -> int:
        """The next word, in [0, 2**64)."""
        self._state = a, b = jump.step(*self._state)
        return (a + b) & MASK64

    def words(self, n: int) -> jump.Words:
        """The next ``n`` words: uint64, shape (n,)."""
        if n < 0:
            raise ValueError(f"cannot draw {n} words")
        if n < _SERIAL_LIMIT:
            return np.array([self.word() for _ in range(n)], jump.WORD)
        out = np.empty(n, jump.WORD)
        self._state = jump.draw(self._state, out)
        return out

    def floats(self, n: int, dtype: npt.DTypeLike = np.float64) -> npt.NDArray[Any]:
        """``n`` uniform values in [0, 1), one word each: the top 53 bits times 2**-53; float32: the top 24 times
        2**-24.

        Raises:
            TypeError: the dtype is neither float64 nor float32.
        """
        if np.dtype(dtype) == np.float32:
            return (self.words(n) >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-24)
        if np.dtype(dtype) != np.float64:
            raise TypeError(f"floats are drawn as float64 or float32, not {np.dtype(dtype)}")
        return (self.words(n) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def below(self, n: int) -> int:
        """An integer in [0, n), n from 1 to 2**64.

        Takes the top k bits of a word, where k is the bit length of n - 1. A value of n or more is rejected and
        the next word is taken, so there is no bias. n = 1 takes one word, too.
        """
        if not 1 <= n <= MASK64 + 1:
            raise ValueError(f"cannot draw an integer below {n}")
        shift = 64 - (n - 1).bit_length()
        while (value := self.word() >> shift) >= n:
            pass
        return value

    def integers(self, low: int, high: int, n: int) -> npt.NDArray[Any]:
        """``n`` integers from ``low`` to ``high``, both included, each drawn like ``below``.

        Returns:
            int64, shape (n,); uint64 if ``high`` is 2**63 or more.

        Raises:
            ValueError: high < low, or neither int64 nor uint64 can hold the range.
        """
        if high < low:
            raise ValueError(f"there is no integer from {low} to {high}")
        dtype = np.int64 if high < 2**63 else np.uint64
        if low < np.iinfo(dtype).min or high > MASK64:
            raise ValueError(f"neither int64 nor uint64 can hold all integers from {low} to {high}")
        last = high - low
        if last == 0:
            self.words(n)
            return np.full(n, low, dtype)
        shift = np.uint64(64 - last.bit_length())
        kept: list[jump.Words] = []
        missing = n
        while missing:
            words = self.words(missing) >> shift
            words = words[words <= np.uint64(last)]
            kept.append(words)
            missing -= words.size
        found = np.concatenate(kept) if kept else np.empty(0, jump.WORD)
        return (found + np.uint64(low & MASK64)).astype(np.uint64).view(dtype)

    def normal(self, n: int) -> real.Reals:
        """``n`` standard normal values, float64, one word each: the quantile at (top 52 bits + 1/2) * 2**-52."""
        words = self.words(n)
        out = np.empty(n)
        for start in range(0, n, _CHUNK):
            top = (words[start : start + _CHUNK] >> np.uint64(12)).astype(np.float64)
            out[start : start + _CHUNK] = real.normal_quantile((top + 0.5) * 2.0**-52)
        return out

    def log_uniform(self, low: float, high: float, n: int) -> real.Reals:
        """``n`` log-uniform values in [low, high], float64, one word each; 0 < low <= high, both normal."""
        ends = real.log2(np.array([low, high]))
        out = self.floats(n)
        for start in range(0, n, _CHUNK):
            part = out[start : start + _CHUNK]
            exponents = np.minimum(ends[0] + part * (ends[1] - ends[0]), _LARGEST_EXPONENT)
            out[start : start + _CHUNK] = np.clip(real.exp2(exponents), low, high)
        return out

    def signs(self, n: int) -> real.Reals:
        """``n`` values of -1.0 or 1.0, one word each: -1.0 if its top bit is set."""
        return np.where(self.words(n) >> np.uint64(63), -1.0, 1.0)

    def skip(self, n: int) -> None:
        """Leave out the next ``n`` words, without computing them."""
        self._state = jump.skip(self._state, n)

    def choice(self, options: Sequence[T]) -> T:
        """One of the options with equal probability; takes words like ``below``."""
        return options[self.below(len(options))]

    def permutation(self, n: int) -> npt.NDArray[np.int64]:
        """The numbers 0 to n - 1 in random order: the argsort (stable) of n words, so one word each."""
        return np.argsort(self.words(n), kind="stable").astype(np.int64)
