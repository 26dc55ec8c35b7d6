"""The arguments of a launch as the kernel's parameters: types as Triton writes them, values as bytes."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

Type: TypeAlias = "str | tuple[Type, ...]"
"""``*fp32``, ``i32``, ``constexpr``, ``tensordesc<fp16[64, 64]>``, or a tuple of types for a tuple."""

_FLOATS = {"fp16": "<e", "fp32": "<f", "f32": "<f", "fp64": "<d"}
_INTEGERS = {
    f"{sign}{bits}": struct.Struct("<" + code)
    for sign, codes in (("i", "bbhiq"), ("u", "BBHIQ"))
    for bits, code in zip((1, 8, 16, 32, 64), codes, strict=True)
}


def scalars(kind: Type, value: Any, name: str) -> Iterator[tuple[str, Any, str]]:
    """The parameters of the kernel for one argument, as (type, value, name); a constant has none.

    A tensor descriptor is passed as the tensor and, twice, its shape and strides: the code reads both copies.
    """
    if isinstance(kind, tuple):
        for n, (part, inner) in enumerate(zip(kind, value, strict=True)):
            yield from scalars(part, inner, f"{name}[{n}]")
    elif kind.startswith("tensordesc"):
        yield from _descriptor(kind, value, name)
    elif kind != "constexpr":
        yield kind, value, name


def _descriptor(kind: str, value: Any, name: str) -> Iterator[tuple[str, Any, str]]:
    element = kind.partition("<")[2].partition("[")[0]
    sizes = [("i64", size, name) for size in (*value.shape, *value.strides)]
    flags = [value.padding == "nan"]
    if hasattr(value, "round_f32_to_tf32"):  # since Triton 3.7
        flags.append(value.round_f32_to_tf32)
    yield f"*{element}", value.base, name
    yield from sizes
    yield from (("i1", flag, name) for flag in flags)
    yield from (("i32", size, name) for size in value.shape)
    yield from (("i64", stride, name) for stride in value.strides)


def is_pointer(kind: str) -> bool:
    """Whether a type is an address."""
    return kind.startswith("*")


def packed(kind: str, value: Any) -> bytes:
    """The bytes of a number, little-endian.

    Raises:
        OverflowError: it is too large for its type.
        TypeError: it is not a number, or the type is not supported.
    """
    integers = _INTEGERS.get(kind)
    if integers is None:
        if kind in _FLOATS:
            return struct.pack(_FLOATS[kind], float(value))
        if kind == "bf16":
            return struct.pack("<f", float(value))[2:]  # truncated, as Triton's launcher does
        raise TypeError(f"a parameter of type {kind} is not supported")
    number = int(value)
    if kind == "u1":
        number = int(bool(number))
    try:
        return integers.pack(number)
    except struct.error:
        raise OverflowError(f"{number} does not fit in {kind}") from None


def laid_out(parts: Sequence[bytes], slots: Sequence[tuple[int, int]], total: int) -> bytes:
    """Parameters, each at its (offset, size); slots without a part, for Triton's scratch memory, are 0.

    Raises:
        TypeError: the parts do not match the kernel's parameters in number or size.
    """
    content = bytearray(total)
    fits = len(parts) <= len(slots)
    for part, (offset, size) in zip(parts, slots, strict=False):
        fits = fits and len(part) == size
        content[offset : offset + size] = part
    if not fits:
        raise TypeError(
            f"the compiled kernel has parameters of {[size for _, size in slots]} bytes, but the launch passes "
            f"{[len(part) for part in parts]}"
        )
    return bytes(content)
