"""Values that grow by a fixed step from lane to lane, and loops that have such values."""

from __future__ import annotations

from collections.abc import Mapping

from kcheck.dataclass import dataclass
from kcheck.ptx.ir.builder import Value


@dataclass(frozen=True, slots=True)
class AffineValue:
    """The value ``first + n * step`` in lane n; both are scalars of the same integer type, i1 for a predicate."""

    first: Value
    step: Value

    @property
    def uniform(self) -> bool:
        """Whether the step is the constant 0. A step that is 0 only at run time does not count."""
        return self.step.text in ("0", "false")


def uniform(first: Value) -> AffineValue:
    """The same value in all lanes."""
    return AffineValue(first, Value("false" if first.type == "i1" else "0", first.type))


@dataclass(frozen=True, slots=True)
class AffineLoop:
    """A loop of one block that can run with affine values.

    Attributes:
        carried: the registers that must be affine when an iteration begins, with their types.
        steps: the steps that these registers must have so that accessed elements are contiguous; 0 if only
            comparisons and similar instructions read them. None: any step.
        evaluated: instructions (by ``id``) that compute these registers, addresses and the loop's condition.
        accesses: loads and stores (by ``id``) of elements that must be contiguous, with the bytes of an element.
    """

    carried: Mapping[str, str]
    steps: Mapping[str, int | None]
    evaluated: frozenset[int]
    accesses: Mapping[int, int]
