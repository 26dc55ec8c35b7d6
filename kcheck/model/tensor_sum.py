"""How a tensor core adds products. A kernel's code determines it, and the oracle allows for its error."""

from __future__ import annotations

from kcheck.dataclass import dataclass


@dataclass(frozen=True, slots=True, order=True)
class TensorSum:
    """Sums in float32 that a tensor core truncates; docs/tensor-cores.md has the sources.

    Attributes:
        kept: fractional bits of the result, which is truncated.
        terms: the number of products that are added to the accumulator at once.
        fraction: fractional bits to which each of them is truncated, aligned to the largest exponent among
            them and the accumulator.
    """

    kept: int
    terms: int
    fraction: int
