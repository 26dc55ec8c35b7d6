"""Properties of the outputs that a spec states (docs/spec.md, ``invariants``).

An expression is evaluated on the outputs as float64, and again on the reference. If the reference violates it
because of a NaN or an infinity, or because the output's dtype overflows, the kernel may violate it there, too. If
the reference violates it with finite values, the invariant is wrong: an error in the spec, not in the kernel.
Without a reference, the outputs alone must satisfy it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from kcheck.dataclass import dataclass
from kcheck.model import DType, Finding, Invariant, OpSpec
from kcheck.model.indexing import first_index
from kcheck.oracle.reference import Known
from kcheck.oracle.rounding import Floats, overflow_threshold
from kcheck.oracle.tolerance import compute_precision
from kcheck.symbolic import ExpressionError, evaluate_arrays, names, parse

Array: TypeAlias = npt.NDArray[Any]
Mask: TypeAlias = npt.NDArray[np.bool_]

WRONG_INVARIANT = "reference"
"""The rule of a finding that blames the spec: it makes the case an error."""


@dataclass(frozen=True, eq=False)
class Judged:
    """What the invariants of a case are checked on.

    Attributes:
        expected: the results of the fp64 reference, by output; empty if the spec has no reference.
        outputs: the kernel's outputs, without those that have unwritten elements. Invariants that name an omitted
            output are not checked.
    """

    spec: OpSpec
    known: Known
    expected: Mapping[str, Array]
    outputs: Mapping[str, Array]


def check(on: Judged) -> list[Finding]:
    """A finding for each invariant that does not hold, at its first wrong element."""
    with np.errstate(all="ignore"):
        return [finding for invariant in on.spec.invariants for finding in _CHECKS[invariant.kind](invariant, on)]


def _chosen(invariant: Invariant, outputs: Mapping[str, Array]) -> list[str]:
    return [name for name in outputs if invariant.array in (None, name)]


def _finding(invariant: Invariant, message: str, array: str | None = None, index: Any = None) -> Finding:
    place = None if index is None else tuple(int(n) for n in index)
    return Finding("invariant", f"{invariant}: {message}", array=array, index=place, place=invariant.span)


def _at(array: str, index: tuple[int, ...]) -> str:
    return f"{array}[{', '.join(map(str, index))}]" if index else array


def _number(value: float) -> str:
    """A number as reports write it: ``NaN`` and ``Inf`` with capitals."""
    return f"{value:.9g}".replace("nan", "NaN").replace("inf", "Inf")


def _finite(invariant: Invariant, on: Judged) -> list[Finding]:
    """No NaN or infinity, except where the reference has one when it is rounded to the output's dtype."""
    findings = []
    for name in _chosen(invariant, on.outputs):
        dtype = on.known.dtypes[name]
        if not dtype.is_inexact:
            continue
        actual = on.outputs[name]
        if dtype.kind != "complex":
            actual = actual.astype(np.float64)
        ideal = on.expected.get(name)
        if ideal is None:
            wrong = ~np.isfinite(actual)
        else:
            largest = np.maximum(np.abs(ideal.real), np.abs(ideal.imag))
            wrong = np.isnan(actual) & np.isfinite(largest)
            wrong |= np.isinf(actual) & (largest < overflow_threshold(dtype))
        if wrong.any():
            index = first_index(wrong)
            count = int(np.count_nonzero(wrong))
            message = f"{_at(name, index)} is {_number(actual[index])}"
            message += "" if ideal is None else f" where the reference is {ideal[index]:.6g}"
            message += f" ({count} such elements)" if count > 1 else ""
            findings.append(_finding(invariant, message, name, index))
    return findings


def _shape_preserved(invariant: Invariant, on: Judged) -> list[Finding]:
    """Every output has the shape of the first input that the spec declares."""
    if not on.spec.inputs:
        return []
    first = next(iter(on.spec.inputs))
    shape = on.known.shapes[first]
    return [
        _finding(invariant, f"{name} has shape {list(array.shape)}, but input {first} has {list(shape)}", name)
        for name, array in on.outputs.items()
        if array.shape != shape
    ]


