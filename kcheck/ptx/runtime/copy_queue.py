"""The queue in which a vector keeps its asynchronous copies, from ``cp.async`` to the wait that covers them."""

from __future__ import annotations

from dataclasses import dataclass

from kcheck.model.alignment import align_up
from kcheck.ptx.syntax.ast import Instruction

_LEAST, _MOST = 64, 512


@dataclass(frozen=True, slots=True)
class CopyQueue:
    """The layout of a vector's queue: a head, then ``capacity`` records used in a circle.

    The head: the number of the oldest record, i32; how many records there are, i32; the groups that each lane has
    committed, i32 by lane. A record: of each lane the destination, the source (i64), the bytes to read and the
    group that the copy belongs to (i32); then for all lanes the bytes to write, the lanes whose copy is not made
    yet, as bits, and the site (i32).

    Attributes:
        offset: in the vector's state.
    """

    offset: int
    width: int
    capacity: int

    @property
    def committed(self) -> int:
        """Offset of the groups that each lane has committed."""
        return self.offset + 64

    @property
    def records(self) -> int:
        """Offset of the first record."""
        return self.committed + align_up(4 * self.width, 64)

    @property
    def source(self) -> int:
        """Offset of the sources in a record; destinations are at 0."""
        return 8 * self.width

    @property
    def amount(self) -> int:
        """Offset of the bytes to read in a record."""
        return 16 * self.width

    @property
    def group(self) -> int:
        """Offset of the groups in a record."""
        return 20 * self.width

    @property
    def rest(self) -> int:
        """Offset of the bytes to write, the lanes and the site in a record."""
        return 24 * self.width

    @property
    def record(self) -> int:
        """Bytes of a record."""
        return align_up(self.rest + 12, 64)

    @property
    def size(self) -> int:
        """Bytes of the queue."""
        return self.records - self.offset + self.capacity * self.record


def capacity(copies: int) -> int:
    """Room for a pipeline of four stages in a kernel with this many copies in its code: a power of two."""
    return min(max(1 << (4 * copies - 1).bit_length(), _LEAST), _MOST)


def is_copy(instruction: Instruction) -> bool:
    """Whether it begins an asynchronous copy."""
    return instruction.opcode == "cp" and "global" in instruction.modifiers
