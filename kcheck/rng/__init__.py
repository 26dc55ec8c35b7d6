"""Seeded random numbers, the same bits on every machine.

``derive`` names an independent stream below a seed; ``Xorshift128Plus`` is the stream. Values are made of words
by exact or correctly rounded IEEE 754 operations only (``kcheck.rng.real``), never by libm.
"""

from kcheck.rng.derive import MASK64, derive, splitmix64
from kcheck.rng.order import arranged, pieces
from kcheck.rng.xorshift import Xorshift128Plus

__all__ = ["MASK64", "Xorshift128Plus", "arranged", "derive", "pieces", "splitmix64"]
