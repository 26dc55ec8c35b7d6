"""Read the kernels, their parameters and the includes from the text of a CUDA C++ file.

The preprocessor is not run, so kernels that a macro defines are not found. A name is certainly not a kernel only
if it occurs nowhere in the file and in the headers of the project that it includes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from kcheck.dataclass import dataclass
from kcheck.specfile.kinds.text import read_text, without_comments

_GLOBAL = re.compile(r"\b__global__\b")
_WORD = re.compile(r"[A-Za-z_]\w*")
_CALL = re.compile(r"([A-Za-z_]\w*)\s*\(")
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>|(\S.*))', re.MULTILINE)
_HAS_INCLUDE = re.compile(r'__has_include(?:_next)?\s*\(\s*(?:"([^"\n]+)"|<([^>\n]+)>)')
_ATTRIBUTES = frozenset({"__launch_bounds__", "__attribute__", "__maxnreg__", "__cluster_dims__", "alignas"})
_OPEN, _CLOSE = "([{<", ")]}>"


@dataclass(frozen=True, slots=True)
class CudaKernel:
    """A ``__global__`` function: its line, and the text of each parameter, such as ``const float* x``."""

    name: str
    line: int
    parameters: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CudaFile:
    """A file in CUDA C++ or a header.

    Attributes:
        kernels: by name without namespaces; the last one of several overloads.
        words: every identifier.
        includes: (name, whether in quotes), in order, without duplicates; also those that a condition excludes.
        computed: whether an ``#include`` names a macro, so that the text does not show which file is included.
    """

    kernels: Mapping[str, CudaKernel]
    words: frozenset[str]
    includes: tuple[tuple[str, bool], ...]
    computed: bool


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
    kernels = {kernel.name: kernel for kernel in _kernels(text)}
    includes: dict[tuple[str, bool], None] = {}
    computed = False
    for pattern in (_INCLUDE, _HAS_INCLUDE):
        for match in pattern.finditer(text):
            quoted, angled = match[1], match[2]
            if quoted or angled:
                includes[quoted or angled, bool(quoted)] = None
            else:
                computed = True
    return CudaFile(kernels, frozenset(_WORD.findall(text)), tuple(includes), computed)


def _kernels(text: str) -> Iterator[CudaKernel]:
    for start in _GLOBAL.finditer(text):
        at = start.end()
        while (call := _CALL.search(text, at)) is not None:
            if ";" in text[at : call.start()] or "{" in text[at : call.start()]:
                break
            end = _closing(text, call.end() - 1)
            if call[1] not in _ATTRIBUTES:
                inside = text[call.end() : end]
                line = text.count("\n", 0, call.start()) + 1
                yield CudaKernel(call[1], line, tuple(_split(inside)))
                break
            at = end + 1


def _closing(text: str, at: int) -> int:
    """The index of the parenthesis that closes the one at ``at``, or the end of the text."""
    depth = 0
    for place in range(at, len(text)):
        if text[place] == "(":
            depth += 1
        elif text[place] == ")":
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
