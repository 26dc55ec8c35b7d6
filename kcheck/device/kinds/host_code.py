"""Removes host code from a CUDA C++ file, because NVRTC does not compile it: headers that only host code needs,
and functions.

The text is split into *items*, which end at a ``;`` or a closing brace at file scope or in a namespace. An item is
removed only if the compiler rejects it, it is not marked as device code, and the file is known to have host code:
launches, a ``main``, calls of the CUDA runtime, or host headers.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from kcheck.dataclass import dataclass
from kcheck.specfile.kinds.text import decoded

_HEADERS_OF_C = (
    "aio|arpa/\\w+|cctype|cerrno|cinttypes|clocale|complex|csetjmp|csignal|cstdarg|ctime|ctype|cwchar|dirent|dlfcn"
    "|errno|fcntl|getopt|inttypes|io|locale|malloc|memory|mpi|netinet/\\w+|omp|process|pthread|sched|semaphore"
    "|setjmp|signal|stdarg|stdbool|strings|sys/\\w+|time|unistd|wchar|windows"
)
_HEADERS_OF_CPP = (
    "any|atomic|bitset|cctype|cerrno|charconv|chrono|cinttypes|clocale|codecvt|condition_variable|csetjmp|csignal"
    "|cstdarg|ctime|cwchar|deque|exception|execution|filesystem|format|forward_list|fstream|functional|future"
    "|initializer_list|iomanip|ios|iosfwd|iostream|istream|iterator|list|locale|map|memory|mutex|new|numeric"
    "|optional|ostream|print|queue|random|ranges|ratio|regex|set|shared_mutex|span|sstream|stack|stdexcept"
    "|streambuf|string|string_view|strstream|system_error|thread|typeindex|typeinfo|unordered_map|unordered_set"
    "|valarray|variant|vector"
)
_LIBRARIES = (
    r"(?:torch|ATen|c10|caffe2|pybind11|jax|xla|EGL|GLES\d?|gtest|gmock|benchmark|opencv2|boost|Eigen|fmt|spdlog|nvtx3|GL|GLFW)/.*"
    r"|(?:cublas|cudnn|cufft|cusolver|cusparse|cutensor|nccl|npp|nvml|nvToolsExt|nvjpeg|helper_(?!math))\w*\.h(?:pp)?"
    r"|thrust/(?!(?:complex|functional|pair|swap|tuple)\.h).*|cub/(?:cub\.cuh|device/.*)"
    r"|(?:curand|cuda_profiler_api|cuda_gl_interop|exception|tensorflow\w*|stb_image\w*)\.h"
)
_HOST_HEADER = re.compile(rf"(?:{_HEADERS_OF_C})\.h|(?:{_HEADERS_OF_CPP})|{_LIBRARIES}")

_BESIDE = "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n#include <kcheck_host.h>\n"
"""The replacement for a header of a host library: many such headers declare 16-bit types that kernels use, and
classes that are members of classes of device code."""

_PYTORCH = _BESIDE + "#include <kcheck_pytorch.h>\n"

_CUB = {
    "block": "discontinuity exchange histogram load merge_sort radix_rank radix_sort reduce scan shuffle store",
    "warp": "exchange load merge_sort reduce scan store",
}
"""The parts of ``cub/cub.cuh`` that kernels can use."""


def stand_in(header: str) -> str:
    """The text that the compiler gets instead of a header of host code."""
    if header == "cub/cub.cuh":
        return "".join(
            f"#include <cub/{of}/{of}_{name}.cuh>\n" for of, names in _CUB.items() for name in names.split()
        )
    return _PYTORCH if header.startswith(("torch/", "ATen/", "c10/")) else _BESIDE


_TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"\(.*?\)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|^[ \t]*#(?:\\\n|[^\n])*|[{}();]',
    re.DOTALL | re.MULTILINE,
)
_SCOPE = re.compile(r'(?:\bnamespace\b[^(;]*|\bextern\s*"C"\s*)$')
_DEVICE = re.compile(r"\b(?:__global__|__device__|__constant__)\b")
_INSTANTIATION = re.compile(r"\s*(?:extern\s+)?template\b(?!\s*<)")
"""An explicit instantiation, which kcheck does not need: it instantiates the kernel of the spec."""
_CLASS = re.compile(r"\s*(?:template\s*<[^{;]*>\s*)?(?:struct|class)\b[^{;()]*\{")
_ACCESS = re.compile(r"\b(?:public|private|protected)\s*:(?!:)")
_HOST = re.compile(
    r"<<<|\bmain\s*\(|\bcu(?:da)?[A-Z]\w+\s*\(|\bhip[A-Z](?!IdxOr)\w+\s*\(|\bcublas\w+|\bcudnn\w+|\bnccl\w+"
    r"|\b(?:checkCudaErrors|cudaCheck|CUDA_CHECK|malloc|fopen|fprintf|exit|srand|rand)\s*\("
    r"|\bstd::|\bgl[A-Z]\w+\(|\b(?:torch|at|c10|py|pybind11)::|\b(?:AT|TORCH|PYBIND11)_[A-Z]\w+"
)
_FOREIGN = re.compile(r"<<<|\b(?:torch|c10|pybind11)::|\b(?:TORCH|PYBIND11)_[A-Z]\w+\s*\(")


def is_host_header(name: str) -> bool:
    """Whether only host code needs a header: of the host's C or C++ library, or of one that launches kernels."""
    return _HOST_HEADER.fullmatch(name) is not None


