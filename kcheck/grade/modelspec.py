"""How the shapes of a model depend on the numbers of its module, and which numbers it accepts."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol, TypeAlias

from kcheck.dataclass import dataclass
from kcheck.errors import UserError

Axis: TypeAlias = int | str
Sizes: TypeAlias = Mapping[str, int]

_ELEMENTS = 1 << 14
"""The most elements of an array in an ordinary case."""
_GIVEN = 1 << 21
"""The most elements of an array in a case with a size of the file itself."""
_PROBES = 24
_LEAST_WEIGHT = 16
"""A number that reaches only weights, such as the width of a filter, is free if it is at least this."""


class Arrays(Protocol):
    """Shapes at some sizes; see :class:`kcheck.grade.models.Shapes`."""

    inputs: tuple[tuple[tuple[int, ...], str], ...]
    state: tuple[tuple[str, tuple[tuple[int, ...], str]], ...]
    outputs: tuple[tuple[tuple[int, ...], str], ...]

    @property
    def axes(self) -> tuple[int, ...]: ...


class Shaped(Protocol):
    """A model file."""

    numbers: Mapping[str, int]

    def shapes(self, sizes: Sizes) -> Arrays | None: ...


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


def limits(file: Shaped, own: Arrays) -> dict[str, int]:
    """The numbers that are sizes, and the most that each may be in an ordinary case."""
    found = {}
    for name, number in file.numbers.items():
        reaches = _reaches(file, own, name, number)
        if reaches == "input" or (reaches == "weight" and number >= _LEAST_WEIGHT):
            found[name] = number
    arrays = [*own.inputs, *(shape for _, shape in own.state), *own.outputs]
    most = {}
    for name, number in found.items():
        ranks = [len(shape) for shape, _ in arrays if number in shape] or [max(len(s) for s, _ in arrays)]
        most[name] = max(1, min(number, 2 * round(_ELEMENTS ** (1 / max(ranks)))))
    return most


def _reaches(file: Shaped, own: Arrays, name: str, number: int) -> str:
    """Whether a number changes the shape of an input, or only of a weight."""
    for other in (number + 1, 2 * number, max(1, number // 2)):
        now = file.shapes({name: other})
        if other == number or now is None:
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
    table = [_Axis.of([arrays.axes[k] for _, arrays in probes], [s for s, _ in probes]) for k in range(len(own.axes))]
    rest = iter([axis.text if axis is not None else size for axis, size in zip(table, own.axes, strict=True)])

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


def _probed(file: Shaped, most: Mapping[str, int]) -> list[tuple[dict[str, int], Arrays | None]]:
    """Shapes at random sizes; the file's own first."""
    source = random.Random(0)
    found: list[tuple[dict[str, int], Arrays | None]] = []
    own = {name: file.numbers[name] for name in most}
    tries = [own, {name: max(1, number // 2) for name, number in own.items()}]
    tries += [{name: source.randint(1, 2 * high) for name, high in most.items()} for _ in range(_PROBES)]
    tries += [{**own, name: source.randint(1, 2 * high)} for name, high in most.items() for _ in range(3)]
    for sizes in tries:
        if sizes not in [each for each, _ in found]:
            found.append((sizes, file.shapes(sizes)))
    return found


@dataclass(frozen=True, slots=True)
class _Axis:
    text: Axis

    @classmethod
    def of(cls, values: Sequence[int], sizes: Sequence[Sizes]) -> _Axis | None:
        """The simplest expression that gives the values at the sizes."""
        if len(set(values)) == 1:
            return cls(values[0])
        for text, value in _expressions(list(sizes[0]), values, sizes):
            if all(value(each) == size for each, size in zip(sizes, values, strict=True)):
                return cls(text)
        return None


_Value: TypeAlias = Callable[[Sizes], float]


def _expressions(names: Sequence[str], values: Sequence[int], sizes: Sequence[Sizes]) -> Iterator[tuple[str, _Value]]:
    for name in names:
        yield name, lambda at, name=name: at[name]
    for name in names:
        first, size = values[0], sizes[0][name]
        if size and first % size == 0:
            factor = first // size
            yield f"{name} * {factor}", lambda at, name=name, factor=factor: at[name] * factor
        if first and size % first == 0:
            part = size // first
            yield f"{name} // {part}", lambda at, name=name, part=part: at[name] // part
        less = size - first
        word = f"{name} - {less}" if less > 0 else f"{name} + {-less}"
        yield word, lambda at, name=name, less=less: at[name] - less
    for name in names:  # a convolution or pooling with a stride: (n - a) // b + c
        for step in (2, 3, 4):
            for off in range(-8, 9):
                yield (
                    f"({name} {'+' if off >= 0 else '-'} {abs(off)}) // {step} + 1",
                    lambda at, name=name, step=step, off=off: (at[name] + off) // step + 1,
                )
    for one, other in itertools.combinations(names, 2):
        yield f"{one} * {other}", lambda at, one=one, other=other: at[one] * at[other]
        yield f"{one} + {other}", lambda at, one=one, other=other: at[one] + at[other]
        yield f"{one} // {other}", lambda at, one=one, other=other: at[one] // max(at[other], 1)
        yield f"{other} // {one}", lambda at, one=one, other=other: at[other] // max(at[one], 1)


def _unexplained(file: Shaped, most: Mapping[str, int], probes: Sequence[tuple[Sizes, Arrays]]) -> str:
    """A dim that has to keep its number because an axis is no simple expression; empty if there is none."""
    if len(probes) < 3 and most:
        return max(most, key=lambda name: most[name])
    ranks = {tuple(len(s) for s, _ in arrays.inputs) + (len(arrays.axes),) for _, arrays in probes}
    if len(ranks) > 1:
        return next(iter(most))
    for k in range(len(probes[0][1].axes)):
        values = [arrays.axes[k] for _, arrays in probes]
        if _Axis.of(values, [sizes for sizes, _ in probes]) is None:
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
        shapes = [*arrays.inputs, *(shape for _, shape in arrays.state), *arrays.outputs]
        if max(math.prod(shape) for shape, _ in shapes) <= _GIVEN:
            yield sizes


def memory_constraints(fits: Fits) -> Iterator[str]:
    """No array of an ordinary case is large; the examples may be."""
    given = [" and ".join(f"{name} == {size}" for name, size in sizes.items()) for sizes in fits.examples]
    for product in dict.fromkeys(_product(axes) for axes in (*fits.inputs, *fits.state, *fits.outputs)):
        if product:
            yield " or ".join((f"{product} <= {_ELEMENTS}", *given))


def _product(axes: Sequence[Axis]) -> str:
    return " * ".join(f"({axis})" for axis in axes) if any(isinstance(axis, str) for axis in axes) else ""


def accepted_constraints(file: Shaped, fits: Fits) -> Iterator[str]:
    """Conditions on dims that hold for all sizes that the model accepts, and fail for those that it refuses.

    Raises:
        UserError: no simple conditions tell them apart.
    """
    good = [sizes for sizes, works in fits.tried if works]
    bad = [sizes for sizes, works in fits.tried if not works]
    names = list(fits.most)
    conditions: list[tuple[str, Callable[[Sizes], bool]]] = []
    for one, other in itertools.permutations(names, 2):
        conditions.append((f"{one} % {other} == 0", lambda at, a=one, b=other: at[a] % at[b] == 0))
        conditions.append((f"{one} <= {other}", lambda at, a=one, b=other: at[a] <= at[b]))
        conditions.append((f"{one} == {other}", lambda at, a=one, b=other: at[a] == at[b]))
    for name in names:
        for factor in (2, 3, 4, 8, 16, 32, 64):
            conditions.append((f"{name} % {factor} == 0", lambda at, a=name, k=factor: at[a] % k == 0))
        for least in range(2, 33):
            conditions.append((f"{name} >= {least}", lambda at, a=name, k=least: at[a] >= k))
    true = [(text, holds) for text, holds in conditions if all(map(holds, good))]
    while bad:
        text, holds = max(true, key=lambda each: sum(not each[1](sizes) for sizes in bad), default=("", bool))
        left = [sizes for sizes in bad if not text or holds(sizes)]
        if len(left) == len(bad):
            break
        yield text
        bad = left
