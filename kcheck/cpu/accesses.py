"""Describes accesses outside every allocation: which index of which array is out of range, and the likely fix."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from pathlib import PurePath

from kcheck.cpu.memory import Memory, MemoryBlock, MemoryKind, RangeLabel
from kcheck.cpu.naming import Naming, contiguous
from kcheck.cpu.sources import local_arrays
from kcheck.dataclass import dataclass
from kcheck.model.indexing import out_of_range
from kcheck.model.layouts import Spread
from kcheck.ptx.abi import FaultKind, FaultRecord
from kcheck.ptx.program import Site
from kcheck.ptx.syntax.dwarf import DebugVariable
from kcheck.rules.language import Language

VERBS = {
    FaultKind.OUT_OF_BOUNDS_LOAD: "reads",
    FaultKind.OUT_OF_BOUNDS_STORE: "writes",
    FaultKind.OUT_OF_BOUNDS_ATOMIC: "updates",
    FaultKind.MISALIGNED: "accesses",
}
_NULL = 1 << 16
"""Addresses below are a null pointer plus an offset."""
_NEAR = 64
"""Elements. An index that exceeds a thread's by at most this much is treated as that index plus a constant."""
_LIKELY = 2
"""Used instead of _NEAR if the index was computed from a loaded value: beyond it, that value is the cause."""


_ANYWHERE = 1 << 40
"""An address for an array whose place is unknown."""


@dataclass(frozen=True, slots=True)
class Told:
    """A description of an access.

    Attributes:
        verb: what it does: ``reads``, ``writes``, ``updates``; ``accesses`` if it is not aligned.
        index: may be outside the array's shape.
        axis: the axis along which ``index`` is out of range, and its ``size``; None if there is no such index.
        is_gone: the array has no elements or was freed, so no index is valid.
        what: the rest of the message, after the verb.
    """

    verb: str
    what: str
    fix: str = ""
    array: str | None = None
    index: tuple[int, ...] | None = None
    axis: int | None = None
    size: int = 0
    is_gone: bool = False

    @property
    def message(self) -> str:
        return f"{self.verb} {self.what}"


def access(
    kind: FaultKind, fault: FaultRecord, site: Site | None, memory: Memory, naming: Naming, words: Language
) -> Told:
    """Describe an invalid access."""
    if kind is FaultKind.MISALIGNED:
        return _misaligned(fault, site, naming)
    verb, space = VERBS[kind], site.space if site is not None else ""
    if space == "local":
        return _local(verb, fault, site, naming, words)
    if space == "shared" or (space != "global" and _is_shared(fault.address, naming)):
        return _shared(verb, fault, site, naming, words)
    label = naming.array(site, fault.address)
    if fault.address < _NULL and (label is None or label.base >= _NULL):
        return Told(
            verb,
            f"{_bytes(fault.size)} through a null pointer (address {fault.address:#x})",
            "check that the array is not empty and that the pointer was set",
        )
    nearest = memory.nearest(fault.address)
    if nearest is not None and nearest[1]:
        return _freed(verb, fault, nearest[0], label, words.kept)
    if label is not None and nearest is not None and nearest[0].kind is MemoryKind.MODULE:
        name = "a constant array" if "_cudapy_cmem" in label.name else f"the module's variable {label.name}"
        where = _around(fault.address, label.low, label.high)
        return Told(verb, f"{_bytes(fault.size)} {where} {name}", "check the index")
    if label is not None:
        return _outside(verb, fault, site, label, naming, words)
    if nearest is not None:
        return Told(
            verb,
            f"{_bytes(fault.size)} {_around(fault.address, nearest[0].base, nearest[0].end)} {nearest[0].told}",
        )
    return Told(
        verb,
        f"{_bytes(fault.size)} at address {fault.address:#x}, which is in no allocation",
        _loaded(site, naming) or "check how the address is computed",
    )


def outside_variable(
    fault: FaultRecord, site: Site | None, naming: Naming, variable: DebugVariable, words: Language
) -> Told:
    """Describe an access outside the local array that its address was computed from.

    Args:
        fault: its address is the distance from the start of the array.
    """
    verb = "reads" if site is None or site.text.startswith("ld") else "writes"
    fault.address = _ANYWHERE + (fault.address - (1 << 64) if fault.address >> 63 else fault.address)
    strides = contiguous(variable.shape, variable.itemsize)
    label = RangeLabel(
        variable.name,
        _ANYWHERE,
        variable.shape,
        strides,
        variable.itemsize,
        _ANYWHERE,
        _ANYWHERE + variable.size,
        is_local=True,
    )
    return _outside(verb, fault, site, label, naming, words, is_shared=True)


