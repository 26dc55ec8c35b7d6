"""Elementary functions whose bits do not depend on the machine.

libm and SIMD builds of NumPy differ in the last bit of ``log``, ``exp`` and ``cos``. These functions use only
operations that IEEE 754-2019 rounds correctly or that are exact: + - * / sqrt, comparisons, frexp, ldexp, rint,
each in a separate NumPy call, so that no compiler can contract two into a fused one.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Reals: TypeAlias = npt.NDArray[np.float64]

_SQRT_HALF = 0.7071067811865476
# ln 2 in two parts: the first has 21 trailing zero bits, so that its product with any binary64 exponent is exact.
_LN2_HIGH = float.fromhex("0x1.62e42fee00000p-1")
_LN2_LOW = float.fromhex("0x1.a39ef35793c76p-33")

# log((1 + s) / (1 - s)) = 2 s (1 + s**2/3 + s**4/5 + ...); abs(s) < 0.1716, so the first omitted
# term, s**24/25, is below 2**-65.
_ATANH = tuple(1.0 / (2 * k + 1) for k in range(11, 0, -1))
# exp(x) = sum x**k / k!; abs(x) < 0.3466, so the first omitted term, k = 14, is below 2**-57.
_EXP = tuple(
    1.0 / f for f in (6227020800, 479001600, 39916800, 3628800, 362880, 40320, 5040, 720, 120, 24, 6, 2, 1, 1)
)


def _horner(coefficients: tuple[float, ...], x: Reals) -> Reals:
    """The polynomial with these coefficients, highest power first."""
    total = np.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        np.multiply(total, x, total)
        np.add(total, coefficient, total)
    return total


def log(x: Reals) -> Reals:
    """Natural logarithm of positive, finite, normal float64 values, to about 1 ulp."""
    fraction, exponent = np.frexp(x)
    low = fraction < _SQRT_HALF
    fraction = np.where(low, fraction * 2.0, fraction)
    power = exponent.astype(np.float64) - low
    s = (fraction - 1.0) / (fraction + 1.0)
    square = s * s
    series = 2.0 * s * (square * _horner(_ATANH, square))
    return power * _LN2_HIGH + (2.0 * s + (series + power * _LN2_LOW))


def log2(x: Reals) -> Reals:
    """Base-2 logarithm of positive, finite, normal float64 values, to a few ulps; powers of two are exact."""
    fraction, exponent = np.frexp(x)
    low = fraction < _SQRT_HALF
    fraction = np.where(low, fraction * 2.0, fraction)
    return exponent.astype(np.float64) - low + log(fraction) * 1.4426950408889634


def exp2(x: Reals) -> Reals:
    """2**x for float64 x in [-1022, 1024), to about 1 ulp; integers give exact powers."""
    whole = np.rint(x)
    value = _horner(_EXP, (x - whole) * 0.6931471805599453)
    return np.ldexp(value, whole.astype(np.int32))


# P. J. Wichura, Algorithm AS 241 (PPND16), Applied Statistics 37 (1988) 477-484: numerator and denominator of the
# quantile near the middle, further out, and in the far tail; highest power first.
_MIDDLE = (
    (
        2.5090809287301226727e3, 3.3430575583588128105e4, 6.7265770927008700853e4, 4.5921953931549871457e4,
        1.3731693765509461125e4, 1.9715909503065514427e3, 1.3314166789178437745e2, 3.3871328727963666080e0,
    ),
    (
        5.2264952788528545610e3, 2.8729085735721942674e4, 3.9307895800092710610e4, 2.1213794301586595867e4,
        5.3941960214247511077e3, 6.8718700749205790830e2, 4.2313330701600911252e1, 1.0,
    ),
)  # fmt: skip
_OUTER = (
    (
        7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1, 1.27045825245236838258e0,
        3.64784832476320460504e0, 5.76949722146069140550e0, 4.63033784615654529590e0, 1.42343711074968357734e0,
    ),
    (
        1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2, 1.48103976427480074590e-1,
        6.89767334985100004550e-1, 1.67638483018380384940e0, 2.05319162663775882187e0, 1.0,
    ),
)  # fmt: skip
_TAIL = (
    (
        2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3, 2.65321895265761230930e-2,
        2.96560571828504891230e-1, 1.78482653991729133580e0, 5.46378491116411436990e0, 6.65790464350110377720e0,
    ),
    (
        2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5,
        7.86869131145613259100e-4, 1.48753612908506148525e-2, 1.36929880922735805310e-1,
        5.99832206555887937690e-1, 1.0,
    ),
)  # fmt: skip


def _ratio(rational: tuple[tuple[float, ...], tuple[float, ...]], x: Reals) -> Reals:
    return _horner(rational[0], x) / _horner(rational[1], x)


def normal_quantile(p: Reals) -> Reals:
    """The inverse of the standard normal distribution function, with a relative error of about 1e-15.

    Args:
        p: 1-D float64 in (0, 1), with 1 - p exact (as multiples of 2**-53 are).
    """
    q = p - 0.5
    z = q * _ratio(_MIDDLE, 0.180625 - q * q)
    outside = np.flatnonzero(np.abs(q) > 0.425)
    if outside.size:
        chosen = p[outside]
        r = np.sqrt(-log(np.minimum(chosen, 1.0 - chosen)))
        far = r > 5.0
        tail = _ratio(_OUTER, r - 1.6)
        if far.any():
            tail = np.where(far, _ratio(_TAIL, r - 5.0), tail)
        z[outside] = np.where(chosen < 0.5, -tail, tail)
    return z
