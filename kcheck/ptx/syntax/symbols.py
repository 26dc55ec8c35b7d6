"""Reads the symbols of PTX: names and argument types of kernels, and arrays in shared memory.

Numba mangles the name of a kernel and the types of its arguments like the Itanium C++ ABI. kcheck's driver gives
arrays in shared memory symbols that contain their names and types (:func:`array_symbol`).
"""

from __future__ import annotations

import re

from kcheck.dataclass import dataclass

_CODES = {
    "b": "bool",
    "h": "uint8",
    "a": "int8",
    "t": "uint16",
    "s": "int16",
    "j": "uint32",
    "i": "int32",
    "y": "uint64",
    "x": "int64",
    "Dh": "float16",
    "f": "float32",
    "d": "float64",
}
"""Source: numba.cuda.itanium_mangler, ``N2CODE``."""
_PART = re.compile(r"(\d+)")
_LITERAL = re.compile(r"Li(-?\d+)E")
_ODD = re.compile(r"[^A-Za-z0-9_]")
_HEX = re.compile(r"\$([0-9a-f]+)\$")
ITEMSIZES = {
    "bool": 1,
    "float16": 2,
    "bfloat16": 2,
    "complex64": 8,
    "complex128": 16,
    **{f"{sign}int{bits}": bits // 8 for sign in ("", "u") for bits in (8, 16, 32, 64)},
    "float32": 4,
    "float64": 8,
}
"""Bytes of an element, by dtype."""

TYPE_CODES = {
    "bool": "bool",
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float64": "f64",
    **{f"int{bits}": f"s{bits}" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": f"u{bits}" for bits in (8, 16, 32, 64)},
}
"""The type of an element as in the modifiers of an instruction, by dtype."""


@dataclass(frozen=True, slots=True)
class Mangled:
    """A type in a mangled name: ``Array`` with the arguments float32, 1, C ..., or a dtype."""

    name: str
    arguments: tuple[Mangled, ...] = ()

    @property
    def is_array(self) -> bool:
        return self.name == "Array" and len(self.arguments) >= 2 and self.arguments[1].name.isdigit()

    @property
    def params(self) -> int:
        """How many kernel parameters an argument of this type takes; 0 if unknown. Numba passes an array as two
        pointers for its memory, its number of elements, their size, the data, and shape and strides."""
        if self.is_array:
            return 5 + 2 * int(self.arguments[1].name)
        return 1 if self.name in _CODES.values() else 0


def kernel_name(symbol: str) -> str:
    """The name in a symbol that numba or a C++ compiler mangled: ``_ZN8__main__4gemmB2v1B40c...E5ArrayIf...`` is
    ``gemm``, ``_Z7softmaxIfLi4EEvPKT_`` is ``softmax``.

    A name of the Itanium C++ ABI: one part, or nested ones, with their lengths, then ABI tags that begin with B.
    Any other symbol is returned unchanged.
    """
    if not symbol.startswith("_Z"):
        return symbol
    is_nested = symbol.startswith("_ZN")
    at, name = 3 if is_nested else 2, symbol
    while match := _PART.match(symbol, at):
        start = match.end()
        at = start + int(match[1])
        name = symbol[start:at]
        if not is_nested:
            break
    return name


def arguments(symbol: str) -> tuple[Mangled, ...]:
    """The types of a kernel's arguments, up to the first one that is unknown."""
    at = _name_end(symbol)
    found: list[Mangled] = []
    try:
        while 0 < at < len(symbol):
            kind, at = _type(symbol, at)
            found.append(kind)
    except ValueError:
        pass
    return tuple(found)


def _name_end(symbol: str) -> int:
    """Where the argument types begin; 0 for a symbol that is not mangled."""
    if not symbol.startswith("_ZN"):
        return 0
    at = 3
    while (match := _PART.match(symbol, at + (symbol[at : at + 1] == "B"))) is not None:
        at = match.end() + int(match[1])
    return at + 1 if symbol[at : at + 1] == "E" else 0


def _type(symbol: str, at: int) -> tuple[Mangled, int]:
    """The type at a place and where it ends. Raises ValueError."""
    for length in (2, 1):
        if symbol[at : at + length] in _CODES:
            return Mangled(_CODES[symbol[at : at + length]]), at + length
    if literal := _LITERAL.match(symbol, at):
        return Mangled(literal[1]), literal.end()
    if (part := _PART.match(symbol, at)) is None:
        raise ValueError(symbol[at:])
    end = part.end() + int(part[1])
    name, inner = symbol[part.end() : end], []
    if symbol[end : end + 1] == "I":
        end += 1
        while symbol[end : end + 1] != "E":
            kind, end = _type(symbol, end)
            inner.append(kind)
        end += 1
    return Mangled(name, tuple(inner)), end


_LOCAL_NAME = re.compile(r"E(?P<length>\d+)(?=[A-Za-z_])")


def local_name(symbol: str) -> str:
    """The name of a variable that a C++ function declares: ``tile`` of ``_ZZ4gemmPfE4tile``; otherwise empty.

    Source: Itanium C++ ABI, "Local entities": the function's encoding between Z and E, the name, and optionally a
    number.
    """
    if not symbol.startswith("_ZZ"):
        return ""
    for found in reversed(list(_LOCAL_NAME.finditer(symbol))):
        name, rest = symbol[found.end() :][: int(found["length"])], symbol[found.end() + int(found["length"]) :]
        if len(name) == int(found["length"]) and re.fullmatch(r"(?:_\d+|__\d+_)?", rest):
            return name
    return ""


@dataclass(frozen=True, slots=True)
class ArraySymbol:
    """An array in shared memory as the source declares it.

    Attributes:
        name: the variable that it was assigned to.
        shape: in elements; (0,) for dynamic shared memory.
        dtype: empty for a record.
        itemsize: in bytes.
        element: which element, in C order, if LLVM split the array into variables, as it does with small arrays
            that are indexed only by constants. None for a whole array.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    itemsize: int
    element: int | None = None


def array_symbol(unique: str, array: ArraySymbol) -> str:
    """A symbol that describes the array: ``_cudapy_smem_3__tile__8x9__float32``.

    Args:
        unique: the symbol that Numba would give it.
    """
    name = _ODD.sub(lambda match: f"${ord(match[0]):x}$", array.name)
    return f"{unique}__{name}__{'x'.join(map(str, array.shape))}__{array.dtype or f'struct{array.itemsize}'}"


def read_array_symbol(symbol: str) -> ArraySymbol | None:
    """The inverse of :func:`array_symbol`; None for any other symbol."""
    found = re.fullmatch(
        r".*_cudapy_smem_\d+__(?P<name>.+)__(?P<shape>\d+(?:x\d+)*)__(?P<dtype>[a-z0-9]+?)(?:_\$_(?P<element>\d+))?",
        symbol,
    )
    if found is None:
        return None
    dtype = found["dtype"]
    if dtype.startswith("struct"):
        dtype, itemsize = "", int(dtype.removeprefix("struct"))
    else:
        itemsize = ITEMSIZES.get(dtype, 0)
    name = _HEX.sub(lambda match: chr(int(match[1], 16)), found["name"])
    shape = tuple(map(int, found["shape"].split("x")))
    element = None if found["element"] is None else int(found["element"])
    return ArraySymbol(name, shape, dtype, itemsize, element) if itemsize else None


REPLICATES = "// kcheck: replicated values"
"""A line in the PTX of compilers that replicate values between threads, such as Triton."""
