"""Compiles the device code of files in CUDA C++ by NVRTC, and lowers every kernel.

Compiling takes most of the time and does not depend on kcheck's lowering, so what NVRTC made is kept.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from conformance.cuda_text import Global, inlined, kernels, launched
from kcheck.device.kinds.host_code import Item, items, without
from kcheck.device.kinds.nvrtc import INCLUDE, toolkit_folders
from kcheck.errors import PtxError
from kcheck.ptx.abi import Checks
from kcheck.ptx.compile import lower
from kcheck.ptx.syntax.parser import parse

TARGET = "compute_89"
WIDTH = 8
_ROUNDS = 40
_FORMAT = 2
"""Counts changes of what is compiled, or of how it is kept."""
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
        failed: why instances could not be compiled, by their expressions in C++.
        lowered: the entries that were lowered, with all sanitizers.
        refused: why instances were not, by their expressions in C++.
        guessed: kernels whose template arguments no launch shows as literals.
        stopped: why the process that worked on it ended before; empty if it did not.
    """

    file: str
    kernels: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    lowered: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    guessed: list[str] = field(default_factory=list)
    stopped: str = ""

    @property
    def bad(self) -> set[str]:
        """The kernels with an instance that was not completely lowered, by name."""
        return {expression.partition("<")[0] for expression in (*self.failed, *self.refused)}


@dataclass
class Compiled:
    """What NVRTC made of a file.

    Attributes:
        kernels, failed, guessed: as in :class:`Judged`.
        instances: of each instance of a kernel its expression in C++, its entry, and the number of its module.
        ptx: the modules' texts.
    """

    kernels: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    guessed: list[str] = field(default_factory=list)
    instances: list[tuple[str, str, int]] = field(default_factory=list)
    ptx: list[str] = field(default_factory=list)


def judge(file: Path, root: Path, headers: Sequence[Path], kept: Path) -> Judged:
    """Compile and lower every kernel of a file.

    Args:
        root: what the file's name in the result is relative to.
        headers: folders of the project's headers.
        kept: a folder where what NVRTC made of a text is kept, by the text and how it was compiled.
    """
    compiled = _kept_or_compiled(file, headers, kept)
    judged = Judged(
        file.relative_to(root).as_posix(), compiled.kernels, failed=compiled.failed, guessed=compiled.guessed
    )
    for number, ptx in enumerate(compiled.ptx):
        _lower(ptx, {entry: name for name, entry, module in compiled.instances if module == number}, judged)
    return judged


def _kept_or_compiled(file: Path, headers: Sequence[Path], kept: Path) -> Compiled:
    system = [INCLUDE, *map(Path, toolkit_folders())]
    text = inlined(file, headers, system)
    words = [str(_FORMAT), TARGET, *map(str, toolkit_folders()), text]
    digest = hashlib.sha256("\0".join(words).encode())
    for header in sorted(INCLUDE.rglob("*.h")):
        digest.update(header.read_bytes())
    path = kept / f"{digest.hexdigest()}.json"
    if path.is_file():
        return Compiled(**json.loads(path.read_text()))
    compiled = _compiled(text, file)
    kept.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(asdict(compiled)))
    partial.replace(path)
    return compiled


def _compiled(text: str, file: Path) -> Compiled:
    found = kernels(text)
    compiled = Compiled(len(found))
    if not found:
        return compiled
    text, problem = _device_code(text)
    if problem:
        compiled.failed = {kernel.name: problem for kernel in found}
        return compiled
    # All at once, as most compile: a program takes seconds for its headers alone.
    everything = [expression for kernel in found for expression in _expressions(file, kernel, compiled)]
    ptx, names, _ = compile_text(text, everything)
    if ptx is not None:
        compiled.ptx = [ptx]
        compiled.instances = [(one, entry, 0) for one, entry in zip(everything, names, strict=True)]
        return compiled
    for expression in everything:
        ptx, names, log = compile_text(text, (expression,))
        if ptx is None:
            compiled.failed[expression] = _first(log)
            continue
        compiled.instances.append((expression, names[0], len(compiled.ptx)))
        compiled.ptx.append(ptx)
    return compiled


def _device_code(text: str) -> tuple[str, str]:
    """The text without the items that do not compile and are not device code; and the first error that is left."""
    everything = items(text)
    dropped = {item for item in everything if item.is_host and not item.is_device}
    for _ in range(_ROUNDS):
        ptx, _, log = compile_text(without(text, tuple(dropped)), ())
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


def _expressions(file: Path, kernel: Global, compiled: Compiled) -> list[str]:
    """The instances of a kernel to compile: those that the file launches, at most three."""
    if kernel.template is None:
        return [kernel.name]
    original = file.read_text(encoding="utf-8", errors="replace")
    written = [args for args in launched(original, kernel.name) if all(map(_is_literal, args))]
    if not written:
        compiled.guessed.append(kernel.name)
        written = [tuple(_guess(param) for param in kernel.template if "..." not in param)]
    return [f"{kernel.name}<{', '.join(args)}>" for args in written[:3]]


def _is_literal(argument: str) -> bool:
    return bool(_NUMBER.fullmatch(argument) or _TYPE.fullmatch(argument))


def _guess(param: str) -> str:
    """An argument for a template parameter."""
    if re.match(r"(?:typename|class)\b", param):
        return "float"
    return "true" if param.startswith("bool") else "32"


def _lower(ptx: str, wanted: Mapping[str, str], judged: Judged) -> None:
    """Lower entries of a module, given with their names, with all sanitizers.

    That includes everything that is lowered without sanitizers.
    """
    try:
        module = parse(ptx, "kernel.ptx")
    except PtxError as error:
        judged.refused.update(dict.fromkeys(wanted.values(), _cause(error)))
        return
    for entry, name in wanted.items():
        try:
            lower(module, entry, WIDTH, Checks(race=True, init=True, overflow=True))
        except PtxError as error:
            judged.refused[name] = _cause(error)
        else:
            judged.lowered.append(entry)


def _cause(error: PtxError) -> str:
    """What is refused, without the place."""
    return re.sub(r"^\S+:\d+: ", "", str(error))


def compile_text(text: str, expressions: Sequence[str]) -> tuple[str | None, list[str], str]:
    """The PTX, or None; the names of the entries for the expressions; and the compiler's log if it fails."""
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
            log = _content(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program)
            return None, [], log or str(code)
        names = [nvrtc.nvrtcGetLoweredName(program, one.encode())[1].decode() for one in expressions]
        return _content(nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX, program), names, ""
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _content(size_of: Any, write: Any, program: Any) -> str:
    buffer = bytes(int(size_of(program)[1]))
    write(program, buffer)
    return buffer.rstrip(b"\0").decode(errors="replace")
