"""The names of addresses in findings: an array of the source and an index in it, if they are known.

The names of global memory come from the arguments of the launch, and from the labels of the code that allocated it
(a spec's arrays, module variables); those of shared memory come from the symbols of its arrays.
"""

from __future__ import annotations

import functools
import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from kcheck.cpu.cpp_sources import shared_array
from kcheck.cpu.memory import Memory, RangeLabel
from kcheck.cpu.sources import only_local_array, parameters
from kcheck.dataclass import dataclass
from kcheck.model import Index3, Span
from kcheck.model.indexing import nearest_index, out_of_range
from kcheck.ptx.abi import FaultRecord
from kcheck.ptx.program import Program, SharedVariable, Site
from kcheck.ptx.syntax.symbols import (
    ITEMSIZES,
    TYPE_CODES,
    Mangled,
    arguments,
    kernel_name,
    local_name,
    read_array_symbol,
)
from kcheck.ptx.syntax.types import TYPES, PtxType
from kcheck.rules.language import Language, language_of

if TYPE_CHECKING:
    from kcheck.ptx.analysis.provenance import Provenance
    from kcheck.ptx.syntax.ast import Module

_WORD = struct.Struct("<q")


@dataclass(frozen=True, slots=True)
class Windows:
    """Where per-block memory was during a launch: address and size of each window, in bytes."""

    shared: Sequence[tuple[int, int]]
    state: Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class LaunchGeometry:
    """The geometry of a launch: blocks, threads of a block, bytes of dynamic shared memory."""

    grid: Index3
    block: Index3
    dynamic_shared: int


class Parsed(Protocol):
    """The part of :class:`kcheck.cpu.module.LoadedModule` that is needed here."""

    @property
    def replicates(self) -> bool:
        """Whether Triton compiled it."""

    @property
    def tree(self) -> Module:
        """The syntax tree."""


