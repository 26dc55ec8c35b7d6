"""The state of a search: the simplest case so far that fails in the same way, and how to derive other cases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from kcheck.alarm import TimedOut
from kcheck.errors import KernelError, SpecError
from kcheck.generator import (
    HELD,
    MINIMIZED,
    Expander,
    Support,
    element_type,
    is_held,
    materialize,
    restated,
    shape_of,
    support,
)
from kcheck.minimizer.order import free_dims, recipe_key, values_key, weights
from kcheck.minimizer.returned import are_independent, options_of
from kcheck.minimizer.trials import Candidate, Trials, Values
from kcheck.model import Case, Choices, Distribution, Fault, OpSpec, Range, Scalar
from kcheck.rng import derive as derive_seed
from kcheck.symbolic import ExpressionError, Solver, derive

_CALLS, _ELEMENTS = 5, 64  # how often the function of an input is called, and for how many values at least
_KEPT = 1000  # above the weight of any element


class Search:
    """The shared state of the steps of a search.

    Attributes:
        start: the first case of the search.
        best: the simplest case known to fail in the same way.
        passing: by kind (``dtypes``, ``layouts``, ``params``) and name, simpler values with which it passes.
        fills_that_pass: numbers with which an input was filled, so that it passed.
    """

    def __init__(self, spec: OpSpec, start: Candidate, trials: Trials) -> None:
        self.spec, self.trials = spec, trials
        self.start = self.best = start
        self.free = free_dims(spec)
        self.passing: dict[tuple[str, str], list[str]] = {}
        self.fills_that_pass: set[float] = set()
        self._expander = Expander(spec)
        self._solver = Solver(spec.dims, spec.constraints)
        self._is_free: dict[str, bool] = {}
        self._returned: dict[tuple[str, str], Support | None] = {}
        self._inputs: tuple[Candidate, dict[str, Values]] | None = None

    @property
    def dims(self) -> dict[str, int]:
        """The drawn sizes of the best case."""
        return {name: self.best.case.dims[name] for name in self.free}

    def sizes(self, name: str) -> range | tuple[int, ...]:
        """The sizes that a dim may have, ascending."""
        domain = self.spec.dims[name].domain
        if isinstance(domain, Choices):
            return tuple(sorted(set(domain.values)))
        assert isinstance(domain, Range)
        return range(domain.low, domain.high + 1)

    def legal(self, dims: Mapping[str, int]) -> bool:
        """Whether the spec allows the sizes of all drawn dims, and they meet the constraints."""
        if any(size not in self.sizes(name) for name, size in dims.items()):
            return False
        try:
            return self._solver.satisfied(derive(self.spec.dims, dims))
        except ExpressionError:
            return False

    def with_recipe(
        self,
        *,
        dims: Mapping[str, int] | None = None,
        dtypes: Mapping[str, str] | None = None,
        layouts: Mapping[str, str] | None = None,
        params: Mapping[str, Scalar] | None = None,
        values: Mapping[str, Distribution] | None = None,
        redraw: bool = False,
    ) -> Candidate | None:
        """The best case with a part of its recipe replaced; None if the spec does not allow it.

        Elements set by the search are kept, cut to the new shape.

        Args:
            redraw: make all inputs from the seed again, as in the first case of the search.
        """
        case = self.best.case
        if dims is not None and not self.legal({**self.dims, **dims}):
            return None
        drawn = {**case.values, **(values or {})}
        if redraw:
            drawn = {name: self.start.case.values[name] for name in case.values}
        # The spec must refuse a distribution that is not declared for a dtype (integers for a float).
        case = replace(
            case,
            label=MINIMIZED,
            dims={**case.dims, **(dims or {})},
            dtypes={**case.dtypes, **(dtypes or {})},
            layouts={**case.layouts, **(layouts or {})},
            params={**case.params, **(params or {})},
            values=drawn,
        )
        try:
            case = restated(self._expander, self.spec, case)
            held = {
                name: self._fitted(case, name, array)
                for name, array in self.best.held.items()
                if case.values[name].name == HELD
            }
        except SpecError:
            return None
        return Candidate(case, held)

    def reseeded(self, candidate: Candidate, number: int = 0) -> Candidate:
        """The same recipe with values from another seed. ``number``: which one."""
        seed = derive_seed(candidate.case.seed, f"values_{number}")
        return replace(candidate, case=replace(candidate.case, seed=seed))

    def redrawn(self, candidate: Candidate, number: int) -> Candidate | None:
        """A candidate with the values that another seed draws; None if they cannot be set."""
        try:
            drawn = self._values_of(self.reseeded(candidate, number))
        except (SpecError, KernelError):
            return None
        held = {name: values for name, values in drawn.items() if self.support(name, candidate.case) is not None}
        return self.with_values(held, candidate) if held else None

    def with_values(self, held: Mapping[str, Values], base: Candidate | None = None) -> Candidate:
        """A case (default: the best one) with elements of inputs set, each to an array of the input's shape."""
        case = (base or self.best).case
        values = {name: Distribution(HELD) if name in held else drawn for name, drawn in case.values.items()}
        return Candidate(replace(case, label=MINIMIZED, values=values), {**(base or self.best).held, **held})

    def support(self, name: str, case: Case) -> Support | None:
        """The allowed elements of an input: None if they must not be changed one by one.

        They come from the distribution that the failing case drew, or, if its elements depend on each other, from
        the first declared one in which they do not. Those of a function are others that it returned.
        """
        array = self.spec.inputs[name]
        dtype = element_type(array, case.dtypes)
        env = {**case.dims, **case.params}
        declared = [self.start.case.values[name], *array.values]
        if declared[0].name == HELD:
            declared = declared[1:] or [Distribution("integers" if not dtype.is_inexact else "normal")]
        if declared[0].name == "from":
            return self._returned_by(name, case)
        return next((found for each in declared if (found := support(each, dtype, env)) is not None), None)

    def _returned_by(self, name: str, case: Case) -> Support | None:
        """The elements that the function of an input returns at the sizes of a case."""
        if name not in self._is_free:
            self._is_free[name] = bool(made := self._calls(name, self.start.case)) and are_independent(made)
        if not self._is_free[name]:
            return None
        key = name, repr((dict(case.dims), dict(case.dtypes)))
        if key not in self._returned:
            made = self._calls(name, case)
            self._returned[key] = options_of(made) if made else None
        return self._returned[key]

    def _calls(self, name: str, case: Case) -> list[Values]:
        """What the function of an input returns for several seeds; more of them for a small array."""
        case, made = replace(case, values=self.start.case.values), list[Values]()
        if is_held(case):
            return []
        try:
            while len(made) < _CALLS or (made[0].size and len(made) * made[0].size < _ELEMENTS):
                seed = derive_seed(case.seed, f"values_{len(made)}") if made else case.seed
                arrays = materialize(self.spec, replace(case, seed=seed), limit=self.trials.timeout)
                made.append(arrays.allocation(name).view())
        except (SpecError, KernelError, TimedOut):
            return []  # another array of the case cannot be made
        return made

    def inputs(self, candidate: Candidate | None = None) -> dict[str, Values]:
        """The elements of every input of a case (default: the best one); read-only."""
        candidate = candidate or self.best
        if self._inputs is None or self._inputs[0] is not candidate:
            arrays = materialize(self.spec, candidate.case, candidate.held)
            self._inputs = candidate, {name: arrays.allocation(name).view() for name in self.spec.inputs}
        return self._inputs[1]

    def attempt(self, candidate: Candidate | None) -> bool:
        """Try a candidate; it becomes the best case if it fails the same way and is simpler.

        Raises:
            Spent: no more runs.
        """
        if candidate is None or not self.simpler(candidate) or not self.trials.fails(candidate):
            return False
        self.best = candidate
        return True

    def simpler(self, candidate: Candidate) -> bool:
        """Whether a candidate is simpler than the best case."""
        one, other = recipe_key(self.spec, candidate.case), recipe_key(self.spec, self.best.case)
        if one != other:
            return one < other
        try:
            mine = values_key(candidate.case, dict(self._values_of(candidate)))
        except (SpecError, KernelError, TimedOut):
            return False  # it has no values
        return mine < values_key(self.best.case, self.inputs())

    def _values_of(self, candidate: Candidate) -> dict[str, Values]:
        arrays = materialize(self.spec, candidate.case, candidate.held, self.trials.timeout)
        return {name: arrays.allocation(name).view() for name in self.spec.inputs}

    def cropped(self, candidate: Candidate, *, heaviest: bool) -> Candidate | None:
        """A candidate of smaller shapes with parts of the best case's inputs; None if that is impossible.

        Args:
            heaviest: keep the elements of the highest weight, such as NaN, instead of the first ones.
        """
        inputs = self.inputs()
        kept = self._heaviest(inputs, candidate.case.dims) if heaviest else {}
        held: dict[str, Values] = {}
        for name, values in inputs.items():
            array = self.spec.inputs[name]
            shape = shape_of(array, candidate.case.dims)
            if self.support(name, candidate.case) is None or any(
                new > old for new, old in zip(shape, values.shape, strict=True)
            ):
                continue
            part = values
            for axis, extent in enumerate(shape):
                places = kept.get(array.shape[axis].text, np.arange(extent))
                part = np.take(part, places, axis=axis)
            held[name] = self._fitted(candidate.case, name, part)
        return self.with_values(held, candidate) if held else None

    def _heaviest(self, inputs: Mapping[str, Values], dims: Mapping[str, int]) -> dict[str, Values]:
        """For each dim that shrinks: the indices along it, ascending, with the heaviest elements in all inputs."""
        total: dict[str, Values] = {}
        for name, values in inputs.items():
            allowed = self.support(name, self.best.case)
            heavy = weights(values)
            if allowed is not None:  # elements cleared by a search weigh least
                heavy = heavy + _KEPT * (values != np.array(allowed.plain()[0]).astype(values.dtype))
            for axis, extent in enumerate(self.spec.inputs[name].shape):
                if extent.text in dims:
                    along = heavy.sum(axis=tuple(other for other in range(heavy.ndim) if other != axis))
                    total[extent.text] = total.get(extent.text, 0) + along
        return {name: np.sort(np.argsort(-along, kind="stable")[: dims[name]]) for name, along in total.items()}

    def _fitted(self, case: Case, name: str, array: Values) -> Values:
        """Elements cropped to an input's shape in a case, in its dtype, and replaced where they are not allowed.

        Raises:
            SpecError: the shape has no extents.
        """
        allowed, shape = self.support(name, case), shape_of(self.spec.inputs[name], case.dims)
        if allowed is None and self.start.case.values[name].name == "from":
            raise SpecError(
                [Fault(self.spec.inputs[name].span, f"the elements of {name} at these sizes are unknown")]
            )
        dtype = element_type(self.spec.inputs[name], case.dtypes)
        kept: tuple[Any, ...] = tuple(slice(0, extent) for extent in shape)
        array = array[(*kept, ...)]
        for axis, extent in enumerate(shape):
            if array.shape[axis] < extent:  # a dim grew while another one shrank
                more = [(0, extent - have if at == axis else 0) for at, have in enumerate(array.shape)]
                array = np.pad(array, more, mode="wrap" if array.size else "constant")
        with np.errstate(over="ignore", invalid="ignore"):
            array = array.astype(dtype.numpy)
        if allowed is not None and array.dtype.kind != "c":
            wide: Any = array.astype(np.float64).reshape(-1)
            out = [at for at, number in enumerate(wide) if np.isfinite(number) and float(number) not in allowed]
            if out:
                array = array.copy()
                array.reshape(-1)[out] = allowed.plain()[0]
        return array
