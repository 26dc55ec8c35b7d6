"""Expands a case seed to a case: dims, dtypes, layouts, distributions and params, each from a separate stream.

The streams are named ``dims/N``, ``dtypes/T``, ``layouts/x``, ``values/x``, ``params/p`` (docs/spec.md, "Seeds"),
so that adding an array or a param to a spec does not change the other draws. No array is made here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from kcheck.errors import SpecError
from kcheck.generator.corners import Corners, corner_of
from kcheck.generator.distributions import Palette, sign_of_offset
from kcheck.generator.far import MOST_ROWS, far_axis
from kcheck.generator.huge import HUGE, HugeSizes, huge_count
from kcheck.generator.layouts import ArrayGeometry, geometry
from kcheck.generator.rounding import DrawError, scalar
from kcheck.generator.shapes import Shapes
from kcheck.generator.values import check_legal, concrete, free_axes, resolve
from kcheck.model import (
    DTYPES,
    LEAST_AXES,
    Case,
    Distribution,
    DType,
    Example,
    Fault,
    Input,
    OpSpec,
    Output,
    Param,
    Scalar,
)
from kcheck.model.layouts import is_far, layout_kind, shown_layout
from kcheck.rng import Xorshift128Plus, derive
from kcheck.symbolic import SIZEOF, ExpressionError, dependency_order, evaluate, evaluate_size, parse

MOST_CHOICES = 8
"""The values of a param are covered one by one if there are at most this many. A longer list is treated as a
sample of a range."""


class Expander:
    """One spec, ready to be expanded many times.

    Raises:
        ExpressionError: an invalid expression (validation has already rejected such a spec).
    """

    def __init__(self, spec: OpSpec) -> None:
        self._spec = spec
        self._shapes = Shapes(spec)
        self._huge = HugeSizes(spec)
        self._corners = Corners(spec, self._elements, self._drawn)
        expressions = {name: param.expr.text for name, param in spec.params.items() if param.expr is not None}
        self._derived_params = tuple(spec.params[name] for name in dependency_order(expressions))

    def case(self, seed: int, label: str, example: Example | None = None) -> Case:
        """The case of a seed. What an example states is used unchanged; the rest is drawn.

        Raises:
            SpecError: no sizes satisfy the constraints; a param has no value; an array has a negative extent, or
                a layout or distribution that it does not support.
        """
        spec = self._spec
        stated = example if example is not None else Example(spec.span)
        corner = corner_of(seed) if example is None else None
        if corner in HUGE:
            dims = self._huge.sizes(HUGE.index(corner))
        else:
            dims = self._corners.sizes(corner) if corner is not None else None
        if dims is None:
            dims = self._shapes.draw(seed, stated.dims, stated.span)
        dtypes = {
            name: stated.dtypes.get(name) or _stream(seed, "dtypes", name).choice(variable.choices)
            for name, variable in spec.dtypes.items()
        }
        ties = Palette(derive(seed, "palette")).has_ties
        values = {
            name: self._distribution(seed, array, stated, element_type(array, dtypes), ties)
            for name, array in spec.inputs.items()
        }
        layouts: dict[str, str] = {}
        arrays: dict[str, Input | Output] = {**spec.inputs, **spec.outputs}
        for name, array in arrays.items():
            if isinstance(array, Output) and array.alias is not None:
                layouts[name] = layouts[array.alias]
            else:
                layouts[name] = self._layout(seed, array, stated, values.get(name), dims)
        if corner in HUGE:
            layouts = dict.fromkeys(layouts, "contiguous")
        params = self._params(seed, dims, dtypes, stated)
        return Case(spec.path, spec.op, label, seed, dims, dtypes, layouts, values, params)

    @property
    def has_ordinary(self) -> bool:
        """Whether any sizes fit in memory."""
        return self._shapes.some_fit

    def huge_cases(self, count: int) -> list[str]:
        """The words of the huge cases that a run of ``count`` generated cases adds."""
        return [word for n, word in enumerate(HUGE[: huge_count(count)]) if self._huge.sizes(n) is not None]

    def has_corner(self, corner: str) -> bool:
        """Whether the spec has one of CORNERS, and it differs from those before it."""
        return self._corners.sizes(corner) is not None

    def _elements(self, sizes: Mapping[str, int]) -> int:
        arrays: list[Input | Output] = [*self._spec.inputs.values(), *self._spec.outputs.values()]
        try:
            return sum(math.prod(shape_of(array, sizes)) for array in arrays)
        except SpecError:  # a shape has no extents at these sizes
            return 0

    def _drawn(self, seed: int) -> dict[str, int] | None:
        try:
            return self._shapes.draw(seed, {}, self._spec.span)
        except SpecError:
            return None

    def coordinates(self, case: Case) -> tuple[tuple[str, str], ...]:
        """The properties of a case that are covered in pairs: (factor, value), in a fixed order of factors."""
        classes = self._shapes.classes(case.dims)
        return (
            *((f"dim {name}", found) for name, found in classes.items()),
            *((f"dtype {name}", drawn) for name, drawn in case.dtypes.items()),
            *((f"layout {name}", drawn) for name, drawn in case.layouts.items()),
            *((f"values {name}", self._shown_values(case, name)) for name in case.values),
            *((f"param {name}", repr(drawn)) for name, drawn in case.params.items() if self._is_choice(name)),
        )

    def _shown_values(self, case: Case, array: str) -> str:
        """The name of an array's distribution. A bug may show at one sign of ``offset`` only, so the sign is part
        of it."""
        drawn = case.values[array]
        if drawn.name != "offset" or drawn.argument is not None:
            return drawn.name
        owner = self._spec.inputs[array]
        try:
            shape = shape_of(owner, case.dims)
        except SpecError:  # it has no extents at these sizes, which is reported where the array is made
            return drawn.name
        shape = drawn_shape(shape, place_of(self._spec, case, owner, shape))
        sign = sign_of_offset(data_stream(case.seed, array), math.prod(shape))
        return f"{drawn.name} {'below' if sign < 0 else 'above'} 0"

    def _is_choice(self, name: str) -> bool:
        """Whether a param, such as a flag, has few values, so that each is combined with everything else."""
        return 1 < len(self._spec.params[name].values) <= MOST_CHOICES

    def _distribution(self, seed: int, array: Input, stated: Example, dtype: DType, ties: bool) -> Distribution:
        stream = _stream(seed, "values", array.name)
        given = stated.values.get(array.name)
        chosen = resolve(array.values, dtype, stream, ties=ties) if given is None else concrete(given, stream)
        try:
            check_legal(chosen, dtype)
        except DrawError as error:
            raise _refusal(error, f"input {array.name!r}", chosen, array) from None
        return chosen

    def _layout(
        self,
        seed: int,
        array: Input | Output,
        stated: Example,
        distribution: Distribution | None,
        dims: Mapping[str, int],
    ) -> str:
        """One of the declared layouts that the array supports. An array with too many rows for the only one, which
        is ``far``, is contiguous."""
        given = stated.layouts.get(array.name)
        declared = array.layouts if given is None else (given,)
        rank = len(array.shape)
        legal = tuple(
            layout
            for layout in declared
            if rank >= LEAST_AXES[layout_kind(layout)]
            and (layout != "broadcast" or self._may_repeat(array, distribution))
        )
        if not legal:
            axes = "1 axis" if rank == 1 else f"{rank} axes"
            what = f"{array.name!r} with {axes} cannot have the layout {', '.join(declared)}"
            if "broadcast" in declared and rank:
                what += " (the kernel writes it, or its values must differ along every axis)"
            place = array.span if given is None else stated.span
            raise SpecError([Fault(place, what, "add 'contiguous' to its layouts")])
        if any(map(is_far, legal)):
            rows = self._far_rows(array, dims)
            if rows > MOST_ROWS and given is not None:
                what = f"{array.name!r} cannot have the layout {shown_layout(given)}: it has {rows:,} rows"
                raise SpecError([Fault(stated.span, what, f"at most {MOST_ROWS:,} rows can be far apart")])
            if rows > MOST_ROWS:
                legal = tuple(layout for layout in legal if not is_far(layout)) or ("contiguous",)
        return _stream(seed, "layouts", array.name).choice(legal)

    def _far_rows(self, array: Input | Output, dims: Mapping[str, int]) -> int:
        """How many rows of an array would be far apart."""
        shape = shape_of(array, dims)
        axis = far_axis(self._spec, array.name, shape)
        return 0 if axis is None else math.prod(shape[: axis + 1])

    def _may_repeat(self, array: Input | Output, distribution: Distribution | None) -> bool:
        """Whether elements of an array may share memory: nothing writes them, and the values allow it."""
        spec = self._spec
        written = isinstance(array, Output) or array.name in spec.mutates
        written = written or any(output.alias == array.name for output in spec.outputs.values())
        return not written and distribution is not None and bool(free_axes(distribution, len(array.shape)))

    def _params(
        self, seed: int, dims: Mapping[str, int], dtypes: Mapping[str, str], stated: Example
    ) -> dict[str, Scalar]:
        """Every param in the order of the spec; those with an expression may use dims and other params."""
        found: dict[str, Scalar] = {}
        for name, param in self._spec.params.items():
            if name in stated.params:
                found[name] = stated.params[name]
            elif param.expr is None:
                found[name] = _stream(seed, "params", name).choice(param.values)
        for param in self._derived_params:
            if param.name not in found and param.expr is not None:
                try:
                    known = {**dims, **found, **type_sizes(dtypes)}
                    found[param.name] = evaluate(parse(param.expr.text), known)
                except ExpressionError as error:
                    what = f"param {param.name!r}: {error.what} for {_shown(dims)}"
                    fix = error.fix or "add a constraint that excludes such dims"
                    raise SpecError([Fault(param.expr.span, what, fix)]) from None
        return {name: found[name] for name in self._spec.params}


def is_sampled(spec: OpSpec, case: Case) -> bool:
    """Whether a case is a sampled launch: a huge one, whose arrays do not fit in memory."""
    return corner_of(case.seed) in HUGE and HugeSizes(spec).is_huge(case.dims)


def expand(spec: OpSpec, seed: int, label: str = "seed") -> Case:
    """The case of one seed: a pure function of the spec and the seed.

    Args:
        seed: the 64-bit case seed.
        label: the name of the case in reports.

    Raises:
        SpecError: as ``Expander.case``.
    """
    return Expander(spec).case(seed, label)


def geometry_stream(seed: int, array: str, layout: str) -> Xorshift128Plus:
    """The stream for what an array's layout leaves open, named after the layout, under ``layouts/<array>``."""
    return Xorshift128Plus(derive(derive(seed, f"layouts/{array}"), layout))


