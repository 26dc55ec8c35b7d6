"""A file in CUDA C++ with the headers of its project inlined, and the kernels that it defines and launches.

:mod:`conformance.cuda_compile` leaves out its host code.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kcheck.device.kinds.host_code import blanked, is_host_header, items, stand_in

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>).*$')
_OF_HOST = re.compile(
    r"(?:^|/)(?:helper_(?!math)\w+|exception|rendercheck\w*|param\w*|nvrtc_helper|drvapi_\w+)\.h$"
)
"""Headers of the samples without device code."""
_MOST_DEPTH = 20


def inlined(file: Path, folders: Sequence[Path], system: Sequence[Path]) -> str:
    """A file with the headers of its project instead of their includes; includes of missing files are left out.

    Args:
        folders: where headers of the project are searched, after the folder of the file that includes them.
        system: where the compiler finds headers itself; includes of these stay.
    """
    return _inlined(file, folders, system, set(), 0)


def _inlined(file: Path, folders: Sequence[Path], system: Sequence[Path], once: set[Path], depth: int) -> str:
    text = file.read_text(encoding="utf-8", errors="replace").replace("\r\n", "\n")
    if "#pragma once" in text:
        once.add(file.resolve())
    lines = []
    for line in text.split("\n"):
        found = _INCLUDE.match(line)
        if found is None:
            lines.append("" if "#pragma once" in line else line)
            continue
        name = found[1] or found[2]
        path = next((f / name for f in (file.parent, *folders) if (f / name).is_file()), None)
        if path is None and is_host_header(name):
            lines.append(stand_in(name).rstrip("\n"))
        elif any((folder / name).is_file() for folder in system):
            lines.append(line)
        elif _OF_HOST.search(name) or path is None or path.resolve() in once or depth > _MOST_DEPTH:
            lines.append("")
        else:
            lines.append(_inlined(path, folders, system, once, depth + 1))
    return "\n".join(lines)


_GLOBAL = re.compile(r"\b__global__\b")
_CALL = re.compile(r"([A-Za-z_]\w*)\s*\(")
_TEMPLATE = re.compile(r"template\s*<([^{};]*)>\s*[^<>]*$")
_ATTRIBUTES = frozenset({"__launch_bounds__", "__attribute__", "__maxnreg__", "__cluster_dims__", "alignas"})


@dataclass(frozen=True, slots=True)
class Global:
    """A ``__global__`` function that is defined: its name with namespaces, and its template parameters if any."""

    name: str
    line: int
    template: tuple[str, ...] | None


def kernels(text: str) -> list[Global]:
    """The kernels that a text defines, each once."""
    plain = blanked(text)
    found: dict[str, Global] = {}
    for item in items(text):
        body = plain[item.start : item.end]
        mark = _GLOBAL.search(body)
        if mark is None or "{" not in body:
            continue
        head = body[: body.index("{")]
        name = next((m[1] for m in _CALL.finditer(head, mark.end()) if m[1] not in _ATTRIBUTES), None)
        if name is None:
            continue
        template = _TEMPLATE.search(head[: mark.start()] + " ")
        params = tuple(_parts(template[1])) if template else None
        scope = _namespaces(plain[: item.start])
        line = text.count("\n", 0, item.start + mark.start()) + 1
        found["::".join((*scope, name))] = Global("::".join((*scope, name)), line, params)
    return list(found.values())


def _namespaces(before: str) -> list[str]:
    """The names of the namespaces that are open at the end of a text."""
    stack: list[str] = []
    start = 0
    for token in re.finditer(r"[{};]", before):
        if token[0] == "{":
            head = re.search(r"\bnamespace\s+([\w:]+)\s*$", before[start : token.start()])
            stack.append(head[1] if head else "")
        elif token[0] == "}" and stack:
            stack.pop()
        start = token.end()
    return [name for name in stack if name]


def _parts(text: str) -> list[str]:
    parts, depth, begun = [], 0, 0
    for place, letter in enumerate(text):
        depth += letter in "(<["
        depth -= letter in ")>]"
        if letter == "," and depth == 0:
            parts.append(text[begun:place].strip())
            begun = place + 1
    last = text[begun:].strip()
    return [*parts, last] if last else parts


def launched(text: str, name: str) -> list[tuple[str, ...]]:
    """The template arguments with which a text launches a kernel, as written."""
    plain = blanked(text)
    found = re.findall(
        rf"\b{re.escape(name.rpartition('::')[2])}\s*<([^;{{}}<]*(?:<[^<>]*>[^;{{}}<]*)*)>\s*<<<", plain
    )
    return list(dict.fromkeys(tuple(_parts(args)) for args in found))
