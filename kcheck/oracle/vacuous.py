"""Finds specs that do not test anything: a kernel that computes nothing would pass every case."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice, product
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from kcheck.dataclass import dataclass
from kcheck.model import DType, Finding, OpSpec
from kcheck.oracle import invariants
from kcheck.oracle.compare import is_accepted
from kcheck.oracle.reference import ReferenceFailed
from kcheck.oracle.truth import Expected, Truth

if TYPE_CHECKING:
    from kcheck.generator import CaseArrays

Array: TypeAlias = npt.NDArray[Any]

LEAST_CASES = 5
"""Fewer cases with elements do not say anything about a spec: softmax of one column is a constant."""

_MOST = 64  # kernels to try; only three outputs that accept nearly anything would give more
_ZEROS, _CONSTANT = (
    "",
    "=",
)  # what is written to an output; any other text is the name of the input that is copied
_POINTWISE = frozenset({"finite", "shape_preserved", "non_negative"})


def _cast(value: Any, dtype: DType) -> Array:
    with np.errstate(all="ignore"):
        return np.asarray(value).astype(dtype.numpy)


@dataclass(slots=True)
class _Constant:
    """The constant that has passed so far, and the bounds of all constants that can pass."""

    value: complex | None = None
    low: float = -np.inf
    high: float = np.inf

    def candidates(self, expected: Array, movable: bool) -> list[complex]:
        """The constants to try on a case: the one that has passed so far, then the middle of the bounds."""
        found = [expected.reshape(-1)[0].item() if self.value is None else self.value]
        if (movable or self.value is None) and expected.dtype.kind in "iuf" and self.low <= self.high:
            middle = self.low / 2 + self.high / 2
            found.append(middle if expected.dtype.kind == "f" else round(middle))
        return found


class Vacuity:
    """Tries kernels that compute nothing on the cases of a spec, until some case refutes each of them.

    To each output, such a kernel writes zeros, or one constant, or a copy of an input of its shape (with
    ``alias``, it does nothing). Its outputs are compared with the reference by the spec's own rules, including
    invariants. Once all kernels are refuted, nearly always after the first case, observing costs nothing.
    """

    def __init__(self) -> None:
        self._spec: OpSpec | None = None
        self._cases = 0
        self._constants: dict[str, _Constant] = {}
        self._kernels: list[tuple[str, ...]] | None = None  # what each writes, by output in the order of the spec

    @property
    def settled(self) -> bool:
        """Whether all kernels are refuted."""
        return self._kernels == []

    def observe(self, spec: OpSpec, arrays: CaseArrays, expected: Expected | None = None) -> None:
        """Try the remaining kernels on one case. A case whose reference cannot be used is ignored.

        Args:
            expected: the case's reference results, if the caller has them.
        """
        if self.settled:
            return
        try:
            truth = (expected or Expected(spec, arrays)).truth()
        except ReferenceFailed:
            return
        if not any(array.size for array in truth.expected.values()):
            return
        self._spec = spec
        self._cases += 1
        passing = [self._passing(truth, arrays, place, output) for place, output in enumerate(spec.outputs)]
        if self._kernels is None:
            self._kernels = list(islice(product(*passing), _MOST))
        self._kernels = [
            kernel
            for kernel in self._kernels
            if all(name in alone for name, alone in zip(kernel, passing, strict=True))
            and self._holds(
                truth, {o: alone[name] for o, name, alone in zip(spec.outputs, kernel, passing, strict=True)}
            )
        ]

    def _passing(self, truth: Truth, arrays: CaseArrays, place: int, output: str) -> dict[str, Array]:
        """What the remaining kernels write to an output, if it passes the comparison; zeros first."""
        left = None if self._kernels is None else {kernel[place] for kernel in self._kernels}
        dtype, expected = truth.reference.dtypes[output], truth.expected[output]
        found: dict[str, Array] = {}
        if left is None or _ZEROS in left:
            zeros = np.zeros(expected.shape, dtype.numpy)
            if _passes(truth, output, zeros):
                found[_ZEROS] = zeros
        if left is None or _CONSTANT in left:
            constant = self._constant(truth, output)
            if constant is not None:
                found[_CONSTANT] = constant
        for name in truth.spec.inputs if left is None else sorted(left - {_ZEROS, _CONSTANT}):
            complex_to_real = truth.reference.dtypes[name].kind == "complex" != dtype.kind
            if complex_to_real or truth.reference.shapes[name] != expected.shape:
                continue
            copy = _cast(arrays.allocation(name).view(), dtype)
            if _passes(truth, output, copy):
                found[name] = copy
        return found

    def _constant(self, truth: Truth, output: str) -> Array | None:
        dtype, expected = truth.reference.dtypes[output], truth.expected[output]
        known = self._constants.setdefault(output, _Constant())
        if not expected.size:
            return np.zeros(expected.shape, dtype.numpy)
        if expected.dtype.kind in "iuf":
            flat = expected.reshape(-1)
            allowed = truth.rule(output).allowance(output, flat, np.zeros(flat.shape)).allowed
            finite = np.isfinite(flat)
            wide, allowed = flat[finite].astype(np.float64), allowed[finite]
            known.low = float(np.max(wide - allowed, initial=known.low))
            known.high = float(np.min(wide + allowed, initial=known.high))
        # A new constant is tried only if no invariant would have to be checked again on the earlier cases.
        movable = all(invariant.kind in _POINTWISE for invariant in truth.spec.invariants)
        for value in known.candidates(expected, movable):
            array = _cast(np.full(expected.shape, value), dtype)
            if _passes(truth, output, array):
                known.value = value
                return array
        return None

    @staticmethod
    def _holds(truth: Truth, outputs: Mapping[str, Array]) -> bool:
        return not invariants.check(invariants.Judged(truth.spec, truth.reference, truth.expected, outputs))

    def findings(self) -> tuple[Finding, ...]:
        """A warning if, over at least LEAST_CASES cases with elements, a kernel that computes nothing passed."""
        if self._spec is None or not self._kernels or self._cases < LEAST_CASES:
            return ()
        return (
            Finding(
                "vacuous",
                f"a kernel that writes {self._written(self._kernels[0])} and computes nothing passes all"
                f" {self._cases} cases",
                severity="warn",
                fix="tighten the tolerance, or use values that do not give a trivial result",
                place=self._spec.span,
            ),
        )

    @property
    def undecided(self) -> str:
        """A note if there were too few cases to decide; otherwise empty."""
        if not self._cases or not self._kernels or self._cases >= LEAST_CASES:
            return ""
        have = "only 1 case has" if self._cases == 1 else f"only {self._cases} cases have"
        return (
            f"not checked whether a kernel that computes nothing would pass: {have} elements;"
            f" at least {LEAST_CASES} are needed"
        )

    def _written(self, kernel: tuple[str, ...]) -> str:
        assert self._spec is not None
        if not any(kernel):
            return "zeros"
        parts = []
        for output, name in zip(self._spec.outputs, kernel, strict=True):
            if name == _CONSTANT:
                parts.append(f"{self._constants[output].value or 0!r} in every element of {output}")
            else:
                parts.append(f"{f'a copy of {name}' if name else 'zeros'} in {output}")
        return ", ".join(parts)


def unjudged(spec: OpSpec) -> tuple[Finding, ...]:
    """A warning if a spec without a reference has no other check of its kernel either."""
    if spec.invariants or any(level != "off" for level in spec.sanitize.values()):
        return ()
    what = "nothing is checked: the spec has no reference and no invariants, and every sanitizer is off"
    fix = "add invariants, or remove 'off' from sanitize"
    return (Finding("vacuous", what, severity="warn", fix=fix, place=spec.span),)


def _passes(truth: Truth, output: str, actual: Array) -> bool:
    dtype, expected = truth.reference.dtypes[output], truth.expected[output]
    return is_accepted(output, dtype, actual, expected, truth.rule(output), truth.spec.compare)
