"""The record of the Triton kernels that launchers launch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from typing import Any

from kcheck.device.modules import UnitRun
from kcheck.driver.after_import import patch_now_or_after_import
from kcheck.model import DTYPES, Finding, KernelRef
from kcheck.model.compiled import ArrayType, Launched, ScalarType, Signature
from kcheck.model.multiprocessor import WARP
from kcheck.triton.signature import is_pointer
from kcheck.triton.tensors import dtype_of

_KERNEL = "_kcheck_kernel"
"""The attribute of an error with the ``JITFunction`` whose launch raised it."""


class TritonLaunches:
    """The Triton kernels that were launched with ``kernel[grid](...)`` since :meth:`begin`."""

    def __init__(self) -> None:
        self._runs: dict[tuple[Any, Signature | None], None] = {}
        patch_now_or_after_import({"triton.runtime.jit": [self._watch]})

    def begin(self) -> None:
        """Forget them."""
        self._runs.clear()

    def launched(self) -> Iterator[Launched]:
        """A record for each kernel and each set of argument types."""
        if not self._runs:
            return
        from kcheck.device.kinds.triton_units import place_of, unit_of  # lazy: they import the PTX parser

        for compiled, signature in self._runs:
            place = place_of(compiled.src.fn)
            kernel = KernelRef(place.file, compiled.src.fn.fn.__name__, place, kind="triton")
            metadata = compiled.metadata
            block = (WARP * metadata.num_warps, 1, 1)
            yield UnitRun(unit_of(kernel, compiled), block, metadata.shared, signature).launched()

    def _watch(self, module: Any) -> None:
        """Record what ``JITFunction.run`` launches. It returns the compiled kernel (Triton 3.6 to 3.8)."""
        kind = module.JITFunction
        run: Callable[..., Any] = kind.run

        @wraps(run)
        def watched(jit: Any, *args: Any, grid: Any, warmup: bool, **named: Any) -> Any:
            try:
                compiled = run(jit, *args, grid=grid, warmup=warmup, **named)
            except Exception as error:
                error.__dict__.setdefault(_KERNEL, jit)
                raise
            if compiled is not None and not warmup:
                given = {**dict(zip(jit.arg_names, args, strict=False)), **named}
                self._runs[compiled, _signature(compiled.src.signature, given)] = None
            return compiled

        kind.run = watched


def compile_error(error: BaseException) -> Finding | None:
    """The finding for an error of Triton's compiler in a kernel that was launched; None for another error."""
    jit = getattr(error, _KERNEL, None)
    if jit is None or not isinstance(error, Exception) or getattr(error, "node", None) is None:
        return None
    from kcheck.device.kinds.triton_units import not_compiled  # lazy, as above

    return not_compiled(error, jit, jit.fn.__name__)


def _signature(types: Mapping[str, Any], given: Mapping[str, Any]) -> Signature | None:
    """The types of arguments other than constants. None if one has no dtype, as a descriptor and a tuple."""
    parts: list[ArrayType | ScalarType] = []
    for name, kind in types.items():
        if kind == "constexpr":
            continue
        dtype = dtype_of(kind) if isinstance(kind, str) else ""
        if dtype not in DTYPES:
            return None
        rank = len(getattr(given.get(name), "shape", ())) or 1
        parts.append(ArrayType(dtype, rank, "A") if is_pointer(kind) else ScalarType(dtype))
    return tuple(parts)
