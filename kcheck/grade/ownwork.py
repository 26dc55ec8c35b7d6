"""How much of a call PyTorch's own operators did, and how many kernels ran."""

from __future__ import annotations

from typing import Any, Self

_GLUE = (
    "view", "reshape", "expand", "permute", "transpose", "squeeze", "slice", "select", "alias", "clone", "copy",
    "empty", "zeros", "ones", "full", "fill", "zero", "detach", "contiguous", "to", "_to_copy", "as_strided", "unsqueeze",
    "t", "lift", "arange", "cat", "stack", "split", "unbind", "chunk", "item", "_local_scalar_dense", "unfold",
    "set", "resize", "new", "is_pinned", "_pin_memory", "index", "scalar_tensor", "pad", "constant_pad_nd",
    "numpy_T", "flatten", "narrow", "diagonal", "eye", "repeat", "_reshape_alias", "_unsafe_view", "randn", "rand",
)  # fmt: skip
"""Operators, without the part after the dot and a final ``_``, that move or make data and compute nothing."""
_FEW = 1024
"""Elements up to which an operator only puts partial results together."""


class Work:
    """Watches a block of code.

    Attributes:
        launches: kernels that ran.
        operators: how many elements each of PyTorch's computing operators took or made, by name.
    """

    def __init__(self, torch: Any, executor: Any) -> None:
        self._executor = executor
        self._seen_before = executor.seen
        self.launches = 0
        self.operators: dict[str, int] = {}
        self._mode = _mode(torch, self.operators)

    def __enter__(self) -> Self:
        self._executor.seen = []
        self._mode.__enter__()
        return self

    def __exit__(self, *raised: Any) -> None:
        self._mode.__exit__(*raised)
        self.launches = len(self._executor.seen)
        self._executor.seen = self._seen_before

    @property
    def note(self) -> str:
        """``launches=2 aten.mm=4096``, for the grader."""
        parts = [f"launches={self.launches}"]
        parts += [f"{name}={count}" for name, count in sorted(self.operators.items())]
        return " ".join(parts)


def _mode(torch: Any, operators: dict[str, int]) -> Any:
    from torch.utils._python_dispatch import TorchDispatchMode

    class Counting(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            name = func.overloadpacket.__name__
            if name.rstrip("_") not in _GLUE:
                given = [each for each in args if isinstance(each, torch.Tensor)]
                made = result if isinstance(result, (tuple, list)) else (result,)
                sizes = [int(each.numel()) for each in (*given, *made) if isinstance(each, torch.Tensor)]
                if max(sizes, default=0) > 0:
                    operators[name] = operators.get(name, 0) + max(sizes)
            return result

    return Counting()
