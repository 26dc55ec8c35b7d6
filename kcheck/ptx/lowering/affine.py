"""Values that grow by one step from lane to lane, and loops that have such values."""

from __future__ import annotations

from collections.abc import Mapping

from kcheck.dataclass import dataclass
from kcheck.ptx.ir.builder import Value


@dataclass(frozen=True, slots=True)
class AffineValue:
    """``first`` in the first lane and ``step`` more in each lane after it; both scalars of one integer type."""

    first: Value
    step: Value

    @property
    def uniform(self) -> bool:
        """Whether the text alone says that the step is 0."""
        return self.step.text in ("0", "false")


def uniform(first: Value) -> AffineValue:
    """The same value in all lanes."""
    return AffineValue(first, Value("false" if first.type == "i1" else "0", first.type))


@dataclass(frozen=True, slots=True)
class AffineLoop:
    """A loop of one block.

    Attributes:
        carried: the registers that must be lines when an iteration begins, with their types.
        steps: the steps that those must have for elements to lie side by side; 0 if only comparisons and similar
            instructions read them. None: any.
        evaluated: instructions (by ``id``) that compute lines, or uniform values on the way.
        accesses: loads and stores (by ``id``) of elements that must lie side by side, with the bytes of one.
    """

    carried: Mapping[str, str]
    steps: Mapping[str, int | None]
    evaluated: frozenset[int]
    accesses: Mapping[int, int]
