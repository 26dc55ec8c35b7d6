"""A stored case under the current spec: the same recipe, or why that is impossible.

Its seed alone would draw a different case if a dim, a dtype, a layout or a constraint were added. So everything
that was drawn is fixed, as in an example, and only the data is drawn from the seed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from kcheck.errors import SpecError
from kcheck.generator.distributions import ADVERSARIAL, HELD
from kcheck.generator.expand import Expander, element_type, shape_of
from kcheck.generator.values import defaults
from kcheck.model import (
    DTYPES,
    Case,
    Choices,
    Distribution,
    Example,
    Expression,
    Input,
    OpSpec,
    Output,
    Range,
    Snapshot,
)
from kcheck.model.layouts import is_far

MINIMIZED = "minimized"
"""The label of a case that a search derived from a failing case of the same seed: the seed does not draw it."""


class Gone(Exception):
    """The spec no longer has this case.

    Attributes:
        changed: the reasons, a sentence each.
    """

    def __init__(self, changed: tuple[str, ...]) -> None:
        super().__init__("; ".join(changed))
        self.changed = changed


def recall(spec: OpSpec, case: Case, expander: Expander | None = None) -> Case:
    """The case under the current spec, with the same label.

    Args:
        expander: the spec's, if the caller has one.

    Raises:
        Gone: the spec no longer allows it, or would make a different case.
    """
    changed = changes(spec, case)
    if changed:
        raise Gone(tuple(changed))
    try:
        again = restated(expander or Expander(spec), spec, case)
    except SpecError as error:
        raise Gone(tuple(str(fault) for fault in error.faults)) from error
    changed = list(differences(case, again))
    if changed:
        raise Gone(tuple(changed))
    return again


def changes(spec: OpSpec, case: Case) -> list[str]:
    """The reasons why a spec no longer allows a case, as far as its declarations show them; a sentence each."""
    return [*_dims(spec, case), *_dtypes(spec, case), *_arrays(spec, case), *_params(spec, case)]


def restated(expander: Expander, spec: OpSpec, case: Case) -> Case:
    """The same case, with everything that was drawn for it; derived dims and params are computed again.

    Args:
        expander: for the spec.

    Raises:
        SpecError: a constraint does not hold, or an array cannot have the shape, layout or values of the case.
    """
    drawn = {name: value for name, value in case.params.items() if spec.params[name].expr is None}
    sizes = {name: n for name, n in case.dims.items() if not isinstance(spec.dims[name].domain, Expression)}
    held = {name: drawn for name, drawn in case.values.items() if drawn.name == HELD}
    values = {name: drawn for name, drawn in case.values.items() if name not in held}
    stated = Example(spec.span, sizes, case.dtypes, values, case.layouts, drawn)
    again = expander.case(case.seed, case.label, stated)
    return replace(again, spec=spec.path, values={**again.values, **held})


def is_held(case: Case) -> bool:
    """Whether a case needs its snapshot, because some of its values do not come from a distribution."""
    return any(drawn.name == HELD for drawn in case.values.values())


def differences(before: Case, now: Case) -> Iterator[str]:
    """The differences between two cases of a seed, one sentence each."""
    rows: list[tuple[str, Mapping[str, object], Mapping[str, object]]] = [
        ("dim", before.dims, now.dims),
        ("dtype", before.dtypes, now.dtypes),
        ("layout of", before.layouts, now.layouts),
        ("values of", _texts(before.values), _texts(now.values)),
        ("param", before.params, now.params),
    ]
    for what, one, other in rows:
        for name in {**one, **other}:
            if name not in one:
                yield f"{what} {name} is new: {other[name]}"
            elif name not in other:
                yield f"{what} {name} no longer exists; it was {one[name]}"
            elif one[name] != other[name]:
                yield f"{what} {name}: {one[name]} before, {other[name]} now"


def check_fits(spec: OpSpec, taken: Snapshot) -> None:
    """Compare a snapshot's arrays with the current spec.

    Raises:
        Gone: an array has a different shape, dtype or role; arrays, params or outputs in place were added or
            removed.
    """
    changed = []
    held = {array.name: array for array in taken.arrays}
    owned: dict[str, Input | Output] = dict(spec.inputs)
    owned |= {name: output for name, output in spec.outputs.items() if output.alias is None}
    for name, array in owned.items():
        shape, dtype = shape_of(array, taken.case.dims), element_type(array, taken.case.dtypes).name
        role = "output" if isinstance(array, Output) else "input"
        if name not in held:
            changed.append(f"{role} {name} is new")
        elif (held[name].shape, held[name].dtype, held[name].role) != (shape, dtype, role):
            before = f"{held[name].role} of {held[name].dtype} {list(held[name].shape)}"
            changed.append(f"{name} was an {before} and is now an {role} of {dtype} {list(shape)}")
    changed += [f"array {name} no longer exists" for name in held if name not in owned]
    aliases = {name: output.alias for name, output in spec.outputs.items() if output.alias is not None}
    if dict(taken.aliases) != aliases:
        changed.append("the outputs that are computed in place have changed")
    changed += [f"param {name} has changed" for name in set(taken.params) ^ set(spec.params)]
    if changed:
        raise Gone(tuple(changed))


def _dims(spec: OpSpec, case: Case) -> Iterator[str]:
    yield from _names("dim", case.dims, spec.dims)
    for name, size in case.dims.items():
        domain = spec.dims[name].domain if name in spec.dims else None
        if isinstance(domain, Range) and not domain.low <= size <= domain.high:
            yield f"dim {name} = {size} is no longer in {domain.low}..{domain.high}"
        elif isinstance(domain, Choices) and size not in domain.values:
            yield f"dim {name} = {size} is no longer one of {list(domain.values)}"


def _dtypes(spec: OpSpec, case: Case) -> Iterator[str]:
    yield from _names("type variable", case.dtypes, spec.dtypes)
    for name, dtype in case.dtypes.items():
        if name in spec.dtypes and dtype not in spec.dtypes[name].choices:
            yield f"{name} = {dtype} is no longer one of {', '.join(spec.dtypes[name].choices)}"


def _arrays(spec: OpSpec, case: Case) -> Iterator[str]:
    yield from _names("input", case.values, spec.inputs)
    yield from _names("array", case.layouts, {**spec.inputs, **spec.outputs})
    examples = spec.examples
    arrays: dict[str, Input | Output] = {**spec.inputs, **spec.outputs}
    for name, array in arrays.items():
        layout = case.layouts.get(name)
        stated = {example.layouts.get(name) for example in examples}
        known = {*array.layouts, *stated}
        if any(one is not None and is_far(one) for one in known):
            known.add("contiguous")  # an array with many rows cannot have them far apart
        if layout and layout not in known and not _alias(array):
            yield f"{name} no longer has the layout {layout}, but {', '.join(array.layouts)}"
    for name, given in spec.inputs.items():
        drawn = case.values.get(name)
        shown = {str(example.values[name]) for example in examples if name in example.values}
        if drawn is None or drawn.name == HELD or case.dtypes.keys() != spec.dtypes.keys() or str(drawn) in shown:
            continue
        dtype = DTYPES.get(case.dtypes.get(given.dtype, given.dtype))
        if dtype is not None and not any(_may_draw(one, drawn) for one in given.values or defaults(dtype)):
            yield f"{name} is no longer drawn from {drawn}"


def _may_draw(declared: Distribution, drawn: Distribution) -> bool:
    if declared.name == "adversarial":
        return drawn.name in ADVERSARIAL and drawn.argument is None
    inside, within = declared.argument, drawn.argument
    if isinstance(inside, Distribution) and isinstance(within, Distribution):
        return declared.name == drawn.name and _may_draw(inside, within)
    return str(declared) == str(drawn)


def _params(spec: OpSpec, case: Case) -> Iterator[str]:
    yield from _names("param", case.params, spec.params)
    for name, value in case.params.items():
        param = spec.params.get(name)
        stated = {example.params.get(name) for example in spec.examples}
        if param is not None and param.expr is None and value not in param.values and value not in stated:
            yield f"param {name} = {value} is no longer one of {list(param.values)}"


def _names(what: str, before: Mapping[str, object], now: Mapping[str, object]) -> Iterator[str]:
    yield from (f"{what} {name} no longer exists" for name in before if name not in now)
    yield from (f"{what} {name} is new" for name in now if name not in before)


def _alias(array: object) -> bool:
    return isinstance(array, Output) and array.alias is not None


def _texts(values: Mapping[str, Distribution]) -> dict[str, object]:
    return {name: str(drawn) for name, drawn in values.items()}