def palette_of(case: Case) -> Palette:
    """What the arrays of a case share. In half of the cases with infinities or NaN in several arrays, some of
    these are at the same places."""
    palette = Palette(derive(case.seed, "palette"))
    injected = [name for name, drawn in case.values.items() if drawn.name in ("inf_injected", "nan_injected")]
    return replace(palette, shares_specials=len(injected) > 1 and palette.stream("sharing").below(2) == 1)


def data_stream(seed: int, array: str) -> Xorshift128Plus:
    """The stream for an array's values."""
    return _stream(seed, "data", array)


def element_type(named: Input | Output | Param, dtypes: Mapping[str, str]) -> DType:
    """The dtype of an array or param in a case: fixed, or that of its type variable."""
    return DTYPES[dtypes.get(named.dtype, named.dtype)]


def type_sizes(dtypes: Mapping[str, str]) -> dict[str, int]:
    """The value of ``sizeof(T)`` for each type variable of a case."""
    return {f"{SIZEOF}({name})": DTYPES[dtype].itemsize for name, dtype in dtypes.items()}


def shape_of(array: Input | Output, dims: Mapping[str, int]) -> tuple[int, ...]:
    """The shape of an array in a case, in elements.

    Raises:
        SpecError: an extent that is negative, not whole, or has no value.
    """
    extents = []
    for extent in array.shape:
        try:
            extents.append(evaluate_size(parse(extent.text), dims))
        except ExpressionError as error:
            what = f"shape of {array.name!r}: '{extent}': {error.what} for {_shown(dims)}"
            raise SpecError([Fault(extent.span, what, error.fix or "add a constraint on the dims")]) from None
    return tuple(extents)


