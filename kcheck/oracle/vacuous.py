"""Does a spec test anything? Whether a kernel that computes nothing would pass every case of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from kcheck.model import DType, Finding, OpSpec
from kcheck.oracle import invariants
from kcheck.oracle.compare import compare
from kcheck.oracle.judge import Truth
from kcheck.oracle.reference import ReferenceFailed

if TYPE_CHECKING:
    from kcheck.cases import CaseArrays

Array: TypeAlias = npt.NDArray[Any]

LEAST_CASES = 5
"""Fewer cases with elements say nothing about a spec: softmax of one column is a constant."""


def _copy(arrays: CaseArrays, name: str, dtype: DType) -> Array:
    with np.errstate(all="ignore"):
        return np.array(arrays.allocation(name).view()).astype(dtype.numpy)


class Vacuity:
    """Follows kernels that compute nothing through the cases of a spec, until a case refutes each.

    They write zeros; or one constant per output; or leave in each output a copy of an input of its shape (with
    ``alias``: do nothing). Held against the reference by the spec's own rules, invariants included. Once all are
    refuted, which is nearly always after the first case, observing costs nothing.
    """

    def __init__(self) -> None:
        self._spec: OpSpec | None = None
        self._cases = 0
        self._zeros = True
        self._constant: dict[str, complex] | None = None
        self._constants = True
        self._copies: dict[str, set[str]] | None = None

    @property
    def settled(self) -> bool:
        """Whether nothing is left to refute."""
        return not (self._zeros or self._constants or self._copies is None or all(self._copies.values()))

    def observe(self, spec: OpSpec, arrays: CaseArrays) -> None:
        """Try the candidates that are left on one case. A case whose reference cannot be used says nothing."""
        if self.settled:
            return
        try:
            truth = Truth.of(spec, arrays)
        except ReferenceFailed:
            return
        if not any(array.size for array in truth.expected.values()):
            return
        self._spec = spec
        self._cases += 1
        declared = {name: truth.reference.dtypes[name].numpy for name in spec.outputs}
        shapes = truth.reference.shapes
        if self._zeros:
            self._zeros = self._passes(truth, {name: np.zeros(shapes[name], declared[name]) for name in declared})
        if self._constants:
            self._constants = self._constant_passes(truth, declared)
        self._copies = self._copied(truth, arrays, self._copies)

    def _constant_passes(self, truth: Truth, declared: dict[str, np.dtype[Any]]) -> bool:
        """The constant of an output is the first value that it is expected to have."""
        known = self._constant or {}
        outputs = {}
        with np.errstate(all="ignore"):
            for name, dtype in declared.items():
                expected = truth.expected[name]
                if name not in known and expected.size:
                    known[name] = expected.reshape(-1)[0].item()
                outputs[name] = np.full(expected.shape, known.get(name, 0)).astype(dtype)
        self._constant = known
        return self._passes(truth, outputs)

    def _copied(self, truth: Truth, arrays: CaseArrays, before: dict[str, set[str]] | None) -> dict[str, set[str]]:
        """By output, the inputs of which a copy still passes."""
        spec, reference = truth.spec, truth.reference
        left: dict[str, set[str]] = {}
        for output in spec.outputs:
            dtype, left[output] = reference.dtypes[output], set()
            for name in spec.inputs if before is None else sorted(before[output]):
                alike = reference.dtypes[name].kind == dtype.kind
                if not alike or reference.shapes[name] != reference.shapes[output]:
                    continue
                if self._passes_alone(truth, output, _copy(arrays, name, dtype)):
                    left[output].add(name)
            if not left[output]:  # a kernel has to get every output right
                return {name: set() for name in spec.outputs}
        chosen = {output: sorted(names)[0] for output, names in left.items()}
        copies = {output: _copy(arrays, name, reference.dtypes[output]) for output, name in chosen.items()}
        if invariants.check(invariants.Judged(spec, reference, truth.expected, copies)):
            return {name: set() for name in spec.outputs}
        return left

    @staticmethod
    def _passes_alone(truth: Truth, output: str, actual: Array) -> bool:
        dtype, expected = truth.reference.dtypes[output], truth.expected[output]
        return compare(output, dtype, actual, expected, truth.rule(output), truth.spec.compare).passed

    def _passes(self, truth: Truth, outputs: dict[str, Array]) -> bool:
        if not all(self._passes_alone(truth, name, array) for name, array in outputs.items()):
            return False
        return not invariants.check(invariants.Judged(truth.spec, truth.reference, truth.expected, outputs))

    def findings(self) -> tuple[Finding, ...]:
        """A warning if, over at least LEAST_CASES cases with elements, a kernel that computes nothing passed."""
        if self._spec is None or self._cases < LEAST_CASES:
            return ()
        instead = None
        if self._zeros:
            instead = "zeros"
        elif self._constants and self._constant:
            instead = ", ".join(f"{value!r} in every element of {name}" for name, value in self._constant.items())
        elif self._copies and all(self._copies.values()):
            pairs = [(output, sorted(names)[0]) for output, names in self._copies.items()]
            instead = ", ".join(f"a copy of {name} in {output}" for output, name in pairs)
        if instead is None:
            return ()
        return (
            Finding(
                "vacuous",
                f"a kernel that writes {instead} and computes nothing passes all {self._cases} cases",
                severity="warn",
                mend="tighten the tolerance, or draw values for which the result is not trivial",
                place=self._spec.span,
            ),
        )
