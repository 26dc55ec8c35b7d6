"""What a case takes in memory at its peak, from its shapes and dtypes, before anything is allocated.

Measured with kernels of 16 million elements: bytes per element, of the process.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping

from kcheck.dataclass import dataclass
from kcheck.errors import SpecError
from kcheck.generator.expand import element_type
from kcheck.generator.layouts import ArrayGeometry
from kcheck.generator.values import is_by_element
from kcheck.model import Case, DType, Fault, Input, OpSpec, Output

_LEAST_LIMIT = 4 << 30
_COPIES = 5  # of a buffer: here, on the device, its copy after the launch, and two while these are compared
_COMPARING = 80  # bytes per element of an output: errors, limits and masks, while it is compared
_DRAWING = 48  # bytes per element of an input while its values are drawn; some distributions draw piece by piece


@dataclass(frozen=True, slots=True)
class ArrayMemory:
    """Bytes that one array takes.

    Attributes:
        buffers: its memory with guards and gaps, and the copies of it.
        drawing: while its values are drawn.
        judging: its exact copies for the reference, which runs twice, and for an output the comparison.
    """

    buffers: int
    drawing: int
    judging: int


def memory_limit() -> int:
    """The most bytes that a case may take: half of the machine's memory, at least 4 GiB."""
    return max(_LEAST_LIMIT, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2)


def check_memory(
    spec: OpSpec, case: Case, shapes: Mapping[str, tuple[int, ...]], places: Mapping[str, ArrayGeometry]
) -> None:
    """Reject a case that would take too much memory, before any is allocated.

    Args:
        shapes: of the distinct elements of each array: an axis with stride 0 has one.

    Raises:
        SpecError: it takes more than :func:`memory_limit`.
    """
    sizes = {name: _memory(spec, case, name, shapes[name], places[name]) for name in shapes}
    buffers, judging = sum(one.buffers for one in sizes.values()), sum(one.judging for one in sizes.values())
    drawing = max((one.drawing for one in sizes.values()), default=0)
    total, limit = buffers + max(drawing, judging), memory_limit()
    if total <= limit:
        return
    largest = max(sizes, key=lambda name: sum((sizes[name].buffers, sizes[name].drawing, sizes[name].judging)))
    array = spec.inputs.get(largest) or spec.outputs[largest]
    use = f"{_gib(judging)} for the reference and the comparison"
    if drawing > judging:
        use = f"{_gib(drawing)} to draw values"
    what = (
        f"{case.id} takes {_gib(total)} of memory, and at most {_gib(limit)} is allowed on this machine: "
        f"{_gib(buffers)} for {_COPIES} copies of the arrays and {use}; "
        f"the largest is {largest!r}, {list(shapes[largest])} of {element_type(array, case.dtypes)}"
    )
    bound = f"add a constraint that bounds {' * '.join(map(str, array.shape))}, or lower 'memory' in cases"
    raise SpecError([Fault(array.span, what, bound)])


def _memory(spec: OpSpec, case: Case, name: str, shape: tuple[int, ...], place: ArrayGeometry) -> ArrayMemory:
    array: Input | Output = spec.inputs.get(name) or spec.outputs[name]
    dtype, count = element_type(array, case.dtypes), math.prod(shape)
    judging = 0
    if spec.judged:
        judging = _exact(dtype) * count + _COMPARING * count * _is_compared(spec, name)
    pieces = isinstance(array, Output) or is_by_element(case.values[name])
    return ArrayMemory(_COPIES * place.size, 0 if pieces else _DRAWING * count, judging)


def _is_compared(spec: OpSpec, name: str) -> bool:
    return name in spec.outputs or any(output.alias == name for output in spec.outputs.values())


def _exact(dtype: DType) -> int:
    """Bytes per element of the copies for the reference: float64 twice, once of them to measure roundings."""
    return dtype.itemsize if not dtype.is_inexact else 32 if dtype.kind == "complex" else 16


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"
