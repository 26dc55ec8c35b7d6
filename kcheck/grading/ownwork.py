"""How much of a problem's work PyTorch's own operators do, in a model and in a candidate.

Work is counted as in PyTorch's own counter of floating-point operations for products, convolutions and
attention, and as the largest number of elements that an operator takes or makes for the others. What moves or
makes data counts as nothing.
"""

from __future__ import annotations

from typing import Any, Self

_GLUE = frozenset(
    [
        "view",
        "reshape",
        "expand",
        "permute",
        "transpose",
        "squeeze",
        "unsqueeze",
        "slice",
        "select",
        "alias",
        "clone",
        "copy",
        "empty",
        "empty_like",
        "empty_strided",
        "zeros",
        "zeros_like",
        "ones",
        "ones_like",
        "full",
        "full_like",
        "fill",
        "zero",
        "detach",
        "contiguous",
        "to",
        "_to_copy",
        "as_strided",
        "t",
        "lift",
        "lift_fresh",
        "arange",
        "cat",
        "stack",
        "split",
        "split_with_sizes",
        "unbind",
        "chunk",
        "item",
        "_local_scalar_dense",
        "unfold",
        "set",
        "resize",
        "new_empty",
        "new_zeros",
        "new_ones",
        "new_full",
        "new_empty_strided",
        "is_pinned",
        "_pin_memory",
        "scalar_tensor",
        "constant_pad_nd",
        "flatten",
        "narrow",
        "diagonal",
        "eye",
        "repeat",
        "_reshape_alias",
        "_unsafe_view",
        "rand",
        "randn",
        "randint",
        "normal",
        "uniform",
        "record_stream",
    ]
)
"""Operators, without a final ``_``, that move or make data."""


class OperatorWork:
    """Counts the work of PyTorch's operators in a block of code. A context manager.

    Attributes:
        total: operations.
        largest: the operator with the most, such as ``mm``; empty if there is none.
    """

    def __init__(self, torch: Any) -> None:
        self._by_name: dict[str, int] = {}
        self._mode = _mode(torch, self._by_name)

    def __enter__(self) -> Self:
        self._mode.__enter__()
        return self

    def __exit__(self, *raised: Any) -> None:
        self._mode.__exit__(*raised)

    @property
    def total(self) -> int:
        """All operations."""
        return sum(self._by_name.values())

    @property
    def largest(self) -> str:
        """The operator with the most operations."""
        return max(self._by_name, key=lambda name: self._by_name[name], default="")


def _mode(torch: Any, by_name: dict[str, int]) -> Any:
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils.flop_counter import flop_registry

    class Counting(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            packet = func.overloadpacket
            name = str(packet.__name__).rstrip("_")
            if name not in _GLUE:
                known = flop_registry.get(packet)
                if known is not None:
                    work = int(known(*args, **(kwargs or {}), out_val=result))
                else:
                    work = max((int(each.numel()) for each in _tensors(torch, (args, result))), default=0)
                by_name[name] = by_name.get(name, 0) + work
            return result

    return Counting()


def _tensors(torch: Any, value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for each in value:
            yield from _tensors(torch, each)
