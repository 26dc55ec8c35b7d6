"""Which numbers each element of an input may be: those that its distribution could have drawn.

Code that changes single elements of a case must not make one that the spec excludes, such as an index beyond its
table or a negative argument of a logarithm.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from kcheck.dataclass import dataclass
from kcheck.generator.distributions import DISTRIBUTIONS
from kcheck.generator.rounding import DrawError, component
from kcheck.generator.values import evaluated
from kcheck.model import Distribution, DType

_PLAIN = (0, 1, -1, 2, -2, 3, 4, 0.5, -0.5, 0.25, 0.75, -0.25, -0.75)


@dataclass(frozen=True, slots=True)
class Support:
    """The numbers that an element may be.

    Attributes:
        low, high: both ends, included; with ``open_end``, ``high`` is excluded.
        whole: only whole numbers.
        options: only these numbers; empty if every number between the ends is allowed.
    """

    low: float = -math.inf
    high: float = math.inf
    open_end: bool = False
    whole: bool = False
    options: tuple[float, ...] = ()

    def __contains__(self, number: float) -> bool:
        if self.options:
            return number in self.options
        inside = self.low <= number and (number < self.high if self.open_end else number <= self.high)
        return inside and not (self.whole and not float(number).is_integer())

    def plain(self) -> tuple[float, ...]:
        """The simplest of these numbers, the simplest first; at least one."""
        found = [number for number in _PLAIN if number in self]
        if not found:
            found = [min(self.options, key=abs)] if self.options else [self.low]
        return tuple(found)


def support(distribution: Distribution, dtype: DType, env: Mapping[str, int | float | bool]) -> Support | None:
    """The numbers that each element of an array may be, independently of the others.

    Args:
        env: dims and params, for arguments that are expressions.

    Returns:
        None if elements belong together (``sorted``, ``offsets``, ``permutation``), or if the numbers are unknown
        (``from``).
    """
    row = DISTRIBUTIONS.get(distribution.name)
    if distribution.name in ("empty_rows", "empty_tiles"):
        return _small(component(dtype)) if component(dtype).kind in ("int", "uint", "bool") else Support()
    if row is None or row.structure or distribution.name == "sorted":
        return None
    argument = distribution.argument
    whole = component(dtype).kind in ("int", "uint", "bool")
    match distribution.name:
        case "all_negative":
            return Support(-10.0, -0.5)
        case "all_positive":
            return Support(0.5, 10.0, open_end=True)
        case "uniform":
            low, high = _numbers(argument, env) or (-1.0, 1.0)
            return Support(low, high, open_end=True)
        case "integers" if argument is not None:
            ends = _numbers(argument, env)
            return Support(*ends, whole=True) if len(ends) == 2 and ends[0] <= ends[1] else None
        case "integers" | "ties" if whole:
            return _small(component(dtype))
        case "bernoulli":
            return Support(options=(0, 1))
        case "zeros":
            return Support(options=(0,))
        case "ones":
            return Support(options=(1,))
        case "constant" | "choice":
            options = argument if isinstance(argument, tuple) else (argument,)
            return Support(options=tuple(float(option) for option in options if isinstance(option, int | float)))
    return Support(whole=distribution.name == "integers")


def _small(dtype: DType) -> Support:
    low, high = {"bool": (0, 1), "uint": (0, 15)}.get(dtype.kind, (-8, 7))
    return Support(low, high, whole=True)


def _numbers(argument: object, env: Mapping[str, int | float | bool]) -> tuple[float, ...]:
    """The numbers of an argument; empty if it is not a tuple, or if one of them has no value."""
    try:
        return tuple(float(number) for number in evaluated(argument, env)) if isinstance(argument, tuple) else ()
    except DrawError:
        return ()
