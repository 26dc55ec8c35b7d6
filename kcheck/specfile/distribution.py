"""Value distributions: their names and arguments, and the arrays that may have them."""

from __future__ import annotations

import math
from typing import Literal, TypeAlias

from kcheck.dataclass import dataclass
from kcheck.model import FLOAT_DEFAULT, INFINITE, Distribution, DType
from kcheck.nearest import did_you_mean
from kcheck.specfile.reader import Kind, Reader
from kcheck.specfile.yamltree import YamlList, YamlMap, YamlNode, YamlScalar

Takes: TypeAlias = Literal[
    "nothing",
    "mean_std",
    "low_high",
    "distribution",
    "value",
    "values",
    "bounds",
    "axis",
    "probability",
    "total",
    "function",
]


@dataclass(frozen=True, slots=True)
class DistributionRule:
    """One distribution.

    Attributes:
        takes: the form of its argument.
        optional: whether the argument may be omitted.
        discrete: whether arrays of integers may have it.
    """

    name: str
    takes: Takes = "nothing"
    optional: bool = False
    discrete: bool = False


DISTRIBUTIONS: dict[str, DistributionRule] = {
    row.name: row
    for row in (
        DistributionRule("normal", "mean_std", optional=True),
        DistributionRule("uniform", "low_high", optional=True),
        DistributionRule("adversarial"),
        DistributionRule("all_negative"),
        DistributionRule("all_positive"),
        DistributionRule("large"),
        DistributionRule("tiny"),
        DistributionRule("offset", "mean_std", optional=True),
        DistributionRule("cancelling"),
        DistributionRule("spikes"),
        DistributionRule("outlier"),
        DistributionRule("ties", discrete=True),
        DistributionRule("sorted", "distribution", optional=True, discrete=True),
        DistributionRule("extreme"),
        DistributionRule("subnormal"),
        DistributionRule("zeros", discrete=True),
        DistributionRule("ones", discrete=True),
        DistributionRule("constant", "value", discrete=True),
        DistributionRule("choice", "values", discrete=True),
        DistributionRule("nan_injected"),
        DistributionRule("inf_injected"),
        DistributionRule("empty_rows", discrete=True),
        DistributionRule("empty_tiles", discrete=True),
        DistributionRule("integers", "bounds", discrete=True),
        DistributionRule("permutation", discrete=True),
        DistributionRule("one_hot", "axis", discrete=True),
        DistributionRule("bernoulli", "probability", discrete=True),
        DistributionRule("offsets", "total", discrete=True),
        DistributionRule("probabilities", "axis"),
        DistributionRule("from", "function", discrete=True),
    )
}
"""Every distribution by name, in the order of SPEC."""

_SIZES: tuple[Kind, ...] = ("dim", "param")


@dataclass(frozen=True, slots=True)
class Target:
    """The array that a distribution is for.

    Attributes:
        dtypes: the dtypes that it may have; empty if its declaration is invalid.
        ndim: its number of axes; None if its declaration is invalid.
        earlier: the arrays declared before it.
    """

    name: str
    dtypes: tuple[DType, ...]
    ndim: int | None
    earlier: tuple[str, ...]


def read_distributions(reader: Reader, node: YamlNode | None, target: Target) -> tuple[Distribution, ...] | None:
    """``values``: one distribution or a list of them; empty if it is omitted, None if it is invalid."""
    if node is None:
        return ()
    if isinstance(node, YamlList):
        built = [read_distribution(reader, item, target) for item in reader.items(node, most=64)]
        return tuple(d for d in built if d is not None) if None not in built else None
    one = read_distribution(reader, node, target)
    return None if one is None else (one,)


def with_infinities(
    reader: Reader, node: YamlNode | None, target: Target, values: tuple[Distribution, ...] | None
) -> tuple[Distribution, ...] | None:
    """The distributions of an array with those that ``allow_inf: true`` adds; None if they are invalid."""
    if node is None or values is None or not reader.flag(node):
        return values
    wrong = next((dtype for dtype in target.dtypes if not has_infinity(dtype)), None)
    if wrong is not None:
        what = f"allow_inf is for floats with infinities, but {target.name!r} can be {wrong}"
        reader.fault(node.span, what, "remove it")
        return None
    given = values or tuple(Distribution(name) for name in FLOAT_DEFAULT)
    known = {each.name for each in given}
    return (*given, *(Distribution(name, None, node.span) for name in INFINITE if name not in known))


def has_infinity(dtype: DType) -> bool:
    """Whether a dtype has infinities."""
    return dtype.is_inexact and dtype.name != "float8_e4m3fn"


def read_distribution(reader: Reader, node: YamlNode | None, target: Target) -> Distribution | None:
    """One distribution: its name, or ``{name: argument}``."""
    argument: YamlNode | None = None
    if isinstance(node, YamlMap) and len(node.entries) == 1:
        ((name, entry),) = node.entries.items()
        argument, span = entry.value, entry.span
    elif (text := reader.text(node)) is not None and node is not None:
        name, span = text, node.span
    else:
        return None
    row = DISTRIBUTIONS.get(name)
    if row is None or (argument is None and row.takes != "nothing" and not row.optional):
        return None
    if argument is not None and row.takes == "nothing":
        return None
    wrong = next((dtype for dtype in target.dtypes if not dtype.is_inexact), None)
    if wrong is not None and not row.discrete:
        known = [known.name for known in DISTRIBUTIONS.values() if known.discrete]
        fix = f"{wrong} takes {', '.join(known)}"
        reader.fault(span, f"distribution {name!r} is for floats, but {target.name!r} can be {wrong}", fix)
        return None
    if argument is None:
        return Distribution(name, None, span)
    before = len(reader.faults)
    value = _argument(reader, row, argument, target)
    return None if value is None or len(reader.faults) > before else Distribution(name, value, span)


