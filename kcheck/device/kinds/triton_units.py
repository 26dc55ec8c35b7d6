"""Kernels that Triton compiled, as units, and why one does not compile."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import Any

from kcheck.device.kinds.entry import find_entry, ptx_parameters
from kcheck.device.modules import Unit
from kcheck.model import Finding, KernelRef, Span
from kcheck.model.multiprocessor import WARP
from kcheck.span import as_typed


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


_NEEDS_89 = "set KCHECK_CC=8.9, or artifact: {targets: [sm_89]}: float8_e4m3fn needs compute capability 8.9"


def not_compiled(error: Exception, jit: Any, name: str) -> Finding:
    """Why a kernel does not compile, with the line in its source, or in that of a function that it calls."""
    place = place_of(jit)
    cause: Any = error
    while getattr(cause, "node", None) is not None:  # from the kernel to the innermost function
        error = cause
        within = _function_of(cause.src, jit)
        if within is not None:
            place = place_of(within)
            place = Span(place.file, place.line + cause.node.lineno - 1)
        cause = cause.__cause__
    why = getattr(error, "error_message", None) or str(error) or type(error).__name__
    told = str(why).strip().splitlines()[0]
    fix = _NEEDS_89 if "fp8e4nv not supported in this architecture" in told else ""
    return Finding("compile", told, fix=fix, kernel=name, place=place)


def _function_of(source: str, jit: Any) -> Any:
    """The function with this source: the kernel, or one that its file can name."""
    known = (each for each in (jit, *jit.fn.__globals__.values()) if isinstance(each, type(jit)))
    return next((each for each in known if each.src == source), None)