def _misaligned(fault: FaultRecord, site: Site | None, naming: Naming) -> Told:
    array, where = None, ""
    if site is not None and site.space in ("", "global", "generic", "const"):
        label = naming.array(site, fault.address)
        array = label.array if label is not None else None
        where = f", in {label.name}" if label is not None else ""
    return Told(
        "accesses",
        f"{_bytes(fault.size)} at an address not aligned to {_bytes(fault.size)}{where}",
        f"start the view at a multiple of {_bytes(fault.size)}",
        array,
    )


def _local(verb: str, fault: FaultRecord, site: Site | None, naming: Naming, words: Language) -> Told:
    label = naming.local(site, fault)
    if label is not None:
        return _outside(verb, fault, site, label, naming, words, is_shared=True)
    names = local_arrays(site.file, site.source_line) if site is not None and site.source_line else ()
    if not names:
        return Told(verb, f"{_bytes(fault.size)} outside the thread's local arrays", "check the index")
    listed = " or ".join(f"{array.name} (shape {_told_shape(array.shape)})" for array in names)
    return Told(
        verb,
        f"{_bytes(fault.size)} outside the thread's local array {listed}",
        "check the index against the array's shape",
    )


def _told_shape(shape: tuple[str, ...]) -> str:
    return f"({', '.join(shape)}{',' if len(shape) == 1 else ''})"


_NO_DYNAMIC = "the launch has no dynamic shared memory: pass its size in bytes (launch.shared in a spec)"
_MORE_DYNAMIC = "check the index, or pass more dynamic shared memory (launch.shared in a spec)"


def _shared(verb: str, fault: FaultRecord, site: Site | None, naming: Naming, words: Language) -> Told:
    label = naming.shared(site, fault.address, outside=fault.size)
    if label is not None:
        return _outside(verb, fault, site, label, naming, words, is_shared=True)
    base, size = naming.window(fault.address)
    if not size:
        return Told(verb, f"{_bytes(fault.size)} of shared memory, but the block has none", _NO_DYNAMIC)
    where = _around(fault.address, base, base + size)
    fix = _MORE_DYNAMIC if size > naming.static_shared else "check the index"
    return Told(verb, f"{_bytes(fault.size)} {where} the block's {_bytes(size)} of shared memory", fix)


def _is_shared(address: int, naming: Naming) -> bool:
    return any(base - _NULL <= address < base + size + _NULL for base, size in naming.windows.shared)


def _freed(verb: str, fault: FaultRecord, block: MemoryBlock, label: RangeLabel | None, fix: str) -> Told:
    if label is not None and block.base <= label.base < max(block.end, block.base + 1):
        return Told(
            verb,
            f"{label.name} after its memory was freed{block.told_freed} ({block.told})",
            fix,
            label.array,
            is_gone=True,
        )
    return Told(verb, f"byte {fault.address - block.base} of {block.told} that was freed{block.told_freed}", fix)


def _outside(
    verb: str,
    fault: FaultRecord,
    site: Site | None,
    label: RangeLabel,
    naming: Naming,
    words: Language,
    *,
    is_shared: bool = False,
) -> Told:
    """An access outside a known array."""
    if 0 in label.shape:
        fix = _NO_DYNAMIC if is_shared else f"{label.name} is empty: guard the access, or do not launch"
        return Told(verb, f"{label.name}, which has no elements", fix, label.array, is_gone=True)
    if not is_shared and (flat := _of_pointer(verb, fault, site, label)) is not None:
        return flat
    if label.far is not None and (between := _between_rows(verb, fault, label, label.far)) is not None:
        return between
    of_block = None if is_shared else _of_block(label, fault, naming)
    is_shared = is_shared or of_block is not None
    index = of_block or _of_thread(label, fault, naming, is_block=is_shared) or label.index(fault.address)
    index = index or _close_index(label, fault.address)
    axis = None if index is None else out_of_range(index, label.shape)
    if index is None or axis is None:
        where = _around(fault.address, label.low, label.high)
        shape = f"shape {_told_shape(tuple(map(str, label.shape)))}"
        if label.declared:
            shape = f"{_bytes(label.high - label.low)} (`{label.declared}`)"
        return Told(
            verb,
            f"{_bytes(fault.size)} {where} {label.name}, which has {shape}",
            "check the index and the size of the access",
            label.array,
            index,
        )
    size = label.shape[axis]
    if index[axis] < 0:
        count = -index[axis] * _elements(label, axis)
        what = f"{label.name} {count:,} element{'s' if count != 1 else ''} before its start"
        what = f"{what} (axis {axis} has size {size:,})"
    else:
        element = f"{label.name}[{', '.join(map(str, index))}]"
        what = element if len(index) == 1 else f"at the address of {element}"
        what = f"{what}, but axis {axis} has size {size:,}"
    fix = _fix(index, axis, fault, site, label, naming, words, is_shared=is_shared)
    return Told(verb, what, fix, label.array, index, axis, size)


