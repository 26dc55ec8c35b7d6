"""Triton's compiler for NVIDIA GPUs, stopped at PTX.

The last stage, which runs ptxas, is replaced: the "cubin" is the PTX. All earlier stages are the same as for a
GPU.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kcheck.cpu.cache import ObjectCache
from kcheck.driver.cubin import CubinResources, read_resources
from kcheck.ptx.syntax.symbols import REPLICATES
from kcheck.version import __version__

_TARGET = re.compile(rb"^\.target sm_(\d+)", re.MULTILINE)
_WORD = 4  # bytes; Triton counts spills in registers


def stop_at_ptx(compiler: Any) -> None:
    """Change ``triton.backends.nvidia.compiler``: its result is PTX, marked as code with replicated values."""

    def make_cubin(self: Any, src: str, metadata: Any, opt: Any, capability: int) -> bytes:
        return src.encode()

    def key(self: Any) -> str:
        # part of the keys of Triton's cache: a lookup must not find a cubin for a GPU
        return f"kcheck {__version__} 2 {self.target.arch}"

    plain = compiler.CUDABackend.make_ptx

    def make_ptx(self: Any, *arguments: Any) -> str:
        return f"{plain(self, *arguments)}\n{REPLICATES}\n"

    compiler.CUDABackend.make_ptx = make_ptx
    compiler.CUDABackend.make_cubin = make_cubin
    compiler.CUDABackend.hash = key


def tell_files_apart(compiler: Any) -> None:
    """Change ``triton.compiler.compiler``: the key of a kernel contains the name of its file, which is in the PTX.

    Triton's own key has only the text and the line. A kernel in a copy of a file would get PTX that names the
    other file.
    """
    plain = compiler.ASTSource.hash

    def with_file(self: Any) -> str:
        key = f"{plain(self)} {self.fn.fn.__code__.co_filename}"
        return hashlib.sha256(key.encode()).hexdigest()

    compiler.ASTSource.hash = with_file


def measure_when_read(compiler: Any, cache: ObjectCache) -> None:
    """Change ``triton.compiler.compiler``: ``n_regs`` and ``n_spills`` of a kernel are measured when a program
    reads them, with the ptxas that comes with Triton.
    """
    resources = functools.lru_cache(maxsize=1024)(_assembler(cache))

    def measured(number: Callable[[CubinResources], int]) -> property:
        def read(self: Any) -> int:
            return number(resources(self.asm["ptx"], self.metadata.name, self.metadata.target.arch))

        def ignore(self: Any, value: object) -> None:
            """Triton's loader assigns what ``load_binary`` returns, which is not measured."""

        return property(read, ignore)

    compiler.CompiledKernel.n_regs = measured(lambda found: found.registers)
    compiler.CompiledKernel.n_spills = measured(lambda found: found.local // _WORD)


def disassemble_when_read(compiler: Any) -> None:
    """Change ``triton.compiler.compiler``: a program that reads ``kernel.asm["sass"]`` has the PTX assembled, with
    the ptxas that comes with Triton, and disassembled.
    """
    plain = compiler.get_sass

    @functools.wraps(plain)
    def get_sass(code: bytes, fun: str | None = None) -> Any:
        target = _TARGET.search(code)
        return plain(_assembled(code.decode(), int(target[1])) if target else code, fun)

    compiler.get_sass = get_sass


def _assembler(cache: ObjectCache) -> Callable[[str, str, int], CubinResources]:
    def resources(ptx: str, entry: str, arch: int) -> CubinResources:
        from triton.backends.nvidia import compiler

        key = "\0".join(("ptxas", compiler.get_ptxas(arch).version, str(arch), ptx))
        stored = cache.get(key)
        if stored is not None:
            return CubinResources(**json.loads(stored))
        found = read_resources(_assembled(ptx, arch), entry, has_system_shared=arch >= 90)
        cache.put(key, json.dumps(asdict(found)).encode())
        return found

    return resources


def _assembled(ptx: str, arch: int) -> bytes:
    """The cubin that Triton's ptxas makes of PTX, for a compute capability such as 89."""
    from triton.backends.nvidia import compiler

    with tempfile.TemporaryDirectory(prefix="kcheck-ptxas-") as folder:
        source, cubin = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        source.write_text(ptx)
        target = compiler.sm_arch_from_capability(arch)
        command = [compiler.get_ptxas(arch).path, f"--gpu-name={target}", str(source), "-o", str(cubin)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"ptxas rejects the PTX: {done.stderr.strip()}")
        return cubin.read_bytes()
