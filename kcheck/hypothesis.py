"""Cases of a spec as a Hypothesis strategy: ``pip install hypothesis``.

Hypothesis draws the sizes, dtypes, layouts, distributions and the seed; it shrinks a failing case to small sizes,
the first dtype, the first layout and the first distribution of the spec.
"""

from __future__ import annotations

import hypothesis
from hypothesis import strategies as st

from kcheck.api.drawing import Case
from kcheck.api.spec import SpecLike, model_of
from kcheck.errors import SpecError
from kcheck.generator import Expander
from kcheck.model import Choices, Example, Expression, Input, OpSpec, Output, Range
from kcheck.symbolic import ExpressionError, Solver, derive

__all__ = ["cases"]


def cases(spec: SpecLike) -> st.SearchStrategy[Case]:
    """Return a Hypothesis strategy for the cases of a spec.

    >>> import hypothesis
    >>> import kcheck
    >>> import numpy as np
    >>> @hypothesis.settings(max_examples=5, database=None, derandomize=True, deadline=None)
    ... @hypothesis.given(kcheck.hypothesis.cases("specs/softmax.yaml"))
    ... def test_softmax(case):
    ...     x = case.inputs["x"]
    ...     e = np.exp(np.float32(x) - x.max(axis=1, keepdims=True))
    ...     verdict = case.judge((e / e.sum(axis=1, keepdims=True)).astype(x.dtype))
    ...     assert verdict.passed, verdict
    >>> test_softmax()

    Args:
        spec: a spec, with or without a kernel, or the path of a spec file.

    Raises:
        SpecError: the spec is invalid.
    """
    return _cases(model_of(spec))


def _cases(spec: OpSpec) -> st.SearchStrategy[Case]:
    expander, solver = Expander(spec), Solver(spec.dims, spec.constraints)

    @st.composite
    def drawn(draw: st.DrawFn) -> Case:
        dims = draw(_sizes(spec, solver))
        dtypes = {name: draw(st.sampled_from(variable.choices)) for name, variable in spec.dtypes.items()}
        own: dict[str, Input | Output] = {**spec.inputs}
        own |= {name: output for name, output in spec.outputs.items() if output.alias is None}
        layouts = {name: draw(st.sampled_from(array.layouts)) for name, array in own.items()}
        values = {name: draw(st.sampled_from(array.values)) for name, array in spec.inputs.items() if array.values}
        seed = draw(st.integers(0, 2**64 - 1))
        stated = Example(spec.span, dims=dims, dtypes=dtypes, values=values, layouts=layouts)
        try:
            return Case(spec, expander.case(seed, "hypothesis", stated))
        except SpecError:
            # An array cannot have its layout in this case: draw layouts and values from the seed instead.
            return Case(spec, expander.case(seed, "hypothesis", Example(spec.span, dims=dims, dtypes=dtypes)))

    return drawn()


def _sizes(spec: OpSpec, solver: Solver) -> st.SearchStrategy[dict[str, int]]:
    """Sizes of the dims that are not derived, such that every constraint holds."""
    strategies: dict[str, st.SearchStrategy[int]] = {}
    for name, dim in spec.dims.items():
        if isinstance(dim.domain, Choices):
            strategies[name] = st.sampled_from(sorted(dim.domain.values))
        elif isinstance(dim.domain, Range):
            strategies[name] = st.integers(dim.domain.low, dim.domain.high)
    if not any(isinstance(dim.domain, Expression) for dim in spec.dims.values()) and not spec.constraints:
        return st.fixed_dictionaries(strategies)
    return st.fixed_dictionaries(strategies).map(lambda sizes: _satisfying(spec, solver, sizes, list(strategies)))


def _satisfying(spec: OpSpec, solver: Solver, sizes: dict[str, int], names: list[str]) -> dict[str, int]:
    """The drawn sizes if they satisfy the constraints;
    otherwise sizes that do, with as many of the first drawn sizes as possible."""
    for kept in range(len(names), -1, -1):
        part = {name: sizes[name] for name in names[:kept]}
        try:
            if kept == len(names):
                if solver.satisfied(derive(spec.dims, part)):
                    return part
                continue
        except ExpressionError:
            continue
        found = solver.witness(part)
        if found.status == "found":
            return {name: found.sizes[name] for name in names}
    hypothesis.reject()
