"""A compiled kernel: from the cache or from PTX, with what a launch must know of it."""

from __future__ import annotations

import ctypes
import dataclasses
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kcheck.cpu.cache import ObjectCache
from kcheck.cpu.jit import LoadedCode, compile_ir, toolchain
from kcheck.cpu.module import Module, variables_from_json, variables_to_json, version
from kcheck.ptx.abi import Checks, ParamSlot, Program, Site
from kcheck.ptx.lower import lower, suitable_width

_RUN = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
_BLOCK = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32)


@dataclass(frozen=True)
class Kernel:
    """Machine code and its description.

    Attributes:
        program: without its IR text.
        run: ``kcheck_run(launch, worker, first, last)``; releases the GIL. ``entry``: its address.
        run_block: ``kcheck_block(launch, worker, block, resume)``; releases the GIL.
    """

    program: Program
    code: LoadedCode
    run: Callable[[int, int, int, int], int]
    entry: int
    run_block: Callable[[int, int, int, int], int]


def compile_kernel(
    module: Module, entry: str, width: int, cache: ObjectCache, checks: Checks, row: int, widen: bool
) -> Kernel:
    """The kernel, ready to run.

    Args:
        width: lanes per vector, a power of two, at most 32.
        row: how many lanes are neighbours along x in its blocks, as :func:`kcheck.ptx.strides.row_of` says.
        widen: use more lanes where the kernel suits them.

    Raises:
        PtxError: an instruction that is not modelled, or code that breaks a rule of PTX.
        InternalError: LLVM does not accept what was lowered.
    """
    key = "\0".join(
        (version(), toolchain(), str(width), str(checks), str(row), str(widen), entry, module.file, module.text)
    )
    stored = cache.get(key)
    if stored is not None:
        head, _, code = stored.partition(b"\n")
        program = _from_json(json.loads(head))
    else:
        if widen:
            width = suitable_width(module.tree, entry, width, row)
        program = lower(module.tree, entry, width, checks, row)
        code = compile_ir(program.ir, width)
        program = dataclasses.replace(program, ir="")
        cache.put(key, json.dumps(_to_json(program)).encode() + b"\n" + code)
    loaded = LoadedCode(code, ("kcheck_run", "kcheck_block"))
    run, block = loaded.address("kcheck_run"), loaded.address("kcheck_block")
    return Kernel(program, loaded, _RUN(run), run, _BLOCK(block))


def _to_json(program: Program) -> dict[str, Any]:
    return dataclasses.asdict(program) | {"globals": variables_to_json(program.globals)}


def _from_json(fields: dict[str, Any]) -> Program:
    fields["params"] = tuple(ParamSlot(**slot) for slot in fields["params"])
    fields["sites"] = tuple(Site(**site) for site in fields["sites"])
    fields["checks"] = Checks(**fields["checks"])
    fields["globals"] = variables_from_json(fields["globals"])
    return Program(**fields)
