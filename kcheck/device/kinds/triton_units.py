"""Kernels that Triton compiled, as units; and the record of those that launchers launch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial, wraps
from importlib import import_module
from typing import Any

from kcheck.device.kinds.entry import find_entry, ptx_parameters
from kcheck.device.kinds.modules import Unit, UnitRun
from kcheck.driver.after_import import patch_now_or_after_import
from kcheck.model import DTYPES, KernelRef, Span
from kcheck.model.compiled import ArrayType, Launched, ScalarType, Signature
from kcheck.model.multiprocessor import WARP
from kcheck.span import as_typed
from kcheck.triton.signature import is_pointer
from kcheck.triton.tensors import dtype_of


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
            compiled = run(jit, *args, grid=grid, warmup=warmup, **named)
            if compiled is not None and not warmup:
                given = {**dict(zip(jit.arg_names, args, strict=False)), **named}
                self._runs[compiled, _signature(compiled.src.signature, given)] = None
            return compiled

        kind.run = watched


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


def place_of(jit: Any) -> Span:
    """The line of a kernel's ``def``."""
    file = jit.fn.__code__.co_filename
    skipped = next((n for n, line in enumerate(jit.raw_src) if line.lstrip().startswith("def ")), 0)
    return Span(as_typed(file), jit.starting_line_number + skipped)


def unit_of(kernel: KernelRef | None, compiled: Any) -> Unit:
    """A compiled kernel as a Unit; the same object for the same code."""
    assert kernel is not None
    known: Unit | None = getattr(compiled, "_kcheck_unit", None)
    if known is not None:
        return known
    from kcheck.ptx.syntax.heads import parse_heads  # lazy: only a run with Triton needs it

    metadata, ptx = compiled.metadata, compiled.asm["ptx"]
    entry = find_entry(parse_heads(ptx), metadata.name, kernel.span)
    place = place_of(compiled.src.fn)
    constants = compiled.src.constants
    names = compiled.src.fn.arg_names
    told = ", ".join(f"{names[path[0]]}={value}" for path, value in constants.items() if len(path) == 1)
    instance = f"{kernel.name}<{told}>" if told else kernel.name
    target = f"sm_{metadata.target.arch}"
    again = partial(unit_for, kernel, compiled)
    unit = Unit(kernel, place, instance, target, ptx, metadata.name, ptx_parameters(entry), again)
    compiled._kcheck_unit = unit
    return unit


def unit_for(kernel: KernelRef, compiled: Any, target: str) -> Unit:
    """The kernel, compiled for another target."""
    metadata, arch = compiled.metadata, int("".join(filter(str.isdigit, target)))
    if arch != metadata.target.arch:
        options = {name: getattr(metadata, name) for name in ("num_warps", "num_stages", "enable_fp_fusion")}
        target_of = import_module("triton.backends.compiler").GPUTarget
        compile_again = import_module("triton").compile
        compiled = compile_again(compiled.src, target=target_of("cuda", arch, WARP), options=options)
    return unit_of(kernel, compiled)
