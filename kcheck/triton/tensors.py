"""What a launch needs to know about a tensor: the address and size of its memory, and the names of its elements. A
tensor is any object with ``data_ptr()``: PyTorch's, Triton's own wrapper, or a class of the user.
"""

from __future__ import annotations

import math
import re
from typing import Any

from kcheck.cpu.memory import Memory, RangeLabel
from kcheck.model.indexing import offset_range

_BITS = re.compile(r"(?:[a-z]+?)(\d+)")
_NAMES = {"fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "fp64": "float64", "i1": "bool"}


def itemsize_of(kind: str) -> int:
    """Bytes of an element, from the type of its pointer: ``*fp16``, ``*ki8`` (read only), ``*fp8e4nv``."""
    found = _BITS.match(_element(kind))
    return max(int(found[1]) // 8, 1) if found else 1


def _element(kind: str) -> str:
    element = kind.lstrip("*")
    return element.removeprefix("k")


def dtype_of(kind: str) -> str:
    """The dtype, by its NumPy or ml_dtypes name, of a pointer's elements; empty if there is none."""
    element = _element(kind)
    if element in _NAMES:
        return _NAMES[element]
    if re.fullmatch(r"[iu]\d+", element):
        return ("int" if element[0] == "i" else "uint") + element[1:]
    return ""


def address_of(tensor: Any) -> int:
    """The address of the first element; 0 if ``tensor`` is None.

    Raises:
        TypeError: it is neither an address nor a tensor.
    """
    if tensor is None:
        return 0
    if isinstance(tensor, int):
        return tensor
    if not hasattr(tensor, "data_ptr"):
        raise TypeError(f"a pointer must be a tensor with data_ptr() or an address, not {type(tensor).__name__}")
    return int(tensor.data_ptr())


class _Rest:
    """The elements from an address to the end of the memory block that holds it, as an array of one axis."""

    def __init__(self, address: int, size: int) -> None:
        self._address = address
        self.shape = (size,)

    def data_ptr(self) -> int:
        """The address of the first element."""
        return self._address


def with_size(tensor: Any, kind: str, memory: Memory) -> Any:
    """The tensor; if it does not know its size, an array that ends where its memory ends.

    Args:
        kind: its pointer type.
        memory: what kernels may access already.
    """
    if any(hasattr(tensor, name) for name in ("shape", "numel", "base")):
        return tensor
    address = address_of(tensor)
    block = memory.find(address)
    return tensor if block is None else _Rest(address, (block.end - address) // itemsize_of(kind))


def memory_of(tensor: Any, kind: str) -> tuple[int, int]:
    """Address and size, in bytes, of a tensor's memory: its whole storage if that is known, else what it spans."""
    while not hasattr(tensor, "untyped_storage") and hasattr(tensor, "base"):
        tensor = tensor.base
    storage = tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else None
    if storage is not None and hasattr(storage, "nbytes"):  # some classes return themselves to satisfy Triton
        return int(storage.data_ptr()), int(storage.nbytes())
    shape, strides = _layout(tensor)
    itemsize = _itemsize(tensor, kind)
    low, high = _span(shape, strides)
    return address_of(tensor) + low * itemsize, (high - low) * itemsize


def label_of(tensor: Any, kind: str, name: str, address: int) -> RangeLabel:
    """Names the elements of a tensor, whose first element is at ``address``, in findings."""
    shape, strides = _layout(tensor)
    itemsize = _itemsize(tensor, kind)
    low, high = _span(shape, strides)
    return RangeLabel(
        name,
        address,
        shape,
        tuple(itemsize * stride for stride in strides),
        itemsize,
        address + low * itemsize,
        address + high * itemsize,
        dtype_of(kind),
    )


def _itemsize(tensor: Any, kind: str) -> int:
    return int(tensor.element_size()) if hasattr(tensor, "element_size") else itemsize_of(kind)


def _layout(tensor: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shape and strides, in elements; those of a contiguous array if it has no ``stride()``.

    Raises:
        TypeError: it has neither a shape nor ``numel()``.
    """
    if hasattr(tensor, "shape"):
        shape = tuple(int(size) for size in tensor.shape)
    elif hasattr(tensor, "numel"):
        shape = (int(tensor.numel()),)
    else:
        raise TypeError(f"the size of a {type(tensor).__name__} is unknown; give it a shape or numel()")
    if callable(getattr(tensor, "stride", None)):
        return shape, tuple(int(stride) for stride in tensor.stride())
    return shape, tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def _span(shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, int]:
    """The offsets of an array's elements from its first one, in elements: a half-open range."""
    if 0 in shape:
        return 0, 0
    low, high = offset_range(shape, strides)
    return low, high + 1