def is_foreign_header(name: str) -> bool:
    """Whether a header of host code is neither of the C and C++ libraries nor of PyTorch: kernels may need it."""
    is_standard = re.fullmatch(rf"(?:{_HEADERS_OF_C})\.h|(?:{_HEADERS_OF_CPP})", name) is not None
    return not is_standard and not name.startswith(("torch/", "ATen/", "c10/", "cub/"))


@dataclass(frozen=True, slots=True)
class Item:
    """A declaration at file scope: the offsets of its text, and its first and last line.

    Attributes:
        is_device: whether it is marked as device code.
        is_host: whether it has words that occur only in host code.
        is_foreign: whether the compiler rejects it in any case: it launches kernels, or uses PyTorch in C++.
    """

    start: int
    end: int
    first: int
    last: int
    is_device: bool
    is_host: bool
    is_foreign: bool


def items(text: str) -> list[Item]:
    """The items of a text, in order, each class of device code followed by its member functions. Preprocessor
    lines are not items."""
    found = []
    for item in _items(text):
        found.append(item)
        if item.is_device and (head := _CLASS.match(blanked(text[item.start : item.end]))):
            found += _members(text, item.start + head.end(), item.end)
    return found


def _members(text: str, start: int, end: int) -> list[Item]:
    """The member functions of a class whose body begins at ``start``. Without one of its other members, a class
    would have another size."""
    body = _blank(text[:start]) + text[start : text.rfind("}", start, end)]
    found = []
    for member in items(_ACCESS.sub(lambda match: _blank(match[0]), body)):
        head = blanked(text[member.start : member.end]).partition("{")[0]
        while head != (head := re.sub(r"<[^<>]*>", "", head)):
            pass
        if "(" in head.partition("=")[0] or member.is_device:
            found.append(member)
    return found


def _items(text: str) -> list[Item]:
    found: list[Item] = []
    start, depth, parens, scopes = 0, 0, 0, 0
    in_head = True

    def close(end: int) -> None:
        body = blanked(text[start:end])
        lead = len(body) - len(body.lstrip())
        if body.strip(" \t\n;"):
            first = text.count("\n", 0, start + lead) + 1
            last = text.count("\n", 0, end) + 1
            device, host, foreign = (bool(words.search(body)) for words in (_DEVICE, _HOST, _FOREIGN))
            device = device and not _INSTANTIATION.match(body)
            found.append(Item(start + lead, end, first, last, device, host, foreign))

    for token in _TOKEN.finditer(text):
        word = token[0]
        if word.lstrip().startswith("#"):
            if depth == 0 and parens == 0 and not blanked(text[start : token.start()]).strip():
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
                in_head = _is_function(blanked(text[start : token.start()]))
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


