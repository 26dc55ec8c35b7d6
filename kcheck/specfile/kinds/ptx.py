"""Kernels in PTX files, from any compiler or written by hand."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from kcheck.dataclass import dataclass
from kcheck.model import CompileOptions
from kcheck.nearest import did_you_mean
from kcheck.specfile.kinds.base import FoundKernel, Kind, Parameters
from kcheck.specfile.kinds.text import read_kernels, read_text, without_comments
from kcheck.specfile.paths import shown
from kcheck.specfile.reader import Reader
from kcheck.specfile.yamltree import YamlMap, YamlNode
from kcheck.symbolic import shorten

_ENTRY = re.compile(r"\.entry\s+([A-Za-z_$%][\w$]*)\s*(?:\(([^)]*)\))?")
_TARGET = re.compile(r"^\s*\.target\s+(sm_(\d+)([af]?))", re.MULTILINE)
_NAME = re.compile(r"([\w$%]+)\s*(?:\[[^\]]*\])?\s*$")
LATEST = 121
"""The latest target whose PTX is accepted.
Instructions that only sm_90 and later have are refused when they are lowered."""


@dataclass(frozen=True, slots=True)
class PtxFile:
    """The kernels and the target of a PTX file.

    Attributes:
        entries: the names of the parameters, by kernel.
        target: ``sm_80``; empty if the file has no ``.target``. ``target_line`` is the line of the directive.
    """

    entries: Mapping[str, tuple[str, ...]]
    target: str
    target_line: int


def read_ptx(file: Path) -> PtxFile:
    """The entries and the target of a PTX file.

    Raises:
        OSError: it cannot be read.
        UnicodeDecodeError: it is not text.
        TooLarge: it is larger than a kernel's file may be.
    """
    status = file.stat()
    return _read(str(file), status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=256)
def _read(path: str, size: int, _changed: int) -> PtxFile:
    text = without_comments(read_text(Path(path), size))
    entries = {}
    for match in _ENTRY.finditer(text):
        parts = (match[2] or "").split(",") if (match[2] or "").strip() else []
        names = (_NAME.search(part.strip()) for part in parts)
        entries[match[1]] = tuple(name[1] if name else "?" for name in names)
    target = _TARGET.search(text)
    line = text.count("\n", 0, target.start(1)) + 1 if target else 1
    return PtxFile(entries, target[1] if target else "", line)


class Ptx(Kind):
    """Entries of PTX files."""

    title = "PTX"
    suffix = ".ptx"
    form = "file.ptx:entry"
    no_keys = "PTX is compiled already: remove this"

    def find(self, reader: Reader, node: YamlNode, file: Path, name: str) -> FoundKernel | None:
        """An entry of the file, for a target that runs here."""
        read = read_kernels(reader, node, file, read_ptx, not_text="name a PTX file, not a cubin")
        if read is None:
            return None
        if not read.target:
            reader.fault(node.span, f"kernel: {shown(file)} has no .target, so it is not PTX")
            return None
        if (why := unsupported_target(read.target)) is not None:
            what = f"kernel: {shown(file)}:{read.target_line}: the .target is {read.target}, {why}"
            reader.fault(node.span, what, "compile it for sm_80 or another target up to sm_90")
            return None
        if name not in read.entries:
            fix = did_you_mean(name, read.entries) or f"its entries: {', '.join(read.entries) or 'none'}"
            reader.fault(node.span, f"kernel: {shown(file)} has no entry {shorten(name)!r}", fix)
            return None
        params = read.entries[name]
        return FoundKernel(name, "", Parameters(params, (), len(params)))

    def options(self, reader: Reader, node: YamlMap) -> CompileOptions | None:
        """There are none."""
        return None


def unsupported_target(target: str) -> str | None:
    """Why PTX for a target does not run on kcheck's device, in one clause; None if it does."""
    found = re.fullmatch(r"sm_(\d+)([af]?)", target)
    number, suffix = (int(found[1]), found[2]) if found else (0, "")
    if suffix and number >= 100:
        return "which is code for one family of GPUs only"
    if not 50 <= number <= LATEST:
        return "which kcheck does not know"
    return None
