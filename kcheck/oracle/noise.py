"""The noise of one case: how far roundings move the elements of its reference.

It is measured by evaluating the reference as correct kernels might.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from kcheck.model import DType, TensorSum
from kcheck.oracle.arithmetic import Arithmetic
from kcheck.oracle.blocks import blocks
from kcheck.oracle.reference import Reference, ReferenceFailed
from kcheck.oracle.rounded import is_rounded, under
from kcheck.oracle.tensors import tensors_under
from kcheck.rng import derive

Array: TypeAlias = npt.NDArray[Any]
Floats: TypeAlias = npt.NDArray[np.float64]
Mask: TypeAlias = npt.NDArray[np.bool_]

DRAWS = 4
"""How often a reference is evaluated with random errors, unless an element is in doubt."""


class NoiseFloor:
    """How much a correct kernel may differ from the fp64 reference, for one case and one compute precision.

    Evaluates the reference under :class:`Arithmetic`: twice with each operation rounded to nearest and with sums
    in order, from either end; then a few times under random rounding, with the inputs moved by a unit roundoff.
    The largest distance from the fp64 result is the noise. It is evaluated on first use, one evaluation after
    another: most cases do not need it, or not all.
    """

    def __init__(
        self,
        reference: Reference,
        expected: Mapping[str, Array],
        precision: DType,
        seed: int,
        products: DType | None = None,
        sums: TensorSum | None = None,
        flushes: bool = False,
    ) -> None:
        """The arguments after ``expected`` are those of :class:`Arithmetic`."""
        self._reference = reference
        self._expected = expected
        self._precision = precision
        self._seed = seed
        self._products = products
        self._sums = sums
        self._flushes = flushes
        self._noise: dict[str, Floats] = {}
        self._unjudged: dict[str, Mask] = {}
        self._is_rounded = True
        self._hidden = ""
        self.doubted: dict[str, str] = {}
        self.draws = 0
        self.notes: list[str] = []
        self._evaluations = self._evaluate_first()
        self._known = 0  # how many of them are done

    def noise(self, output: str) -> Floats:
        """The noise of each element, after the first DRAWS draws at least."""
        while self._advance():
            pass
        return self._noise[output]

    def unjudged(self, output: str) -> Mask:
        """Where the reference in compute precision is not finite although the fp64 one is."""
        while self._advance():
            pass
        return self._unjudged[output]

    def partial_noise(self, output: str) -> Iterator[Floats]:
        """The noise so far, after one evaluation, two, and so on. It is at most that of :meth:`noise`."""
        if self._known:
            yield self._noise[output]
        while self._advance():
            yield self._noise[output]

    def _advance(self) -> bool:
        """Evaluate the reference again. False if it was evaluated DRAWS times under random rounding."""
        has_more = next(self._evaluations, False) is None
        self._known += has_more
        return has_more

    def _evaluate_first(self) -> Iterator[None]:
        inexact = {name: array for name, array in self._expected.items() if array.dtype.kind in "fc"}
        self._noise = {name: np.zeros(array.size) for name, array in inexact.items()}
        self._unjudged = {name: np.zeros(array.size, np.bool_) for name, array in inexact.items()}
        nearest = self._arithmetic("nearest")
        first = self._evaluate(nearest, self._see)
        modeled = first is not None and nearest.uses > 0
        if not modeled or not self._is_rounded:
            self._hidden = "operations outside NumPy's and PyTorch's arrays"
        elif nearest.unseen:
            self._hidden = f"calls ({', '.join(sorted(nearest.unseen))})"
        self._take(first)
        if modeled:
            yield
            self._take(self._evaluate(self._arithmetic("backwards")))
        elif self._reference.float_inputs:
            self._without_model()
            self._is_rounded = True  # nothing is left to estimate
        for draws in range(1, DRAWS + 1):
            yield
            self.draw(draws)
        yield

    def _take(self, outputs: Mapping[str, Array] | None) -> None:
        """Take the outputs of a reference without random errors."""
        if outputs is None:
            return
        # In float64 the reference's own order of summation is as good as any other. If it overflows although
        # every input is finite, a kernel may overflow or not.
        own = self._precision.precision == 53 and self._reference.finite_inputs
        for name, mask in self._unjudged.items():
            mask |= (own | np.isfinite(self._expected[name].ravel())) & ~np.isfinite(outputs[name].ravel())
        self._widen(outputs)

    def _see(self, result: object) -> None:
        self._is_rounded = is_rounded(result)

    def coarse(self, output: str) -> Floats | None:
        """The noise if roundings were not seen; None if all were."""
        return None if self._is_rounded else np.maximum(self._noise[output], self._growth(output))

    def note_coarse(self) -> None:
        """Note that a verdict depends on :meth:`coarse`."""
        note = (
            f"{self._reference.spec.reference} returns plain arrays or Python's floats, which may hide rounding "
            "errors, so they were estimated more coarsely; arrays made from its arguments, as by np.zeros_like(), "
            "make `conditioned` more precise"
        )
        if note not in self.notes:
            self.notes.append(note)

    def doubt(self, output: str) -> float | None:
        """What the rounding of one intermediate value may be that is as large as the largest number of the inputs
        and the output; None if the reference's operations are all seen."""
        if not self._hidden:
            return None
        given = (self._reference.values[name] for name in self._reference.float_inputs)
        magnitudes = (np.abs(array[np.isfinite(array)]) for array in (*given, self._expected[output]))
        return self._precision.unit_roundoff * max(float(each.max(initial=0.0)) for each in magnitudes)

    def note_doubt(self, output: str) -> None:
        """Note that a verdict depends on :meth:`doubt`."""
        self.doubted[output] = self._hidden

    def _arithmetic(self, mode: Literal["nearest", "backwards", "random"], seed: int = 0) -> Arithmetic:
        return Arithmetic(self._precision, mode, seed, self._products, self._sums, self._flushes)

    def draw(self, until: int) -> None:
        """Evaluate under random rounding until there are this many draws."""
        while self.draws < until:
            seed = derive(self._seed, f"oracle/draw/{self.draws}")
            outputs = self._evaluate(self._arithmetic("random", seed))
            if outputs is not None:
                self._widen(outputs)
            self.draws += 1

    def _widen(self, outputs: Mapping[str, Array]) -> None:
        for name, noise in self._noise.items():
            one, other = outputs[name].ravel(), self._expected[name].ravel()
            for part in blocks(noise.size):
                with np.errstate(all="ignore"):
                    moved = np.abs(one[part] - other[part])
                np.maximum(noise[part], np.where(np.isfinite(moved), moved, 0.0), out=noise[part])

    def _evaluate(
        self, arithmetic: Arithmetic, see: Callable[[object], None] | None = None
    ) -> dict[str, Array] | None:
        with tensors_under(arithmetic):
            try:
                return self._reference.call(lambda array: under(arithmetic, array), see)
            except ReferenceFailed:
                pass  # it does not accept the array type that rounds; its inputs can still be moved
            if arithmetic.mode != "random":
                return None
            try:
                return self._reference.call(arithmetic.given)
            except ReferenceFailed:
                return None

    def _without_model(self) -> None:
        """No operation of the reference could be rounded: evaluate it on inputs cast to the compute precision, and
        let an element move by :meth:`_growth`."""
        self.notes.append(
            f"the rounding errors of {self._reference.spec.reference} were estimated from its inputs alone, "
            "because it computes outside NumPy's array functions (np.asarray, a compiled function); plain "
            "NumPy, or PyTorch on CPU tensors, makes `conditioned` more precise"
        )
        narrow = self._precision.numpy

        def cast(array: Array) -> Array:
            return array.astype(np.complex64 if array.dtype.kind == "c" and narrow.itemsize < 8 else narrow)

        if not any(array.dtype.kind == "c" for array in self._expected.values()):
            try:
                outputs = self._reference.call(cast)
            except ReferenceFailed:
                outputs = None
            if outputs is not None:
                self._widen(outputs)
        for name, noise in self._noise.items():
            np.maximum(noise, self._growth(name), out=noise)

    def _growth(self, output: str) -> Floats:
        """How far an element moves by as many roundings as the longest axis of an input has elements."""
        length = max((n for name in self._reference.float_inputs for n in self._reference.shapes[name]), default=1)
        magnitude = np.abs(self._expected[output].ravel())
        growth = self._precision.unit_roundoff * np.sqrt(length) * magnitude
        return np.where(np.isfinite(growth), growth, 0.0)