def blanked(text: str) -> str:
    """The text with comments, strings and preprocessor lines replaced by blanks; offsets do not change."""
    return _TOKEN.sub(lambda token: token[0] if len(token[0]) == 1 else _blank(token[0]), text)


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


def _is_function(head: str) -> bool:
    """Whether a brace after this text begins a function body, which is not followed by a ``;``."""
    return ")" in head and not re.search(r"=\s*$", head)


def without(text: str, dropped: Iterable[Item]) -> str:
    """The text with some items replaced by blanks; line numbers do not change."""
    parts, at = [], 0
    for item in sorted(dropped, key=lambda item: item.start):
        parts += [text[at : item.start], _blank(text[item.start : item.end])]
        at = item.end
    return "".join((*parts, text[at:]))


def declared(text: str, item: Item) -> set[str]:
    """The words before the body of an item: the name that it declares is one of them."""
    return set(re.findall(r"\w+", blanked(text[item.start : item.end]).partition("{")[0]))


@dataclass(frozen=True, slots=True)
class WholeText:
    """A file in which includes of the project's headers are expanded, and the place of each line: (file, line), or
    ("", 0) for a line that is not in a file."""

    text: str
    places: tuple[tuple[str, int], ...]

    def lines_at(self, places: Collection[tuple[str, int]]) -> dict[int, tuple[str, int]]:
        """The lines that have one of these places: the place of each, by line number from 1."""
        return {number: place for number, place in enumerate(self.places, 1) if place in places}


def whole(file: str, text: str, folders: Sequence[str]) -> WholeText:
    """Expand the includes of a file: headers in the folder of the including file, or in ``folders``."""
    lines: list[str] = []
    places: list[tuple[str, int]] = []
    once: set[str] = set()

    def add(path: str, content: str, depth: int) -> None:
        if _ONCE.search(content):
            once.add(path)
        includes = {
            content.count("\n", 0, t.start()): t[0] for t in _TOKEN.finditer(content) if _INCLUDE.match(t[0])
        }
        for number, line in enumerate(content.split("\n")):
            found = _INCLUDE.match(includes.get(number, ""))
            header = None if found is None or depth > _DEEPEST else _find(found, path, folders)
            if header is None:
                lines.append("" if _ONCE.match(line) else line)
                places.append((path, number + 1))
            elif header not in once:
                enter(header, decoded(Path(header).read_bytes()), depth + 1)
                mark(path, number + 2)
            else:
                lines.append("")
                places.append((path, number + 1))

    def enter(path: str, content: str, depth: int) -> None:
        mark(path, 1)
        add(path, content, depth)

    def mark(path: str, line: int) -> None:
        lines.append(f'#line {line} "{path}"')
        places.append(("", 0))

    add(file, text.replace("\r\n", "\n"), 0)
    return WholeText("\n".join(lines), tuple(places))


_INCLUDE = re.compile(r'[ \t]*#[ \t]*include[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>)')
_ONCE = re.compile(r"^[ \t]*#[ \t]*pragma[ \t]+once\b.*$", re.MULTILINE)
_DEEPEST = 20


def _find(include: re.Match[str], path: str, folders: Sequence[str]) -> str | None:
    """The real path of an included file; None if it is not in any of the folders."""
    beside = [os.path.dirname(path)] if include[1] else []
    for folder in (*beside, *folders):
        place = os.path.join(folder, include[1] or include[2])
        if os.path.isfile(place):
            return os.path.realpath(place)
    return None


def rejected(everything: Sequence[Item], lines: Collection[int], *, has_host_header: bool) -> set[Item]:
    """The items to remove because of errors in these lines; empty for a file without host code."""
    if not has_host_header and not any(item.is_host and not item.is_device for item in everything):
        return set()
    hosts = [item for item in everything if not item.is_device]
    return {item for item in hosts if any(item.first <= line <= item.last for line in lines)}
