"""What a launch did to memory, from the bytes before and after it. Pure: no clock, no device, no Numba."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kcheck.generator import POISON, Allocation
from kcheck.model import Case, DType, Finding, OpSpec
from kcheck.model.indexing import first_index, nearest_index, offset_of, offset_range, out_of_range
from kcheck.model.listing import listed

if TYPE_CHECKING:
    from kcheck.model.outcome import Mask

Bytes = npt.NDArray[np.uint8]


def values(memory: Allocation, buffer: Bytes) -> npt.NDArray[Any]:
    """The logical array, C-contiguous and of its dtype; a view of the buffer if the layout is already contiguous.
    A nonzero bool byte counts as 1."""
    whole = memory.bytes_view(buffer)
    if memory.dtype.kind == "bool":
        whole = (whole != 0).view(np.uint8)
    return np.ascontiguousarray(whole).view(memory.dtype.numpy).reshape(memory.shape)


def poison(memory: Allocation, buffer: Bytes, byte: int) -> None:
    """Fill the elements with a byte, in place."""
    if _is_dense(memory):
        low, high = extent(memory)
        buffer[low:high] = byte
    else:
        buffer[memory.element_mask()] = byte


def untouched(memory: Allocation, buffer: Bytes, byte: int) -> Mask:
    """True at each element whose bytes are all the poison byte."""
    whole = memory.bytes_view(buffer)
    mask: Mask = np.asarray(whole[..., 0] == byte)
    for n in range(1, whole.shape[-1]):  # an axis of a few bytes is slow to reduce
        mask &= whole[..., n] == byte
    return mask


def guard_finding(memory: Allocation, after: Bytes, kernel: str | None) -> Finding | None:
    """The finding for a write outside the elements of an allocation: before, after, or in a gap between them."""
    if _is_dense(memory):
        first, end = extent(memory)
        parts = ((0, first), (end, len(after)))
        if all(_are_equal(after[low:high], memory.buffer[low:high]) for low, high in parts):
            return None
    changed = np.flatnonzero((after != memory.buffer) & ~memory.element_mask())
    if not len(changed):
        return None
    place = int(changed[0])
    low, high = extent(memory)
    itemsize, index = memory.dtype.itemsize, None
    if low <= place < high:
        index, where = _in_gap(memory, place - memory.offset)
    elif place < low:
        last = int(changed[changed < low][-1])
        where = f"{_bytes(low - last)} before its first byte"
    else:
        where = f"{_bytes(place - high + 1)} past its end"
    start = place - (place - low) % itemsize
    written = after[start : start + itemsize]
    text = written.tobytes().hex(" ")
    value = _scalar_text(memory.dtype, written)
    return Finding(
        "guard",
        f"memory outside {memory.name} was written: {where} ({_bytes(len(changed))} changed; the first element"
        f" there is now {value}, bytes {text})",
        fix="look for an index that is not masked, or a hard-coded stride",
        array=memory.name,
        index=index,
        kernel=kernel,
    )


def _in_gap(memory: Allocation, offset: int) -> tuple[tuple[int, ...], str]:
    """The index of a byte between the elements of an array, and a text. The index is out of range; if none leads
    to the byte, it is that of the element before."""
    index, _ = nearest_index(offset, memory.shape, memory.strides)
    axis, element = out_of_range(index, memory.shape), _at(memory.name, index)
    if axis is None:
        return index, f"in a gap between its elements, after {element}"
    where = f"in a gap between its elements, at the address of {element}"
    return index, f"{where}, but axis {axis} has size {memory.shape[axis]}"


def gap_offset(memory: Allocation, index: Sequence[int]) -> int:
    """Where the byte that an index of :func:`guard_finding` names is, from the address of the first element."""
    before = memory.dtype.itemsize if out_of_range(index, memory.shape) is None else 0
    return offset_of(index, memory.strides) + before


def mutated_finding(memory: Allocation, after: Bytes, kernel: str | None) -> Finding | None:
    """The finding for an input that changed, with its first changed element in C order."""
    if _are_equal(memory.buffer, after):
        return None
    before, now = memory.bytes_view(), memory.bytes_view(after)
    changed = (before != now).any(axis=-1)
    count = int(np.count_nonzero(changed))
    if not count:
        return None
    index = first_index(changed)
    old, new = _scalar_text(memory.dtype, before[index]), _scalar_text(memory.dtype, now[index])
    return Finding(
        "mutated",
        f"input {memory.name} was changed in {count} of {_elements(changed.size)}:"
        f" {_at(memory.name, index)} was {old}, is {new}",
        fix=f"if the kernel may write it, set 'mutates: [{memory.name}]'; if an output replaces it, set 'alias:'",
        array=memory.name,
        index=index,
        kernel=kernel,
    )


def unwritten_finding(name: str, mask: Mask, kernel: str | None, launched: bool) -> Finding:
    """The finding for elements of an output that were never written. ``launched`` is False if the grid or block
    contained a 0."""
    count = int(np.count_nonzero(mask))
    why = "" if launched else "; nothing was launched, because the grid or block contains a 0"
    fix = "check the mask of the store, and compare grid x block with the output's size"
    if not launched:
        fix = "round the grid up, as in ceildiv(N, 256), or launch at least one block"
    index = first_index(mask)
    return Finding(
        "unwritten",
        f"{count} of {_elements(mask.size)} of {name} {'was' if count == 1 else 'were'} never written,"
        f" the first at {_at(name, index)}{why}",
        fix=fix,
        array=name,
        index=index,
        kernel=kernel,
    )


def nondeterministic_finding(
    name: str, dtype: DType, first: npt.NDArray[Any], second: npt.NDArray[Any], kernel: str | None, order: str
) -> Finding | None:
    """The finding for two launches of one case that left different bits. All NaNs are equal.

    Args:
        order: the order of the threads in the second launch; empty if it is unknown.
    """
    whose, when = "two launches of the same case differ in", ("in the first", "in the other")
    if order:
        whose, when = "another order of the threads changes", ("in natural order", f"in {order}")
    found = _difference(name, dtype, first, second, when)
    if found is None:
        return None
    index, where, values = found
    return Finding(
        "nondeterministic",
        f"{whose} {where} is {values}",
        fix="look for a race or a missing barrier; if atomics may run in any order, set 'deterministic: false'",
        array=name,
        index=index,
        kernel=kernel,
    )


def _difference(
    name: str, dtype: DType, first: npt.NDArray[Any], second: npt.NDArray[Any], when: tuple[str, str]
) -> tuple[tuple[int, ...], str, str] | None:
    """The first element whose bits differ, with how many do, and its two values, both as text; None if none does.
    All NaNs are equal."""
    before, now = first.reshape(-1).view(np.uint8), second.reshape(-1).view(np.uint8)
    if _are_equal(before, now):
        return None
    different = (before != now).reshape(*first.shape, first.itemsize).any(axis=-1)
    if dtype.is_inexact and different.any():
        different &= ~((first != first) & (second != second))
    count = int(np.count_nonzero(different))
    if not count:
        return None
    index = first_index(different)
    old, new = (_scalar_text(dtype, np.frombuffer(a[index].tobytes(), np.uint8)) for a in (first, second))
    where = f"{count} of {_elements(different.size)} of {name}: {_at(name, index)}"
    return index, where, f"{old} {when[0]} and {new} {when[1]}"


def second_launch_finding(
    memory: Allocation,
    first: npt.NDArray[Any],
    second: npt.NDArray[Any],
    kernel: str | None,
    changed: Sequence[str],
) -> Finding | None:
    """The warning for an output that a second launch computes differently, after variables kept their values.

    Args:
        changed: the variables that the first launch left changed.
    """
    found = _difference(memory.name, memory.dtype, first, second, ("after the first", "after the second"))
    if found is None:
        return None
    index, where, values = found
    # A byte may have the value of the poison by chance.
    is_written = second.itemsize == 1 or second[index].tobytes() != bytes([POISON]) * second.itemsize
    does = f"changes {where} is {values}" if is_written else f"does not write {where}"
    message = f"a second launch {does}; the first one leaves {_variables(changed)} changed"
    return Finding(
        "nondeterministic",
        message,
        severity="warn",
        fix=_reset(changed),
        array=memory.name,
        index=index,
        kernel=kernel,
        lenient=True,
    )


def second_launch_fault(finding: Finding, changed: Sequence[str]) -> Finding:
    """The warning for an error that only a second launch has."""
    told = finding.adding(f"only in a second launch, because the first one leaves {_variables(changed)} changed")
    return replace(told, rule="nondeterministic", severity="warn", fix=_reset(changed), lenient=True)


def _variables(names: Sequence[str]) -> str:
    return f"device variable{'s' * (len(names) > 1)} {listed(names)}"


def _reset(changed: Sequence[str]) -> str:
    names = listed(changed)
    return f"reset {names} at the end of the kernel, or before every launch, as kcheck does before each case"


def may_change(spec: OpSpec) -> frozenset[str]:
    """Inputs that a kernel may write: those in ``mutates``, and those that an output is an alias of."""
    aliased = {output.alias for output in spec.outputs.values() if output.alias is not None}
    return frozenset(spec.mutates) | aliased


def input_findings(
    spec: OpSpec, memories: Mapping[str, Allocation], after: Mapping[str, Bytes], kernel: str | None
) -> list[Finding]:
    """The findings about the guards of every allocation, and about inputs that changed."""
    found = [
        guard_finding(replace(memory, name=spec.passed_name(name)), after[name], kernel)
        for name, memory in memories.items()
    ]
    writable = may_change(spec)
    found += [
        mutated_finding(memories[name], after[name], kernel)
        for name in spec.inputs
        if name not in writable and name in memories
    ]
    return [finding for finding in found if finding is not None]


def extent(memory: Allocation) -> tuple[int, int]:
    """The offsets in the buffer of the first byte of the elements, and of the byte after the last."""
    if 0 in memory.shape:
        return memory.offset, memory.offset
    low, high = offset_range(memory.shape, memory.strides)
    return memory.offset + low, memory.offset + high + memory.dtype.itemsize


def has_gaps(memory: Allocation) -> bool:
    """Whether there are bytes between the elements of an array that do not belong to it."""
    low, high = extent(memory)
    return high - low > math.prod(memory.shape) * memory.dtype.itemsize


def _is_dense(memory: Allocation) -> bool:
    """Whether the elements are all bytes from the first to the last one, each once."""
    low, high = extent(memory)
    return high - low == math.prod(memory.shape) * memory.dtype.itemsize and 0 not in memory.strides


def _are_equal(a: Bytes, b: Bytes) -> bool:
    """Whether two contiguous buffers of one size have the same bytes: eight are compared at a time."""
    whole = len(a) // 8 * 8
    words = np.array_equal(a[:whole].view(np.uint64), b[:whole].view(np.uint64))
    return words and np.array_equal(a[whole:], b[whole:])


def _scalar_text(dtype: DType, written: Bytes) -> str:
    if len(written) < dtype.itemsize:
        return "cut off"
    text = str(np.frombuffer(np.ascontiguousarray(written).tobytes(), dtype.numpy)[0])
    return re.sub("nan|inf", lambda word: {"nan": "NaN", "inf": "Inf"}[word[0]], text)


def _bytes(count: int) -> str:
    return "1 byte" if count == 1 else f"{count} bytes"


def _elements(count: int) -> str:
    return "1 element" if count == 1 else f"{count} elements"


def _at(name: str, index: tuple[int, ...]) -> str:
    return f"{name}[{', '.join(map(str, index))}]" if index else name


def with_layouts(spec: OpSpec, case: Case, findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings; those of memcheck say which layout the array has, or which ones the arrays have if the address
    is in none of them.

    Only kernels that get a pointer, and strides as numbers, can be unable to take a layout.
    """
    if spec.kernel is None or spec.kernel.kind == "numba":
        return tuple(findings)
    strided = {
        spec.passed_name(name): f"{spec.passed_name(name)} has the layout {layout}"
        for name, layout in case.layouts.items()
        if layout not in ("contiguous", "offset") and (name in spec.inputs or spec.outputs[name].alias is None)
    }

    def told(finding: Finding) -> Finding:
        where = list(strided.values()) if finding.array is None else [strided.get(finding.array, "")]
        if finding.rule != "memcheck" or not any(where):
            return finding
        layouts = f"{' and '.join(where)} in this case, which the kernel may not support"
        return replace(finding, fix="; ".join(filter(None, (finding.fix, layouts))))

    return tuple(map(told, findings))
