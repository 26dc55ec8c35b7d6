"""How much memory the arrays of a case take, and the sizes that fit in what a spec allows."""

from __future__ import annotations

import math
from collections.abc import Mapping

from kcheck.errors import SpecError
from kcheck.model import DTYPES, Choices, Dim, Input, OpSpec, Output, Range
from kcheck.symbolic import ExpressionError, Solver, evaluate_size, parse

_PART = 32  # of the memory: the share of a case
_SMALLEST = 8 << 20  # bytes: the share is not smaller, unless the memory is
_LEAST_COMPARED = 4  # bytes that an element of an output counts as
_MOST_BLOCKS = 1 << 14  # of a case within its share


class Room:
    """The memory of a spec's arrays, for given sizes.

    Attributes:
        limit: the most bytes that the arrays of an ordinary case take.
        share: the most bytes that they take unless a dim has the largest size that fits. Otherwise half of the
            cases would fill the memory, and a run would take minutes.
        always_fits: whether every size of every dim fits.
    """

    def __init__(self, spec: OpSpec, solver: Solver) -> None:
        self._solver = solver
        self.limit = spec.memory
        self.share = max(self.limit // _PART, min(self.limit, _SMALLEST))
        owned: list[Input | Output] = list(spec.inputs.values())
        owned += [output for output in spec.outputs.values() if output.alias is None]
        self._arrays = tuple((tuple(parse(extent.text) for extent in a.shape), _itemsize(spec, a)) for a in owned)
        self._grid = tuple(parse(axis.text) for axis in spec.launch.grid) if spec.launch else ()
        self._ends = {
            name: _ends(dim) for name, dim in spec.dims.items() if isinstance(dim.domain, Choices | Range)
        }
        self.always_fits = self.fits({name: high for name, (_, high) in self._ends.items()})

    def sizes_of(self, sizes: Mapping[str, int]) -> tuple[int, ...] | None:
        """The elements of each array for sizes of the drawn dims; None if there are none."""
        derived = self._solver.with_derived({name: sizes[name] for name in self._ends})
        if derived is None:
            return None
        try:
            return tuple(
                math.prod(evaluate_size(extent, derived) for extent in shape) for shape, _ in self._arrays
            )
        except (ExpressionError, SpecError):
            return None

    def bytes(self, sizes: Mapping[str, int]) -> int:
        """The bytes of all arrays, in the widest dtypes that the spec declares; 0 if they have no extents."""
        elements = self.sizes_of(sizes)
        if elements is None:
            return 0
        return sum(count * itemsize for count, (_, itemsize) in zip(elements, self._arrays, strict=True))

    def fits(self, sizes: Mapping[str, int], limit: int | None = None) -> bool:
        """Whether the arrays fit: in all that the spec allows, or in a share of it, with few blocks."""
        if limit is None or limit >= self.limit:
            return self.bytes(sizes) <= self.limit
        return self.bytes(sizes) <= limit and self._blocks(sizes) <= _MOST_BLOCKS

    def _blocks(self, sizes: Mapping[str, int]) -> int:
        """The blocks of the launch; 0 if they depend on more than the sizes."""
        derived = self._solver.with_derived({name: sizes[name] for name in self._ends})
        try:
            return 0 if derived is None else math.prod(evaluate_size(axis, derived) for axis in self._grid)
        except (ExpressionError, SpecError):
            return 0

    def most(self, name: str) -> int | None:
        """The largest size of a dim that fits if all others are as small as possible; None if there is none."""
        others = {other: low for other, (low, _) in self._ends.items()}
        return self.largest(others, name, self._ends[name][1])

    def largest(self, sizes: Mapping[str, int], name: str, most: int, limit: int | None = None) -> int | None:
        """The largest size of a dim, up to ``most``, that fits with the given sizes of the others; None if there
        is none. More elements take more memory, so the sizes that fit are the small ones."""
        low, high = self._ends[name][0], most
        if not self.fits({**sizes, name: low}, limit):
            return None
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self.fits({**sizes, name: middle}, limit) else (low, middle - 1)
        return low


def drawn_domains(spec: OpSpec) -> dict[str, range | tuple[int, ...]]:
    """The sizes of each drawn dim, ascending."""
    found: dict[str, range | tuple[int, ...]] = {}
    for name, dim in spec.dims.items():
        if isinstance(dim.domain, Choices):
            found[name] = tuple(sorted(set(dim.domain.values)))
        elif isinstance(dim.domain, Range):
            found[name] = range(dim.domain.low, dim.domain.high + 1)
    return found


def _ends(dim: Dim) -> tuple[int, int]:
    domain = dim.domain
    if isinstance(domain, Choices):
        return min(domain.values), max(domain.values)
    assert isinstance(domain, Range)
    return domain.low, domain.high


def _itemsize(spec: OpSpec, array: Input | Output) -> int:
    variable = spec.dtypes.get(array.dtype)
    names = (array.dtype,) if variable is None else variable.choices
    # To compare an element of an output takes the same memory for each dtype, far more than a narrow one itself.
    least = _LEAST_COMPARED if isinstance(array, Output) else 1
    return max(least, *(DTYPES[name].itemsize for name in names))