def _argument(reader: Reader, row: DistributionRule, node: YamlNode, target: Target) -> object | None:
    where = f"{row.name!r} of {target.name!r}"
    match row.takes:
        case "mean_std" | "low_high":
            return _pair(reader, row, node)
        case "distribution":
            return read_distribution(reader, node, target)
        case "value":
            return _scalar(reader, node, target)
        case "values":
            values = [_scalar(reader, item, target) for item in reader.items(node)]
            return tuple(values) if values and None not in values else None
        case "bounds":
            return _bounds(reader, node, target, where)
        case "axis":
            return _axis(reader, node, target, row)
        case "probability":
            value = reader.number(node)
            if value is not None and math.isnan(value):
                reader.fault(node.span, "a probability must be between 0 and 1, not .nan")
            return value
        case "total":
            total = reader.expression(node, _SIZES, where)
            return None if total is None else _as_written(node)
        case "function":
            return _generator(reader, node, target)
        case _:
            return None


def _pair(reader: Reader, row: DistributionRule, node: YamlNode) -> tuple[object, ...] | None:
    items = reader.items(node)
    numbers = [number for item in items if (number := reader.number(item)) is not None]
    if len(numbers) != 2 or len(items) != 2:
        return None
    first, second = numbers
    if not all(math.isfinite(number) for number in numbers):
        reader.fault(
            node.span, f"the numbers of {row.name!r} must be finite", "write {constant: .inf} for an infinity"
        )
    elif row.takes == "mean_std" and second < 0:
        reader.fault(
            items[1].span, f"the standard deviation of {row.name!r} must not be negative, but is {second}"
        )
    elif row.takes == "low_high" and first >= second:
        reader.fault(
            node.span,
            f"{row.name!r} is empty: there are no numbers between {first} and {second}",
            "write [low, high]",
        )
    return (first, second)


def _scalar(reader: Reader, node: YamlNode, target: Target) -> int | float | bool | None:
    """A value that each dtype of the array can hold; None, after a fault, if one cannot."""
    if not isinstance(node, YamlScalar) or node.value is None or isinstance(node.value, str):
        return None
    value = node.value
    for dtype in target.dtypes:
        why = unfit(value, dtype)
        if why:
            reader.fault(node.span, f"{node.text} {why}, but {target.name!r} can be {dtype}")
            return None
    return value


def unfit(value: int | float | bool, dtype: DType) -> str:
    """Why a dtype cannot hold a value, as part of a message; empty if it can, perhaps rounded."""
    if dtype.kind == "bool":
        return "" if value in (0, 1) else "is not true or false"
    if isinstance(value, bool):
        return "is a bool"
    if dtype.is_integer:
        if isinstance(value, float) and not value.is_integer():
            return "is not a whole number"
        return "" if dtype.min <= value <= dtype.max else f"is outside {dtype.min}..{dtype.max}"
    return "" if not math.isfinite(value) or abs(value) <= dtype.max else f"exceeds {dtype.max}"


def _bounds(reader: Reader, node: YamlNode, target: Target, where: str) -> tuple[object, ...] | None:
    items = reader.items(node)
    if len(items) != 2:
        return None
    built = [reader.expression(item, _SIZES, where, "number") for item in items]
    if None in built:
        return None
    low, high = (reader.number(item) for item in items)
    for item, value in zip(items, (low, high), strict=True):
        if isinstance(value, float):
            reader.fault(item.span, f"a bound of {where} must be an integer, not {value}")
            return None
        for dtype in target.dtypes:
            why = unfit(value, dtype) if value is not None and dtype.is_integer else ""
            if why:
                reader.fault(item.span, f"{value} {why}, but {target.name!r} can be {dtype}")
                return None
    if low is not None and high is not None and low > high:
        reader.fault(node.span, f"there is no integer between {low} and {high}", "write [low, high]")
    return tuple(_as_written(item) for item in items)


def _axis(reader: Reader, node: YamlNode, target: Target, row: DistributionRule) -> int | None:
    axis = reader.integer(node)
    if axis is not None and target.ndim is not None and not -target.ndim <= axis < target.ndim:
        reader.fault(node.span, f"{row.name!r} uses axis {axis}, but {target.name!r} has {target.ndim} axes")
    return axis


def _generator(reader: Reader, node: YamlNode, target: Target) -> object | None:
    found = reader.function(node, "generator")
    if found is None:
        return None
    function, definition = found
    if definition is not None and definition.signature is not None:
        known = ("rng", "shape", "dtype", *reader.named("dim", "param"), *target.earlier)
        check_keywords(reader, node, f"generator {function.name!r}", definition.signature.required, known)
    return function


def check_keywords(
    reader: Reader, node: YamlNode, who: str, required: tuple[str, ...], known: tuple[str, ...]
) -> None:
    """Report each required parameter of a function that is not among the known names."""
    for name in required:
        if name not in known:
            fix = did_you_mean(name, known) or f"kcheck passes {', '.join(known[:20])}"
            reader.fault(node.span, f"{who} takes {name!r}, which kcheck does not pass", fix)


def _as_written(node: YamlNode) -> int | float | str | None:
    assert isinstance(node, YamlScalar)
    assert not isinstance(node.value, bool)
    return node.value
