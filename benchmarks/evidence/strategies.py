"""Ways to choose the inputs of a test: those of other tools, and kcheck's.

Each is a function of a spec, a count and a master seed, like ``kcheck.generator.plan``. An input is *open* if its
spec does not restrict its values: only there does a strategy choose the values.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping

from kcheck.errors import SpecError
from kcheck.generator import plan
from kcheck.generator.expand import Expander
from kcheck.generator.shapes import block_tiles, boundary_sizes
from kcheck.model import DTYPES, Case, Choices, Distribution, Example, Input, OpSpec, Output, Range
from kcheck.rng import Xorshift128Plus
from kcheck.rng import derive as derive_seed
from kcheck.symbolic import ExpressionError, derive, evaluate, parse

Sizes = Mapping[str, int]
Strategy = Callable[[OpSpec, int, int], tuple[Case, ...]]

_TRIES = 400
_OPEN = ("normal", "uniform", "adversarial")
_PLAIN = ("normal", "uniform")


def open_inputs(spec: OpSpec) -> list[Input]:
    """Floating-point inputs whose values may be anything, or at least any of the defaults for floats."""
    found = []
    for array in spec.inputs.values():
        dtypes = spec.dtypes[array.dtype].choices if array.dtype in spec.dtypes else (array.dtype,)
        loose = not array.values or any(d.name in _OPEN and d.argument is None for d in array.values)
        if loose and all(DTYPES[name].is_inexact for name in dtypes):
            found.append(array)
    return found


def regular_sizes(domain: Range) -> tuple[int, ...]:
    """Typical test sizes: multiples of the largest tile that fits, or powers of two; ascending."""
    tiles = [tile for tile in domain.tiles if max(1, domain.low) <= tile <= domain.high]
    if tiles:
        step = max(tiles)
        return tuple(range(-(-max(1, domain.low) // step) * step, domain.high + 1, step))
    powers = tuple(1 << n for n in range(domain.high.bit_length()) if max(1, domain.low) <= 1 << n <= domain.high)
    return powers or (domain.high,)


def friendly_sizes(spec: OpSpec) -> dict[str, int]:
    """One friendly shape: every dim its largest regular size up to a cap that all dims share, and the cap the
    largest power of two that the constraints allow: a benchmark's (256, 256, 256) if a spec allows it."""
    sizes: dict[str, tuple[int, ...]] = {}
    for name, dim in spec.dims.items():
        if isinstance(dim.domain, Range):
            sizes[name] = regular_sizes(dim.domain)
        elif isinstance(dim.domain, Choices):
            sizes[name] = tuple(sorted(dim.domain.values))
    for exponent in range(max((max(known) for known in sizes.values()), default=1).bit_length(), -1, -1):
        cap = 1 << exponent
        chosen = {n: max((s for s in known if s <= cap), default=known[0]) for n, known in sizes.items()}
        if _holds(spec, chosen):
            return chosen
    case = Expander(spec).case(derive_seed(0, "friendly"), "friendly")
    return {name: case.dims[name] for name in sizes}


def friendly(spec: OpSpec, count: int, master: int) -> tuple[Case, ...]:
    """The friendly shape, values from a Gaussian, the first dtype, contiguous: each case has other values."""
    sizes = friendly_sizes(spec)
    dtypes = {name: variable.choices[0] for name, variable in spec.dtypes.items()}
    return tuple(_cases(spec, count, master, "friendly", lambda _: sizes, ("normal",), dtypes))


def random_shape(spec: OpSpec, count: int, master: int) -> tuple[Case, ...]:
    """Sizes drawn evenly from each range, any dtype, values from a Gaussian, contiguous."""
    return tuple(_cases(spec, count, master, "random", lambda stream: _even(spec, stream), ("normal",)))


def default(spec: OpSpec, count: int, master: int) -> tuple[Case, ...]:
    """Sizes drawn evenly from each range, any dtype, Gaussian or uniform values, contiguous."""
    return tuple(_cases(spec, count, master, "default", lambda stream: _even(spec, stream), _PLAIN))


def boundary(spec: OpSpec, count: int, master: int) -> tuple[Case, ...]:
    """``default`` with sizes only at the ends of ranges and around tiles, blocks and warps."""
    tiles = block_tiles(spec)
    sizes = {
        name: boundary_sizes(dim.domain, tuple(dict.fromkeys((*dim.domain.tiles, *tiles))))
        for name, dim in spec.dims.items()
        if isinstance(dim.domain, Range)
    }
    return tuple(_cases(spec, count, master, "boundary", lambda stream: _among(spec, sizes, stream), _PLAIN))


