"""The element types that a spec may name, as rows of a table. Pure data: nothing here imports NumPy.

Sources: IEEE 754-2019 table 3.5 for the binary formats; bfloat16 and the float8 formats as in ml_dtypes
(OCP 8-bit floating point, revision 1.0).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from kcheck.dataclass import dataclass

if TYPE_CHECKING:
    import numpy as np

Kind = Literal["bool", "int", "uint", "float", "complex"]


@dataclass(frozen=True, slots=True)
class DType:
    """One element type.

    Attributes:
        name: as written in a spec, the NumPy or ml_dtypes name.
        kind: its family, such as integer or float.
        itemsize: bytes of one element.
        precision: significand bits including the hidden one; 0 for integers and bool; of one component if complex.
        max: the largest finite value; of one component if complex.
        min: the smallest value of an integer type, otherwise ``-max``.
        smallest_normal: the smallest positive normal number; 0 for integers and bool.
    """

    name: str
    kind: Kind
    itemsize: int
    precision: int
    max: float | int
    min: float | int
    smallest_normal: float

    def __str__(self) -> str:
        return self.name

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_inexact(self) -> bool:
        """Whether it is floating-point, real or complex. Tolerances apply only to such dtypes."""
        return self.kind in ("float", "complex")

    @property
    def is_integer(self) -> bool:
        return self.kind in ("int", "uint")

    @property
    def unit_roundoff(self) -> float:
        """u = 2**-precision, half the distance from 1 to the next number; 0 for integers and bool."""
        return 2.0**-self.precision if self.precision else 0.0

    @property
    def numpy(self) -> np.dtype[np.generic]:
        """The NumPy dtype. Imports NumPy, and ml_dtypes if the type needs it."""
        import numpy as np

        if self.name in _ML_DTYPES:
            import ml_dtypes

            extended: np.dtype[np.generic] = np.dtype(getattr(ml_dtypes, self.name))
            return extended
        return np.dtype(self.name)


_ML_DTYPES = frozenset({"bfloat16", "float8_e4m3fn", "float8_e5m2"})


def _integer(name: str, bits: int, signed: bool) -> DType:
    if signed:
        return DType(name, "int", bits // 8, 0, 2 ** (bits - 1) - 1, -(2 ** (bits - 1)), 0.0)
    return DType(name, "uint", bits // 8, 0, 2**bits - 1, 0, 0.0)


def _float(name: str, bits: int, precision: int, largest: float, smallest_normal: float) -> DType:
    return DType(name, "float", bits // 8, precision, largest, -largest, smallest_normal)


def _binary(name: str, bits: int, precision: int, emax: int) -> DType:
    """A binary format whose exponents run from 1 - emax to emax (IEEE 754-2019, 3.3)."""
    return _float(name, bits, precision, (2.0 - 2.0 ** (1 - precision)) * 2.0**emax, 2.0 ** (1 - emax))


_FLOAT32 = _binary("float32", 32, 24, 127)
_FLOAT64 = _binary("float64", 64, 53, 1023)

DTYPES: dict[str, DType] = {
    row.name: row
    for row in (
        DType("bool", "bool", 1, 0, 1, 0, 0.0),
        *(_integer(f"int{bits}", bits, signed=True) for bits in (8, 16, 32, 64)),
        *(_integer(f"uint{bits}", bits, signed=False) for bits in (8, 16, 32, 64)),
        _float("float8_e4m3fn", 8, 4, 448.0, 2.0**-6),
        _binary("float8_e5m2", 8, 3, 15),
        _binary("float16", 16, 11, 15),
        _binary("bfloat16", 16, 8, 127),
        _FLOAT32,
        _FLOAT64,
        DType("complex64", "complex", 8, 24, _FLOAT32.max, _FLOAT32.min, _FLOAT32.smallest_normal),
        DType("complex128", "complex", 16, 53, _FLOAT64.max, _FLOAT64.min, _FLOAT64.smallest_normal),
    )
}
"""Every dtype by name, in the order in which messages list them."""
