"""Assembles PTX: the resources of a kernel, and its machine code."""

from __future__ import annotations

import functools
import os
import re
from dataclasses import replace

from kcheck.cpu.cache import ObjectCache
from kcheck.device.disassembler import ToolFailed, disassemble, find_disassembler, identity, no_disassembler
from kcheck.driver.compile_errors import compiler_message
from kcheck.driver.cubin import assembler_version, read_resources
from kcheck.driver.install import settings
from kcheck.errors import InternalError
from kcheck.model.compiled import CompiledKernel, Resources


def entry_resources(ptx: str, entry: str, target: str, max_registers: int | None = None) -> Resources:
    """The resources that ptxas reports for a kernel of a module; cached on disk, because ptxas takes 0.1 s.

    Raises:
        ToolFailed: the assembler rejects the module.
    """
    store = ObjectCache(settings(os.environ).cache / "ptxas")
    key = "\0".join(("ptxas", assembler_version(), target, str(max_registers), entry, ptx))
    stored: Resources | None = store.load(key)
    if stored is not None:
        return stored
    found = assemble(ptx, target, max_registers)
    if entry not in found:
        raise InternalError(f"ptxas reported on {', '.join(found)}, not on {entry}")
    store.store(key, found[entry])
    return found[entry]


def assembled(code: CompiledKernel, target: str, *, sass: bool = False) -> CompiledKernel:
    """A kernel's PTX assembled for a target, with its resources; ``problem`` says why the assembler rejects it.

    Args:
        code: the kernel with its PTX, whose target may be older.
    """
    try:
        made = replace(code, target=target, resources=entry_resources(code.ptx, code.entry, target))
    except ToolFailed as error:
        return replace(code, target=target, entry="", ptx="", problem=str(error))
    return disassembled(made) if sass else made


def disassembled(kernel: CompiledKernel, max_registers: int | None = None) -> CompiledKernel:
    """The kernel with its machine code, or why there is none; cached on disk, because it takes 0.3 s."""
    program = find_disassembler()
    if not program:
        return replace(kernel, no_sass=no_disassembler())
    store = ObjectCache(settings(os.environ).cache / "sass")
    versions = ("sass", assembler_version(), identity(program))
    key = "\0".join((*versions, kernel.target, str(max_registers), kernel.ptx))
    stored: str | None = store.load(key)
    if stored is not None:
        return replace(kernel, sass=stored)
    try:
        text = disassemble(link(kernel.ptx, kernel.target, max_registers)[0], program)
    except ToolFailed as error:
        return replace(kernel, no_sass=str(error))
    store.store(key, text)
    return replace(kernel, sass=text)


def assemble(ptx: str, target: str, max_registers: int | None = None) -> dict[str, Resources]:
    """The resources of each kernel of a module, by mangled name.

    They are from ptxas's log, except for registers: the log has only those of the kernel's own code. If a linked
    subroutine needs more (a division of 64-bit integers), a launch allocates that many; the cubin has the number.

    Raises:
        ToolFailed: the assembler rejects the module; the message is the assembler's.
    """
    code, log = link(ptx, target, max_registers)
    found = {}
    for entry, told in read_ptxas_log(log).items():
        linked = read_resources(code, entry, has_system_shared=capability(target) >= (9, 0))
        found[entry] = replace(told, registers=max(told.registers, linked.registers))
    return found


@functools.lru_cache(maxsize=1)  # the code is often requested right after the resources
def link(ptx: str, target: str, max_registers: int | None = None) -> tuple[bytes, str]:
    """The cubin of a module, and what ptxas (in nvJitLink) reports with ``-v`` for each kernel.

    Raises:
        ToolFailed: the assembler rejects the module; the message is the assembler's.
    """
    from cuda.core import Linker, LinkerOptions, ObjectCode

    options = LinkerOptions(
        arch=_architecture(ptx, target), ptxas_options=["-v"], max_register_count=max_registers
    )
    try:
        linker = Linker(ObjectCode.from_ptx(ptx.encode()), options=options)
        try:
            code = bytes(linker.link("cubin").code)
            return code, linker.get_info_log()
        finally:
            linker.close()
    except Exception as fault:  # nvJitLink's errors have no common base class
        raise ToolFailed(f"the assembler rejects it for {target}: {compiler_message(fault)}") from fault


_SPECIFIC = re.compile(r"^\s*\.target\s+(sm_\d+)[af]\b", re.MULTILINE)


def _architecture(ptx: str, target: str) -> str:
    """What to assemble for: Triton writes ``.target sm_90a`` for compute capability 9.0, and ptxas assembles such
    code only for a target with that suffix."""
    specific = _SPECIFIC.search(ptx, 0, ptx.find("{"))
    return specific[0].split()[1] if specific is not None and specific[1] == target else target


_COMPILING = re.compile(r"Compiling entry function '([^']+)'")


def read_ptxas_log(log: str) -> dict[str, Resources]:
    """The resources of each entry in ``ptxas -v``'s log.

    Raises:
        InternalError: the log contains no entry, or not the registers of one.
    """
    parts = _COMPILING.split(log)[1:]
    found = {}
    for entry, text in zip(parts[::2], parts[1::2], strict=True):
        used = re.search(r"Used (\d+) registers", text)
        if used is None:
            raise InternalError(f"ptxas reported no registers of {entry}:\n{log}")

        def size(pattern: str, text: str = text) -> int:
            return max((int(bytes_) for bytes_ in re.findall(pattern, text)), default=0)

        found[entry] = Resources(
            registers=int(used[1]),
            spill_stores=size(r"(\d+) bytes spill stores"),
            spill_loads=size(r"(\d+) bytes spill loads"),
            stack=size(r"(\d+) bytes stack frame"),
            shared=size(r"(\d+) bytes smem"),
            constant=sum(int(bytes_) for bytes_ in re.findall(r"(\d+) bytes cmem\[\d+\]", text)),
        )
    if not found:
        raise InternalError(f"ptxas reported no registers:\n{log}")
    return found


def capability(target: str) -> tuple[int, int]:
    """(major, minor) of a target such as ``sm_90a``."""
    digits = re.sub(r"\D", "", target)
    return int(digits[:-1]), int(digits[-1])