def place_of(spec: OpSpec, case: Case, array: Input | Output, shape: tuple[int, ...]) -> ArrayGeometry:
    """How the array of a case lies in memory."""
    layout = case.layouts[array.name]
    far = far_axis(spec, array.name, shape) if is_far(layout) else None
    stream = geometry_stream(case.seed, array.name, layout)
    free = free_axes(case.values[array.name], len(shape)) if layout == "broadcast" else ()
    return geometry(shape, element_type(array, case.dtypes).itemsize, layout, stream, free, far)


def drawn_shape(shape: tuple[int, ...], where: ArrayGeometry) -> tuple[int, ...]:
    """The shape of the distinct values: an axis with stride 0 has one."""
    return tuple(
        min(extent, 1) if stride == 0 else extent for extent, stride in zip(shape, where.strides, strict=True)
    )


def rounded_param(param: Param, value: Scalar, dtypes: Mapping[str, str]) -> object:
    """A param as one element of its dtype (a NumPy scalar).

    Raises:
        SpecError: its dtype cannot hold the value.
    """
    try:
        return scalar(value, element_type(param, dtypes))
    except DrawError as error:
        raise SpecError([Fault(param.span, f"param {param.name!r}: {error.what}", error.fix)]) from None


def _refusal(error: DrawError, whose: str, distribution: Distribution, array: Input) -> SpecError:
    return SpecError([Fault(distribution.span or array.span, f"{whose}: {error.what}", error.fix)])


def _shown(dims: Mapping[str, int]) -> str:
    return ", ".join(f"{name}={size}" for name, size in dims.items()) or "no dims"


def _stream(seed: int, kind: str, name: str) -> Xorshift128Plus:
    return Xorshift128Plus(derive(seed, f"{kind}/{name}"))
