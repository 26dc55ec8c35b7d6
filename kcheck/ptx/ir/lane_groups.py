"""A loop over the lanes of vectors, a few at a time, with all of them in registers.

For operations in memory that must be done one lane after another. Two things slow a processor down here:

- Many instructions that access memory. Processors predict which load depends on which store by the addresses of
  the instructions. If each of a histogram's 32 lanes has its own instruction, some processors predict dependences
  that are rare, and take five times as long.
- Lanes that are loaded from the stack. A processor holds a load back if an earlier store has the same last 12 bits
  in its address. If such loads provide the addresses of a histogram, it takes twice as long in every third
  process, depending on where its stack is.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence

from kcheck.ptx.ir.builder import Value, vector_type
from kcheck.ptx.ir.flow import FlowBuilder


@contextlib.contextmanager
def lane_groups(
    b: FlowBuilder, allocate: Callable[[str], str], vectors: Sequence[Value], size: int
) -> Iterator[tuple[Value, list[list[Value]]]]:
    """Emit a loop over groups of consecutive lanes, from the first; its body is the context.

    Args:
        allocate: reserves stack memory in the entry block for a value of an LLVM type; returns the pointer's name.
        vectors: of equally many lanes, a multiple of ``size``; or scalars, which are the same for all lanes.
        size: lanes in a group, at least 1.

    Yields:
        the number of the group's first lane, an i32, and for each lane of the group the elements of the vectors.
    """
    width = max(v.lanes for v in vectors)
    assert width % size == 0, (width, size)
    places = {n: allocate(vector_type(v.type, v.lanes)) for n, v in enumerate(vectors) if v.lanes > 1}
    for n, place in places.items():
        b.line(f"store {b.typed(vectors[n])}, ptr {place}")
    number = allocate("i32")
    b.line(f"store i32 0, ptr {number}")
    with b.loop():
        first = b.value(f"load i32, ptr {number}", "i32")
        now = [
            b.value(f"load {b.type_of(v)}, ptr {places[n]}", v.type, v.lanes) if n in places else v
            for n, v in enumerate(vectors)
        ]
        yield first, [[b.extract(v, k) for v in now] for k in range(size)]
        for n, place in places.items():
            rotated = b.shuffle(now[n], now[n], [(k + size) % width for k in range(width)])
            b.line(f"store {b.typed(rotated)}, ptr {place}")
        after = b.add(first, size)
        b.line(f"store {b.typed(after)}, ptr {number}")
        with b.when(b.compare("eq", after, width)):
            b.break_()