def _of_pointer(verb: str, fault: FaultRecord, site: Site | None, label: RangeLabel) -> Told | None:
    """An access past the end of an array of several axes, by a kernel that gets pointers: it has one index."""
    shape, past = label.shape, fault.address - label.high
    is_pointer = site is not None and PurePath(site.file).suffix not in ("", ".py")
    if not is_pointer or len(shape) < 2 or past < 0 or label.strides != contiguous(shape, label.itemsize):
        return None
    count = math.prod(shape)
    number = (fault.address - label.base) // label.itemsize
    what = f"element {number:,} of {label.name}, which has {count:,} element{'' if count == 1 else 's'}"
    what = f"{what} (shape {_told_shape(tuple(map(str, shape)))})"
    fix = ": this is one past the last element" if number == count else ""
    return Told(verb, what, f"check the bound of the index{fix}", label.array)


def _between_rows(verb: str, fault: FaultRecord, label: RangeLabel, far: Spread) -> Told | None:
    """An access between the rows of an array, which lie far apart, or before or after them. None if it is close to
    a row, so that it has an index."""
    row, place = divmod(fault.address - label.low + far.lead, far.apart)
    if 0 <= row < far.rows and place < far.run + 2 * far.lead and len(label.shape) < 3:
        return None
    size, last = label.itemsize, far.rows - 1
    if fault.address < label.low:
        where = f"{(label.low - fault.address) // size:,} elements before the start of {label.name}"
    elif row >= last:
        where = f"{(fault.address - label.high) // size:,} elements past the end of {label.name}"
    else:
        where = (
            f"{(place - far.lead - far.run) // size:,} elements after row {row} of {label.name} ends, in no row"
        )
    begins = f"row {last} begins {last * far.apart // size:,} elements after row 0"
    what = f"{_bytes(fault.size)} {where}; {begins}"
    return Told(verb, what, "check how the index and the stride are multiplied: use 64 bits", label.array)


def _close_index(label: RangeLabel, address: int) -> tuple[int, ...] | None:
    """The index that leads to an address right before or after a row that lies far from others."""
    if label.far is None or len(label.shape) != 2 or label.strides[0] != label.far.apart:
        return None
    offset = address - label.low + label.far.lead
    row, place = divmod(offset, label.far.apart)
    return row, (place - label.far.lead) // label.itemsize


def _of_block(label: RangeLabel, fault: FaultRecord, naming: Naming) -> tuple[int, ...] | None:
    """The index ``[blockIdx.x, threadIdx.x]``, if the grid has a block for each row of the array, and the index
    leads to the address and is out of range."""
    index = (fault.block[0], fault.thread[0])
    if len(label.shape) != 2 or not 1 < naming.shape.grid[0] == label.shape[0]:
        return None
    offset = sum(i * stride for i, stride in zip(index, label.strides, strict=True))
    return index if label.base + offset == fault.address and out_of_range(index, label.shape) is not None else None


def _of_thread(label: RangeLabel, fault: FaultRecord, naming: Naming, *, is_block: bool) -> tuple[int, ...] | None:
    """The index that consists of the thread's own indices, if it leads to the address and is out of range.

    In an array with several axes, several indices lead to one address; this is the likely one.
    """
    numbers = [number for number, _ in _ids(fault, naming, is_block=is_block)][:3]
    for index in itertools.permutations(numbers, len(label.shape)) if len(label.shape) in (2, 3) else ():
        offset = sum(i * stride for i, stride in zip(index, label.strides, strict=True))
        if label.base + offset == fault.address and out_of_range(index, label.shape) is not None:
            return index
    return None