def regular(spec: OpSpec, count: int, master: int) -> tuple[Case, ...]:
    """``default`` with only multiples of the tile, or powers of two."""
    ranges = {name: dim.domain for name, dim in spec.dims.items() if isinstance(dim.domain, Range)}
    sizes = {name: regular_sizes(domain) for name, domain in ranges.items()}
    return tuple(_cases(spec, count, master, "regular", lambda stream: _among(spec, sizes, stream), _PLAIN))


def nan_injected(spec: OpSpec, count: int, master: int) -> tuple[Case, ...]:
    """``default`` with a few NaN in every open input."""
    return tuple(_cases(spec, count, master, "nan", lambda stream: _even(spec, stream), ("nan_injected",)))


def adversarial(spec: OpSpec, count: int, master: int) -> tuple[Case, ...]:
    """``default`` with adversarial values in every open input."""
    return tuple(_cases(spec, count, master, "adversarial", lambda stream: _even(spec, stream), ("adversarial",)))


def mix(spec: OpSpec, count: int, master: int) -> tuple[Case, ...]:
    """What ``kcheck run`` tries: the examples, then seeds that cover pairs of sizes, dtypes, layouts, values."""
    return tuple(plan(spec, count=count, master=master))


def of_dtypes(accepted: Callable[[str], bool]) -> Strategy:
    """kcheck's mix with only the dtypes of some kind; no cases for an op that takes none."""

    def cases(spec: OpSpec, count: int, master: int) -> tuple[Case, ...]:
        narrowed = {
            name: dataclasses.replace(variable, choices=tuple(c for c in variable.choices if accepted(c)))
            for name, variable in spec.dtypes.items()
        }
        if not narrowed or not all(variable.choices for variable in narrowed.values()):
            return ()
        examples = tuple(
            e for e in spec.examples if all(d in narrowed[name].choices for name, d in e.dtypes.items())
        )
        narrow = dataclasses.replace(spec, dtypes=narrowed, examples=examples)
        return tuple(plan(narrow, count=count, master=master))

    return cases


STRATEGIES: dict[str, Strategy] = {
    "default": default,
    "boundary": boundary,
    "regular": regular,
    "float32": of_dtypes(lambda name: name == "float32"),
    "16 bits": of_dtypes(lambda name: name in ("float16", "bfloat16")),
    "nan-injected": nan_injected,
    "adversarial": adversarial,
    "mix": mix,
}


def _cases(
    spec: OpSpec,
    count: int,
    master: int,
    name: str,
    draw: Callable[[Xorshift128Plus], Sizes | None],
    values: tuple[str, ...],
    dtypes: Mapping[str, str] | None = None,
) -> Iterator[Case]:
    """Cases one after another, each from separate seeds; contiguous if the spec allows it.

    Args:
        draw: sizes of the drawn dims; None for the sizes that kcheck would draw.
        values: distributions, one of which is drawn for each open input.
    """
    expander = Expander(spec)
    arrays: dict[str, Input | Output] = {**spec.inputs}
    arrays |= {n: o for n, o in spec.outputs.items() if o.alias is None}
    layouts = {n: "contiguous" if "contiguous" in a.layouts else a.layouts[0] for n, a in arrays.items()}
    for number in range(count):
        seed = derive_seed(master, f"{name}_{number}")
        stream = Xorshift128Plus(derive_seed(seed, "strategy"))
        drawn = {array.name: Distribution(stream.choice(values)) for array in open_inputs(spec)}
        sizes = draw(stream)
        example = Example(spec.span, dict(sizes or {}), dict(dtypes or {}), drawn, layouts)
        yield expander.case(seed, f"{name}_{number}", example)


def _even(spec: OpSpec, stream: Xorshift128Plus) -> Sizes | None:
    """Sizes drawn evenly, repeated until the constraints hold; None if they hardly ever do."""
    return _drawn(spec, {}, stream)


def _among(spec: OpSpec, sizes: Mapping[str, tuple[int, ...]], stream: Xorshift128Plus) -> Sizes | None:
    return _drawn(spec, sizes, stream)


def _drawn(spec: OpSpec, sizes: Mapping[str, tuple[int, ...]], stream: Xorshift128Plus) -> Sizes | None:
    for _ in range(_TRIES):
        found: dict[str, int] = {}
        for name, dim in spec.dims.items():
            if isinstance(dim.domain, Choices):
                found[name] = stream.choice(dim.domain.values)
            elif isinstance(dim.domain, Range):
                low, high = dim.domain.low, dim.domain.high
                found[name] = stream.choice(sizes[name]) if name in sizes else low + stream.below(high - low + 1)
        if _holds(spec, found):
            return found
    return None


def _holds(spec: OpSpec, drawn: Sizes) -> bool:
    try:
        whole = derive(spec.dims, drawn)
        return all(bool(evaluate(parse(constraint.text), whole)) for constraint in spec.constraints)
    except (ExpressionError, SpecError):
        return False
