"""Compiles the device code of files in CUDA C++ by NVRTC, and lowers every kernel."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from conformance.cuda_text import Global, Item, inlined, items, kernels, launched, without
from kcheck.device.kinds.nvrtc import INCLUDE, toolkit_folders
from kcheck.errors import PtxError
from kcheck.ptx.abi import Checks
from kcheck.ptx.compile import lower
from kcheck.ptx.syntax.parser import parse

TARGET = "compute_89"
WIDTH = 8
_ROUNDS = 40
_ERROR = re.compile(r"^[^\n(]*\((\d+)\): (?:catastrophic )?error(?: #[\w-]+)?: (.*)", re.MULTILINE)
_THROUGH = re.compile(r"at line (\d+)")
_NUMBER = re.compile(r"-?\d+[uUlL]*|true|false")
_TYPE = re.compile(
    r"(?:unsigned |signed |long )*(?:int|char|short|float|double|long|bool"
    r"|u?int\d+_t|float[234]|uchar[124])"
)


@dataclass
class Judged:
    """What became of a file.

    Attributes:
        kernels: how many ``__global__`` functions it defines, headers of the project included.
        failed: why kernels could not be compiled, by name.
        lowered: the instances that were lowered, with all sanitizers.
        refused: why instances were not, by name.
        guessed: kernels whose template arguments no launch shows as literals.
    """

    file: str
    kernels: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    lowered: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    guessed: list[str] = field(default_factory=list)


def judge(file: Path, root: Path, headers: Sequence[Path]) -> Judged:
    """Compile and lower every kernel of a file.

    Args:
        root: what the file's name in the result is relative to.
        headers: folders of the project's headers.
    """
    judged = Judged(file.relative_to(root).as_posix())
    system = [INCLUDE, *map(Path, toolkit_folders())]
    text = inlined(file, headers, system)
    found = kernels(text)
    judged.kernels = len(found)
    if not found:
        return judged
    text, problem = _device_code(text)
    for kernel in found:
        if problem:
            judged.failed[kernel.name] = problem
            continue
        for ptx, entry in _instances(text, file, kernel, judged):
            _lower(ptx, entry, kernel.name, judged)
    return judged


def _device_code(text: str) -> tuple[str, str]:
    """The text without the items that do not compile and are not device code; and the first error that is left."""
    everything = items(text)
    dropped = {item for item in everything if item.is_host and not item.is_device}
    for _ in range(_ROUNDS):
        ptx, log = compile_text(without(text, tuple(dropped)), ())
        if ptx is not None:
            return without(text, tuple(dropped)), ""
        places = _places(log)
        wrong = {item for line in places for item in _at(everything, line) if item not in dropped}
        hosts = {item for item in wrong if not item.is_device}
        if not hosts:
            # A device function may need what only host code or another library has: then it goes, kernels last.
            hosts = {item for item in wrong if "__global__" not in text[item.start : item.end]} or wrong
        if not hosts:
            return text, _first(log)
        dropped |= hosts
    return text, _first(log)


def _places(log: str) -> list[int]:
    """The lines that errors name, each with the lines that led there."""
    return [int(line) for line, _ in _ERROR.findall(log)] + [int(line) for line in _THROUGH.findall(log)]


def _at(everything: Sequence[Item], line: int) -> Iterator[Item]:
    return (item for item in everything if item.first <= line <= item.last)


def _first(log: str) -> str:
    found = _ERROR.search(log)
    return found[2].strip() if found else " ".join(log.split())[:200]


def _instances(text: str, file: Path, kernel: Global, judged: Judged) -> Iterator[tuple[str, str]]:
    """The PTX and the entry of each instance of a kernel."""
    expressions = [kernel.name]
    if kernel.template is not None:
        original = file.read_text(encoding="utf-8", errors="replace")
        written = [args for args in launched(original, kernel.name) if all(map(_is_literal, args))]
        if not written:
            judged.guessed.append(kernel.name)
            written = [tuple(_guess(param) for param in kernel.template if "..." not in param)]
        expressions = [f"{kernel.name}<{', '.join(args)}>" for args in written[:3]]
    why = ""
    for expression in expressions:
        ptx, log = compile_text(text, (expression,))
        if ptx is not None:
            yield ptx, log
        else:
            why = _first(log)
    if why:
        judged.failed[kernel.name] = why


def _is_literal(argument: str) -> bool:
    return bool(_NUMBER.fullmatch(argument) or _TYPE.fullmatch(argument))


def _guess(param: str) -> str:
    """An argument for a template parameter."""
    if re.match(r"(?:typename|class)\b", param):
        return "float"
    return "true" if param.startswith("bool") else "32"


def _lower(ptx: str, wanted: str, name: str, judged: Judged) -> None:
    """Lower the entries of a module with all sanitizers, which includes what is lowered without."""
    try:
        module = parse(ptx, "kernel.ptx")
    except PtxError as error:
        judged.refused[name] = _cause(error)
        return
    for entry in module.entries:
        if entry.name != wanted:
            continue
        try:
            lower(module, entry.name, WIDTH, Checks(race=True, init=True, overflow=True))
        except PtxError as error:
            judged.refused[name] = _cause(error)
        else:
            judged.lowered.append(entry.name)


def _cause(error: PtxError) -> str:
    """What is refused, without the place."""
    return re.sub(r"^\S+:\d+: ", "", str(error))


def compile_text(text: str, expressions: Sequence[str]) -> tuple[str | None, str]:
    """The PTX with the name of the entry for the first expression, or None with the compiler's log."""
    nvrtc: Any = import_module("cuda.bindings.nvrtc")
    options = [
        f"--gpu-architecture={TARGET}",
        "-lineinfo",
        "--std=c++17",
        "--device-as-default-execution-space",
        "--relocatable-device-code=true",
        "--pre-include=kcheck_prelude.h",
        *(f"--include-path={folder}" for folder in (INCLUDE, *toolkit_folders())),
    ]
    _, program = nvrtc.nvrtcCreateProgram(text.encode(), b"source.cu", 0, [], [])
    try:
        for expression in expressions:
            nvrtc.nvrtcAddNameExpression(program, expression.encode())
        (code,) = nvrtc.nvrtcCompileProgram(program, len(options), [option.encode() for option in options])
        if int(code):
            return None, _content(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program) or str(code)
        entry = nvrtc.nvrtcGetLoweredName(program, expressions[0].encode())[1].decode() if expressions else ""
        return _content(nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX, program), entry
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _content(size_of: Any, write: Any, program: Any) -> str:
    buffer = bytes(int(size_of(program)[1]))
    write(program, buffer)
    return buffer.rstrip(b"\0").decode(errors="replace")