def _non_negative(invariant: Invariant, on: Judged) -> list[Finding]:
    """No element below zero. -0.0 is not below zero; a NaN is left to the comparison."""
    findings = []
    for name in _chosen(invariant, on.outputs):
        actual = on.outputs[name].astype(np.float64) if on.known.dtypes[name].is_float else on.outputs[name]
        if actual.dtype.kind == "c":
            continue
        wrong = actual < 0
        if wrong.any():
            index = first_index(wrong)
            findings.append(_finding(invariant, f"{_at(name, index)} is {actual[index]:.9g}", name, index))
    return findings


def _normalized(invariant: Invariant, on: Judged) -> list[Finding]:
    """Sums to 1 along the axis, within ``(4 u_out + (n + 8) u_compute) * sum(abs) + n * u_out * smallest normal``.

    Each element is rounded once (u_out), and all are divided by a sum of n terms, whose relative error is at most
    n u_compute (Higham, Accuracy and Stability of Numerical Algorithms, 4.2: any order of summation). The last
    term is for underflow. Rows in which the reference is not finite are skipped, and so is an axis of length 0.
    """
    findings = []
    for name in _chosen(invariant, on.outputs):
        dtype, actual = on.known.dtypes[name], on.outputs[name]
        if not -actual.ndim <= invariant.axis < actual.ndim:
            message = f"{name} has {actual.ndim} axes, so axis {invariant.axis} is out of range"
            findings.append(Finding(WRONG_INVARIANT, f"{invariant}: {message}", place=invariant.span))
            continue
        count = actual.shape[invariant.axis]
        if count == 0 or not dtype.is_float:
            continue
        compute = compute_precision(on.spec, dtype).unit_roundoff
        wide = actual.astype(np.float64)
        relative = 4 * dtype.unit_roundoff + (count + 8) * compute
        allowed = relative * np.abs(wide).sum(axis=invariant.axis)
        allowed = allowed + count * dtype.unit_roundoff * dtype.smallest_normal
        sums = wide.sum(axis=invariant.axis)
        right = np.asarray(on.expected[name].sum(axis=invariant.axis) if on.expected else np.ones_like(sums))
        judged = np.isfinite(right)
        broken = judged & (np.abs(right - 1.0) > relative)
        if broken.any():
            findings.append(_not_of_reference(invariant, name, f"it sums to {right[first_index(broken)]:.9g}"))
            continue
        wrong = np.asarray(judged & ~(np.abs(sums - 1.0) <= allowed))
        if wrong.any():
            row = first_index(wrong)
            where = list(row)
            where.insert(invariant.axis % actual.ndim, 0)
            message = f"{name} sums to {_number(np.asarray(sums)[row])} along axis {invariant.axis} at {list(row)}"
            findings.append(_finding(invariant, message, name, where))
    return findings


def _symmetric(invariant: Invariant, on: Judged) -> list[Finding]:
    """The last two axes may be swapped: ``abs(y - y.T) <= 2 u_out abs(y) + 4 sqrt(n) u_compute max(abs(y))``.

    Both elements are rounded (u_out), and may have been summed in different orders. n is the longest axis of any
    input or output, and the largest element of the matrix stands for the terms of the sums. The element opposite a
    NaN must be NaN. Elements whose reference is not finite are not checked.
    """
    findings = []
    longest = max((n for shape in on.known.shapes.values() for n in shape), default=1)
    for name in _chosen(invariant, on.outputs):
        dtype, actual = on.known.dtypes[name], on.outputs[name]
        if actual.ndim < 2 or actual.shape[-1] != actual.shape[-2]:
            message = f"{name} has shape {list(actual.shape)}, whose last two axes cannot be swapped"
            findings.append(Finding(WRONG_INVARIANT, f"{invariant}: {message}", place=invariant.span))
            continue
        if actual.size == 0:
            continue
        wide = actual.astype(np.float64) if dtype.kind == "float" else actual
        mirror = np.swapaxes(wide, -1, -2)
        same = (wide == mirror) | ((wide != wide) & (mirror != mirror))
        allowed: Floats | float = 0.0
        if dtype.is_inexact:
            magnitude = np.abs(np.where(np.isfinite(wide), wide, 0.0))
            scale = magnitude.max(axis=(-1, -2), keepdims=True)
            noise = 4 * np.sqrt(longest) * compute_precision(on.spec, dtype).unit_roundoff
            allowed = 2 * dtype.unit_roundoff * np.maximum(magnitude, np.swapaxes(magnitude, -1, -2))
            allowed = allowed + noise * scale + 2 * dtype.unit_roundoff * dtype.smallest_normal
            same |= np.abs(wide - mirror) <= allowed
        if on.expected:
            same |= ~np.isfinite(on.expected[name])
        if not same.all():
            index = first_index(~same)
            other = (*index[:-2], index[-1], index[-2])
            message = f"{_at(name, index)} is {wide[index]:.9g}, {_at(name, other)} is {wide[other]:.9g}"
            findings.append(_finding(invariant, message, name, index))
    return findings


