"""Random rounding of a kernel's results, to find out whether rounding explains an error."""

from __future__ import annotations

from kcheck.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Noise:
    """How a launch rounds at random.

    Attributes:
        seed: of the random numbers.
        amplitude: the largest change of a result, in halves of its last bit; 1 rounds inexact results up or down,
            more changes differences of nearly equal numbers only, exact ones too; and 0 changes nothing.
        line: the line of the source whose results change; 0: all lines.
    """

    seed: int = 0
    amplitude: float = 0.0
    line: int = 0