class Naming:
    """Names for one launch.

    Args:
        module: the module of the kernel; it is parsed only if a name is needed.
        params: the bytes of the launch's parameters.
        arrays: returns the arrays among them: for each, the number of the parameter with its address, and its
            label. None: the arrays that are known from the kernel's mangled name.
    """

    def __init__(
        self,
        program: Program,
        module: Parsed,
        memory: Memory,
        windows: Windows,
        params: bytes,
        shape: LaunchGeometry,
        arrays: Callable[[], Sequence[tuple[int, RangeLabel]]] | None = None,
    ) -> None:
        self._program = program
        self._module = module
        self._memory = memory
        self._params = params
        self._arrays = arrays
        self.windows = windows
        self.shape = shape
        self._made: dict[int, Provenance | None] = {}

    def words(self, place: Span | None) -> Language:
        """The words for a fix at a place."""
        return language_of(place, is_triton=self._module.replicates)

    def made_of(self, site: Site | None) -> Provenance | None:
        """What the address of an access is computed from; None if the PTX does not show it."""
        if site is None or not site.space:
            return None
        if site.line not in self._made:
            from kcheck.ptx.analysis.provenance import (
                provenance,  # imports the PTX parser, which only a run with findings needs
            )

            self._made[site.line] = provenance(self._module.tree, site.line)
        return self._made[site.line]

    # --- global memory

    def array(self, site: Site | None, address: int) -> RangeLabel | None:
        """The array of an access: the one that the address was computed from, otherwise the one that contains the
        address or is next to it."""
        meant = self._meant(site)
        if meant is not None:
            return meant
        block = self._memory.find(address) or (self._memory.nearest(address) or (None, False))[0]
        if block is None:
            return None
        label = self._memory.labeled(block, address)
        inside = [a for a in self.arguments if block.base <= a.base < max(block.end, block.base + 1)]
        return label or min(inside, key=lambda a: max(a.low - address, address - a.high + 1, 0), default=None)

    def _meant(self, site: Site | None) -> RangeLabel | None:
        made = self.made_of(site)
        if made is None or made.function != self._program.entry:
            return None
        found = [argument for slot, argument in self._arguments if slot in made.roots]
        if len(found) != 1:
            return None
        block = self._memory.find(found[0].base)
        label = self._memory.labeled(block, found[0].base) if block is not None else None
        is_named = label is not None and label.base == found[0].base
        return replace(found[0], name=label.name, is_local=False) if label is not None and is_named else found[0]

    @property
    def arguments(self) -> tuple[RangeLabel, ...]:
        """The arrays among the arguments, by the names of the kernel's parameters in Python."""
        return tuple(argument for _, argument in self._arguments)

    @functools.cached_property
    def _arguments(self) -> tuple[tuple[str, RangeLabel], ...]:
        """The PTX parameter with the address of each array among the arguments, and the array."""
        if self._arrays is not None:
            return tuple((self._program.params[n].name, label) for n, label in self._arrays())
        names = self._names()
        found, slot = [], 0
        for n, kind in enumerate(arguments(self._program.entry)):
            slots = self._program.params[slot : slot + kind.params]
            if not kind.params or len(slots) < kind.params:
                break
            if kind.is_array and all(s.size == _WORD.size and s.offset + 8 <= len(self._params) for s in slots):
                words = [_WORD.unpack_from(self._params, s.offset)[0] for s in slots]
                name = names[n] if n < len(names) else f"argument {n + 1}"
                argument = replace(_argument(kind, name, words), is_local=self._memory.has_named_arrays)
                found.append((slots[4].name, argument))
            slot += kind.params
        return tuple(found)

    def _names(self) -> tuple[str, ...]:
        name = kernel_name(self._program.entry)
        for site in self._program.sites:
            file, line = site.stack[-1][:2] if site.stack else (site.file, site.source_line)
            if line and (found := parameters(file, line, name)):
                return found
        return ()

    def told_global(self, site: Site | None, address: int) -> tuple[str | None, tuple[int, ...] | None, str]:
        """The array of an address in global memory, the index in it, and both as text."""
        label = self.array(site, address)
        block = self._memory.find(address)
        if label is not None and label.low <= address < label.high:
            return label.array, label.index(address), told(label, address) or label.name
        if block is None:
            return None, None, f"address {address:#x}"
        return None, None, f"byte {address - block.base} of {block.told}"

    def gap(self, site: Site | None, address: int) -> tuple[str | None, tuple[int, ...], str] | None:
        """The array of an address that is in global memory between its elements, the index, and both as text."""
        label = self.array(site, address)
        if label is None or not label.low <= address < label.high or not label.shape:
            return None
        index, rest = nearest_index(address - label.base, label.shape, label.strides)
        axis = out_of_range(index, label.shape)
        if axis is None and rest < label.itemsize:
            return None
        element = f"{label.name}[{', '.join(map(str, index))}]"
        size = f": axis {axis} has size {label.shape[axis]}" if axis is not None else ""
        where = element if axis is not None else f"memory after {element}"
        return label.array, index, f"{where}, which is in a gap between the elements of {label.name}{size}"

    # --- shared memory

    @property
    def static_shared(self) -> int:
        """Bytes of the kernel's static shared memory."""
        return self._program.shared_bytes

    def shared(self, site: Site | None, address: int, outside: int = 0) -> RangeLabel | None:
        """The array in shared memory that contains an address, or that the address was computed from. None if it
        has no name.

        Args:
            outside: the size of an invalid access. An array that contains all of it was not intended.
        """
        base, _ = self.window(address)
        made = self.made_of(site)
        roots = [v for v in self._program.shared if made is not None and v.symbol in made.roots]
        inside = [v for v in self._program.shared if self._holds(v, address - base)]
        if outside:
            inside = [v for v in inside if not self._holds(v, address - base + outside - 1)]
        candidates = [v for v in inside if v in roots] or inside or roots
        labels = {
            (label.name, label.base): label for v in candidates if (label := self._shared_label(v, base, site))
        }
        return next(iter(labels.values())) if len(labels) == 1 else None

    def _element(self, variable: SharedVariable, site: Site | None) -> PtxType | None:
        """The type of the elements of a variable, from the access to it; from another access if this one is a
        copy without a type, such as ``cp.async``."""
        kind = _type_of(site)
        if kind is not None:
            return kind
        for other in self._program.sites:
            kind = _type_of(other)
            made = self.made_of(other) if kind is not None else None
            if made is not None and made.roots == frozenset({variable.symbol}):
                return kind
        return None

    def _holds(self, variable: SharedVariable, offset: int) -> bool:
        size = self.shape.dynamic_shared if variable.size is None else variable.size
        return variable.offset <= offset < variable.offset + size

    def _shared_label(self, variable: SharedVariable, base: int, site: Site | None) -> RangeLabel | None:
        array = read_array_symbol(variable.symbol)
        low = base + variable.offset
        if array is None:
            return _of_cpp(variable, low, self._element(variable, site), site)
        shape = array.shape
        size = variable.size
        if size is None:
            size = self.shape.dynamic_shared
            shape = (size // array.itemsize,)
        first = 0
        if array.element is not None:
            if size != array.itemsize:
                return None
            first = array.element * array.itemsize
        return RangeLabel(
            array.name,
            low - first,
            shape,
            contiguous(shape, array.itemsize),
            array.itemsize,
            low,
            low + size,
            array.dtype,
        )

    # --- local memory

    def local(self, site: Site | None, fault: FaultRecord) -> RangeLabel | None:
        """The thread's local array, if its function in Python has exactly one, and the kernel has no other local
        memory."""
        variables = self._program.local
        array = only_local_array(site.file, site.source_line) if site is not None and site.source_line else None
        if array is None or array.sizes is None or array.dtype not in ITEMSIZES or len(variables) != 1:
            return None
        itemsize = ITEMSIZES[array.dtype]
        size = math.prod(array.sizes) * itemsize
        if variables[0].size != size:
            return None
        low = self._lane(fault) + variables[0].offset
        strides = contiguous(array.sizes, itemsize)
        return RangeLabel(array.name, low, array.sizes, strides, itemsize, low, low + size, array.dtype)

    def _lane(self, fault: FaultRecord) -> int:
        """Where the local memory of a fault's thread begins, in the state that is nearest to the address."""
        x, y, z = fault.thread
        thread = x + self.shape.block[0] * (y + self.shape.block[1] * z)
        vector, lane = divmod(thread, self._program.width)
        offset = self._program.block_state_bytes + vector * self._program.warp_state_bytes
        offset += self._program.local_offset + lane * self._program.local_bytes
        lanes: list[int] = [base + offset for base, _ in self.windows.state]
        address: int = fault.address
        return min(lanes, key=lambda lane: abs(lane - address))

    def told_local(self, site: Site | None, fault: FaultRecord) -> str:
        """An address of local memory as text: ``a[2]``, or only that it is in a local array."""
        label = self.local(site, fault)
        return (told(label, fault.address) if label is not None else "") or "an element of a local array"

    def window(self, address: int) -> tuple[int, int]:
        """The nearest window of shared memory: address and size."""
        return min(self.windows.shared, key=lambda window: max(window[0] - address, address - sum(window), 0))

    def is_dynamic(self, address: int) -> bool:
        """Whether an address is in dynamic shared memory."""
        base, _ = self.window(address)
        start = self._program.shared_bytes
        return start <= address - base < start + self.shape.dynamic_shared

    def told_shared(self, site: Site | None, address: int) -> str:
        """An address of shared memory as text: ``tile[1, 0]``, or its byte."""
        label = self.shared(site, address)
        if label is not None and (element := told(label, address)):
            return element
        base, _ = self.window(address)
        if self.is_dynamic(address):
            return f"byte {address - base - self._program.shared_bytes} of dynamic shared memory"
        return f"byte {address - base} of shared memory"


def _type_of(site: Site | None) -> PtxType | None:
    return TYPES.get(site.text.rpartition(".")[2]) if site is not None else None


def _of_cpp(variable: SharedVariable, low: int, kind: PtxType | None, site: Site | None) -> RangeLabel | None:
    """A ``__shared__`` array of C++. Its symbol contains only the name.

    The type of an access is that of the elements, and they are in a row, unless the declaration says otherwise.
    """
    name = local_name(variable.symbol)
    if not name or not variable.size or kind is None or variable.size % kind.bytes:
        return None
    high = low + variable.size
    shape: tuple[int, ...] = (variable.size // kind.bytes,)
    array = None if site is None else shared_array(site.file, site.source_line, name)
    if array is not None and array.shape is not None and math.prod(array.shape) == shape[0]:
        shape = array.shape
    elif array is not None and (array.axes > 1 or not array.is_of_scalars):
        return RangeLabel(name, low, (), (), variable.size, low, high, declared=array.text)
    dtype = next((dtype for dtype, code in TYPE_CODES.items() if code == kind.name), "")
    return RangeLabel(name, low, shape, contiguous(shape, kind.bytes), kind.bytes, low, high, dtype)


def told(label: RangeLabel, address: int) -> str:
    """``x[3, 4]``, with the byte if the address is inside an element; empty if no index leads there."""
    if label.declared:
        return f"byte {address - label.low:,} of {label.name} (`{label.declared}`)"
    index = label.index(address)
    if index is None:
        return label.name if not label.shape else ""
    inside = address - label.base - sum(i * stride for i, stride in zip(index, label.strides, strict=True))
    return f"{label.name}[{', '.join(map(str, index))}]" + (f" (byte {inside})" if inside else "")


def contiguous(shape: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """The strides of a C-contiguous array, in bytes."""
    return tuple(itemsize * math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def _argument(kind: Mangled, name: str, words: Sequence[int]) -> RangeLabel:
    """An array argument. ``words``: meminfo, parent, number of elements, their size, data, shape, strides."""
    ndim = int(kind.arguments[1].name)
    dtype = kind.arguments[0].name
    itemsize, base = words[3], words[4] & 0xFFFF_FFFF_FFFF_FFFF
    shape, strides = tuple(words[5 : 5 + ndim]), tuple(words[5 + ndim :])
    ends = [stride * (size - 1) for size, stride in zip(shape, strides, strict=True)]
    low, high = (base + sum(bound(end, 0) for end in ends) for bound in (min, max))
    is_empty = 0 in shape
    return RangeLabel(
        name,
        base,
        shape,
        strides,
        itemsize,
        base if is_empty else low,
        base if is_empty else high + itemsize,
        dtype if dtype in ITEMSIZES else "",
    )
