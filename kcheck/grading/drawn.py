"""How a problem's own generator makes each input: by a random generator alone, or by a computation that other
values would contradict, such as a triangular matrix, probabilities, or a tensor that depends on another input.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kcheck.dataclass import dataclass

_SOURCES = frozenset(["rand", "randn", "rand_like", "randn_like", "uniform_", "normal_", "normal"])
_KEEPS = frozenset(
    [
        "abs", "add", "add_", "sub", "sub_", "mul", "mul_", "div", "div_", "true_divide", "neg", "rsub",
        "to", "cuda", "cpu", "half", "float", "double", "bfloat16", "type", "contiguous", "clone", "detach",
        "view", "reshape", "unsqueeze", "squeeze", "flatten", "permute", "transpose", "requires_grad_",
    ]
)  # fmt: skip
"""Functions whose result takes any value of the sign that it has, if their largest argument does."""


@dataclass(frozen=True, eq=False, slots=True)
class _Origin:
    """What a tensor comes from: the draws, and whether anything but :data:`_KEEPS` was done to them."""

    draws: frozenset[int]
    free: bool


def free_inputs(torch: Any, make: Callable[[], Sequence[Any]]) -> list[bool]:
    """Of each tensor that ``make`` makes: whether each element is drawn by a random generator alone, and no other
    tensor depends on the same draw."""
    from torch.overrides import TorchFunctionMode

    origins: dict[int, _Origin] = {}
    kept: list[Any] = []  # so that no number of an object is used twice

    class Tracing(TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            if isinstance(result, torch.Tensor):
                kept.append(result)
                name = getattr(func, "__name__", "").strip("_")
                origins[id(result)] = _origin(name, len(kept), _tensors(torch, (args, kwargs)), origins)
            return result

    with Tracing():
        made = list(make())
    found = [origins.get(id(each), _Origin(frozenset(), False)) for each in made]
    shared = [
        n for n, one in enumerate(found) if any(one.draws & other.draws for other in found if other is not one)
    ]
    return [each.free and n not in shared for n, each in enumerate(found)]


def _origin(name: str, number: int, given: list[Any], origins: dict[int, _Origin]) -> _Origin:
    if name in _SOURCES or f"{name}_" in _SOURCES:
        return _Origin(frozenset([number]), True)
    sources = [origins.get(id(each), _Origin(frozenset(), False)) for each in given]
    whole = [one for one, each in zip(sources, given, strict=True) if each.dim() > 0]
    draws = frozenset().union(*(one.draws for one in whole))
    # In-place functions and operators have their names between underscores: __iadd__, add_.
    plain = name.removeprefix("r") if name.removeprefix("r") in _KEEPS else name.removeprefix("i")
    known = name in _KEEPS or plain in _KEEPS or name == "truediv"
    return _Origin(draws, known and len(whole) == 1 and whole[0].free)


def _tensors(torch: Any, value: Any) -> list[Any]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        return [each for part in value.values() for each in _tensors(torch, part)]
    if isinstance(value, tuple | list):
        return [each for part in value for each in _tensors(torch, part)]
    return []
