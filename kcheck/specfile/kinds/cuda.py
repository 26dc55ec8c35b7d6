"""Kernels in CUDA C++ and HIP files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from kcheck.model import CompileOptions, CudaOptions, Expression
from kcheck.nearest import Suggestion, did_you_mean
from kcheck.specfile.kinds.base import FoundKernel, Kind, Parameters
from kcheck.specfile.kinds.cudafile import headers, read_cuda
from kcheck.specfile.kinds.text import read_kernels
from kcheck.specfile.paths import PathRefused, folder_in_root, shown
from kcheck.specfile.reader import Reader
from kcheck.specfile.yamltree import YamlEntry, YamlMap, YamlNode, YamlScalar
from kcheck.symbolic import shorten

PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
"""``{T}``: a type variable, a dim or a param in C++ text."""

STANDARDS = ("c++11", "c++14", "c++17", "c++20", "c++23")
_OURS = {
    "lineinfo": (": kcheck always writes line information", "remove it"),
    "generate-line-info": (": kcheck always writes line information", "remove it"),
    "arch": (": kcheck compiles for the device and for `artifact: targets`", "remove it"),
    "gpu-architecture": (": kcheck compiles for the device and for `artifact: targets`", "remove it"),
    "device-debug": ("", "write `debug: true` in compile"),
    "G": ("", "write `debug: true` in compile"),
    "std": ("", "write `std: c++17` in compile"),
    "relocatable-device-code": (": kcheck needs whole programs", "remove it"),
    "rdc": (": kcheck needs whole programs", "remove it"),
    "dlto": (": kcheck needs PTX", "remove it"),
    "dlink-time-opt": (": kcheck needs PTX", "remove it"),
    "optix-ir": (": kcheck needs PTX", "remove it"),
    "I": ("", "write `include: [folder]` in compile"),
    "include-path": ("", "write `include: [folder]` in compile"),
}
"""Options of NVRTC that kcheck sets itself: the reason, as a part of the message, and the fix."""


class Cuda(Kind):
    """Kernels in CUDA C++, in any file with the suffix."""

    title = "CUDA C++"
    suffix = ".cu"
    form = "file.cu:name"
    keys: tuple[str, ...] = ("std", "defines", "include", "options", "debug")

    def find(self, reader: Reader, node: YamlNode, file: Path, name: str) -> FoundKernel | None:
        """A ``__global__`` function. Refused only if the name occurs nowhere,
        because macros can define kernels."""
        name, _, rest = name.partition("<")
        arguments = rest.removesuffix(">").strip()
        last = name.rpartition("::")[2]
        read = read_kernels(reader, node, file, read_cuda)
        if read is None:
            return None
        if last not in read.kernels and not _occurs(last, file, reader):
            fix = did_you_mean(last, read.kernels) or f"its kernels: {', '.join(read.kernels) or 'none'}"
            reader.fault(node.span, f"kernel: {shown(file)} has no __global__ function {shorten(last)!r}", fix)
            return None
        if arguments and not placeholders_known(reader, node, arguments, "the template arguments"):
            return None
        kernel = read.kernels.get(last)
        if kernel is not None and kernel.namespace and name == last and not read.usings:
            what = f"kernel: {last!r} is in the namespace {kernel.namespace!r} of {shown(file)}"
            reader.fault(node.span, what, Suggestion(f"{kernel.namespace}::{last}"))
            return None
        if kernel is None:
            return FoundKernel(name, arguments)
        needed = tuple(parameter for parameter in kernel.parameters if "=" not in parameter)
        return FoundKernel(
            name, arguments, Parameters(needed, kernel.parameters[len(needed) :], len(kernel.parameters))
        )

    def options(self, reader: Reader, node: YamlMap) -> CompileOptions | None:
        """``std``, ``defines``, ``include``, ``options``."""
        before = len(reader.faults)
        std = reader.text(reader.get(node, "std")) or "c++17"
        defines = {
            entry.key: value
            for entry in reader.entries(reader.get(node, "defines"))
            if (value := _define(reader, entry)) is not None
        }
        include = tuple(_folders(reader, reader.get(node, "include")))
        options = tuple(_options(reader, reader.get(node, "options")))
        if len(reader.faults) > before:
            return None
        return CudaOptions(std, defines, include, options)


class Hip(Cuda):
    """HIP, as far as its language is that of CUDA C++."""

    title = "HIP"
    suffix = ".hip"
    form = "file.hip:name"


def _occurs(name: str, file: Path, reader: Reader) -> bool:
    folders = [
        reader.root / text
        for item in reader.items(reader.get(reader.get(reader.top, "compile"), "include"))
        if (text := reader.text(item)) is not None
    ]
    found, computed = headers(file, folders)
    paths = [file, *(Path(path) for path in found.values() if path is not None)]
    return computed or any(name in read_cuda(path).words for path in paths)


def placeholders_known(reader: Reader, node: YamlNode, text: str, where: str) -> bool:
    """Whether each ``{name}`` in C++ text is a type variable, a dim or a param; reports a fault if not."""
    known = (*reader.variables, *reader.named("dim", "param"))
    for match in PLACEHOLDER.finditer(text):
        name = match[1].strip()
        if name not in known:
            fix = did_you_mean(name, known) or f"available: {', '.join(known) or 'none'}"
            what = f"{{{shorten(name)}}} in {where} is not a type variable, a dim or a param"
            reader.fault(node.span, what, fix)
            return False
        if _is_ambiguous(reader, node, name, f"{{{name}}} in {where}"):
            return False
    return True


def _is_ambiguous(reader: Reader, node: YamlNode, name: str, who: str) -> bool:
    """Whether a name is that of a type variable and of a dim or a param; reports a fault if so."""
    if name not in reader.variables or name not in reader.kinds:
        return False
    what = f"{who} is both a type variable and {_article(reader.kinds[name])}"
    reader.fault(node.span, what, "rename one of them")
    return True


def _article(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeio' else 'a'} {noun}"


def _define(reader: Reader, entry: YamlEntry) -> Expression | None:
    node = entry.value
    if not isinstance(node, YamlScalar) or node.value is None:
        return None
    if isinstance(node.value, bool):
        return Expression("1" if node.value else "0", node.span)
    text = node.value if isinstance(node.value, str) else node.text
    if "\n" in text:
        reader.fault(node.span, f"the value of {entry.key!r} has more than one line", "write it on one line")
        return None
    if not placeholders_known(reader, node, text, f"{entry.key!r}"):
        return None
    if _is_ambiguous(reader, node, text.strip(), f"{text.strip()!r}, the value of {entry.key!r},"):
        return None
    return Expression(text, node.span)


def _folders(reader: Reader, node: YamlNode | None) -> Iterator[str]:
    for item in reader.items(node):
        text = reader.text(item)
        if text is None:
            continue
        try:
            yield reader.relative(folder_in_root(reader.root, text), text)
        except PathRefused as refused:
            reader.fault(item.span, f"include: {refused.what}", refused.fix)


def _options(reader: Reader, node: YamlNode | None) -> Iterator[str]:
    for item in reader.items(node):
        text = reader.text(item)
        if text is None:
            continue
        if (why := _refused(text)) is not None:
            reason, fix = why
            reader.fault(item.span, f"the option {shorten(text)!r} is not allowed in a spec{reason}", fix)
        elif not text.startswith("-"):
            reader.fault(item.span, f"{shorten(text)!r} is not an option of NVRTC", "options begin with '-'")
        else:
            yield text


def _refused(option: str) -> tuple[str, str] | None:
    """Why a spec may not set an option of NVRTC, and the fix; None if it may."""
    name = option.strip().lstrip("-").partition("=")[0].strip()
    if name.startswith("I") and not option.startswith("--"):
        name = "I"
    return _OURS.get(name)
