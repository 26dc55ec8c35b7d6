"""Compiles CUDA C++ to PTX in this process, with NVRTC from the installed wheels."""

from __future__ import annotations

import functools
import hashlib
import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

from kcheck.cpu.cache import ObjectCache
from kcheck.dataclass import dataclass
from kcheck.device.kinds.host_code import (
    Item,
    WholeText,
    declared,
    items,
    rejected,
    stand_in,
    whole,
    without,
)
from kcheck.device.kinds.signature import ASKING, CppParameter, Members, answer, question
from kcheck.device.kinds.unused import without_unused
from kcheck.driver.install import settings

_ROUNDS = 12  # of removing host code: each shows errors that the previous one hid
INCLUDE = Path(__file__).parent / "include"
"""kcheck's headers: what nvcc declares without an #include, and the C and C++ headers that NVRTC lacks."""


@dataclass(frozen=True, slots=True)
class Source:
    """The source to compile.

    Attributes:
        file: its real path.
        text: its content.
        expression: the C++ name of the kernel, such as ``softmax<float, 4>``.
        folders: the folders with headers, in order.
        options: options of NVRTC, without the target and the folders.
        headers: (name, content) of all files of the project that it may include; None if they are unknown, so that
            the result cannot be cached.
        host_headers: names of headers that only host code needs, and that are not in the project.
        members: the members of structs among the parameters to describe.
    """

    file: str
    text: str
    expression: str
    folders: tuple[str, ...]
    options: tuple[str, ...]
    headers: tuple[tuple[str, str], ...] | None
    host_headers: tuple[str, ...] = ()
    members: Members = ()


@dataclass(frozen=True, slots=True)
class Compiled:
    """PTX, the name of the kernel in it, and its parameters."""

    ptx: str
    entry: str
    parameters: tuple[CppParameter, ...]


@dataclass(frozen=True, slots=True)
class Message:
    """An error of the compiler, with its place; lines and columns are counted from 1.

    Attributes:
        column: 0 if it is unknown.
        through: (file, line) of the instantiations that led to it, innermost first.
    """

    file: str
    line: int
    column: int
    text: str
    through: tuple[tuple[str, int], ...] = ()


class CompileFailed(Exception):
    """NVRTC rejected the source. ``messages`` are its errors, in order; ``log`` is its complete log."""

    def __init__(self, messages: Sequence[Message], log: str) -> None:
        super().__init__(log)
        self.messages, self.log = tuple(messages), log


def compile_source(source: Source, target: str) -> Compiled:
    """Compile a source, or take the result from the cache.

    Args:
        target: such as ``sm_80``.

    Raises:
        CompileFailed: NVRTC rejects it.
    """
    store = ObjectCache(settings(os.environ).cache / "nvrtc")
    key = None if source.headers is None else _key(source, target)
    made: Compiled | None = None if key is None else store.load(key)
    if made is None:
        made = _compile(source, target)
        if key is not None:
            store.store(key, made)
    return made


def _key(source: Source, target: str) -> str:
    parts = ["nvrtc", _versions(), target, source.file, source.expression]
    parts += [
        *source.folders,
        "",
        *source.options,
        "",
        *source.host_headers,
        "",
        repr(source.members),
        source.text,
    ]
    parts += [part for header in source.headers or () for part in header]
    return "\0".join(parts)


@functools.cache
def _versions() -> str:
    """The versions of NVRTC, of the headers of its wheels, and of kcheck's own headers."""
    nvrtc: Any = import_module("cuda.bindings.nvrtc")
    _, major, minor = nvrtc.nvrtcVersion()
    found = [f"{major}.{minor}"]
    for name in ("nvidia-cuda-runtime", "nvidia-cuda-cccl", "nvidia-cuda-crt", "nvidia-curand"):
        for suffix in ("", f"-cu{major}"):
            try:
                found.append(metadata.version(name + suffix))
            except metadata.PackageNotFoundError:
                found.append("")
    digest = hashlib.blake2b(digest_size=8)
    for path in sorted(INCLUDE.rglob("*")):
        if path.is_file():
            digest.update(path.name.encode() + path.read_bytes())
    return " ".join((*found, digest.hexdigest()))