def _expression(invariant: Invariant, on: Judged) -> list[Finding]:
    assert invariant.expression is not None
    try:
        node = parse(invariant.expression.text)
        used = names(node)
        if any(name in on.spec.outputs and name not in on.outputs for name in used):
            return []
        actual = {name: _wide(array) for name, array in on.outputs.items()}
        holds = np.asarray(evaluate_arrays(node, {**on.known.values, **actual}), np.bool_)
        ideal = np.ones_like(holds)
        if on.expected:
            ideal = np.asarray(evaluate_arrays(node, {**on.known.values, **on.expected}), np.bool_)
    except ExpressionError as error:
        fix = f"; {error.fix}" if error.fix else ""
        return [Finding(WRONG_INVARIANT, f"{invariant}: {error.what}{fix}", place=invariant.span)]
    if not ideal.all():
        values = [np.asarray({**on.known.values, **on.expected}[name]) for name in used]
        if all(np.isfinite(value).all() for value in values if value.dtype.kind in "fc"):
            return [_not_of_reference(invariant, None, f"at {list(first_index(~ideal))}" if ideal.ndim else "")]
    wrong = np.asarray(~holds & ideal)
    stored = {name: _stored(array, on.known.dtypes[name]) for name, array in on.expected.items()}
    if wrong.any() and any(stored[name] is not on.expected[name] for name in used if name in stored):
        wrong &= np.asarray(evaluate_arrays(node, {**on.known.values, **stored}), np.bool_)
    if not wrong.any():
        return []
    index = first_index(wrong)
    array = next((name for name in on.outputs if name in used and on.outputs[name].shape == wrong.shape), None)
    message = f"does not hold at {list(index)}" if index else "does not hold"
    if array is not None:
        message += f", where {array} is {_wide(on.outputs[array])[index]:.9g}"
    count = int(np.count_nonzero(wrong))
    message += f" ({count} such elements)" if count > 1 else ""
    return [_finding(invariant, message, array, index if array is not None else None)]


def _stored(expected: Array, dtype: DType) -> Array:
    """The reference with infinities where it overflows the output's dtype."""
    if dtype.kind != "float" or not (np.abs(expected) >= overflow_threshold(dtype)).any():
        return expected
    return np.where(np.abs(expected) >= overflow_threshold(dtype), np.copysign(np.inf, expected), expected)


def _wide(array: Array) -> Array:
    if array.dtype.kind in "biu":
        return array
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def _not_of_reference(invariant: Invariant, array: str | None, detail: str) -> Finding:
    message = f"{invariant}: does not hold for the reference either" + (f": {detail}" if detail else "")
    return Finding(
        WRONG_INVARIANT, message, fix="fix the invariant or the reference", array=array, place=invariant.span
    )


_CHECKS = {
    "finite": _finite,
    "shape_preserved": _shape_preserved,
    "non_negative": _non_negative,
    "normalized": _normalized,
    "symmetric": _symmetric,
    "expression": _expression,
}
