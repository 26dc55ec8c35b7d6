"""Seeded random numbers, the same bits on every machine.

``derive`` gives the seed of a named, independent stream; ``Xorshift128Plus`` is the stream. Values are computed
from its words with exact or correctly rounded IEEE 754 operations only (``kcheck.rng.real``), never with libm.
"""

from kcheck.rng.derive import MASK64, derive, splitmix64
from kcheck.rng.order import arranged, pieces
from kcheck.rng.xorshift import Xorshift128Plus

__all__ = ["MASK64", "Xorshift128Plus", "arranged", "derive", "pieces", "splitmix64"]