@functools.cache
def toolkit_folders() -> tuple[str, ...]:
    """The folders of the CUDA toolkit's headers in the installed wheels."""
    pathfinder: Any = import_module("cuda.pathfinder")
    found: dict[str, None] = {}
    for name in ("cudart", "cccl", "curand"):
        folder = pathfinder.find_nvidia_header_directory(name)
        if folder is not None:
            found[os.path.realpath(folder)] = None
    # Wheels of CUDA 12 have a folder for each package, nvidia/cuda_nvcc/include/crt, and may be in another site.
    sites = dict.fromkeys([*(str(Path(folder).parents[2]) for folder in found), *sys.path])
    crt = (part for site in sites for part in sorted(Path(site).glob("nvidia/*/include/crt")))
    return tuple(dict.fromkeys([*found, *(os.path.realpath(part.parent) for part in crt)]))


def _compile(source: Source, target: str) -> Compiled:
    """Compile the device code: host code that the compiler rejects is removed.

    If device code needs something that was removed, the error in the removed code comes first. The next instance
    of a kernel in the file is first compiled without what was removed for this one.
    """
    whose = replace(source, expression="", members=())
    if whose in _REMOVED:
        try:
            return _compile_text(_REMOVED[whose], source, target)
        except CompileFailed:
            del _REMOVED[whose]
    try:
        return _compile_text(source.text, source, target)
    except CompileFailed as failed:
        problem = failed
    full = whole(source.file, source.text, source.folders)
    everything = items(full.text)
    left_out: dict[Item, Message | None] = {}
    for _ in range(_ROUNDS):
        causes = {place: message for message in reversed(problem.messages) for place in _places(message)}
        lines = full.lines_at(causes)
        found = rejected(everything, lines, has_host_header=bool(source.host_headers))
        if not found:
            break
        if not left_out:  # NVRTC shows only the first of many errors: each function would need a round
            left_out = dict.fromkeys(item for item in everything if item.is_foreign and not item.is_device)
        for item in found:
            at = min(line for line in lines if item.first <= line <= item.last)
            left_out[item] = left_out.get(item) or causes[lines[at]]
        text = without(full.text, left_out)
        try:
            made = _compile_text(text, source, target)
        except CompileFailed as failed:
            problem = failed
        else:
            if len(_REMOVED) >= _MOST_REMOVED:
                _REMOVED.clear()
            _REMOVED[whose] = text
            return made
    missing = {name for message in problem.messages for name in _named(message, full)}
    reasons = []
    for item, cause in left_out.items():
        if missing & declared(full.text, item):
            others = without(full.text, left_out.keys() - {item})
            reasons += [cause] if cause is not None else _errors_in(item, others, full, source, target)
    if reasons:  # the others follow from them: what was rejected first is no longer there
        raise CompileFailed(tuple(dict.fromkeys(reasons)), problem.log)
    raise problem


_REMOVED: dict[Source, str] = {}
"""The text that was compiled of files from which host code was removed; the sources have no expression."""
_MOST_REMOVED = 32


def _errors_in(item: Item, text: str, full: WholeText, source: Source, target: str) -> list[Message]:
    """The first error in an item of a text, if any."""
    try:
        _compile_text(text, source, target)
        return []
    except CompileFailed as failed:
        lines = [(full.lines_at(_places(message)), message) for message in failed.messages]
    return [message for at, message in lines if any(item.first <= line <= item.last for line in at)][:1]


def _named(message: Message, full: WholeText) -> set[str]:
    """The names that an error is about: those that it quotes, and the one at its place."""
    found = set(re.findall(r'"(?:\w+::)*(\w+)', message.text))
    for number in full.lines_at([(message.file, message.line)]):
        line = full.text.split("\n")[number - 1]
        found.update(re.findall(r"\w+", line[max(message.column - 1, 0) :])[:1] if message.column else ())
    found.update(re.findall(r"^(\w+) is not a ", message.text))
    return found - _KEYWORDS


