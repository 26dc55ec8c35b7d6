"""How the shapes of a model depend on the numbers of its module, and which numbers it accepts."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol, TypeAlias

from kcheck.dataclass import dataclass
from kcheck.errors import UserError
from kcheck.symbolic import ExpressionError, evaluate, evaluate_size, parse

Axis: TypeAlias = int | str
Sizes: TypeAlias = Mapping[str, int]

_ELEMENTS = 1 << 14
"""The most elements of an array in an ordinary case."""
_GIVEN = 1 << 21
"""The most elements of an array in a case with a size of the file itself."""
_STRIDES, _LONGEST_STRIDE = (2, 3, 4, 5, 6, 8), 32
_ROOM = 4
"""How many times the elements of the smallest array an array may have, if that is more than :data:`_ELEMENTS`."""
_PROBES, _TOGETHER = 24, 12
_LEAST_WEIGHT = 16
"""A number that reaches only weights, such as the width of a filter, is free if it is at least this."""


Shape: TypeAlias = tuple[tuple[int, ...], str]
"""A shape and a dtype; of a number, () and its type."""


@dataclass(frozen=True, slots=True)
class TensorShapes:
    """The shapes at some sizes: of inputs, weights by name, and outputs."""

    inputs: tuple[Shape, ...]
    state: tuple[tuple[str, Shape], ...]
    outputs: tuple[Shape, ...]

    @property
    def axes(self) -> tuple[int, ...]:
        """All sizes of all axes."""
        return tuple(itertools.chain.from_iterable(shape for shape, _ in self.every))

    @property
    def every(self) -> tuple[Shape, ...]:
        """All arrays."""
        return (*self.inputs, *(shape for _, shape in self.state), *self.outputs)


class Shaped(Protocol):
    """A problem whose shapes follow from numbers."""

    @property
    def numbers(self) -> Mapping[str, int]:
        """The numbers that may be sizes."""

    def shapes(self, sizes: Sizes) -> TensorShapes | None:
        """The shapes with these numbers; None if it does not accept them."""


@dataclass(frozen=True, slots=True)
class Fits:
    """Each axis of each array as an expression of dims, and the dims.

    Attributes:
        most: the largest size of each dim.
        examples: sizes that run in any case.
        tried: sizes, and whether the model accepts them.
    """

    most: Mapping[str, int]
    inputs: tuple[tuple[Axis, ...], ...]
    state: tuple[tuple[Axis, ...], ...]
    outputs: tuple[tuple[Axis, ...], ...]
    examples: tuple[Sizes, ...]
    tried: tuple[tuple[Sizes, bool], ...]

    def elements(self, sizes: Sizes) -> int:
        """Of all arrays at sizes."""
        return sum(product_at(axes, sizes) for axes in (*self.inputs, *self.state, *self.outputs))


def product_at(axes: Sequence[Axis], sizes: Sizes) -> int:
    """The elements of an array at sizes."""
    return math.prod(axis if isinstance(axis, int) else int(evaluate_size(parse(axis), sizes)) for axis in axes)


def limits(file: Shaped, own: TensorShapes) -> dict[str, int]:
    """The numbers that are sizes, and the most that each may be in an ordinary case."""
    found = {}
    for name, number in file.numbers.items():
        reaches = _reaches(file, own, name, number)
        if reaches == "input" or (reaches == "weight" and number >= _LEAST_WEIGHT):
            found[name] = number
    arrays = own.every
    most = {}
    for name, number in found.items():
        ranks = [len(shape) for shape, _ in arrays if number in shape] or [max(len(s) for s, _ in arrays)]
        most[name] = max(1, min(number, 2 * round(_ELEMENTS ** (1 / max(ranks)))))
    return most


def _reaches(file: Shaped, own: TensorShapes, name: str, number: int) -> str:
    """Whether a number changes the shape of an input, or only of a weight. If it cannot be changed alone, numbers
    that are equal to it are changed with it."""
    alike = [each for each, value in file.numbers.items() if value == number]
    for names in ((name,), *([alike] if len(alike) > 1 else ())):
        for other in (number + 1, 2 * number, max(1, number // 2)):
            now = file.shapes(dict.fromkeys(names, other)) if other != number else None
            if now is None:
                continue
            if [shape for shape, _ in now.inputs] != [shape for shape, _ in own.inputs]:
                same = all(len(a) == len(b) for (a, _), (b, _) in zip(now.inputs, own.inputs, strict=False))
                return "input" if same and len(now.inputs) == len(own.inputs) else ""
            if len(now.axes) == len(own.axes) and now.axes != own.axes:
                return "weight"
    return ""


def fitted(file: Shaped, most: dict[str, int]) -> Fits:
    """The expressions of all axes. A dim of which some axis is not a simple expression keeps its number.

    Raises:
        UserError: the model accepts no other sizes.
    """
    most = dict(most)
    while True:
        tried = _probed(file, most)
        probes = [(sizes, arrays) for sizes, arrays in tried if arrays is not None]
        unknown = _unexplained(file, most, probes)
        if not unknown or not most:
            break
        del most[unknown]
    own = file.shapes({})
    if own is None or not probes:
        raise UserError("Model accepts no sizes but its own")
    at = [sizes for sizes, _ in probes]
    table = [_axis([arrays.axes[k] for _, arrays in probes], at) for k in range(len(own.axes))]
    rest = iter([size if axis is None else axis for axis, size in zip(table, own.axes, strict=True)])

    examples = tuple(_examples(file, most))
    for name in most:
        most[name] = max(most[name], *(sizes[name] for sizes in examples), 1)

    def take(shape: tuple[int, ...]) -> tuple[Axis, ...]:
        return tuple(itertools.islice(rest, len(shape)))

    return Fits(
        most,
        tuple(take(shape) for shape, _ in own.inputs),
        tuple(take(shape) for _, (shape, _) in own.state),
        tuple(take(shape) for shape, _ in own.outputs),
        examples,
        tuple((sizes, arrays is not None) for sizes, arrays in tried),
    )


def _probed(file: Shaped, most: Mapping[str, int]) -> list[tuple[dict[str, int], TensorShapes | None]]:
    """Shapes at random sizes; the file's own first."""
    source = random.Random(0)
    found: list[tuple[dict[str, int], TensorShapes | None]] = []
    own = {name: file.numbers[name] for name in most}
    tries = [own, {name: max(1, number // 2) for name, number in own.items()}]
    tries += [{name: source.randint(1, 2 * high) for name, high in most.items()} for _ in range(_PROBES)]
    alike = {number: 2 * min(most[name] for name in most if own[name] == number) for number in own.values()}
    for _ in range(_TOGETHER if len(alike) < len(own) else 0):  # numbers that are equal may have to be
        drawn = {number: source.randint(1, high) for number, high in alike.items()}
        tries.append({name: drawn[own[name]] for name in most})
    tries += [{**own, name: source.randint(1, 2 * high)} for name, high in most.items() for _ in range(3)]
    tries += [{**own, name: size} for name in most for size in (1, 2, 3, 4)]
    tries += [dict.fromkeys(most, size) for size in (1, 2, 3)]
    for sizes in tries:
        if sizes not in [each for each, _ in found]:
            found.append((sizes, file.shapes(sizes)))
    return found


def _axis(values: Sequence[int], sizes: Sequence[Sizes]) -> Axis | None:
    """The simplest expression that gives the values at the sizes; None if there is none."""
    if len(set(values)) == 1:
        return values[0]
    texts = _expressions(list(sizes[0]), values[0], sizes[0])
    return next((text for text in texts if _gives(text, values, sizes)), None)


def _gives(text: str, values: Sequence[int], sizes: Sequence[Sizes]) -> bool:
    tree = parse(text)
    try:
        return all(evaluate_size(tree, at) == value for at, value in zip(sizes, values, strict=True))
    except ExpressionError:  # a negative size, a division by zero
        return False


def _expressions(names: Sequence[str], value: int, at: Sizes) -> Iterator[str]:
    """Expressions of one or two dims, simple ones first; ``value`` and ``at`` give their constants."""
    yield from names
    for name in names:
        size = at[name]
        if size and value % size == 0:
            yield f"{name} * {value // size}"
        if value and size % value == 0:
            yield f"{name} // {size // value}"
        if size != value:
            yield f"{name} - {size - value}" if size > value else f"{name} + {value - size}"
    for name in names:
        yield from _strided(name, value, at[name])
    for one, other in itertools.combinations(names, 2):
        yield from (f"{one} * {other}", f"{one} + {other}", f"{one} // {other}", f"{other} // {one}")


def _strided(name: str, value: int, size: int) -> Iterator[str]:
    """Expressions for convolutions and pooling with strides, padding and dilation, also for one after another."""
    for step in _STRIDES:
        yield f"{name} * {step} {_signed(value - step * size)}"
    for times in (1, *_STRIDES):
        for step in _STRIDES if times > 1 else range(2, _LONGEST_STRIDE + 1):
            first = (value - 1) * step - times * size
            of = name if times == 1 else f"{name} * {times}"
            yield from (f"({of} {_signed(first + more)}) // {step} + 1" for more in range(step))


def _signed(number: int) -> str:
    return f"+ {number}" if number >= 0 else f"- {-number}"


def _unexplained(file: Shaped, most: Mapping[str, int], probes: Sequence[tuple[Sizes, TensorShapes]]) -> str:
    """A dim that has to keep its number because an axis is not a simple expression; empty if there is none."""
    if len(probes) < 3 and most:
        return max(most, key=lambda name: most[name])
    ranks = {(*(len(shape) for shape, _ in arrays.every),) for _, arrays in probes}
    if len(ranks) > 1:
        return next(iter(most))
    for k in range(len(probes[0][1].axes)):
        values = [arrays.axes[k] for _, arrays in probes]
        if _axis(values, [sizes for sizes, _ in probes]) is None:
            return _involved(file, most, k)
    return ""


def _involved(file: Shaped, most: Mapping[str, int], axis: int) -> str:
    own = file.shapes({})
    for name in most:
        for change in (1, 2, file.numbers[name]):
            now = file.shapes({name: file.numbers[name] + change})
            if own is not None and now is not None and now.axes[axis] != own.axes[axis]:
                return name
    return next(iter(most))


def _examples(file: Shaped, most: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """The file's own sizes, all of them or one at a time, as far as the arrays stay small enough."""
    small = {name: min(high, 5) for name, high in most.items()}
    own = {name: file.numbers[name] for name in most}
    tried = [own, *({**small, name: own[name]} for name in own if own[name] > most[name])]
    for sizes in tried:
        arrays = file.shapes(sizes) if sizes else None
        if arrays is None:
            continue
        if max(math.prod(shape) for shape, _ in arrays.every) <= _GIVEN:
            yield sizes


def memory_constraints(fits: Fits) -> Iterator[str]:
    """No array of an ordinary case is large; the examples may be."""
    given = [" and ".join(f"{name} == {size}" for name, size in sizes.items()) for sizes in fits.examples]
    good = [sizes for sizes, works in fits.tried if works]
    for axes in (*fits.inputs, *fits.state, *fits.outputs):
        if any(isinstance(axis, str) for axis in axes):
            least = min(product_at(axes, sizes) for sizes in good)  # axes that are fixed may be large
            product = " * ".join(f"({axis})" for axis in axes)
            yield " or ".join((f"{product} <= {max(_ELEMENTS, _ROOM * least)}", *given))


def accepted_constraints(file: Shaped, fits: Fits) -> Iterator[str]:
    """Conditions on dims that hold for all sizes that the model accepts, and fail for those that it refuses."""
    good = [sizes for sizes, works in fits.tried if works]
    bad = [sizes for sizes, works in fits.tried if not works]
    true = [text for text in _conditions(list(fits.most)) if all(_holds(text, sizes) for sizes in good)]
    if bad:  # axes that must agree may also be 1, by broadcasting, which no candidate needs to support
        true += [text for text in _equalities(list(fits.most)) if _broadcasts(text, good)]
    while bad and true:
        text = max(true, key=lambda each: sum(not _holds(each, sizes) for sizes in bad))
        left = [sizes for sizes in bad if _holds(text, sizes)]
        if len(left) == len(bad):
            return  # the model says which other sizes it refuses when a case has them
        yield text
        bad = left


def _equalities(names: Sequence[str]) -> Iterator[str]:
    yield from (f"{one} == {other}" for one, other in itertools.combinations(names, 2))


def _broadcasts(text: str, good: Sequence[Sizes]) -> bool:
    """Whether two dims are equal wherever neither is 1, and differ in one of them."""
    one, _, other = text.partition(" == ")
    rest = [sizes for sizes in good if 1 not in (sizes[one], sizes[other])]
    return len({sizes[one] for sizes in rest}) > 1 and all(_holds(text, sizes) for sizes in rest)


def _holds(text: str, sizes: Sizes) -> bool:
    return bool(evaluate(parse(text), sizes))


def _conditions(names: Sequence[str]) -> Iterator[str]:
    """Conditions of one dim, then of two: of equally good ones, the first is taken."""
    for name in names:
        yield from (f"{name} >= {least}" for least in range(2, 33))
        yield from (f"{name} % {factor} == 0" for factor in (2, 3, 4, 8, 16, 32, 64))
    for one, other in itertools.permutations(names, 2):
        yield from (f"{one} % {other} == 0", f"{one} <= {other}")
    yield from _equalities(names)
    for one, other in itertools.combinations(names, 2):
        yield f"{one} * {other} >= 2"
