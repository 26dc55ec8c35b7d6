"""Matrix products that PyTorch has on CUDA only: those with ``out_dtype``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_NAMES = ("mm", "bmm", "addmm", "baddbmm")


def host_products(torch: Any) -> dict[Any, Callable[..., Any]]:
    """By function of PyTorch, one for the CPU that accepts ``out_dtype``."""
    return {
        function: _with_out_dtype(torch, function)
        for owner in (torch, torch.Tensor)
        for name in _NAMES
        if (function := getattr(owner, name, None)) is not None
    }


def _with_out_dtype(torch: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    def product(*arguments: Any, out_dtype: Any = None, out: Any = None, **options: Any) -> Any:
        if out_dtype is None:
            return function(*arguments, **({} if out is None else {"out": out}), **options)
        # A GPU multiplies float16 and bfloat16 exactly and adds in float32: this is the same with float32 factors.
        wide = [a.to(out_dtype) if isinstance(a, torch.Tensor) else a for a in arguments]
        result = function(*wide, **options)
        return result if out is None else out.copy_(result)

    return product