_KEYWORDS = frozenset(
    {
        "template",
        "class",
        "struct",
        "typename",
        "const",
        "static",
        "inline",
        "void",
        "int",
        "float",
        "double",
        "bool",
    }
    | {
        "char",
        "unsigned",
        "long",
        "short",
        "auto",
        "constexpr",
        "sizeof",
        "alignas",
        "namespace",
        "using",
        "T",
        "N",
    }
    | {"__device__", "__global__", "__host__"}
)
"""Words that nearly every declaration has."""


def _places(message: Message) -> list[tuple[str, int]]:
    """(file, line) of an error, and of the instantiations that led to it."""
    return [(message.file, message.line), *message.through]


def _compile_text(text: str, source: Source, target: str) -> Compiled:
    nvrtc: Any = import_module("cuda.bindings.nvrtc")
    text += question(source.expression, source.members)
    folders = (*source.folders, str(INCLUDE), *toolkit_folders())
    options = [
        f"--gpu-architecture={target.replace('sm_', 'compute_')}",
        "-lineinfo",
        "--device-as-default-execution-space",
        "--device-int128",
        "--pre-include=kcheck_prelude.h",
        *(f"--include-path={folder}" for folder in folders),
        *source.options,
    ]
    names = [name.encode() for name in source.host_headers]
    contents = [stand_in(name).encode() for name in source.host_headers]
    program = _checked(nvrtc.nvrtcCreateProgram(text.encode(), source.file.encode(), len(names), contents, names))
    try:
        for expression in (source.expression, f"&{ASKING}"):
            _checked(nvrtc.nvrtcAddNameExpression(program, expression.encode()))
        (code,) = nvrtc.nvrtcCompileProgram(program, len(options), [option.encode() for option in options])
        if int(code):
            log = _text(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program)
            if int(code) == int(nvrtc.nvrtcResult.NVRTC_ERROR_INVALID_OPTION):
                log = log or "error: an option is not valid"
            raise CompileFailed(tuple(read_log(log, source)), log or str(code))
        entry = _checked(nvrtc.nvrtcGetLoweredName(program, source.expression.encode())).decode()
        ptx = _text(nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX, program)
    finally:
        nvrtc.nvrtcDestroyProgram(program)
    ptx, parameters = answer(ptx, source.members)
    return Compiled(without_unused(ptx), entry, parameters)


def _checked(results: Sequence[Any]) -> Any:
    """The result of a call of NVRTC, without its code.

    Raises:
        CompileFailed: the code is an error.
    """
    code, *values = results
    if int(code):
        raise CompileFailed((), f"NVRTC: {getattr(code, 'name', code)}")
    return values[0] if values else None


def _text(size_of: Any, write: Any, program: Any) -> str:
    content = bytearray(int(_checked(size_of(program))))
    buffer = bytes(content)
    _checked(write(program, buffer))
    return buffer.rstrip(b"\0").decode(errors="replace")


_KIND = r"(?:catastrophic |fatal )?error(?: #[\w-]+)?"
_ERROR = re.compile(rf"^(?P<file>.*?)\((?P<line>\d+)\): {_KIND}: (?P<text>.*)")
_THROUGH = re.compile(r"at line (\d+)(?: of (\S+))?")
_END = re.compile(r"^\S.*\((?:\d+)\): |^\d+ (?:catastrophic )?errors? |^Compilation terminated")


def read_log(log: str, source: Source) -> Iterator[Message]:
    """The errors in NVRTC's log, each with the column that its caret shows."""
    lines = log.replace("\0", "").splitlines()
    for start, line in enumerate(lines):
        found = _ERROR.match(line)
        if found is None:
            continue
        text, column, through = [found["text"].strip()], 0, []
        below = lines[start + 1 :]
        for more, after in zip(below, [*below[1:], ""], strict=True):
            if _END.match(more):
                break
            if more.strip() == "^":
                column = len(more) - 2  # the excerpt is indented by two
            through += [(place[2] or found["file"], int(place[1])) for place in _THROUGH.finditer(more)]
            if more.startswith("          ") and not column and after.strip() != "^":  # not the excerpt
                text.append(more.strip())
        yield Message(found["file"], int(found["line"]), max(column, 0), " ".join(text), tuple(through))
    if log and not any(_ERROR.match(line) for line in lines):
        yield Message(source.file, 1, 0, " ".join(log.split())[:400])