def _elements(label: RangeLabel, axis: int) -> int:
    """The elements in one step along an axis of a contiguous array."""
    return math.prod(label.shape[axis + 1 :]) if axis + 1 < len(label.shape) else 1


def _fix(
    index: tuple[int, ...],
    axis: int,
    fault: FaultRecord,
    site: Site | None,
    label: RangeLabel,
    naming: Naming,
    words: Language,
    *,
    is_shared: bool,
) -> str:
    """The likely fix for an index out of range."""
    value, size = index[axis], label.shape[axis]
    if value < 0:
        return f"guard the index, or check the subtraction in it: an index below -{size:,} does not wrap around"
    ids = list(_ids(fault, naming, is_block=is_shared))
    any_axis = ""
    if len(index) > 1 and fault.address == label.base + size * label.strides[axis]:
        any_axis = "check the bound of every index: this is one past the last element"
    if is_shared and value in [i for i, _ in _ids(fault, naming, is_block=False)] and value not in dict(ids):
        own = f"each block has its own shared memory: index it by {words.thread_index}"
        return f"{own}, not by the position in the grid"
    if any(i == value for i, _ in ids):
        who = "block" if is_shared else "grid"
        letter = "ijk"[axis] if axis < 3 else "i"
        threads = next(count for i, count in ids if i == value)
        guard = words.guard(letter, label.name, axis)
        if any_axis and not _is_of_thread(index, ids):
            return f"{any_axis}. If the thread's index is that of axis {axis}, {guard}"
        return f"the {who} has {threads:,} threads along this axis: {guard}"
    offset = min((value - i for i, count in ids if count > 1 and 0 < value - i <= _NEAR), default=None)
    if (loaded := _loaded(site, naming)) and (offset is None or offset > _LIKELY or value > size + _NEAR):
        return loaded
    if any_axis:
        return any_axis
    if offset is not None:
        return f"compare the index with {words.size(label.name, axis)}: it is the thread's number plus {offset}"
    if value == size:
        return "it is one past the end: check the bound of the loop or the comparison"
    return f"check how the index is computed: it is {value - size + 1:,} past the last element"


def _is_of_thread(index: tuple[int, ...], ids: list[tuple[int, int]]) -> bool:
    """Whether an index consists of the thread's own indices along axes with several threads: with one thread along
    an axis, its 0 says nothing."""
    numbers = [number for number, count in ids[:3] if count > 1]
    return index in itertools.permutations(numbers, len(index))


def _ids(fault: FaultRecord, naming: Naming, *, is_block: bool) -> Iterator[tuple[int, int]]:
    """The indices of a thread, each with the number of threads: along x, y and z, and the linear index. They are
    in the block or, unless ``is_block``, in the grid."""
    block, grid = naming.shape.block, naming.shape.grid
    whole, threads = 0, 1
    for at, size, b, blocks in zip(fault.thread, block, fault.block, grid, strict=True):
        number, count = (at, size) if is_block else (b * size + at, size * blocks)
        yield number, count
        whole, threads = whole + number * threads, threads * count
    yield whole, threads


def _loaded(site: Site | None, naming: Naming) -> str:
    """The fix for an index that was loaded from memory; empty if none was."""
    made = naming.made_of(site)
    lines = sorted({loc.line for loc in made.loads}) if made is not None else []
    if not lines:
        return ""
    where = f"line {lines[0]}" if len(lines) == 1 else f"lines {', '.join(map(str, lines[:-1]))} and {lines[-1]}"
    return f"the index is computed from values loaded at {where}: check what is stored there"


def _around(address: int, low: int, high: int) -> str:
    """The position of an address relative to a range, in words."""
    if address >= high:
        return f"{_far(address - high)} past the end of"
    if address < low:
        return f"{_far(low - address)} before the start of"
    return "across the end of"


def _far(distance: int) -> str:
    """A distance from an end, in words: ``right``, as in "right past the end", if it is 0."""
    return "right" if distance == 0 else "1 byte" if distance == 1 else f"{distance:,} bytes"


def _bytes(size: int) -> str:
    return "1 byte" if size == 1 else f"{size:,} bytes"
