"""Compiles what later cases need, in other processes (:mod:`kcheck.device.precompile`)."""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Sequence
from itertools import islice

from kcheck.device import Device
from kcheck.device.precompile import MOST_CASES, Precompile, begin, run_ahead
from kcheck.generator import materialize
from kcheck.generator.expand import shape_of
from kcheck.generator.specialization import CodeOf, code_of
from kcheck.model import Case, Input, OpSpec, Output

_MOST_ELEMENTS = 1 << 24
"""A case with more is not run ahead: it would take memory twice, and more time than its code."""


def compile_ahead(spec: OpSpec, device: Device, cases: Sequence[Case]) -> Precompile | None:
    """Compile Numba's kernels, for arrays that it types as strided; None if that does not save time."""
    of_numba = spec.kernel is not None and spec.launch is not None and spec.kernel.kind == "numba"
    if not of_numba or not device.compiles_in_process or spec.debug_code:
        return None
    sanitizers = [name for name in device.instruments if spec.sanitize[name] != "off"]
    return begin(spec, cases, sanitizers, any_stride=True)


class CodeAhead:
    """Compiles the code of later cases of a spec once a case had to wait for a compiler, for kernels that are
    compiled again for some values. If the caches are full, nothing is done.

    Args:
        cases: all cases of the spec, in order.
        instrument: the sanitizers for which the first cases are instrumented.
        timeout: seconds for each launch.
    """

    def __init__(
        self,
        spec: OpSpec,
        device: Device,
        cases: Sequence[Case],
        instrument: Collection[str],
        timeout: float | None,
    ) -> None:
        self._spec = spec
        self._device = device
        self._cases = cases
        self._instrument = instrument
        self._timeout = timeout
        self._code: CodeOf | None = code_of(spec) if device.compiles_in_process else None
        self._known = device.compiled if self._code is not None else 0
        self._ahead: Precompile | None = None

    def follow(self, number: int) -> None:
        """Called after a case has run."""
        if self._code is None or self._device.compiled == self._known:
            return
        code, self._code = self._code, None  # once is enough
        firsts: dict[Hashable, Case] = {}
        for case in islice(self._cases, MOST_CASES):
            firsts.setdefault(code(case), case)
        for case in self._cases[: number + 1]:
            firsts.pop(code(case), None)
        small = tuple(case for case in firsts.values() if self._elements(case) <= _MOST_ELEMENTS)
        self._ahead = run_ahead(small, self._run)

    def _elements(self, case: Case) -> int:
        arrays: list[Input | Output] = [*self._spec.inputs.values(), *self._spec.outputs.values()]
        return sum(math.prod(shape_of(array, case.dims)) for array in arrays)

    def _run(self, case: Case) -> None:
        arrays = materialize(self._spec, case)
        self._device.run(self._spec, arrays, timeout=self._timeout, instrument=self._instrument)

    def cancel(self) -> None:
        """End what is still running."""
        if self._ahead is not None:
            self._ahead.cancel()
