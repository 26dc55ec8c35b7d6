"""A compiled kernel: from the cache or from PTX, with what a launch must know of it."""

from __future__ import annotations

import base64
import ctypes
import dataclasses
import functools
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import kcheck.ptx
from kcheck import __version__
from kcheck.cpu.cache import ObjectCache
from kcheck.cpu.jit import LoadedCode, compile_ir, toolchain
from kcheck.cpu.module import Module
from kcheck.ptx.abi import GlobalVariable, ParamSlot, Program, Site
from kcheck.ptx.lower import lower

_RUN = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
_BLOCK = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32)


@dataclass(frozen=True)
class Kernel:
    """Machine code and its description.

    Attributes:
        program: without its IR text.
        run: ``kcheck_run(launch, worker, first, last)``; releases the GIL.
        run_block: ``kcheck_block(launch, worker, block, resume)``; releases the GIL.
    """

    program: Program
    code: LoadedCode
    run: Callable[[int, int, int, int], int]
    run_block: Callable[[int, int, int, int], int]


@functools.cache
def _lowering() -> str:
    """A digest of the code that lowers PTX: what it made is stale once it changes."""
    digest = hashlib.blake2b(digest_size=16)
    for path in sorted(Path(kcheck.ptx.__path__[0]).rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def compile_kernel(module: Module, entry: str, width: int, cache: ObjectCache) -> Kernel:
    """The kernel, ready to run.

    Args:
        width: lanes per vector, a power of two, at most 32.

    Raises:
        PtxError: an instruction that is not modelled, or code that breaks a rule of PTX.
        InternalError: LLVM does not accept what was lowered.
    """
    key = "\0".join((__version__, _lowering(), toolchain(), str(width), entry, module.file, module.text))
    stored = cache.get(key)
    if stored is not None:
        head, _, code = stored.partition(b"\n")
        program = _from_json(json.loads(head))
    else:
        program = lower(module.tree, entry, width)
        code = compile_ir(program.ir, width)
        program = dataclasses.replace(program, ir="")
        cache.put(key, json.dumps(_to_json(program)).encode() + b"\n" + code)
    loaded = LoadedCode(code, ("kcheck_run", "kcheck_block"))
    return Kernel(program, loaded, _RUN(loaded.address("kcheck_run")), _BLOCK(loaded.address("kcheck_block")))


def _to_json(program: Program) -> dict[str, Any]:
    fields = dataclasses.asdict(program)
    for variable in fields["globals"]:
        variable["initial"] = base64.b64encode(variable["initial"]).decode()
    return fields


def _from_json(fields: dict[str, Any]) -> Program:
    fields["params"] = tuple(ParamSlot(**slot) for slot in fields["params"])
    fields["sites"] = tuple(Site(**site) for site in fields["sites"])
    fields["globals"] = tuple(
        GlobalVariable(
            **variable
            | {
                "initial": base64.b64decode(variable["initial"]),
                "relocations": tuple(
                    (offset, symbol, addend) for offset, symbol, addend in variable["relocations"]
                ),
            }
        )
        for variable in fields["globals"]
    )
    return Program(**fields)
