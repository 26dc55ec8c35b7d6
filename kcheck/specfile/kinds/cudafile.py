"""Read the kernels, their parameters and the includes from the text of a CUDA C++ file.

The preprocessor is not run, so kernels that a macro defines are not found. A name is certainly not a kernel only
if it occurs nowhere in the file and in the headers of the project that it includes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from kcheck.dataclass import dataclass
from kcheck.specfile.kinds.text import read_text, without_comments

_GLOBAL = re.compile(r"\b__global__\b")
_NAMESPACE = re.compile(r"\b(inline\s+)?namespace\s+((?:\w+(?:::\w+)*)?)\s*\{")
_USING = re.compile(r"\busing\s+(?:namespace\b|\w+::)")
_WORD = re.compile(r"[A-Za-z_]\w*")
_CALL = re.compile(r"([A-Za-z_]\w*)\s*\(")
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>|(\S.*))', re.MULTILINE)
_HAS_INCLUDE = re.compile(r'__has_include(?:_next)?\s*\(\s*(?:"([^"\n]+)"|<([^>\n]+)>)')
_ATTRIBUTES = frozenset({"__launch_bounds__", "__attribute__", "__maxnreg__", "__cluster_dims__", "alignas"})
_OPEN, _CLOSE = "([{<", ")]}>"


@dataclass(frozen=True, slots=True)
class CudaKernel:
    """A ``__global__`` function: its line, and the text of each parameter, such as ``const float* x``.

    Attributes:
        namespace: the namespaces around it, such as ``a::b``; empty at the top level, and in a namespace that is
            anonymous or inline.
    """

    name: str
    line: int
    parameters: tuple[str, ...]
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class CudaFile:
    """A file in CUDA C++ or a header.

    Attributes:
        kernels: by name without namespaces; the last one of several overloads.
        words: every identifier.
        includes: (name, whether in quotes), in order, without duplicates; also those that a condition excludes.
        computed: whether an ``#include`` names a macro, so that the text does not show which file is included.
        usings: whether names of a namespace may be used without it: ``using namespace`` or ``using a::b``.
    """

    kernels: Mapping[str, CudaKernel]
    words: frozenset[str]
    includes: tuple[tuple[str, bool], ...]
    computed: bool
    usings: bool = False


def read_cuda(file: Path) -> CudaFile:
    """A file's kernels and includes; cached by its size and modification time.

    Raises:
        OSError, UnicodeDecodeError, TooLarge: as :func:`kcheck.specfile.kinds.text.read_text`.
    """
    status = os.stat(file)
    return _read(str(file), status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=1024)
def _read(path: str, size: int, _changed: int) -> CudaFile:
    text = without_comments(read_text(Path(path), size))
    kernels: dict[str, CudaKernel] = {}
    for kernel in _kernels(text):
        named = kernels.get(kernel.name, kernel)
        kernels[kernel.name] = kernel if named.namespace == kernel.namespace else replace(kernel, namespace="")
    includes: dict[tuple[str, bool], None] = {}
    computed = False
    for pattern in (_INCLUDE, _HAS_INCLUDE):
        for match in pattern.finditer(text):
            quoted, angled = match[1], match[2]
            if quoted or angled:
                includes[quoted or angled, bool(quoted)] = None
            else:
                computed = True
    usings = _USING.search(text) is not None
    return CudaFile(kernels, frozenset(_WORD.findall(text)), tuple(includes), computed, usings)


def _kernels(text: str) -> Iterator[CudaKernel]:
    namespaces = _namespaces(text)
    for start in _GLOBAL.finditer(text):
        at = start.end()
        while (call := _CALL.search(text, at)) is not None:
            if ";" in text[at : call.start()] or "{" in text[at : call.start()]:
                break
            end = closing(text, call.end() - 1)
            if call[1] not in _ATTRIBUTES:
                inside = text[call.end() : end]
                line = text.count("\n", 0, call.start()) + 1
                around = "::".join(
                    name for name, begin, stop in namespaces if name and begin < start.start() < stop
                )
                yield CudaKernel(call[1], line, tuple(_split(inside)), around)
                break
            at = end + 1


def _namespaces(text: str) -> list[tuple[str, int, int]]:
    """The namespaces of a text from the outermost: (name, start of the body, end)."""
    found = []
    for match in _NAMESPACE.finditer(text):
        end = closing(text, match.end() - 1, "{", "}")
        is_known = not match[1] and end < len(text)  # a condition of the preprocessor may have another brace
        found.append((match[2] if is_known else "", match.end(), end))
    return found


def closing(text: str, at: int, opens: str = "(", closes: str = ")") -> int:
    """The index of the parenthesis that closes the one at ``at``, or the end of the text."""
    depth = 0
    for place in range(at, len(text)):
        if text[place] == opens:
            depth += 1
        elif text[place] == closes:
            depth -= 1
            if depth == 0:
                return place
    return len(text)


def _split(text: str) -> Iterator[str]:
    """The parts of a parameter list; none for ``()`` and ``(void)``."""
    depth, begun = 0, 0
    if text.strip() in ("", "void"):
        return
    for place, letter in enumerate(text):
        if letter in _OPEN:
            depth += 1
        elif letter in _CLOSE:
            depth -= 1
        elif letter == "," and depth == 0:
            yield " ".join(text[begun:place].split())
            begun = place + 1
    yield " ".join(text[begun:].split())


def headers(file: Path, folders: Sequence[Path]) -> tuple[dict[str, str | None], bool]:
    """The files that a file includes, directly or indirectly, if they are in its folder or in ``folders``.

    Returns:
        The real path for each path that was tried, or None if there is no such file; and whether an include is
        computed, so that files may be missing from the result.
    """
    found: dict[str, str | None] = {}
    pending, computed = [file], False
    seen: set[str] = set()
    while pending:
        path = pending.pop()
        real = os.path.realpath(path)
        if real in seen:
            continue
        seen.add(real)
        try:
            read = read_cuda(Path(real))
        except (OSError, UnicodeDecodeError):
            continue
        computed = computed or read.computed
        for name, quoted in read.includes:
            for folder in (path.parent, *folders) if quoted else folders:
                place = os.path.join(folder, name)
                if os.path.isfile(place):
                    found[place] = os.path.realpath(place)
                    pending.append(Path(place))
                    break
                found[place] = None
    return found, computed
