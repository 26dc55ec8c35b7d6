"""Disassembles machine code with nvdisasm, a program of the CUDA toolkit, if it is installed.

numba-cuda's extras do not include it. cuobjdump is not an alternative: it runs nvdisasm itself.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path


class ToolFailed(Exception):
    """The assembler or nvdisasm rejects a kernel, or cannot be run; the message says why."""


SECONDS = 60.0
"""The time limit for one cubin; nvdisasm usually takes 0.3 s."""

_SYSTEM = "/usr/local/cuda/bin"
_VARIABLE = "NVDISASM_PATH"
_IN_PACKAGES = ("nvidia/cu13/bin", "nvidia/cu12/bin", "nvidia/cuda_nvcc/bin", "triton/backends/nvidia/bin")


def find_disassembler() -> str:
    """The path of nvdisasm on this machine; empty if it is not installed."""
    return _found(tuple(_folders(os.environ, sys.path)))


def no_disassembler() -> str:
    """Why there is no machine code, in one clause; empty if nvdisasm is installed."""
    if find_disassembler():
        return ""
    named = os.environ.get(_VARIABLE)
    if named:
        return f"there is no nvdisasm in {named}, the folder in {_VARIABLE}"
    return "nvdisasm is not installed; pip install nvidia-cuda-nvdisasm"


def _folders(environment: Mapping[str, str], packages: Iterable[str]) -> Iterator[str]:
    """The folders to search for nvdisasm, in order: wheels, which match the assembler's version, then toolkits.

    If the user names a folder, only that one; cuobjdump reads the same variable.
    """
    if named := environment.get(_VARIABLE):
        yield os.path.abspath(named)
        return
    for folder in packages:
        yield from (os.path.join(folder, below) for below in _IN_PACKAGES)
    yield from environment.get("PATH", "").split(os.pathsep)
    for variable in ("CUDA_PATH", "CUDA_HOME", "CONDA_PREFIX"):
        if environment.get(variable):
            yield os.path.join(environment[variable], "bin")
    yield _SYSTEM


@functools.cache
def _found(folders: tuple[str, ...]) -> str:
    for folder in folders:
        path = os.path.join(folder, "nvdisasm")
        # A relative folder would be a different one in each working directory.
        if os.path.isabs(folder) and os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return ""


def disassemble(cubin: bytes, program: str, seconds: float = SECONDS) -> str:
    """The functions of a cubin as nvdisasm prints them, with the lines of the source.

    Args:
        program: nvdisasm's path.
        seconds: the time limit.

    Raises:
        ToolFailed: nvdisasm cannot be run, fails, or takes too long.
    """
    with tempfile.TemporaryDirectory(prefix="kcheck-") as folder:
        file = Path(folder, "kernel.cubin")
        file.write_bytes(cubin)
        try:
            done = subprocess.run(
                [program, "--print-code", "--print-line-info", str(file)],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise ToolFailed(f"{program} took more than {seconds:g} s") from error
        except OSError as error:
            raise ToolFailed(f"{program} cannot be run: {error.strerror or error}") from error
    if done.returncode != 0:
        said = " ".join(done.stderr.decode("utf-8", "backslashreplace").split())[:300]
        said = said.replace(str(file), "the kernel")
        raise ToolFailed(f"{program} ended with {done.returncode}{': ' if said else ''}{said}")
    return done.stdout.decode("utf-8", "backslashreplace")


def identity(program: str) -> str:
    """A text that changes when a different nvdisasm is installed; does not run it."""
    try:
        status = os.stat(program)
    except OSError:
        return program
    return f"{os.path.realpath(program)} {status.st_size} {status.st_mtime_ns}"
