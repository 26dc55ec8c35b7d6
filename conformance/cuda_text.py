"""The device code of a file in CUDA C++ whose host code needs nvcc: headers are inlined, host code is left out.

The text is split into *items*: what a ``;`` or a closing brace ends at file scope or in a namespace. Items with
words of the host are left out. The compiler finds the others: :mod:`conformance.cuda_compile` drops items with
errors.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>).*$')
_TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"\(.*?\)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|^[ \t]*#(?:\\\n|[^\n])*|[{}();]',
    re.DOTALL | re.MULTILINE,
)
_SCOPE = re.compile(r'(?:\bnamespace\b[^(;]*|\bextern\s*"C"\s*)$')
_DEVICE = re.compile(r"\b(?:__global__|__device__|__constant__)\b")
_ONLY_HOST = re.compile(
    r"<<<|\bmain\s*\(|\bcu(?:da)?[A-Z]\w+\s*\(|\b(?:checkCudaErrors|cudaCheck|malloc|fopen|exit)\s*\("
    r"|\bstd::|\bgl[A-Z]\w+\("
)
_OF_HOST = re.compile(
    r"(?:^|/)(?:helper_(?!math)\w+|exception|rendercheck\w*|param\w*|nvrtc_helper|drvapi_\w+)\.h$"
)
"""Headers of the samples without device code."""
_MOST_DEPTH = 20


@dataclass(frozen=True, slots=True)
class Item:
    """A declaration at file scope: where its text begins and ends, its first and last line in the inlined text."""

    start: int
    end: int
    first: int
    last: int
    is_device: bool
    is_host: bool


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
        if any((folder / name).is_file() for folder in system):
            lines.append(line)
            continue
        if _OF_HOST.search(name):
            lines.append("")
            continue
        path = next((f / name for f in (file.parent, *folders) if (f / name).is_file()), None)
        if path is None or path.resolve() in once or depth > _MOST_DEPTH:
            lines.append("")
        else:
            lines.append(_inlined(path, folders, system, once, depth + 1))
    return "\n".join(lines)


def items(text: str) -> list[Item]:
    """The items of a text, in order. Preprocessor lines are not items."""
    found: list[Item] = []
    start, depth, parens, scopes = 0, 0, 0, 0
    in_head = True

    def close(end: int) -> None:
        body = _TOKEN.sub(_kept, text[start:end])
        lead = len(body) - len(body.lstrip())
        if body.strip(" \t\n;"):
            first = text.count("\n", 0, start + lead) + 1
            last = text.count("\n", 0, end) + 1
            device, host = bool(_DEVICE.search(body)), bool(_ONLY_HOST.search(body))
            found.append(Item(start + lead, end, first, last, device, host))

    for token in _TOKEN.finditer(text):
        word = token[0]
        if word.lstrip().startswith("#"):
            if depth == 0 and parens == 0 and not _TOKEN.sub(_kept, text[start : token.start()]).strip():
                start = token.end()
        elif word == "(":
            parens += 1
        elif word == ")":
            parens = max(parens - 1, 0)
        elif word == "{":
            if depth == 0 and parens == 0 and _SCOPE.search(text[start : token.start()].rstrip()):
                scopes, start = scopes + 1, token.end()
                continue
            if depth == 0:
                in_head = _is_function(_TOKEN.sub(_kept, text[start : token.start()]))
            depth += 1
        elif word == "}":
            if depth == 0:
                scopes, start, parens = max(scopes - 1, 0), token.end(), 0
                continue
            depth -= 1
            if depth == 0:
                parens = 0
                if in_head:
                    close(token.end())
                    start = token.end()
        elif word == ";" and depth == 0 and parens == 0:
            close(token.end())
            start = token.end()
    return found


def _kept(token: re.Match[str]) -> str:
    """A token without comments, strings and preprocessor lines, of the same length and lines."""
    if len(token[0]) == 1:
        return token[0]
    return re.sub(r"[^\n]", " ", token[0])


def _is_function(head: str) -> bool:
    """Whether a brace after this text begins the body of a function, after which there is no ``;``."""
    return ")" in head and not re.search(r"=\s*$", head)


def without(text: str, dropped: Sequence[Item]) -> str:
    """The text with blanks instead of some items; lines keep their numbers."""
    parts, at = [], 0
    for item in sorted(dropped, key=lambda item: item.start):
        parts += [text[at : item.start], re.sub(r"[^\n]", " ", text[item.start : item.end])]
        at = item.end
    return "".join((*parts, text[at:]))


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
    plain = _TOKEN.sub(_kept, text)
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
    plain = _TOKEN.sub(_kept, text)
    found = re.findall(
        rf"\b{re.escape(name.rpartition('::')[2])}\s*<([^;{{}}<]*(?:<[^<>]*>[^;{{}}<]*)*)>\s*<<<", plain
    )
    return list(dict.fromkeys(tuple(_parts(args)) for args in found))
